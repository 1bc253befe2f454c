"""``schedperf record``: runs of one side into a bundle."""

from schedperf.commands._recorder import RecorderCommand, run_recorder

command = RecorderCommand("record", lambda arguments: run_recorder(["record", *arguments]))
