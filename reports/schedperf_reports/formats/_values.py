# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of all sides, each side once, for formats without a row per pair of sides.

Late samples of real-time benchmarks are among them, as the number above each threshold in each run.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.evidence.realtime.record import ExceedanceRow, Realtime, write_seconds
from schedperf.model.comparison import BASE, Better, Comparison, Row, data_of
from schedperf.model.verdict import CHANGED

Question = tuple[str, str, str, str, Better]


class SideValues(Struct, frozen=True, kw_only=True):
    """What one side measured of one result.

    :param values: of the runs, in the unit of the result; empty if only a mean was published
    :param mean: as the record has it; None if it has none
    :param row: the comparison with base; None for base, and for late samples
    :param is_changed: did it change significantly from base?
    """

    values: Sequence[float]
    mean: float | None
    row: Row | None
    is_changed: bool = False

    @property
    def numbers(self) -> Sequence[float]:
        """Return the values of the runs, or the published mean as the only one."""
        if self.values or self.mean is None:
            return self.values
        return (self.mean,)


def group_sides(comparison: Comparison) -> Mapping[Question, Mapping[str, SideValues]]:
    """Return what each side measured, by :attr:`Row.question` and by side, base first."""
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
