# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare schedstat of several sides: rates of each counter, and counters without a counterpart."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from schedperf.evidence.schedstat.fields import FIELDS, IDLE_TYPES, Field
from schedperf.evidence.schedstat.levels import Level, match_levels
from schedperf.evidence.schedstat.measure import (
    ALWAYS_COUNTED,
    NS_PER_S,
    SHARES,
    Key,
    SchedCounts,
    Share,
    shares_of,
    totals_of,
)
from schedperf.evidence.schedstat.record import (
    LevelRow,
    Schedstat,
    SchedstatRefusal,
    SchedstatRow,
    SchedstatSide,
)
from schedperf.evidence.schedstat.rules import read_rows
from schedperf.evidence.schedstat.time_by_core_type import compare_core_types
from schedperf.model.counted import Rate
from schedperf.model.run import Captured, SideOf
from schedperf.stats.counted.distributions import CpuMeasure, CpuValues, compare_cpus
from schedperf.stats.counted.rates import (
    Measure,
    Measures,
    Question,
    compare_rates,
    divide,
    mean_totals,
)

SWITCHED_OFF = (
    "kernel.sched_schedstats was 0 in {runs} of {all} runs of {side}, so only run_delay, "
    "rq_cpu_time and pcount were counted; set it to 1 with sysctl and record again"
)

Content = TypeVar("Content")


class _Measured(Struct, frozen=True, kw_only=True):
    # Counters of one run: raw, and as rates and quotients.
    totals: Mapping[Key, float]
    measures: Measures[Key]


def analyse_sides(
    sides: Sequence[SideOf[SchedCounts]], cpus: Collection[int] | None = None
) -> Schedstat:
    """Compare each side with the first; return rates only for a single side.

    Counts are divided by the time between the snapshots, and by the operations of the run if these
    are known. Intervals are over runs (:func:`schedperf.stats.compare_runs`), the family is
    "informational": neither direction is better.

    :param cpus: CPUs to include; None for all
    """
    labels = _label_levels(sides)
    has_seconds = all(run.content.seconds for side in sides for run in side.runs)
    measured = [_measure(side, labels, cpus, has_seconds=has_seconds) for side in sides]
    by_cpu = [_cpu_rates(side, cpus, has_seconds=has_seconds) for side in sides]
    rows = [row for new in _others(measured) for row in _rows(measured[0], new)]
    zeros = {_name(row) for row in rows if not row.base and not row.new}
    shown = tuple(row for row in rows if row.base or row.new)
    notes = [note for side in sides for note in _notes(side)]
    if not has_seconds:
        notes.append(
            "rates are per tick (jiffy), because the length of a tick is not recorded for every "
            "side; they are comparable only if all sides have the same CONFIG_HZ"
        )
    return Schedstat(
        sides=tuple(_describe(side) for side in sides),
        levels=tuple(level for side in sides for level in _levels_of_side(side, labels)),
        rows=shown,
        zeros=tuple(sorted(zeros - {_name(row) for row in shown})),
        readings=read_rows(shown),
        not_compared=tuple(
            refusal for new in measured[1:] for refusal in _refusals(measured[0], new)
        ),
        cpus=tuple(row for new in _others(by_cpu) for row in compare_cpus(by_cpu[0], new)),
        notes=(*notes, *_describe_spans(sides, labels)),
        core_types=tuple(
            row for new in _others(sides) for row in compare_core_types(sides[0], new, cpus)
        ),
    )


def _others(sides: Sequence[SideOf[Content]]) -> Sequence[SideOf[Content] | None]:
    # The new sides, or None if base is the only side.
    return sides[1:] or [None]


def _describe(side: SideOf[SchedCounts]) -> SchedstatSide:
    seconds = [run.content.seconds for run in side.runs if run.content.seconds is not None]
    return SchedstatSide(
        side=side.name,
        runs=len(side.runs),
        versions=tuple(sorted({run.content.change.version for run in side.runs})),
        seconds=sum(seconds) if len(seconds) == len(side.runs) else None,
    )


def _label_levels(sides: Sequence[SideOf[SchedCounts]]) -> dict[Level, str]:
    levels = [run.content.levels for side in sides for run in side.runs]
    matched = match_levels(levels)
    return {
        level: matched.get((level.label, level.spans), level.label)
        for run_levels in levels
        for level in run_levels
        if not level.is_named
    } | {level: level.label for run_levels in levels for level in run_levels if level.is_named}


