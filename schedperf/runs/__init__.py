# SPDX-License-Identifier: GPL-2.0-or-later
"""The sides of a comparison, their runs, and what each run printed, captured and did."""
