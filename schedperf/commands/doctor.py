# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf doctor``: try every collector here; print failures, reasons and fixes."""

from schedperf.commands._recorder import RecorderCommand, run_doctor

command = RecorderCommand("doctor", run_doctor)
