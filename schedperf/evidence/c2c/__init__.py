# SPDX-License-Identifier: GPL-2.0-or-later
"""Find cache lines that bounce between CPUs, and which code reads and writes which bytes."""