def _measure(
    side: SideOf[SchedCounts],
    labels: Mapping[Level, str],
    cpus: Collection[int] | None,
    *,
    has_seconds: bool,
) -> SideOf[_Measured]:
    def measured(run: Captured[SchedCounts]) -> _Measured:
        totals = totals_of(run.content, labels, cpus)
        return _Measured(totals=totals, measures=_measures(run, totals, has_seconds=has_seconds))

    return side.having(measured)


def _measures(
    run: Captured[SchedCounts], totals: Mapping[Key, float], *, has_seconds: bool
) -> Measures[Key]:
    amounts = {
        key: Measure(total / NS_PER_S, "s")
        if FIELDS[key.field].unit == "ns"
        else Measure(total, "1")
        for key, total in totals.items()
    }
    rates = divide(
        amounts,
        seconds=run.content.seconds if has_seconds else run.content.change.jiffies,
        ops=run.ops,
        tick="s" if has_seconds else "tick",
    )
    shares = shares_of(totals).items()
    return {
        **dict(rates),
        **{(key, "share"): Measure(value, SHARES[key.field].unit) for key, value in shares},
    }


def _rows(base: SideOf[_Measured], new: SideOf[_Measured] | None) -> Iterator[SchedstatRow]:
    sides = [base] if new is None else [base, new]
    measures = [side.having(lambda run: run.content.measures) for side in sides]
    rates = compare_rates(measures[0], None if new is None else measures[1])
    totals = [mean_totals(side.having(lambda run: run.content.totals)) for side in sides]
    for index, question in enumerate(sorted(rates, key=_sort_key)):
        yield _row(index, question, rates[question], sides[-1].name, totals)


def _row(
    index: int,
    question: Question[Key],
    rate: Rate,
    side: str,
    totals: Sequence[Mapping[tuple[str, str, Key], float]],
) -> SchedstatRow:
    key = question.key
    counted = question.workload, question.point, key
    about = _about(key.field)
    return SchedstatRow(
        row=f"{side}-{index}",
        side=side,
        workload=question.workload,
        point=question.point,
        level=key.level,
        idle=key.idle,
        field=key.field,
        basis=question.basis,
        meaning=about.meaning,
        function=about.function,
        split=about.split if isinstance(about, Field) else "",
        total_base=totals[0].get(counted),
        total_new=totals[1].get(counted) if len(totals) > 1 else None,
        **rate.as_fields(),
    )


def _about(field: str) -> Field | Share:
    return FIELDS.get(field) or SHARES[field]


def _sort_key(question: Question[Key]) -> tuple[object, ...]:
    key = question.key
    order = (*FIELDS, *SHARES)
    idle = ("", *IDLE_TYPES).index(key.idle)
    field = order.index(key.field)
    return question.workload, question.point, key.level, idle, field, question.basis


def _name(row: SchedstatRow) -> str:
    return " ".join(part for part in (row.level, row.idle, row.field) if part)


def _refusals(base: SideOf[_Measured], new: SideOf[_Measured]) -> Iterator[SchedstatRefusal]:
    points = [{run.key.at for run in side.runs if run.content.totals} for side in (base, new)]
    shared = points[0] & points[1]
    keys = [
        {key for run in side.runs if run.key.at in shared for key in run.content.totals}
        for side in (base, new)
    ]
    yield from _describe_refusals(base.name, new.name, keys[0], keys[1])


def _notes(side: SideOf[SchedCounts]) -> Iterator[str]:
    yield from side.notes
    off = sum(run.content.is_off for run in side.runs)
    if off:
        yield SWITCHED_OFF.format(runs=off, all=len(side.runs), side=side.name)
    notes = [note for run in side.runs for note in run.content.change.notes]
    for note in dict.fromkeys(notes):
        times = f" ({notes.count(note)} runs)" if notes.count(note) > 1 else ""
        yield f"{side.name}: {note}{times}"
    lost = sum(
        len(counts.change.domains) - sum(len(level.rows) for level in counts.levels)
        for counts in (run.content for run in side.runs)
    )
    if lost:
        yield f"{side.name}: {lost} domains with neither a name nor a CPU mask are left out"


def _cpu_rates(
    side: SideOf[SchedCounts], cpus: Collection[int] | None, *, has_seconds: bool
) -> SideOf[CpuValues]:
    """Return the rates of each CPU in each run in which kernel.sched_schedstats was not 0.

    :param cpus: CPUs to include; None for all
    :param has_seconds: True for rates per second, False for rates per tick
    """
    return SideOf(
        name=side.name,
        kind=side.kind,
        runs=tuple(
            run.having(dict(_cpu_values(run.content, cpus, has_seconds=has_seconds)))
            for run in side.runs
            if not run.content.is_off
        ),
    )


