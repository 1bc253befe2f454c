# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the statistics of the schedulers of both sides, field by field.

A field is compared if both sides have it with the same description. Otherwise its values are shown
beside each other, e.g. if one side ran with the fair class.
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from statistics import fmean

from msgspec import Struct

from schedperf.evidence import Absent, section
from schedperf.evidence.scx_stats.capture import FILE, FOLDER, Field, ScxCapture, read_scx_stats
from schedperf.evidence.scx_stats.measure import (
    ALWAYS_0,
    Verdict,
    amounts_of,
    classify_all,
    counts_of,
    seconds_of,
)
from schedperf.evidence.scx_stats.record import (
    Kind,
    ScxHistogram,
    ScxOther,
    ScxRow,
    ScxSide,
    ScxStats,
)
from schedperf.inputs.side import Side
from schedperf.model.counted import Basis
from schedperf.model.run import Captured, SideOf
from schedperf.runs.captured import load_captured, why_nothing
from schedperf.stats.counted.distributions import compare_bins
from schedperf.stats.counted.rates import Measure, Measures, compare_rates, divide, mean_totals

ONE_SIDE = "only {side} has it"
OTHER_MEANING = "the schedulers describe it differently"
OTHER_BINS = "the histograms have no counts, or other bins"

_PERCENT = "%"
# "log2 us buckets 1us..32s": bin i begins at 2^i us.
_LOG2_US = re.compile(r"\blog2 us\b", re.IGNORECASE)

_Runs = SideOf[ScxCapture]
_Verdicts = Mapping[Field, Verdict]


def has_stats(side: Side) -> bool:
    """Return whether a run has statistics of a scheduler."""
    return any(
        side.bundle.size(f"{run.folder}/{FOLDER}/{FILE}") is not None for run in side.bundle.runs
    )


@section(ScxStats, applies=has_stats)
def scx_stats(sides: Sequence[Side]) -> ScxStats:
    """Compare the statistics of the schedulers at each workload and point.

    :raises Absent: no side has statistics that can be read
    """
    loaded = [
        side.with_runs(run for run in side.runs if run.content.samples)
        for side in load_captured(sides, FOLDER, read_scx_stats)
    ]
    notes = tuple(note for side in loaded for note in side.notes)
    if not any(side.runs for side in loaded):
        raise Absent(next(iter(notes), why_nothing(sides[0], FOLDER)))
    verdicts = classify_all([run.content for side in loaded for run in side.runs])
    base, *others = loaded
    histograms = tuple(row for new in others for row in _histograms(base, new, verdicts))
    compared = {(row.side, row.workload, row.point, row.field) for row in histograms}
    return ScxStats(
        sides=tuple(map(_describe, loaded)),
        rows=tuple(row for new in others for row in _compare(base, new, verdicts)),
        histograms=histograms,
        others=tuple(
            row for new in others for row in _informational(base, new, verdicts, compared)
        ),
        zeros=tuple(
            field.name for field, verdict in verdicts.items() if verdict.reason == ALWAYS_0
        ),
        notes=notes,
    )


def _describe(side: _Runs) -> ScxSide:
    captures = [run.content for run in side.runs]
    return ScxSide(
        side=side.name,
        runs=len(captures),
        kind=side.kind,
        samples=sum(len(each.samples) - 1 for each in captures),
        left_out=sum(each.left_out for each in captures),
    )


def _kinds(verdicts: _Verdicts, *, histograms: bool) -> dict[Field, Kind]:
    return {
        field: verdict.kind
        for field, verdict in verdicts.items()
        if verdict.kind is not None and (field.form == "histogram") == histograms
    }


def _compare(base: _Runs, new: _Runs, verdicts: _Verdicts) -> Iterator[ScxRow]:
    kinds = _kinds(verdicts, histograms=False)

    def measures(run: Captured[ScxCapture]) -> Measures[Field]:
        return _measures(run, kinds)

    rates = compare_rates(base.having(measures), new.having(measures))
    events = [mean_totals(side.having(_counts(kinds))) for side in (base, new)]
    for index, (question, rate) in enumerate(rates.items()):
        key = question.workload, question.point, question.key
        if any((*rate.values_base, *rate.values_new)):
            yield ScxRow(
                row=f"{new.name}-{index}",
                side=new.name,
                workload=question.workload,
                point=question.point,
                basis=question.basis,
                field=question.key.name,
                kind=kinds[question.key],
                meaning=question.key.meaning,
                events=max((of_side[key] for of_side in events if key in of_side), default=None),
                **rate.as_fields(),
            )


def _counts(kinds: Mapping[Field, Kind]) -> Callable[[Captured[ScxCapture]], Mapping[Field, float]]:
    counted = {field: kind for field, kind in kinds.items() if kind != "level"}
    return lambda run: amounts_of(run.content, counted)


