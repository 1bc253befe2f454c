# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of a bisection: its answer, levels, tables and drawing."""

import math

import pytest

from schedperf.inputs.git import Commit
from schedperf.lab.bisect.document import BisectDocument
from schedperf.model.text import cut
from schedperf_reports.bisection.levels import BESIDE, draw_levels
from schedperf_reports.bisection.page import draw_bisect_page
from schedperf_reports.bisection.tables import (
    LONGEST_SUBJECT,
    list_candidates,
    list_named,
    list_tested,
    list_untestable,
)
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.graphics.chart import Panel
from tests.bisections import CAUSE, HOSTILE, Search, in_a_branch, make_commits, named

COMMITS = make_commits()


def panel_of(document: BisectDocument) -> Panel:
    [chart] = draw_levels(document, document.tested)
    [panel] = chart.panels
    return panel


def rows_of(block: Block) -> list[list[str]]:
    assert isinstance(block, Table)
    return [[cell.text for cell in row] for row in block.rows]


def test_the_drawing_has_the_level_and_the_used_boots_of_each_tested_commit() -> None:
    document = named()
    drawn = [point for series in panel_of(document).series for point in series.points]
    for index, tested in enumerate(document.tested):
        assert tested.level is not None
        [level] = [point for point in drawn if point.x == index]
        expected = (tested.level.mean, tested.level.ci_low, tested.level.ci_high)
        assert (level.y, level.low, level.high) == expected
        assert level.title.startswith(f"{tested.commit.hash[:12]} {tested.commit.subject}: level ")
        used = [boot.value for boot in tested.boots if boot.is_used]
        assert [point.y for point in drawn if point.x == index + BESIDE] == used


def test_each_named_commit_is_marked_before_its_level() -> None:
    commits = make_commits(65)
    document = Search(commits, {20: 0.90, 50: 1.12}, untestable=(19,)).finish()
    panel = panel_of(document)
    tested = [each.commit for each in document.tested]
    assert panel.cuts == tuple(tested.index(commits[cause]) - 0.5 for cause in (20, 50))
    sides = {
        int(point.x): series.side
        for series in panel.series
        for point in series.points
        if point.x.is_integer()
    }
    assert [sides[tested.index(commits[i])] for i in (0, 20, 50, 64)] == [
        "base", "new", "base", "base",
    ]  # fmt: skip
    assert len(sides) == len(tested)


def test_wide_intervals_do_not_compress_the_levels() -> None:
    commits = [Commit(hash=f"{i:040x}", subject="") for i in range(2)]
    search = Search(commits, {})
    search.boots = [(commits[0].hash, value) for value in (1.0, 99.0, 101.0)]
    axis = panel_of(search.judge()).y
    assert axis is not None
    assert 98.0 < axis.low < 99.0
    assert 101.0 < axis.high < 102.0


def test_without_used_boots_nothing_is_drawn() -> None:
    search = Search(COMMITS, {})
    nothing = search.judge()
    assert [*draw_levels(nothing, nothing.tested), *list_tested(nothing, nothing.tested)] == []
    search.boot(COMMITS[0], 1)
    one = search.judge()
    assert [*draw_levels(one, one.tested)] == []
    assert rows_of(next(list_tested(one, one.tested)))[0][3:] == ["1", "-", "-", "-", "-", "-"]


def test_the_table_has_the_numbers_of_the_record() -> None:
    document = named()
    table = next(list_tested(document, document.tested))
    for tested, row in zip(document.tested, rows_of(table), strict=True):
        position, commit, subject, boots, level, interval, _, _, _, result = row
        assert (position, commit) == (str(tested.position), tested.commit.hash[:12])
        assert (subject, boots) == (tested.commit.subject, str(len(tested.boots)))
        assert tested.level is not None
        assert tested.level.ci_low is not None
        assert float(level) == pytest.approx(tested.level.mean, rel=1e-4)
        assert float(interval[1:].split(",")[0]) == pytest.approx(tested.level.ci_low, rel=1e-4)
        assert (result == "first bad commit") == (tested.commit == COMMITS[CAUSE])
    [step] = [row for row in rows_of(table) if row[-1]]
    change = document.tested[[*map(tuple, rows_of(table))].index(tuple(step))].change
    assert change is not None
    assert step[6] == f"{100 * (change.ratio - 1):.1f}%"
    assert step[8] == f"{document.named[0].probability:.3f}"


