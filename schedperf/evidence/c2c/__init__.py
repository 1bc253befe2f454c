# SPDX-License-Identifier: GPL-2.0-or-later
"""False sharing: which cache lines bounce between CPUs, who reads and who writes which bytes."""
