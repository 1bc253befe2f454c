# SPDX-License-Identifier: GPL-2.0-or-later
"""Run perf around a workload, and read its output."""
