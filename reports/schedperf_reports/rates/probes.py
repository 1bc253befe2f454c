# SPDX-License-Identifier: GPL-2.0-or-later
"""Print what BPF programs cost during the runs that they recorded."""

from collections.abc import Iterator, Sequence

from schedperf.model.probes import ProbeCost, ProbedSide
from schedperf.model.units import format_measure
from schedperf_reports.blocks import Block, Text


def describe_probes(sides: Sequence[ProbedSide]) -> Iterator[Block]:
    """Yield the mean time per call of each program on each side, if it was measured."""
    said = [
        f"{side.side}: {', '.join(map(_describe, side.probes))}" for side in sides if side.probes
    ]
    if said:
        text = f"time of the BPF programs per call, for tasks of any command; {'; '.join(said)}"
        yield Text(text=text, tone="muted")


def _describe(cost: ProbeCost) -> str:
    mean = "unknown" if cost.mean_s is None else format_measure(cost.mean_s, "s")
    return f"{cost.program} {mean} ({cost.calls} calls)"
