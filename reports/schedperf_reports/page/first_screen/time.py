# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw on the first screen where the time of the workload's own tasks went."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.account.record import ALL_PARTS, Account, AccountPoint, PartChange
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row, Verdict
from schedperf.model.sections import data_of
from schedperf.model.verdict import count_units
from schedperf_reports.evidence.account import (
    PART_NAMES,
    change_of,
    contributions_of,
    count_sample,
    draw_points,
    missing_parts,
    name_others,
    name_quantity,
)
from schedperf_reports.graphics.parts import Parts

# A smaller part of the longest bar is too narrow to see.
LEAST_VISIBLE = 0.005
# Verdicts that state no change.
OPEN: tuple[Verdict, ...] = ("inconclusive", "invalid")


class KeyEntry(Struct, frozen=True, kw_only=True):
    """One part of the time.

    :param number: number of its colour
    :param text: its contribution to the change, with the interval for the largest one; "" without
        a verdict, and with several new sides
    """

    number: int
    name: str
    text: str


class TimePicture(Struct, frozen=True, kw_only=True):
    """The time of the workload's own tasks: a bar per side, and what each part contributes.

    :param title: what was added up; its change and the sample size, if contributions are printed
    :param missing: parts that were not measured; "" for none
    :param others: other commands that took the CPU; "" for none, or if the first reason names them
    :param points: the drawn points
    """

    title: str
    bars: Parts
    key: tuple[KeyEntry, ...]
    missing: str
    others: str
    points: tuple[AccountPoint, ...]


def draw_time(
    comparison: Comparison, rows: Sequence[Row], names: Mapping[str, str]
) -> TimePicture | None:
    """Return the picture for the first result, else for the first point; None without an account.

    :param rows: rows of one result, the worst side first; empty without results
    :param names: label of each side
    """
    data = data_of(comparison.sections, Account)
    if data is None or not data.points:
        return None
    points = _choose(data.points, rows)
    first = points[0]
    bars = replace(draw_points(points, names), has_amounts=False)
    missing = missing_parts(first, data)
    title, key, others = name_quantity(first), _names(bars), ""
    # A change without a verdict is not quoted, and the changes of several sides have no room.
    if len(points) == 1 and comparison.overall.verdict not in OPEN:
        n = count_sample(first)
        # The headline has the same one.
        is_known = bool(rows) and n == count_units(
            rows[0].n_base, rows[0].n_new, rows[0].replication
        )
        title = f"{title} {change_of(first)}{'' if is_known else f' ({n})'}"
        key = tuple(_contributions(first))
        # Other load that is the first reason is listed below the picture.
        is_listed = any(finding.rule == "other_load" for finding in comparison.findings[:1])
        others = "" if is_listed else name_others(first, data).replace(" -> ", " → ")
    return TimePicture(
        title=title,
        bars=bars,
        key=key,
        missing=f"{', '.join(missing)}: not measured" if missing else "",
        others=others,
        points=tuple(points),
    )


def _choose(points: Sequence[AccountPoint], rows: Sequence[Row]) -> list[AccountPoint]:
    """Return the points of the rows' workload and point, else of the first one.

    The points are in the order of the rows' sides.
    """
    at = (rows[0].workload, rows[0].point) if rows else _place(points[0])
    found = [each for each in points if _place(each) == at]
    chosen = found or [each for each in points if _place(each) == _place(points[0])]
    ranks = {row.side: rank for rank, row in enumerate(rows)}
    return sorted(chosen, key=lambda each: ranks.get(each.side, len(ranks)))


def _place(point: AccountPoint) -> tuple[str, str]:
    return point.workload, point.point


def _names(bars: Parts) -> tuple[KeyEntry, ...]:
    return tuple(KeyEntry(number=number, name=name, text="") for number, name in bars.key)


def _contributions(point: AccountPoint) -> Iterator[KeyEntry]:
    drawn = {part.part for part in point.parts if _is_visible(part, point)}
    for part, text in contributions_of(point, most_intervals=1):
        if part in drawn:
            yield KeyEntry(number=ALL_PARTS.index(part), name=PART_NAMES[part], text=text)


def _is_visible(part: PartChange, point: AccountPoint) -> bool:
    largest = max(part.base, part.new, abs(part.new - part.base))
    return largest >= LEAST_VISIBLE * max(point.all.base, point.all.new)
