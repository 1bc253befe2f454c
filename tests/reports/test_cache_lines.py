"""Cache lines drawn to scale: who is where, what moved, what overlaps, and where marks run."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from schedperf_reports._page import Described, Head, HeadSide, render_sections
from schedperf_reports.blocks import Drawing
from schedperf_reports.graphics._line_routes import BELOW, ROW, TITLE, TRACK, column_width
from schedperf_reports.graphics.cache_lines import (
    MOST_LANES,
    CacheLines,
    LineGroup,
    LineRow,
    LineSide,
    Occupant,
    stack,
)
from schedperf_reports.sections._layout_lines import MOST_LINES, draw_lines, draw_rows

HOSTILE = (
    "<script>window.pwned = 1</script></script><img src=x onerror='window.pwned = 1'>"
    "\"' onmouseover='window.pwned = 1' {{7*7}} javascript:window.pwned=1 \u202egnirts "
    + "n"
    * 9000
)

Json = dict[str, Any]


def entry(name: str, address: int, size: int | None = 8, **changes: Any) -> Json:
    row = {
        "kind": "entry",
        "address": address,
        "letter": "D",
        "type": "u64",
        "name": name,
        "size": size,
        "bits": None,
        "mark": "",
        "is_hot": False,
    }
    return row | changes


def hole(address: int, size: int) -> Json:
    return entry("", address, size, kind="hole", type=None, letter="")


def column(side: str, *rows: Json, lines: tuple[int, ...], **changes: Any) -> Json:
    made = {
        "side": side,
        "label": side,
        "rows": list(rows),
        "lines": list(lines),
        "bytes": None,
        "reason": None,
    }
    return made | changes


def window(*columns: Json, unit: str = "percpu", **changes: Any) -> Json:
    made = {
        "unit": unit,
        "kind": "percpu",
        "alarms": [],
        "inserted": [],
        "columns": list(columns),
        "uses": [],
    }
    return made | changes


def alarm(a: str, b: str, **changes: Any) -> Json:
    return {
        "row": "alarm",
        "pairs": [[a, b]],
        "entries": [{"name": a}, {"name": b}],
        "claim": f"{a} and {b} parted",
    } | changes


PARTED = window(
    column(
        "base",
        entry("usage", 0x208, is_hot=True),
        entry("shared", 0x230, is_hot=True),
        entry("llc_id", 0x238, 4, is_hot=True),
        entry("llc_size", 0x23C, 4),
        entry("llc", 0x240),
        lines=(0x200, 0x240),
    ),
    column(
        "new",
        entry("usage", 0x208, is_hot=True, mark="mates changed"),
        entry("shared", 0x230, is_hot=True, mark="mates changed"),
        entry("cluster", 0x238, mark="added"),
        entry("share_id", 0x240, 4, mark="added"),
        entry("llc_id", 0x244, 4, is_hot=True, mark="moved"),
        entry("llc_size", 0x248, 4, mark="moved"),
        entry("llc", 0x250),
        lines=(0x200, 0x240),
    ),
    alarms=["alarm"],
    inserted=["cluster", "share_id"],
)
PAIR = alarm("usage", "llc_id", entries=[{"name": name} for name in ("usage", "llc_id", "shared")])


def named(row: LineRow) -> dict[str, Occupant]:
    return {one.name: one for one in row.occupants if one.name}


def only_row(*rows: Json, **changes: Any) -> LineRow:
    """Return the first line of one kernel with these rows."""
    return (
        draw_lines(window(column("base", *rows, lines=(0,)), **changes), 64, []).groups[0].rows[0]
    )


def head(*sides: str) -> Head:
    """Return what stands above a page."""
    chosen = [HeadSide(name=side, label=side, path=f"{side}.tar") for side in sides]
    return Head(title="t", sides=tuple(chosen), tool_version="0", schema="x/1")


def page(drawing: CacheLines) -> str:
    section = Described(name="layout", title="Cache lines", blocks=(drawing,))
    return render_sections(head("base", "new"), [section])


def test_each_name_is_on_its_bytes_of_its_line() -> None:
    drawing = draw_lines(PARTED, 64, [PAIR])
    first, second = drawing.groups
    base, new = map(named, first.rows)
    assert (base["llc_id"].start, base["llc_id"].size) == (0x38, 4)
    assert (new["cluster"].start, new["cluster"].word) == (0x38, "added")
    assert named(second.rows[1])["llc_id"].start == 4
    assert [group.title for group in drawing.groups] == [
        "line of 64 B from 0x200",
        "64 B boundary at 0x240",
    ]
    assert [row.place for row in second.rows] == ["0x240", "0x240"]


def test_who_went_together_is_one_arrow_and_the_caption_says_it() -> None:
    drawing = draw_lines(PARTED, 64, [PAIR])
    assert [move.text for move in drawing.moves] == [
        "llc_id, llc_size moved by +12 bytes, to the line at 0x240"
    ]
    assert drawing.caption == (
        "per-CPU section: llc_id, llc_size moved by +12 bytes, to the line at 0x240; "
        "inserted: cluster, share_id"
    )


def test_pairs_say_what_they_are_on_each_side_and_those_that_changed_come_first() -> None:
    drawing = draw_lines(PARTED, 64, [PAIR])
    assert [(pair.names, pair.words) for pair in drawing.pairs] == [
        (("usage", "llc_id"), ("together", "separated")),
        (("usage", "shared"), ("together", "kept together")),
        (("llc_id", "shared"), ("together", "separated")),
    ]
    assert drawing.pairs[0].text == "usage and llc_id: together in base, separated in new"
    assert drawing.pairs[0].tones == ("plain", "bad")
    assert drawing.pairs[1].tones == ("plain", "plain")


def test_swapped_sides_say_joined() -> None:
    back = [
        {**one, "side": side}
        for one, side in zip(PARTED["columns"][::-1], ("base", "new"), strict=True)
    ]
    drawing = draw_lines({**PARTED, "columns": back}, 64, [PAIR])
    assert drawing.pairs[0].words == ("apart", "joined")


def test_an_arrow_goes_down_to_its_track_along_it_and_to_the_new_place() -> None:
    sheet = draw_lines(PARTED, 64, [PAIR]).sheet()
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


def test_an_arrow_to_an_earlier_line_points_up() -> None:
    back = [
        {**one, "side": side}
        for one, side in zip(PARTED["columns"][::-1], ("base", "new"), strict=True)
    ]
    rows = [{**row, "mark": "moved" if row["name"] == "llc_id" else ""} for row in back[1]["rows"]]
    drawing = draw_lines({**PARTED, "columns": [back[0], {**back[1], "rows": rows}]}, 64, [])
    (arrow,) = drawing.sheet().routes
    assert arrow.head is not None
    assert arrow.head[2] == "up"
    assert arrow.wide[2].top == pytest.approx(arrow.head[1])


def test_tracks_and_brackets_have_room_of_their_own() -> None:
    sheet = draw_lines(PARTED, 64, [PAIR]).sheet()
    # An arrow and two pairs go over the boundary; three brackets are below base, one below new.
    assert sheet.titles == pytest.approx((TITLE, TITLE + 3 * TRACK))
    assert sheet.rows[0] == pytest.approx((ROW + BELOW + 3 * TRACK, ROW + BELOW + TRACK))
    tops = [route.at[1] for route in sheet.routes]
    assert len(set(tops)) == len(tops)


def test_on_a_narrow_screen_marks_stay_within_it() -> None:
    sheet = draw_lines(PARTED, 64, [PAIR]).sheet()
    for route in sheet.routes:
        for part in route.narrow:
            assert 0.0 <= part.left <= part.left + part.width <= 100.0
    assert 2 * column_width(2) < 100.0


def test_members_of_a_union_are_stacked_and_bit_fields_stand_side_by_side() -> None:
    row = only_row(
        entry("raw", 0, 4),
        entry("low", 0, 2),
        entry("high", 2, 2),
        entry("one", 8, 4, bits=[64, 1]),
        entry("three", 8, 4, bits=[65, 3]),
        unit="struct lock",
    )
    found = named(row)
    assert [(found[name].lane, found[name].lanes) for name in ("raw", "low", "high")] == [
        (0, 2), (1, 2), (1, 2),
    ]  # fmt: skip
    bits = [(found[name].start, found[name].size) for name in ("one", "three")]
    assert bits == [(8.0, 0.125), (8.125, 0.375)]
    assert (found["one"].lanes, found["three"].lanes) == (1, 1)


def test_more_on_the_same_bytes_than_can_be_read_are_counted() -> None:
    row = only_row(*(entry(f"member{number}", 0) for number in range(MOST_LANES + 3)))
    assert len(named(row)) == MOST_LANES
    assert row.note == "3 more on the same bytes, see the text"


def test_lanes_are_free_again_behind_what_overlapped() -> None:
    drawn, left = stack(
        [Occupant(name="a", start=0, size=8), Occupant(name="b", start=4, size=2),
         Occupant(name="c", start=8, size=8)]
    )  # fmt: skip
    assert [(one.name, one.lane, one.lanes) for one in drawn] == [
        ("a", 0, 2), ("b", 1, 2), ("c", 0, 1),
    ]  # fmt: skip
    assert left == 0


def test_an_entry_without_bytes_has_a_mark_and_takes_no_bytes() -> None:
    found = named(only_row(entry("empty", 8, 0), entry("next", 8)))
    assert (found["empty"].start, found["empty"].size) == (8, 0)
    assert found["next"].lanes == 1


def test_what_is_larger_than_a_line_is_cut_and_lines_between_are_counted() -> None:
    huge = entry("huge", 8, 10_000, is_hot=True)
    after = entry("after", 10_008, is_hot=True)
    drawing = draw_lines(window(column("base", huge, after, lines=(0, 9984))), 64, [])
    first, last = drawing.groups
    assert (named(first.rows[0])["huge"].size, named(first.rows[0])["huge"].after) == (56, True)
    tail = named(last.rows[0])["huge"]
    assert (tail.start, tail.size, tail.before, tail.after) == (0, 24, True, False)
    assert named(last.rows[0])["after"].start == 24
    assert last.skipped == "155 lines between, not drawn"


def test_without_a_known_size_it_is_drawn_up_to_what_follows() -> None:
    row = only_row(entry("a", 8, None), entry("b", 24, None))
    found = named(row)
    assert (found["a"].size, found["a"].is_sized) == (16, False)
    assert "size not known" in found["a"].facts[0]
    # Whether bytes have no name cannot be known then.
    assert all(one.kind == "entry" for one in row.occupants)


def test_holes_padding_and_bytes_without_a_name_are_three_things() -> None:
    rows = (entry("a", 0, 4), hole(4, 4), entry("b", 8))
    struct = (
        draw_lines(window(column("base", *rows, lines=(0,), bytes=24), unit="struct s"), 64, [])
        .groups[0]
        .rows[0]
    )
    assert [(one.kind, one.start, one.size) for one in struct.occupants] == [
        ("entry", 0, 4), ("hole", 4, 4), ("entry", 8, 8), ("padding", 16.0, 8.0),
        ("unnamed", 24.0, 40.0),
    ]  # fmt: skip
    # Where the struct goes on, on a line that is not drawn, there is no padding.
    longer = draw_lines(
        window(column("base", *rows, lines=(0,), bytes=200), unit="struct s"), 64, []
    )
    assert longer.groups[0].rows[0].occupants[-1].kind == "hole"
    section = only_row(entry("a", 0, 4), entry("b", 8))
    assert [one.kind for one in section.occupants if not one.name] == ["unnamed", "unnamed"]


def test_lines_that_slid_as_a_whole_stand_in_one_group() -> None:
    base = column("base", entry("a", 0x100), entry("b", 0x108, is_hot=True), lines=(0x100,))
    new = column("new", entry("a", 0x180), entry("b", 0x188, is_hot=True), lines=(0x180,))
    (group,) = draw_lines(window(base, new), 64, []).groups
    assert [row.place for row in group.rows] == ["0x100", "0x180"]
    assert group.title == "line of 64 B from 0x100 and 0x180"


def test_who_is_at_other_bytes_of_the_same_line_says_by_how_many() -> None:
    base = column("base", entry("a", 0x100, is_hot=True), entry("b", 0x108), lines=(0x100,))
    new = column("new", entry("a", 0x100, is_hot=True), entry("b", 0x118), lines=(0x100,))
    (group,) = draw_lines(window(base, new), 64, []).groups
    told = [{one.name: one.slid for one in row.occupants if one.name} for row in group.rows]
    assert told == [{"a": "", "b": ""}, {"a": "", "b": "+16 B"}]
    # A line that slid as a whole moved nobody on it.
    whole = column("new", entry("a", 0x180, is_hot=True), entry("b", 0x188), lines=(0x180,))
    (group,) = draw_lines(window(base, whole), 64, []).groups
    assert not any(one.slid for row in group.rows for one in row.occupants)


def test_what_the_drawing_is_about_stands_in_one_group_though_others_slid() -> None:
    others = [entry(f"o{number}", 0x140 + 8 * number) for number in range(4)]
    slid = [{**one, "address": one["address"] + 64} for one in others]
    hot = entry("hot", 0x100, is_hot=True)
    base = column("base", hot, *others, lines=(0x100, 0x140))
    new = column("new", hot, *slid, lines=(0x100, 0x180))
    groups = draw_lines(window(base, new), 64, []).groups
    assert [row.place for row in groups[0].rows] == ["0x100", "0x100"]


def test_who_stays_on_its_line_has_no_arrow() -> None:
    base = column("base", entry("a", 0x100), entry("b", 0x108), lines=(0x100,))
    new = column("new", entry("a", 0x100), entry("b", 0x118, mark="moved"), lines=(0x100,))
    drawing = draw_lines(window(base, new), 64, [])
    assert drawing.moves == ()
    assert drawing.sheet().routes == ()


def test_three_sides_are_three_rows_and_a_side_without_the_unit_says_why() -> None:
    without = column("new2", lines=(), reason="no BTF in new2")
    drawing = draw_lines(window(*PARTED["columns"], without), 64, [])
    assert [len(group.rows) for group in drawing.groups] == [3, 3]
    assert drawing.groups[0].rows[2] == LineRow(place="", note="no BTF in new2")
    assert 'badge side-2">C<' in page(drawing)


def test_facts_name_type_size_place_and_who_touches_it() -> None:
    use = {
        "name": "llc_id",
        "paths": ["wakeup", "tick"],
        "written": "rarely",
        "read": "remote",
        "functions": ["core.c:cpus_share_cache"],
    }
    drawing = draw_lines({**PARTED, "uses": [use]}, 64, [])
    facts = named(drawing.groups[1].rows[1])["llc_id"].facts
    assert facts == (
        "u64, 4 bytes",
        "at 0x244, byte 4 of its line",
        "moved",
        "rarely written, read by other CPUs, on wakeup, tick paths",
        "touched by cpus_share_cache",
    )
    assert "heat unknown" in named(drawing.groups[0].rows[0])["usage"].facts[-1]


def test_one_kernel_alone_shows_the_first_lines_and_says_how_many_there_are() -> None:
    rows = [entry(f"v{number}", 64 * number) for number in range(MOST_LINES + 10)]
    of: Mapping[str, Any] = {"side": "base", "label": "tip", "unit": "percpu", "bytes": None}
    drawing = draw_rows(rows, "the section", of, 64)
    assert len(drawing.groups) == MOST_LINES
    assert drawing.caption.endswith(f"; the first {MOST_LINES} of 58 lines, all of them as text")
    (text,) = drawing.plain()
    assert isinstance(text, Drawing)
    assert len(text.columns[0]) == len(rows)


@pytest.mark.parametrize("line_bytes", [64, 128, 256])
def test_a_line_is_as_long_as_the_machine_says(line_bytes: int) -> None:
    last = entry("last", line_bytes - 8)
    drawing = draw_lines(window(column("base", last, lines=(0,))), line_bytes, [])
    assert f"--bytes:{line_bytes};" in page(drawing)
    assert f"--at:{100 * (line_bytes - 8) / line_bytes}" in page(drawing)


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


def test_without_scripting_each_block_says_what_it_is() -> None:
    text = page(draw_lines(PARTED, 64, [PAIR]))
    assert 'title="u64, 4 bytes; at 0x238, byte 56 of its line' in text
    assert "1 separated" in text
    assert "<summary>as text</summary>" in text
    drawn = re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL)
    assert "64 B boundary at 0x240" in drawn
    assert "64 B cacheline boundary" not in drawn


def test_the_key_explains_only_what_is_drawn() -> None:
    assert "bytes behind the last field" not in page(draw_lines(PARTED, 64, []))
    padded = draw_lines(
        window(column("base", entry("a", 0), lines=(0,), bytes=16), unit="struct s"), 64, []
    )
    assert "bytes behind the last field" in page(padded)


def test_names_of_strangers_stay_text() -> None:
    columns = [
        {
            **one,
            "label": HOSTILE,
            "rows": [
                {**row, "name": HOSTILE + row["name"], "type": HOSTILE} for row in one["rows"]
            ],
        }
        for one in PARTED["columns"]
    ]
    text = page(draw_lines({**PARTED, "unit": HOSTILE, "columns": columns}, 64, []))
    body = text[: text.rindex("<script>")]
    assert "<script>window" not in body
    assert "<img" not in body
    assert "onmouseover='" not in body
    assert "\u202e" not in text
    assert len(text) < 600_000


def test_a_drawing_without_lines_is_still_a_page() -> None:
    empty = CacheLines(
        caption="nothing", line_bytes=64, sides=(LineSide(name="base", label="b"),), groups=()
    )
    assert "nothing</figcaption>" in page(empty)
    group = LineGroup(title="line", rows=(LineRow(place="0x0", note="is not drawn"),))
    assert "is not drawn" in page(
        CacheLines(caption="c", line_bytes=64, sides=empty.sides, groups=(group,))
    )
