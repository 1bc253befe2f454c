# SPDX-License-Identifier: GPL-2.0-or-later
"""Load BPF programs through libbpf or bcc."""
