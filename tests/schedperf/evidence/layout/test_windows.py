# SPDX-License-Identifier: GPL-2.0-or-later
"""Which lines are drawn, and what a drawing shows between its entries."""

from collections.abc import Iterable

from schedperf.evidence.layout.model import Entry, Unit
from schedperf.evidence.layout.record import LayoutRow, UnitKind
from schedperf.evidence.layout.sheets import MOST_ROWS, Sheet
from schedperf.evidence.layout.windows import MOST_WINDOW_LINES, Window, group_windows

LINE = 64


def unit(*entries: Entry, kind: UnitKind = "percpu") -> Unit:
    return Unit(
        name="struct rq" if kind == "struct" else kind,
        kind=kind,
        size=None,
        alignment=LINE,
        is_alignment_inferred=False,
        entries=entries,
        groups={},
        sources=("BTF",),
        noise={},
        notes=(),
    )


def entry(name: str, offset: int, size: int | None = 8) -> Entry:
    return Entry(name=name, offset=offset, size=size)


def drawn(rows: Iterable[LayoutRow]) -> list[tuple[int, str]]:
    return [(row.address, row.name or row.kind) for row in rows]


def window(*lines: set[int], alarms: tuple[str, ...] = ()) -> Window:
    return Window(unit="percpu", lines=tuple(frozenset(one) for one in lines), alarms=alarms)


def test_a_rule_stands_where_a_line_ends_and_a_gap_counts_who_is_not_shown() -> None:
    found = unit(*(entry(name, at) for name, at in zip("abcde", (0, 8, 64, 128, 192), strict=True)))
    lines = Sheet(found, LINE).starts(["a", "e", "unknown"])
    assert lines == {0, 3}
    assert drawn(Sheet(found, LINE).rows(lines)) == [
        (0, "a"),
        (8, "b"),
        (8, "2 more"),
        (192, "boundary"),
        (192, "e"),
    ]


def test_holes_are_shown_in_structs_alone_and_not_between_a_unions_fields() -> None:
    fields = (entry("a", 0, 4), entry("b", 8), entry("b2", 8, 4), entry("c", 16))
    assert drawn(Sheet(unit(*fields, kind="struct"), LINE).rows(frozenset({0}))) == [
        (0, "a"),
        (4, "hole"),
        (8, "b"),
        (8, "b2"),
        (16, "c"),
    ]
    assert (4, "hole") not in drawn(Sheet(unit(*fields), LINE).rows(frozenset({0})))


def test_an_entry_that_reaches_into_a_shown_line_is_shown() -> None:
    found = unit(entry("large", 0, 100), entry("behind", 104))
    assert drawn(Sheet(found, LINE).rows(frozenset({1})))[0] == (0, "large")


def test_entries_of_one_name_are_told_apart() -> None:
    found = unit(entry("warned", 0, 1), entry("warned", 64, 1))
    assert drawn(Sheet(found, LINE).rows(frozenset({1}))) == [(64, "warned#2")]


def test_marks_and_the_reason_of_the_drawing_are_kept() -> None:
    sheet = Sheet(unit(entry("a", 0), entry("b", 8)), LINE)
    rows = sheet.rows(frozenset({0}), marks={"b": "moved"}, hot=["a"])
    assert [(row.mark, row.is_hot) for row in rows] == [("", True), ("moved", False)]


def test_a_line_of_bits_is_cut_and_the_rest_is_counted() -> None:
    bits = [Entry(name=f"b{at}", offset=0, size=4, bits=(at, 1)) for at in range(300)]
    sheet = Sheet(unit(*bits, kind="struct"), LINE)
    rows = sheet.rows(frozenset({0}))
    assert len(rows) == MOST_ROWS + 1
    assert rows[-1].name == f"{300 - MOST_ROWS} more"
    assert len(sheet.rows(frozenset({0}), most=400)) == 300


def test_a_pair_is_shown_where_it_comes_closest() -> None:
    sheet = Sheet(unit(entry("large", 0, 1000), entry("small", 1024)), LINE)
    assert sheet.closest(["large", "small"]) == {15, 16}
    assert sheet.closest(["small", "gone"]) == {16}
    assert sheet.mates("large") == set()


def test_windows_that_touch_on_any_side_are_one_while_they_stay_readable() -> None:
    grouped = group_windows([window({1}, {5}), window({2}, {5, 6}), window({9}, {20})], most=6)
    assert [[set(lines) for lines in one.lines] for one in grouped] == [
        [{1, 2}, {5, 6}],
        [{9}, {20}],
    ]
    wide = set(range(2, MOST_WINDOW_LINES + 2))
    assert len(group_windows([window({1}, {5}), window(wide, {5, 6})], most=6)) == 2
    assert len(group_windows([window(wide | {1}, {5})], most=6)) == 0
    assert len(group_windows([window({2 * at}, {at}) for at in range(9)], most=6)) == 6


def test_a_joined_window_names_its_alarms_once_and_in_order() -> None:
    (joined,) = group_windows(
        [window({1}, alarms=("a",)), window({1}, alarms=("b",)), window({1}, alarms=("a",))],
        most=6,
    )
    assert joined.alarms == ("a", "b")
