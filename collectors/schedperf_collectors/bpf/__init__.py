# SPDX-License-Identifier: GPL-2.0-or-later
"""BPF programs, loaded through libbpf or bcc."""
