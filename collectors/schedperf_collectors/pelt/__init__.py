# SPDX-License-Identifier: GPL-2.0-or-later
"""The parts of the collector ``bpf_pelt``."""
