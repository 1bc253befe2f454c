# SPDX-License-Identifier: GPL-2.0-or-later
"""Group results by side, for formats without a row per pair of sides.

Late samples of real-time benchmarks are included: the number of samples of at least each threshold,
in each run.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.evidence.realtime.record import ExceedanceRow, Realtime, write_seconds
from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Better, Row
from schedperf.model.sections import data_of
from schedperf.model.verdict import CHANGED

Question = tuple[str, str, str, str, Better]


class SideValues(Struct, frozen=True, kw_only=True):
    """The values of one side for one result.

    :param values: values of the runs, in the unit of the result; empty if the record has only a
        published mean, or no value
    :param mean: mean in the record; None if it has none, and for late samples
    :param row: the comparison with base; None for base, and for late samples
    :param is_changed: whether it changed significantly from base; False for base
    """

    values: Sequence[float]
    mean: float | None
    row: Row | None
    is_changed: bool = False

    @property
    def numbers(self) -> Sequence[float]:
        """Return the values of the runs, else the published mean as the only value, else ()."""
        if self.values or self.mean is None:
            return self.values
        return (self.mean,)


def group_sides(comparison: Comparison) -> Mapping[Question, Mapping[str, SideValues]]:
    """Return the values of each side by result, then by name of the side, base first.

    A result is identified by workload, point, metric, unit and better direction, as in
    :attr:`Row.question`.
    """
    realtime = data_of(comparison.sections, Realtime)
    late = () if realtime is None else realtime.exceedances
    parts = [
        *((row.question, _sides_of(row)) for row in comparison.rows),
        *((_question_of(row), _late_samples(row)) for row in late),
    ]
    grouped: dict[Question, dict[str, SideValues]] = {}
    for question, measured in parts:
        sides = grouped.setdefault(question, {})
        for name, values in measured:
            sides.setdefault(name, values)
    return grouped


def _question_of(row: ExceedanceRow) -> Question:
    metric = f"{row.metric} >= {write_seconds(row.threshold_s)}"
    return row.workload, row.point, metric, "samples", "lower"


def _late_samples(row: ExceedanceRow) -> Iterator[tuple[str, SideValues]]:
    base, new = ([float(count) for count in each] for each in (row.values_base, row.values_new))
    yield BASE, SideValues(values=base, mean=None, row=None)
    yield row.side, SideValues(values=new, mean=None, row=None, is_changed=bool(row.changed))


def _sides_of(row: Row) -> Iterator[tuple[str, SideValues]]:
    base = [run.value for run in row.values_base]
    yield BASE, SideValues(values=base, mean=row.base, row=None)
    new = [run.value for run in row.values_new]
    is_changed = row.verdict in CHANGED
    yield row.side, SideValues(values=new, mean=row.new, row=row, is_changed=is_changed)
