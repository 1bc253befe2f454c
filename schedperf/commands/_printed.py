# SPDX-License-Identifier: GPL-2.0-or-later
"""Check the commands that a mail prints by the parsers that would read them."""

import shlex

from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.options import make_parser
from schedperf_collectors.recorder.plan import check_placeholders

_PROGRAM, _COMMAND = "schedperf", "ab"


def check_command(line: str) -> str | None:
    """Return why schedperf would refuse a printed command; None if it accepts it.

    :param line: for a shell: ``schedperf ab -o check ... -- hackbench -g 16``
    """
    try:
        words = shlex.split(line)
        if words[:2] != [_PROGRAM, _COMMAND]:
            return f"expected {_PROGRAM} {_COMMAND}"
        end = words.index("--") if "--" in words else len(words)
        make_parser(_COMMAND, _PROGRAM, is_untrusted=True).parse_args(words[2:end])
        if not words[end + 1 :]:
            return "no workload after --"
        check_placeholders(words[end + 1 :], [])
    except (RecordError, ValueError) as error:
        return str(error)
    return None
