# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of all sides, each side once, for formats without a row per pair of sides."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.model.comparison import BASE, Comparison, Row

Question = tuple[str, str, str, str, str]


class SideValues(Struct, frozen=True, kw_only=True):
    """What one side measured of one result.

    :param values: of the runs, in the unit of the result; empty if only a mean was published
    :param mean: as the record has it; None if it has none
    :param row: the comparison with base; None for base
    """

    values: Sequence[float]
    mean: float | None
    row: Row | None

    @property
    def numbers(self) -> Sequence[float]:
        """Return the values of the runs, or the published mean as the only one."""
        if self.values or self.mean is None:
            return self.values
        return (self.mean,)


def group_sides(comparison: Comparison) -> Mapping[Question, Mapping[str, SideValues]]:
    """Return what each side measured, by :attr:`Row.question` and by side, base first."""
    grouped: dict[Question, dict[str, SideValues]] = {}
    for row in comparison.rows:
        sides = grouped.setdefault(row.question, {})
        for name, values in _sides_of(row):
            sides.setdefault(name, values)
    return grouped


def _sides_of(row: Row) -> Iterator[tuple[str, SideValues]]:
    base = [run.value for run in row.values_base]
    yield BASE, SideValues(values=base, mean=row.base, row=None)
    new = [run.value for run in row.values_new]
    yield row.side, SideValues(values=new, mean=row.new, row=row)