def test_the_boots_of_a_row_are_listed_with_the_unused_one() -> None:
    document = named()
    [table] = list_tested(document, document.tested)
    assert isinstance(table, Table)
    for [boots] in table.details:
        assert isinstance(boots, Text)
        assert boots.text.count("(not used)") == 1
        assert boots.text.split(", ")[0].endswith(" (not used)")


def test_named_commits_are_listed_with_what_they_explain() -> None:
    document = named()
    table, text = list_named(document)
    [row] = rows_of(table)
    assert row[:2] == [COMMITS[CAUSE].hash[:12], f"sched: change {CAUSE}"]
    assert isinstance(text, Text)
    assert document.change is not None
    assert document.explained is not None
    whole, explained, rest = (
        f"{100 * (ratio - 1):+.1f}%"
        for ratio in (
            document.change.ratio,
            document.explained,
            math.exp(math.log(document.change.ratio) - math.log(document.explained)),
        )
    )
    assert text.text.startswith(f"The named commit explains {explained} of the whole change of ")
    assert f" {whole} [" in text.text
    assert text.text.endswith(f"; {rest} remains unexplained.")


def test_of_an_open_search_only_probable_commits_are_listed() -> None:
    document = Search(COMMITS, {CAUSE: 0.92}).finish(25)
    [table] = list_candidates(document.candidates)
    listed = [float(row[0]) for row in rows_of(table)]
    assert listed == sorted(listed, reverse=True)
    assert 0 < len(listed) < len(document.candidates)
    assert listed[-1] > 0
    assert [*list_candidates(())] == []


def test_untestable_commits_are_listed() -> None:
    document = Search(COMMITS, {CAUSE: 0.92}, untestable=(3, CAUSE)).finish()
    [table] = list_untestable(document)
    assert [row[1] for row in rows_of(table)] == ["sched: change 3", f"sched: change {CAUSE}"]
    assert COMMITS[CAUSE].hash[:12] in rows_of(next(list_named(document)))[0][1]
    assert [*list_untestable(named())] == []


def test_a_long_subject_is_cut() -> None:
    document = named(subject=HOSTILE)
    [row, *_] = rows_of(next(list_tested(document, document.tested)))
    assert row[2] == cut(f"{HOSTILE} 0", LONGEST_SUBJECT)


def test_the_answer_is_first_and_no_text_is_markup() -> None:
    document = named(subject=HOSTILE)
    facts = [("first bad commit", f"a ({HOSTILE})"), ("boots", "43"), ("", "continued")]
    page = draw_bisect_page(document, facts, path="<b>.csv", tool_version="1")
    body = page.partition("<main>")[2]
    assert body.index("first bad commit") < body.index("boots: 43") < body.index("Levels")
    assert ">continued<" in body
    assert "<img" not in page
    assert "<b>.csv" not in page
    assert not {"\x1b", "\u202e"} & {*page}


def test_the_levels_of_a_merged_branch_are_drawn_with_its_named_commit() -> None:
    document = in_a_branch()
    [branch] = document.branches
    [step] = document.named
    for tested, marked in ((document.tested, COMMITS[CAUSE]), (branch.tested, step.commits[-1])):
        [chart] = draw_levels(document, tested)
        [cut] = chart.panels[0].cuts
        assert tested[int(cut + 0.5)].commit == marked
        assert marked.hash[:12] in chart.caption
    page = draw_bisect_page(document, [("first bad commit", "a")], path="", tool_version="1")
    assert f"Merged branch {branch.bad.hash[:12]}" in page
