# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare how long the workload's tasks wait for locks of the kernel, by lock and by function."""
