# SPDX-License-Identifier: GPL-2.0-or-later
"""Define what BPF programs cost during the recorded runs of a side, and which events they lost."""

from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec import Struct

from schedperf.model.caveats import Caveat, caveat

# A smaller part of lost events is only a note: a few stacks always collide in their map.
LEAST_LOST = 0.01


class ProbeCost(Struct, frozen=True, kw_only=True):
    """The cost of one BPF program, measured by the kernel during the runs."""

    program: Annotated[str, "tracepoint of the program"]
    calls: Annotated[int, "number of calls on all CPUs, for tasks of any command"]
    mean_s: Annotated[float | None, "mean time per call in s; null without calls"]


class ProbedSide(Struct, frozen=True, kw_only=True):
    """The runs of one side that were recorded by BPF programs."""

    side: str
    runs: int
    seconds: Annotated[float, "recording time in s, summed over all runs"]
    lost: Annotated[
        int, "number of events that were not counted, and of stacks that were not stored"
    ] = 0
    probes: Annotated[
        tuple[ProbeCost, ...], "cost of the BPF programs; empty if it was not measured"
    ] = ()

    @property
    def events(self) -> int:
        """Number of counted events; 0 unless a subclass counts them."""
        return 0


def lost_caveats(sides: Iterable[ProbedSide], collector: str) -> Iterator[Caveat]:
    """Yield a caveat for each side that lost at least :data:`LEAST_LOST` of its events."""
    for side in sides:
        total = side.events + side.lost
        if side.lost and side.lost >= LEAST_LOST * total:
            yield caveat(
                "lost-events", side=side.side, collector=collector, lost=side.lost, total=total
            )