def _measures(run: Captured[ScxCapture], kinds: Mapping[Field, Kind]) -> Measures[Field]:
    amounts = amounts_of(run.content, kinds)
    counts = {
        field: Measure(amount, "1") for field, amount in amounts.items() if kinds[field] != "level"
    }
    measures: dict[tuple[Field, Basis], Measure] = dict(
        divide(counts, seconds=seconds_of(run.content), ops=run.ops)
    )
    for field, amount in amounts.items():
        if kinds[field] == "level":
            measures[field, "share"] = _level(field, amount)
    return measures


def _level(field: Field, amount: float) -> Measure:
    return Measure(amount / 100.0, "") if _PERCENT in field.meaning else Measure(amount, "1")


def _histograms(base: _Runs, new: _Runs, verdicts: _Verdicts) -> Iterator[ScxHistogram]:
    others = new.by_point()
    for (workload, point), before in base.by_point().items():
        for field, kind in _kinds(verdicts, histograms=True).items():
            sides = [
                _counted(runs, field, kind) for runs in (before, others.get((workload, point), []))
            ]
            if _is_comparable(sides):
                edges, unit = _edges(field, len(sides[0][0].content))
                bins = compare_bins(sides[0], sides[1], edges)
                yield ScxHistogram(
                    side=new.name,
                    workload=workload,
                    point=point,
                    field=field.name,
                    meaning=field.meaning,
                    unit=unit,
                    **bins.as_fields(),
                )


def _counted(
    runs: Sequence[Captured[ScxCapture]], field: Field, kind: Kind
) -> list[Captured[Sequence[int]]]:
    counted = ((run, counts_of(run.content, field, kind)) for run in runs)
    return [run.having(counts) for run, counts in counted if counts is not None]


def _is_comparable(sides: Sequence[Sequence[Captured[Sequence[int]]]]) -> bool:
    lengths = {len(run.content) for side in sides for run in side}
    return len(lengths) == 1 and all(any(any(run.content) for run in side) for side in sides)


def _edges(field: Field, bins: int) -> tuple[list[float], str]:
    if _LOG2_US.search(field.meaning):
        # Bin 0 also has 0 us.
        return [0.0, *(1e-6 * 2.0**index for index in range(1, bins))], "s"
    return [float(index) for index in range(bins)], ""


class _Shown(Struct, frozen=True):
    # The mean of a field over the runs of one side; None if it is not a number.
    mean: float | None
    unit: str


def _informational(
    base: _Runs, new: _Runs, verdicts: _Verdicts, compared: Container[tuple[str, str, str, str]]
) -> Iterator[ScxOther]:
    """Yield the fields that are not compared.

    :param compared: side, workload, point and name of the histograms that are
    """
    of_base, of_new = base.by_point(), new.by_point()
    for workload, point in dict.fromkeys((*of_base, *of_new)):
        at = (workload, point)
        before, after = (_show_all(side.get(at, []), verdicts) for side in (of_base, of_new))
        for field in dict.fromkeys((*before, *after)):
            reason = verdicts[field].reason or _why_alone(field, before, after, new.name)
            if field.form == "histogram" and (new.name, *at, field.name) not in compared:
                reason = reason or OTHER_BINS
            if reason and reason != ALWAYS_0:
                known = [side[field] for side in (before, after) if field in side]
                yield ScxOther(
                    side=new.name,
                    workload=workload,
                    point=point,
                    field=field.name,
                    meaning=field.meaning,
                    unit=known[0].unit,
                    base=before[field].mean if field in before else None,
                    new=after[field].mean if field in after else None,
                    reason=reason,
                )


def _show_all(runs: Sequence[Captured[ScxCapture]], verdicts: _Verdicts) -> dict[Field, _Shown]:
    fields = dict.fromkeys(
        field for run in runs for sample in run.content.samples for field in sample.values
    )
    return {field: _show(runs, field, verdicts[field]) for field in fields}


def _show(runs: Sequence[Captured[ScxCapture]], field: Field, verdict: Verdict) -> _Shown:
    kind = verdict.kind or "level"
    amounts = [
        (run, amount)
        for run in runs
        if (amount := amounts_of(run.content, {field: kind}).get(field)) is not None
    ]
    if not amounts or field.form in ("skipped", "other"):
        return _Shown(None, "")
    if kind == "level":
        measures = [_level(field, amount) for _, amount in amounts]
        return _Shown(fmean(measure.value for measure in measures), measures[0].unit)
    return _Shown(fmean(amount / seconds_of(run.content) for run, amount in amounts), "1/s")


def _why_alone(
    field: Field, before: Mapping[Field, _Shown], after: Mapping[Field, _Shown], new: str
) -> str:
    if field in before and field in after:
        return ""
    names = [{each.name for each in side} for side in (before, after)]
    if all(field.name in side for side in names):
        return OTHER_MEANING
    return ONE_SIDE.format(side="base" if field in before else new)
