# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines on the first screen of a report without results."""

from collections.abc import Callable

from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Text
from schedperf_reports.graphics.cache_lines import Badge, CacheLines, LineGroup, LineRow, Occupant
from schedperf_reports.page.first_screen.lines import draw_lines
from schedperf_reports.page.first_screen.screen import draw_first_screen
from schedperf_reports.sections import shown_sections

HOT = Occupant(name="sd_llc_id", start=56, size=4, is_hot=True)
SIDES = (Badge(name="base", label="tip"), Badge(name="new", label="cluster"))


def lines_of(*rows: tuple[LineRow, LineRow]) -> CacheLines:
    groups = tuple(LineGroup(title="", rows=each) for each in rows)
    return CacheLines(caption="parted", line_bytes=64, sides=SIDES, groups=groups)


def test_a_hot_variable_has_one_number_on_all_lines_and_sides() -> None:
    cold = Occupant(name="cold", start=0, size=8)
    moved = Occupant(name="sd_llc_id", start=0, size=4, is_hot=True, word="moved")
    drawn = draw_lines(
        [
            Text(text="before"),
            lines_of(
                (LineRow(offset="0x0", occupants=(cold, HOT)), LineRow(offset="0x0")),
                (LineRow(offset="0x40"), LineRow(offset="0x40", occupants=(moved,))),
            ),
        ]
    )
    assert drawn is not None
    assert drawn.key == (("1", "sd_llc_id"),)
    assert [(left, title) for left, _, title in drawn.frames] == [
        (0.0, "line 0x0"),
        (51.5, "line 0x40"),
    ]
    base, new = drawn.sides
    [before], [after] = base.boxes, new.boxes
    assert (before.number, before.is_changed, before.title) == ("1", False, "sd_llc_id")
    assert (after.number, after.is_changed, after.title) == ("1", True, "sd_llc_id; moved")
    assert before.left == 48.5 * 56 / 64
    assert after.left == 51.5
    assert drawn.words == "parted"


def test_without_hot_variables_or_another_side_there_is_nothing_to_draw() -> None:
    cold = LineRow(offset="0x0", occupants=(Occupant(name="cold", start=0, size=8),))
    assert draw_lines([lines_of((cold, cold))]) is None
    hot = LineGroup(title="", rows=(LineRow(offset="0x0", occupants=(HOT,)),))
    alone = CacheLines(caption="", line_bytes=64, sides=SIDES[:1], groups=(hot,))
    assert draw_lines([alone]) is None


def test_results_are_drawn_instead(compared_example: Callable[[str], Comparison]) -> None:
    for name, has_lines in (("three-kernels", True), ("cluster-percpu", False)):
        comparison = compared_example(name)
        sections = shown_sections(comparison)
        [layout] = [section for section in sections if section.name == "layout"]
        screen = draw_first_screen(comparison, sections, tuple(layout.describe(comparison)))
        assert (screen.lines is not None) == has_lines
        assert (screen.changes is None) == has_lines
