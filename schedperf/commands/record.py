# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf record``: record runs of a command into a bundle."""

from collections.abc import Sequence

from schedperf.commands._recorder import RecorderCommand, run_recorder

_UNTIL_DECIDED = "--until-decided"


def _record(arguments: Sequence[str]) -> int:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    if _UNTIL_DECIDED not in arguments[:end]:
        return run_recorder(["record", *arguments])
    # Imported here: most recordings compare nothing and should not load the analysis.
    from schedperf.commands._looks import answering  # noqa: PLC0415

    with answering() as lent:
        read_fd, ask = lent
        return run_recorder(["record", "--ask-fd", f"{read_fd},{ask}", *arguments], lent)


command = RecorderCommand("record", _record)
