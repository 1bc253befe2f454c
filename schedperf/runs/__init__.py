# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the runs of all sides: printed results, captures, work done, and order in time."""
