# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf doctor``: which collectors work on this machine, and how to fix the others."""

from schedperf.commands._recorder import RecorderCommand, run_doctor

command = RecorderCommand("doctor", run_doctor)
