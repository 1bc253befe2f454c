# SPDX-License-Identifier: GPL-2.0-or-later
"""Sum the waits of a run by command and NUMA node, and compute their percentiles and maxima."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from schedperf.evidence.wakeup_latency.capture import Waits, WakeupCapture
from schedperf.evidence.wakeup_latency.histogram import Histogram
from schedperf.evidence.wakeup_latency.record import QUANTILES, Event, Statistic
from schedperf.model.units import NANOSECOND_S


class Subject(NamedTuple):
    """The tasks whose waits are summed.

    :param command: "" for all commands
    :param node: NUMA node that the tasks ran on; None for all nodes
    """

    event: Event
    command: str
    node: int | None


class Pooled(NamedTuple):
    """The waits of one subject in one run.

    :param histogram: None if only the maximum is known
    """

    histogram: Histogram | None
    max_ns: int
    waits: int


PooledRun = Mapping[Subject, Pooled]


def pool(capture: WakeupCapture) -> PooledRun:
    """Return the waits of a run by event: in total, per command, and both per node if several.

    Waits that rtla measured of its own threads have no total.
    """
    parts: dict[Subject, list[Waits]] = {}
    is_numa = len(set(capture.nodes.values())) > 1
    for waits in capture.waits:
        for subject in _subjects(waits, capture.nodes if is_numa else {}):
            parts.setdefault(subject, []).append(waits)
    return {subject: _sum(members) for subject, members in parts.items()}


def _subjects(waits: Waits, nodes: Mapping[int, int]) -> Iterator[Subject]:
    # A tool that measures its own threads has no other commands.
    commands = ("", waits.command) if waits.event in ("wakeup", "runnable") else (waits.command,)
    node = None if waits.cpu is None else nodes.get(waits.cpu)
    for command in commands:
        yield Subject(waits.event, command, None)
        if node is not None:
            yield Subject(waits.event, command, node)


def _sum(members: Sequence[Waits]) -> Pooled:
    return Pooled(
        histogram=_histogram_of(members),
        max_ns=max(waits.max_ns for waits in members),
        waits=sum(waits.count for waits in members),
    )


def _histogram_of(members: Sequence[Waits]) -> Histogram | None:
    bins = [waits.bins for waits in members if waits.bins is not None]
    if len(bins) < len(members):
        return None
    return Histogram.of(
        bins,
        above=sum(waits.above for waits in members),
        max_ns=max(waits.max_ns for waits in members),
    )


def statistics(pooled: Pooled) -> Iterator[tuple[Statistic, float]]:
    """Yield the known percentiles and the maximum, in s."""
    if pooled.histogram is not None:
        for name, part in QUANTILES.items():
            value = pooled.histogram.quantile(part)
            if value is not None:
                yield name, value * NANOSECOND_S
    yield "max", pooled.max_ns * NANOSECOND_S


def of_cpus(capture: WakeupCapture, part: float) -> dict[int, float]:
    """Return a percentile of the wakeup latency of all commands per CPU, in s.

    CPUs on which it is unknown are left out.

    :param part: between 0 and 1
    """
    by_cpu: dict[int, list[Waits]] = {}
    for waits in capture.waits:
        if waits.event == "wakeup" and waits.cpu is not None:
            by_cpu.setdefault(waits.cpu, []).append(waits)
    histograms = {cpu: _histogram_of(members) for cpu, members in by_cpu.items()}
    values = {cpu: None if one is None else one.quantile(part) for cpu, one in histograms.items()}
    return {cpu: value * NANOSECOND_S for cpu, value in values.items() if value is not None}
