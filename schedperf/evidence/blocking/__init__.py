# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare what the workload's tasks wait for while they are blocked, where, and who wakes them."""
