# SPDX-License-Identifier: GPL-2.0-or-later
"""What moved from line to line: arrows and their tracks, pairs, lines that slid."""

import pytest
from msgspec.structs import replace

from schedperf.evidence.layout.record import LayoutAlarm, LayoutWindow
from schedperf_reports.evidence.layout._graphic import draw_lines
from schedperf_reports.graphics.cache_lines import BELOW, ROW, TITLE, TRACK, column_width
from tests.schedperf.evidence.layout.records import make_column, make_entry, make_window


def swapped(window: LayoutWindow) -> LayoutWindow:
    """Return a window with base and new in each other's place."""
    base, new = window.columns
    return replace(window, columns=(replace(new, side="base"), replace(base, side="new")))


def test_who_went_together_is_one_arrow_and_the_caption_says_it(
    parted: LayoutWindow, pair: LayoutAlarm
) -> None:
    drawing = draw_lines(parted, 64, [pair])
    assert [move.text for move in drawing.moves] == [
        "llc_id, llc_size moved by +12 bytes to the line at 0x240"
    ]
    assert drawing.caption == (
        "per-CPU section: usage and llc_id: together in base, separated in new; "
        "llc_id, llc_size moved by +12 bytes to the line at 0x240; inserted: cluster, share_id"
    )


def test_pairs_say_what_they_are_on_each_side_and_those_that_changed_come_first(
    parted: LayoutWindow, pair: LayoutAlarm
) -> None:
    drawing = draw_lines(parted, 64, [pair])
    assert [(pair.names, pair.words) for pair in drawing.pairs] == [
        (("usage", "llc_id"), ("together", "separated")),
        (("usage", "shared"), ("together", "kept together")),
        (("llc_id", "shared"), ("together", "separated")),
    ]
    assert drawing.pairs[0].text == "usage and llc_id: together in base, separated in new"
    assert drawing.pairs[0].tones == ("plain", "bad")
    assert drawing.pairs[1].tones == ("plain", "plain")


def test_swapped_sides_say_joined(parted: LayoutWindow, pair: LayoutAlarm) -> None:
    drawing = draw_lines(swapped(parted), 64, [pair])
    assert drawing.pairs[0].words == ("apart", "joined")


def test_an_arrow_goes_down_to_its_track_along_it_and_to_the_new_place(
    parted: LayoutWindow, pair: LayoutAlarm
) -> None:
    sheet = draw_lines(parted, 64, [pair]).sheet()
    (arrow,) = [route for route in sheet.routes if route.kind == "move"]
    leave, along, arrive = arrow.wide
    # From the middle of llc_id below base's first row …
    assert leave.left == pytest.approx(100 * (0x38 + 2) / 64)
    assert leave.top == pytest.approx(TITLE + ROW)
    # … in front of the second line, to the middle of llc_id above new's second row.
    assert along.top == pytest.approx(sum(sheet.rows[0]) + sheet.titles[0] + TITLE + TRACK / 2)
    assert arrive.left == pytest.approx(100 * 6 / 64)
    bottom = sum(sheet.titles) + sum(sheet.rows[0]) + sheet.rows[1][0]
    assert arrive.top + arrive.height == pytest.approx(bottom)
    assert arrow.head is not None
    assert arrow.head[2] == "down"


def test_an_arrow_to_an_earlier_line_points_up(parted: LayoutWindow) -> None:
    base, new = swapped(parted).columns
    rows = tuple(replace(row, mark="moved" if row.name == "llc_id" else "") for row in new.rows)
    drawing = draw_lines(replace(parted, columns=(base, replace(new, rows=rows))), 64, [])
    (arrow,) = drawing.sheet().routes
    assert arrow.head is not None
    assert arrow.head[2] == "up"
    assert arrow.wide[2].top == pytest.approx(arrow.head[1])


def test_tracks_and_brackets_have_room_of_their_own(
    parted: LayoutWindow, pair: LayoutAlarm
) -> None:
    sheet = draw_lines(parted, 64, [pair]).sheet()
    # An arrow and two pairs go over the boundary; three brackets are below base, one below new.
    assert sheet.titles == pytest.approx((TITLE, TITLE + 3 * TRACK))
    assert sheet.rows[0] == pytest.approx((ROW + BELOW + 3 * TRACK, ROW + BELOW + TRACK))
    tops = [route.at[1] for route in sheet.routes]
    assert len(set(tops)) == len(tops)


def test_on_a_narrow_screen_marks_stay_within_it(parted: LayoutWindow, pair: LayoutAlarm) -> None:
    sheet = draw_lines(parted, 64, [pair]).sheet()
    for route in sheet.routes:
        for part in route.narrow:
            assert 0.0 <= part.left <= part.left + part.width <= 100.0
    assert 2 * column_width(2) < 100.0


def test_lines_that_slid_as_a_whole_stand_in_one_group() -> None:
    base = make_column(
        "base", make_entry("a", 0x100), make_entry("b", 0x108, is_hot=True), lines=(0x100,)
    )
    new = make_column(
        "new", make_entry("a", 0x180), make_entry("b", 0x188, is_hot=True), lines=(0x180,)
    )
    (group,) = draw_lines(make_window(base, new), 64, []).groups
    assert [row.offset for row in group.rows] == ["0x100", "0x180"]
    assert group.title == "64 B line at 0x100 and 0x180"


def test_who_is_at_other_bytes_of_the_same_line_says_by_how_many() -> None:
    base = make_column(
        "base", make_entry("a", 0x100, is_hot=True), make_entry("b", 0x108), lines=(0x100,)
    )
    new = make_column(
        "new", make_entry("a", 0x100, is_hot=True), make_entry("b", 0x118), lines=(0x100,)
    )
    (group,) = draw_lines(make_window(base, new), 64, []).groups
    told = [{one.name: one.slid for one in row.occupants if one.name} for row in group.rows]
    assert told == [{"a": "", "b": ""}, {"a": "", "b": "+16 B"}]
    # A line that slid as a whole moved nobody on it.
    whole = make_column(
        "new", make_entry("a", 0x180, is_hot=True), make_entry("b", 0x188), lines=(0x180,)
    )
    (group,) = draw_lines(make_window(base, whole), 64, []).groups
    assert not any(one.slid for row in group.rows for one in row.occupants)


def test_what_the_drawing_is_about_stands_in_one_group_though_others_slid() -> None:
    others = [make_entry(f"o{number}", 0x140 + 8 * number) for number in range(4)]
    slid = [replace(one, address=one.address + 64) for one in others]
    hot = make_entry("hot", 0x100, is_hot=True)
    base = make_column("base", hot, *others, lines=(0x100, 0x140))
    new = make_column("new", hot, *slid, lines=(0x100, 0x180))
    groups = draw_lines(make_window(base, new), 64, []).groups
    assert [row.offset for row in groups[0].rows] == ["0x100", "0x100"]


def test_who_stays_on_its_line_has_no_arrow() -> None:
    base = make_column("base", make_entry("a", 0x100), make_entry("b", 0x108), lines=(0x100,))
    new = make_column(
        "new", make_entry("a", 0x100), make_entry("b", 0x118, mark="moved"), lines=(0x100,)
    )
    drawing = draw_lines(make_window(base, new), 64, [])
    assert drawing.moves == ()
    assert drawing.sheet().routes == ()
