# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse ``load.json``: how the background load of a run ran and ended.

>>> load = parse_load(
...     b'{"schema": "schedperf/load/1", "command": ["stress-ng", "--cpu", "2"], "wall_s": 10.7,'
...     b' "ended_by": "SIGKILL", "killed": ["sleep"], "output_left_out": {"stdout": 512}}',
...     "load.json",
... )
>>> load.command, load.was_killed, load.left_out_bytes
(('stress-ng', '--cpu', '2'), True, 512)
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from schedperf.inputs.bundle.json import Count, Sentence, decode

LARGEST_BYTES = 1 << 20
MOST_WORDS = 10_000
KILLED = "SIGKILL"


class LoadRun(Struct, frozen=True, kw_only=True):
    """The load of one run; keys as in docs/bundle.md.

    :param ended_by: the last signal that was sent to end it
    :param killed: names of its processes that remained and were killed
    :param output_left_out: bytes that the recorder left out, by stream
    """

    schema: Literal["schedperf/load/1"]
    command: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MOST_WORDS)]
    wall_s: Annotated[float, Meta(gt=0)]
    ended_by: Literal["SIGINT", "SIGTERM", "SIGKILL"]
    killed: tuple[Sentence, ...] = ()
    output_left_out: Mapping[str, Count]

    @property
    def was_killed(self) -> bool:
        """Return whether it was killed, so that its results may be missing."""
        return self.ended_by == KILLED

    @property
    def left_out_bytes(self) -> int:
        """Bytes of its output that are not in the bundle."""
        return sum(self.output_left_out.values())


def parse_load(content: bytes, where: str) -> LoadRun:
    """Parse load.json.

    :param where: bundle and member, for messages
    :raises BundleError: the file is damaged
    """
    return decode(content, LoadRun, where)
