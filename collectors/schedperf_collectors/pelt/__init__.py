# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of the collector ``bpf_pelt``."""
