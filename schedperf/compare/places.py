# SPDX-License-Identifier: GPL-2.0-or-later
"""Answer whether results depend on the place (cgroup, autogroup) in which the command ran.

The sides of the comparison are places. Its rows are tests of each place against the first one,
corrected for the results of all places; the answer only combines their verdicts.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from schedperf.model.comparison import Comparison
from schedperf.model.places import Answer, PlaceResult, Places, PlaceValue
from schedperf.model.rows import Row
from schedperf.model.sides import SideSummary
from schedperf.model.units import interval_of, percent, signed
from schedperf.model.verdict import CHANGED, count_units, describe_more_runs

_PAIR = 2
_FAMILIES = ("primary", "secondary", "informational")


def judge_places(comparison: Comparison) -> Places:
    """Return whether the results of a comparison depend on the place.

    :param comparison: its sides are places, that of the user's shell first
    """
    families = {row.family for row in comparison.rows}
    family = next((each for each in _FAMILIES if each in families), None)
    rows = [row for row in comparison.rows if row.family == family]
    answer = _answer(rows) if family == "primary" else "invalid"
    return Places(
        answer=answer,
        sentence=_SENTENCES[answer](comparison, rows),
        results=tuple(_results(comparison.sides, rows)),
    )


def _answer(rows: Sequence[Row]) -> Answer:
    verdicts = {row.verdict for row in rows}
    if verdicts & {*CHANGED}:
        return "yes"
    if "invalid" in verdicts:
        return "invalid"
    return "no" if verdicts == {"no-change"} else "undecided"


def _describe_dependence(comparison: Comparison, rows: Sequence[Row]) -> str:
    changed = [row for row in rows if row.verdict in CHANGED]
    number = f"{len({row.side for row in changed})} of {len(comparison.sides) - 1}"
    return f"{_describe(comparison, _largest(changed))}; other places that differ: {number}"


def _describe_equality(comparison: Comparison, rows: Sequence[Row]) -> str:
    margin = percent(max(row.margin for row in rows))
    places = "the other place" if len(comparison.sides) == _PAIR else "all other places"
    return (
        f"within +-{margin} in {places}; largest difference: "
        f"{_describe(comparison, _largest(rows))}"
    )


def _describe_doubt(comparison: Comparison, rows: Sequence[Row]) -> str:
    open_rows = [row for row in rows if row.verdict == "inconclusive"]
    row = _largest(open_rows)
    more = describe_more_runs(row.more_runs, row.replication)
    return "; ".join(filter(None, (f"{_describe(comparison, row)}: {row.reason_short}", more)))


def _describe_failure(comparison: Comparison, _rows: Sequence[Row]) -> str:
    return comparison.overall.reason


_SENTENCES = {
    "yes": _describe_dependence,
    "no": _describe_equality,
    "undecided": _describe_doubt,
    "invalid": _describe_failure,
}


def _largest(rows: Sequence[Row]) -> Row:
    return max(rows, key=lambda row: abs(math.log(row.ratio)) if row.ratio else 0.0)


def _describe(comparison: Comparison, row: Row) -> str:
    """Describe one change: metric, place, change, CI and n."""
    labels = {side.name: side.label for side in comparison.sides}
    name = f"{row.metric} at {row.point}" if row.point else row.metric
    change = "" if row.ratio is None else f" {signed(row.ratio - 1.0)}"
    if row.ci_low is not None and row.ci_high is not None:
        change += f" {interval_of(row.ci_low - 1.0, row.ci_high - 1.0)}"
    n = f"n = {count_units(row.n_base, row.n_new, row.replication)}"
    better = "" if row.better == "unknown" else f", {row.better} is better"
    return f"{name}{change} in {labels[row.side]} ({n}{better})"


def _results(sides: Sequence[SideSummary], rows: Sequence[Row]) -> Iterator[PlaceResult]:
    for question in dict.fromkeys(row.question for row in rows):
        own = {row.side: row for row in rows if row.question == question}
        first = next(iter(own.values()))
        yield PlaceResult(
            workload=first.workload,
            point=first.point,
            metric=first.metric,
            unit=first.unit,
            better=first.better,
            family=first.family,
            replication=first.replication,
            values=(
                _value(sides[0], first.n_base, first.base),
                *(
                    _value(side, row.n_new, row.new, row)
                    for side in sides[1:]
                    if (row := own.get(side.name)) is not None
                ),
            ),
        )


def _value(
    side: SideSummary, n: int | None, value: float | None, row: Row | None = None
) -> PlaceValue:
    """Return the value of one place.

    :param row: its comparison with the first place; None for that place itself
    """
    levels, autogroup = _conditions(side)
    return PlaceValue(
        place=side.label,
        levels=levels,
        autogroup=autogroup,
        n=n,
        value=value,
        ratio=None if row is None else row.ratio,
        ci_low=None if row is None else row.ci_low,
        ci_high=None if row is None else row.ci_high,
        q=None if row is None else row.q,
        verdict=None if row is None else row.verdict,
    )


def _conditions(side: SideSummary) -> tuple[int | None, bool | None]:
    """Return the depth of a side's cgroup, and whether autogroup was on, as host.json states."""
    depth = _integer(side, "cgroup", "depth")
    autogroup = _integer(side, "sched", "autogroup")
    return depth, None if autogroup is None else autogroup != 0


def _integer(side: SideSummary, group: str, name: str) -> int | None:
    fields = side.host.get(group)
    value = fields.get(name) if isinstance(fields, Mapping) else None
    return value if isinstance(value, int) else None
