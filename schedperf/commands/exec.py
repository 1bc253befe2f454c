# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf exec``: run a command with a nice value, slice or latency-nice."""

from collections.abc import Sequence

from schedperf.commands._recorder import RecorderCommand


def _exec(arguments: Sequence[str]) -> int:
    # Imported here, because --help and completion do not need it. The recorder's process becomes
    # the command, so it is this process.
    from schedperf_collectors.command_line.main import main  # noqa: PLC0415

    return main(["exec", *arguments])


command = RecorderCommand("exec", _exec)
