# SPDX-License-Identifier: GPL-2.0-or-later
"""Who is on which bytes of a line: to scale, stacked, cut, holes, labels and facts."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.layout.record import LayoutAlarm, LayoutRow, LayoutWindow
from schedperf_reports.evidence.layout._graphic import draw_lines
from schedperf_reports.graphics.cache_lines import (
    MOST_LANES,
    LineRow,
    Occupant,
    stack,
)
from tests.schedperf.evidence.layout.records import (
    make_column,
    make_entry,
    make_hole,
    make_use,
    make_window,
)


def named(row: LineRow) -> dict[str, Occupant]:
    return {one.name: one for one in row.occupants if one.name}


@pytest.fixture
def only_row() -> Callable[..., LineRow]:
    """Return the first line of one kernel with these rows."""

    def draw(*rows: LayoutRow, **changes: Any) -> LineRow:
        only = make_window(make_column("base", *rows, lines=(0,)), **changes)
        return draw_lines(only, 64, []).groups[0].rows[0]

    return draw


def test_each_name_is_on_its_bytes_of_its_line(parted: LayoutWindow, pair: LayoutAlarm) -> None:
    drawing = draw_lines(parted, 64, [pair])
    first, second = drawing.groups
    base, new = map(named, first.rows)
    assert (base["llc_id"].start, base["llc_id"].size) == (0x38, 4)
    assert (new["cluster"].start, new["cluster"].word) == (0x38, "added")
    assert named(second.rows[1])["llc_id"].start == 4
    assert [group.title for group in drawing.groups] == [
        "64 B line at 0x200",
        "64 B boundary at 0x240",
    ]
    assert [row.offset for row in second.rows] == ["0x240", "0x240"]


def test_members_of_a_union_are_stacked_and_bit_fields_stand_side_by_side(
    only_row: Callable[..., LineRow],
) -> None:
    row = only_row(
        make_entry("raw", 0, 4),
        make_entry("low", 0, 2),
        make_entry("high", 2, 2),
        make_entry("one", 8, 4, bits=(64, 1)),
        make_entry("three", 8, 4, bits=(65, 3)),
        unit="struct lock",
    )
    found = named(row)
    assert [(found[name].lane, found[name].lanes) for name in ("raw", "low", "high")] == [
        (0, 2), (1, 2), (1, 2),
    ]  # fmt: skip
    bits = [(found[name].start, found[name].size) for name in ("one", "three")]
    assert bits == [(8.0, 0.125), (8.125, 0.375)]
    assert (found["one"].lanes, found["three"].lanes) == (1, 1)


def test_more_on_the_same_bytes_than_can_be_read_are_counted(
    only_row: Callable[..., LineRow],
) -> None:
    row = only_row(*(make_entry(f"member{number}", 0) for number in range(MOST_LANES + 3)))
    assert len(named(row)) == MOST_LANES
    assert row.note == "3 overlapping variables are only in the text version"


def test_lanes_are_free_again_behind_what_overlapped() -> None:
    drawn, left = stack(
        [Occupant(name="a", start=0, size=8), Occupant(name="b", start=4, size=2),
         Occupant(name="c", start=8, size=8)]
    )  # fmt: skip
    assert [(one.name, one.lane, one.lanes) for one in drawn] == [
        ("a", 0, 2), ("b", 1, 2), ("c", 0, 1),
    ]  # fmt: skip
    assert left == 0


def test_an_entry_without_bytes_has_a_mark_and_takes_no_bytes(
    only_row: Callable[..., LineRow],
) -> None:
    found = named(only_row(make_entry("empty", 8, 0), make_entry("next", 8)))
    assert (found["empty"].start, found["empty"].size) == (8, 0)
    assert found["next"].lanes == 1


def test_what_is_larger_than_a_line_is_cut_and_lines_between_are_counted() -> None:
    huge = make_entry("huge", 8, 10_000, is_hot=True)
    after = make_entry("after", 10_008, is_hot=True)
    drawing = draw_lines(make_window(make_column("base", huge, after, lines=(0, 9984))), 64, [])
    first, last = drawing.groups
    assert (named(first.rows[0])["huge"].size, named(first.rows[0])["huge"].after) == (56, True)
    tail = named(last.rows[0])["huge"]
    assert (tail.start, tail.size, tail.before, tail.after) == (0, 24, True, False)
    assert named(last.rows[0])["after"].start == 24
    assert last.skipped == "155 lines not drawn"


def test_without_a_known_size_it_is_drawn_up_to_what_follows(
    only_row: Callable[..., LineRow],
) -> None:
    row = only_row(make_entry("a", 8, None), make_entry("b", 24, None))
    found = named(row)
    assert (found["a"].size, found["a"].is_sized) == (16, False)
    assert "size unknown" in found["a"].facts[0]
    # Whether bytes have no name cannot be known then.
    assert all(one.kind == "entry" for one in row.occupants)


def test_holes_padding_and_bytes_without_a_name_are_three_things(
    only_row: Callable[..., LineRow],
) -> None:
    rows = (make_entry("a", 0, 4), make_hole(4, 4), make_entry("b", 8))
    struct = (
        draw_lines(
            make_window(make_column("base", *rows, lines=(0,), bytes=24), unit="struct s"), 64, []
        )
        .groups[0]
        .rows[0]
    )
    assert [(one.kind, one.start, one.size) for one in struct.occupants] == [
        ("entry", 0, 4), ("hole", 4, 4), ("entry", 8, 8), ("padding", 16.0, 8.0),
        ("unnamed", 24.0, 40.0),
    ]  # fmt: skip
    # Where the struct goes on, on a line that is not drawn, there is no padding.
    longer = draw_lines(
        make_window(make_column("base", *rows, lines=(0,), bytes=200), unit="struct s"), 64, []
    )
    assert longer.groups[0].rows[0].occupants[-1].kind == "hole"
    section = only_row(make_entry("a", 0, 4), make_entry("b", 8))
    assert [one.kind for one in section.occupants if not one.name] == ["unnamed", "unnamed"]


def test_facts_name_type_size_place_and_who_touches_it(parted: LayoutWindow) -> None:
    use = make_use("llc_id", paths=("wakeup", "tick"), functions=("core.c:cpus_share_cache",))
    drawing = draw_lines(replace(parted, uses=(use,)), 64, [])
    facts = named(drawing.groups[1].rows[1])["llc_id"].facts
    assert facts == (
        "u64, 4 bytes",
        "at 0x244, byte 4 of its line",
        "moved",
        "rarely written, read by other CPUs, on wakeup, tick paths",
        "accessed by cpus_share_cache",
    )
    assert "access frequency unknown" in named(drawing.groups[0].rows[0])["usage"].facts[-1]


@pytest.mark.parametrize(
    ("name", "size", "label"),
    [
        ("sd_llc_id", 4, "sd_llc_id"),
        ("flag", 1, ""),
        ("rt_bandwidth.rt_period_timer.node.node.rb_right", 8, "…node.node.rb_right"),
        ("rt_bandwidth.rt_period_timer.node.node.rb_right", 4, "…node.rb_right"),
        ("rt_bandwidth.rt_period_timer.node.node.rb_parent_color", 2, "…rb_parent_color"),
        ("sd_share_identification_of_all", 4, "sd_share_identification_of_all"),
    ],
)
def test_a_label_is_as_much_of_the_name_as_fits(name: str, size: int, label: str) -> None:
    assert Occupant(name=name, start=0, size=size).label == label


def test_what_goes_over_the_end_of_the_line_says_so() -> None:
    one = Occupant(name="sugov_cpu", start=0, size=64, before=True, after=True)
    assert one.label == "…sugov_cpu…"
