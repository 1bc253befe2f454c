# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf record``: record runs of a command into a bundle."""

from schedperf.commands._recorder import RecorderCommand, run_recorder

command = RecorderCommand("record", lambda arguments: run_recorder(["record", *arguments]))
