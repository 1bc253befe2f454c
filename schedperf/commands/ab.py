# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf ab``: record two or more settings of this machine, interleaved."""

from schedperf.commands._recorder import RecorderCommand, run_recorder

command = RecorderCommand("ab", lambda arguments: run_recorder(["ab", *arguments]))