def _cpu_values(
    counts: SchedCounts, cpus: Collection[int] | None, *, has_seconds: bool
) -> Iterator[tuple[CpuMeasure, Mapping[int, float]]]:
    change = counts.change
    time = counts.seconds if has_seconds else change.jiffies
    if not time:
        return
    tick = "s" if has_seconds else "tick"
    for index, column in enumerate(counts.cpu_columns):
        field = FIELDS[column.field]
        scale = 1.0 / NS_PER_S if field.unit == "ns" else 1.0
        of_cpus = zip(change.cpus, change.cpu_counts[:, index].tolist(), strict=True)
        per_cpu = {
            cpu: count * scale / time
            for cpu, count in of_cpus
            # NaN marks an unknown count; NaN != NaN.
            if count == count and (cpus is None or cpu in cpus)  # noqa: PLR0124
        }
        if field.is_used and per_cpu:
            counted = "s" if field.unit == "ns" else "1"
            yield CpuMeasure(field.name, f"{counted}/{tick}", field.meaning), per_cpu


def _levels_of_side(side: SideOf[SchedCounts], labels: Mapping[Level, str]) -> Iterator[LevelRow]:
    """Yield the domain levels in ascending order of size."""
    by_label: dict[str, list[Level]] = {}
    for run in side.runs:
        for level in run.content.levels:
            by_label.setdefault(labels[level], []).append(level)
    described = [_level_row(side, label, levels) for label, levels in by_label.items()]
    yield from sorted(described, key=lambda row: row.cpus or 0)


def _level_row(side: SideOf[SchedCounts], label: str, levels: Sequence[Level]) -> LevelRow:
    widths = [level.widest for level in levels if level.widest is not None]
    spans = [{span for _, span in level.spans} for level in levels if level.spans is not None]
    return LevelRow(
        side=side.name,
        level=label,
        cpus=max(widths, default=None),
        domains=max(map(len, spans), default=None),
        flags=next(
            (run.content.flags[label] for run in side.runs if label in run.content.flags), None
        ),
    )


def _describe_refusals(
    base: str, new: str, in_base: Collection[Key], in_new: Collection[Key]
) -> Iterator[SchedstatRefusal]:
    """Yield the counters that only one of two sides has.

    :param in_base: counters of base
    """
    by_reason: dict[tuple[str, str], list[str]] = {}
    for name, counterpart, mine, theirs in (
        (base, new, set(in_base), set(in_new)),
        (new, base, set(in_new), set(in_base)),
    ):
        for key in sorted(mine - theirs):
            what, reason = _reason(key, counterpart, theirs)
            counts = by_reason.setdefault((name, reason), [])
            if what not in counts:
                counts.append(what)
    for (name, reason), counts in by_reason.items():
        yield SchedstatRefusal(side=name, what=", ".join(counts), reason=reason)


def _reason(key: Key, counterpart: str, theirs: Collection[Key]) -> tuple[str, str]:
    # The field or level without a counterpart, and the reason.
    if key.field not in ALWAYS_COUNTED and all(
        their_key.field in ALWAYS_COUNTED for their_key in theirs
    ):
        return (
            "all counters except run_delay, rq_cpu_time and pcount",
            f"kernel.sched_schedstats was 0 on {counterpart}",
        )
    if FIELDS[key.field].split and not any(their_key.field == key.field for their_key in theirs):
        return key.field, FIELDS[key.field].split
    if key.level not in {their_key.level for their_key in theirs}:
        return key.level, _reason_of_level(key.level, counterpart)
    return f"{key.level} {key.idle} {key.field}".strip(), f"not counted on {counterpart}"


def _reason_of_level(level: str, counterpart: str) -> str:
    if level.startswith("domain"):
        return f"{level} has no name, and no level of {counterpart} has the same CPUs"
    return f"{counterpart} has no scheduling-domain level {level}"


def _describe_spans(sides: Sequence[SideOf[SchedCounts]], labels: Mapping[Level, str]) -> list[str]:
    """Return notes on levels with a different number of CPUs on different sides."""
    widest: dict[str, dict[str, int]] = {}
    for side in sides:
        for run in side.runs:
            for level in run.content.levels:
                if level.widest is not None:
                    widest.setdefault(labels[level], {})[side.name] = level.widest
    return [
        f"{label} spans {', '.join(f'{cpus} CPUs in {side}' for side, cpus in per_side.items())}"
        for label, per_side in widest.items()
        if len(set(per_side.values())) > 1
    ]
