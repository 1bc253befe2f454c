# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the energy of the runs of base and new, counter by counter.

Energy per operation and per run: lower is better. Mean power is energy divided by the time in which
it was counted; neither direction of it is better, because a faster kernel may use more power for
less time.
"""

from collections.abc import Iterator, Sequence

from schedperf.evidence import Absent, section
from schedperf.evidence.energy.capture import FOLDER, Domain, EnergyCounts, read_energy
from schedperf.evidence.energy.record import Energy, EnergyRow, EnergySide, MissingCounter
from schedperf.inputs.side import Side
from schedperf.model.counted import Basis
from schedperf.model.run import Captured, SideOf
from schedperf.runs.captured import load_captured, why_nothing
from schedperf.stats.counted.rates import Measure, Measures, compare_rates

# If a benchmark does a fixed amount of work, the run is the operation.
RUN = "run"

Counted = SideOf[EnergyCounts]


@section(Energy)
def energy(sides: Sequence[Side]) -> Energy:
    """Compare the energy of the runs of each workload and point.

    :raises Absent: a side has no energy, or the sides have no counter in common
    """
    loaded = load_captured(sides, FOLDER, read_energy)
    for side, counted in zip(sides, loaded, strict=True):
        if not any(run.content.used for run in counted.runs):
            raise Absent(_why_nothing(side, counted))
    base, *others = loaded
    rows = [row for new in others for row in _compare(base, new)]
    if not rows:
        raise Absent("base and new have no energy counter of the same workload and point")
    shown = [row for row in rows if row.base or row.new]
    return Energy(
        sides=tuple(map(_describe, loaded)),
        rows=tuple(shown),
        zeros=tuple(
            dict.fromkeys(
                row.domain for row in rows if row.domain not in {each.domain for each in shown}
            )
        ),
        missing=(
            *(entry for counted in loaded for entry in _missing(counted)),
            *(entry for new in others for entry in _on_one_side(base, new)),
        ),
        notes=tuple(note for counted in loaded for note in counted.notes),
    )


def _why_nothing(side: Side, counted: Counted) -> str:
    reasons = [f"{entry.counter}: {entry.reason}" for entry in _missing(counted)]
    return next(iter((*counted.notes, *reasons)), why_nothing(side, FOLDER))


def _describe(counted: Counted) -> EnergySide:
    return EnergySide(side=counted.name, runs=len(counted.runs), kind=counted.kind)


def _compare(base: Counted, new: Counted) -> Iterator[EnergyRow]:
    rates = compare_rates(base.having(_measures), new.having(_measures))
    for index, (question, rate) in enumerate(rates.items()):
        yield EnergyRow(
            row=f"{new.name}-{index}",
            side=new.name,
            workload=question.workload,
            point=question.point,
            basis=question.basis,
            domain=question.key.name,
            kind=question.key.kind,
            **rate.as_fields(),
        )


def _measures(run: Captured[EnergyCounts]) -> Measures[Domain]:
    measures: dict[tuple[Domain, Basis], Measure] = {}
    for domain, (joules, seconds) in run.content.used.items():
        if run.ops is not None and run.ops.count and run.ops.unit != RUN:
            per = f"J/{run.ops.unit}"
            measures[domain, "operation"] = Measure(joules / run.ops.count, per)
        measures[domain, "share"] = Measure(joules, f"J/{RUN}")
        if seconds:
            measures[domain, "time"] = Measure(joules / seconds, "W")
    return measures


def _missing(counted: Counted) -> Iterator[MissingCounter]:
    reasons: dict[tuple[str, str], int] = {}
    for run in counted.runs:
        for entry in run.content.missing.items():
            reasons[entry] = reasons.get(entry, 0) + 1
    for (counter, reason), runs in reasons.items():
        some = f" ({runs} of {len(counted.runs)} runs)" if runs < len(counted.runs) else ""
        yield MissingCounter(side=counted.name, counter=counter, reason=f"{reason}{some}")


def _on_one_side(base: Counted, new: Counted) -> Iterator[MissingCounter]:
    of_base, of_new = (
        {domain.name: None for run in counted.runs for domain in run.content.used}
        for counted in (base, new)
    )
    for lacks, names, others in ((new, of_base, of_new), (base, of_new, of_base)):
        explained = {entry.counter for entry in _missing(lacks)}
        for name in names:
            if name not in others and name not in explained:
                yield MissingCounter(side=lacks.name, counter=name, reason="no such counter")
