# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the night of one machine: record, compare and retest two kernels, publish, draft a mail."""
