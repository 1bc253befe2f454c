# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the sampled waiting time of instrumented runs, where it was not measured exactly.

The collector ``task_times`` samples CPU time and waiting time of the running tasks, so both are too
small: they lack short tasks, and what tasks did after they were last read. *Coverage* is the
sampled CPU time divided by that of the resource usage, which is exact. If what was not seen waits
as long per second of CPU time as what was seen, the waiting time is at most the sampled one divided
by the coverage. A change is only a finding if it remains with this value for the side that waited
less, so a coverage that differs between the sides cannot cause one. With a coverage of less than
:data:`LEAST_COVERAGE`, the unseen part is mostly that of short tasks, which may wait differently.

>>> parse_samples(
...     b'{"schema": "schedperf/task_times/1", "looks": 9, "tasks": 2, "exec_s": 0.9,'
...     b' "waiting_s": 2.5}', "task_times.json",
... ).waiting_s
2.5
>>> exceeds_coverage(1.3, 1.7, base=0.9, new=0.5)
False
>>> exceeds_coverage(1.3, 1.7, base=0.9, new=0.8), exceeds_coverage(1.3, 1.7, base=0.8, new=0.8)
(True, True)
>>> exceeds_coverage(0.7, 0.85, base=0.9, new=0.8), exceeds_coverage(0.7, 0.85, base=0.9, new=0.9)
(False, True)
"""

from collections.abc import Collection, Iterator, Sequence
from math import fsum
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.account.capture import Seconds
from schedperf.evidence.account.divisor import divide_by
from schedperf.evidence.account.record import AccountPoint, Part, SampledWaiting
from schedperf.evidence.account.times import read_cpu_s
from schedperf.inputs.bundle.json import Count, decode
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.counted import Rate
from schedperf.model.run import Captured, SideOf
from schedperf.runs.captured import load_captured
from schedperf.stats.counted.rates import Measure, Measures, compare_rates

COLLECTOR = "task_times"
LARGEST_BYTES = 1 << 12
WAITING: Part = "waiting"
LEAST_COVERAGE = 0.8
# Resolution of the times of a resource usage.
LEAST_CPU_S = 1e-6


class SampledFile(Struct, frozen=True, kw_only=True):
    """The samples of one run; keys as in docs/bundle.md.

    :param looks: number of times that the running tasks were read
    :param tasks: number of tasks that were seen
    :param exec_s: their CPU time, as last seen
    :param waiting_s: the time that they waited for a CPU, as last seen
    """

    schema: Literal["schedperf/task_times/1"]
    looks: Count
    tasks: Count
    exec_s: Seconds
    waiting_s: Seconds


class _Sampled(Struct, frozen=True, kw_only=True):
    """The samples of one run, and its CPU time by the resource usage."""

    file: SampledFile
    cpu_s: float


class Sampled(Struct, frozen=True, kw_only=True):
    """The compared rows, and what could not be read, one line each."""

    rows: tuple[SampledWaiting, ...] = ()
    notes: tuple[str, ...] = ()


def parse_samples(content: bytes, where: str) -> SampledFile:
    """Parse task_times.json.

    :param where: bundle and member, for messages
    :raises BundleError: the file is damaged
    """
    return decode(content, SampledFile, where)


def compare_sampled(sides: Sequence[Side], points: Collection[AccountPoint]) -> Sampled:
    """Compare the sampled waiting time of the points without an exact one.

    Points of which no task was seen on a side are left out.
    """
    lacking = {_key(point) for point in points if WAITING in point.missing}
    if not lacking:
        return Sampled()
    base, *others = load_captured(sides, COLLECTOR, _read)
    return Sampled(
        rows=tuple(row for new in others for row in _compare(base, new) if _key(row) in lacking),
        notes=tuple(note for side in (base, *others) for note in side.notes),
    )


def _key(of: AccountPoint | SampledWaiting) -> tuple[str, str, str, str]:
    return of.side, of.workload, of.point, of.basis


def _read(side: Side, run: Run) -> _Sampled:
    name = f"{run.folder}/{COLLECTOR}/task_times.json"
    where = f"{side.bundle.path}: {name}"
    cpu_s = read_cpu_s(run, where)
    return _Sampled(file=parse_samples(side.bundle.read(name, LARGEST_BYTES), where), cpu_s=cpu_s)


def _compare(base: SideOf[_Sampled], new: SideOf[_Sampled]) -> Iterator[SampledWaiting]:
    of_base, of_new = base.by_point(), new.by_point()
    rates = compare_rates(base.having(_measures), new.having(_measures))
    for index, (question, rate) in enumerate(rates.items()):
        at = question.workload, question.point
        coverage_base, coverage_new = _coverage(of_base[at]), _coverage(of_new[at])
        if coverage_base and coverage_new:
            yield SampledWaiting(
                row=f"sampled-{new.name}-{index}",
                side=new.name,
                workload=question.workload,
                point=question.point,
                basis=question.basis,
                coverage_base=coverage_base,
                coverage_new=coverage_new,
                **_judge(rate, coverage_base, coverage_new).as_fields(),
            )


def _measures(run: Captured[_Sampled]) -> Measures[Part]:
    basis, count, per = divide_by(run)
    return {(WAITING, basis): Measure(run.content.file.waiting_s / count, f"s/{per}")}


def _coverage(runs: Sequence[Captured[_Sampled]]) -> float | None:
    """Return the sampled CPU time / all CPU time of the runs; None if there is hardly any."""
    cpu_s = fsum(run.content.cpu_s for run in runs)
    if cpu_s < LEAST_CPU_S:
        return None
    return fsum(run.content.file.exec_s for run in runs) / cpu_s


def _judge(rate: Rate, base: float, new: float) -> Rate:
    """Return the rate, without a change that tasks which were not sampled can explain."""
    low, high = rate.ci_low, rate.ci_high
    if not rate.changed or (
        low is not None and high is not None and exceeds_coverage(low, high, base=base, new=new)
    ):
        return rate
    return replace(rate, changed=False)


def exceeds_coverage(low: float, high: float, *, base: float, new: float) -> bool:
    """Return whether tasks that were not sampled cannot explain a change; see the module's rule.

    :param low: lower end of the 95% CI of new / base
    :param base: coverage of base, as a fraction
    """
    if min(base, new) < LEAST_COVERAGE:
        return False
    return low * min(base, 1.0) > 1.0 or high / min(new, 1.0) < 1.0
