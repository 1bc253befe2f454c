# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare where the workload's tasks are preempted or yield, by whom, and how long they wait."""
