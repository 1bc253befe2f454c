# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of a comparison: its first screen, all of it, and what strangers write into it."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf_reports.formats import Options, find_format
from schedperf_reports.formats.text import text
from schedperf_reports.sections import all_report_sections
from schedperf_reports.text.brief import shorten
from schedperf_reports.text.report import plain_blocks
from tests.reports.comparison_records import overall_of

Make = Callable[..., Comparison]

COLOUR_CODES = re.compile(r"\x1b\[[0-9;]*m")
BOX_DRAWING = re.compile("[\u2500-\u257f]")


def draw(
    comparison: Comparison, width: int = 78, *, colour: bool = False, everything: bool = False
) -> str:
    return text(comparison, Options(width=width, colour=colour, everything=everything))


def test_the_verdict_is_the_first_line_and_the_exit_status_the_last(make_comparison: Make) -> None:
    lines = draw(make_comparison()).splitlines()
    assert lines[:2] == [
        "regression (mixed, this boot only): 1 of 4 results regressed: hackbench time",
        "at groups=4 +37.2% [+35.0%, +39.5%] (n = 5+5 runs, lower is better); 1 of 4",
    ]
    assert lines[-1] == "overall: regression, exit status 1"


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("width", [40, 60, 70, 78, 100, 200])
def test_no_line_is_wider_than_the_terminal(
    make_comparison: Make, width: int, *, everything: bool
) -> None:
    drawn = draw(make_comparison(), width, everything=everything)
    assert max(map(cell_len, drawn.splitlines())) <= width


def test_a_terminal_that_is_narrower_than_40_columns_gets_40(make_comparison: Make) -> None:
    assert draw(make_comparison(), 10) == draw(make_comparison(), 40)


@pytest.mark.parametrize(
    ("width", "missed"),
    [
        (84, ""),
        (78, "n"),
        (74, "n"),
        # base and new stay longer than what is the same, or nearly so, in all rows.
        (70, "new, n"),
        (60, "unit, base, new, n"),
        (55, "unit, base, new, n"),
        (46, "unit, base, new, 95% CI, n"),
        (40, "unit, base, new, 95% CI, n"),
    ],
)
def test_the_word_of_a_verdict_stays_whole_where_columns_go(
    make_comparison: Make, width: int, missed: str
) -> None:
    rows = make_comparison().rows
    # What all rows say is said once, which would hide that the numbers of runs go first.
    comparison = make_comparison(rows=(replace(rows[0], n_base=4), *rows[1:]))
    told = draw(comparison, width).partition("\nBenchmarks\n")[2].partition("\n\n")[0]
    last_words = [line.split()[-1] for line in told.splitlines()]
    verdicts = ("no-change", "regression", "inconclusive", "improvement")
    assert [word for word in last_words if word in verdicts] == list(verdicts)
    assert " ".join(told.split()).partition("columns not shown at this width: ")[2] == missed


def test_base_and_new_stay_where_all_rows_share_unit_and_n(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    rows = tuple(
        make_row(metric=f"hackbench time {name}", point="", base=base)
        for name, base in (("p", 0.612), ("sockets", 0.723))
    )
    told = draw(make_comparison(rows=rows, sweeps=()), 72).partition("\nBenchmarks\n")[2]
    caption, _, table = told.partition("  result")
    assert "in all rows: unit ms, n 5+5" in " ".join(caption.split())
    assert table.splitlines()[0].split()[:3] == ["base", "new", "change"]
    assert "columns not shown at this width" not in told


def test_everything_has_each_finding_once_in_full(make_comparison: Make) -> None:
    first, *others = make_comparison().findings
    long = replace(
        first, clause="number 1", details=f"; {'and more ' * 30}end", evidence=("benchmarks",)
    )
    comparison = make_comparison(findings=(long, *others))
    drawn = " ".join(draw(comparison, 200, everything=True).split())
    for found in comparison.findings:
        assert drawn.count(found.claim) == 1
    assert "findings in full" not in drawn
    # Evidence is named as its section is headed, in full lists too.
    assert "see Benchmarks" in drawn
    assert "see benchmarks" not in drawn
    brief = " ".join(draw(comparison, 200).split())
    assert long.claim not in brief
    assert "number 1" in brief


@pytest.mark.parametrize("width", [60, 78, 200])
def test_hostile_texts_change_no_width_and_drive_no_terminal(
    make_comparison: Make, replace_texts: Callable[[Comparison, str], Comparison], width: int
) -> None:
    hostile = "\x1b]0;pwned\x07\u202e[red]x[/red]\r\n" + "a b " * 2500 + "c" * 5000
    hostiles = replace_texts(make_comparison(), hostile)
    drawn = draw(hostiles, width) + draw(hostiles, width, everything=True)
    assert max(map(cell_len, drawn.splitlines())) <= width
    assert not set(drawn) & set("\x1b\x07\r\u202e")
    assert "[red]x[/red]" in drawn


COMMANDS = "::add-mask::\N{FULLWIDTH NUMBER SIGN}##[add-mask] \u2003:::error::##\0vso[x] " * 40


@pytest.mark.parametrize("name", ["text", "lkml", "markdown", "mmtests"])
def test_no_line_is_a_command_of_a_ci_system(
    name: str, make_comparison: Make, replace_texts: Callable[[Comparison, str], Comparison]
) -> None:
    options = Options(width=78, colour=False, everything=True)
    drawn = find_format(name).render(replace_texts(make_comparison(), COMMANDS), options)
    assert "add-mask" in drawn
    # GitHub ignores all blanks at the beginning of a line.
    assert not [line for line in drawn.splitlines() if line.strip().startswith("::")]
    assert not re.findall(r"##\w*\[", drawn)


def test_colour_adds_codes_and_changes_no_text(make_comparison: Make) -> None:
    plain, coloured = (draw(make_comparison(), colour=colour) for colour in (False, True))
    assert "\x1b" not in plain
    assert "\x1b" in coloured
    stripped = [line.rstrip() for line in COLOUR_CODES.sub("", coloured).splitlines()]
    assert stripped == plain.splitlines()


def test_piped_output_has_no_box_drawing(make_comparison: Make) -> None:
    assert not BOX_DRAWING.search(draw(make_comparison(), everything=True))


def test_the_environment_has_no_second_opinion_on_colour(
    make_comparison: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: dict[bool, Any] = {
        colour: draw(make_comparison(), colour=colour) for colour in (False, True)
    }
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "33")
    assert draw(make_comparison()) == wanted[False]
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("NO_COLOR", "1")
    assert draw(make_comparison(), colour=True) == wanted[True]


def test_the_first_screen_of_a_large_comparison_is_one_screen(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    verdicts = ["regression", "inconclusive", *["no-change"] * 59]
    rows = tuple(
        make_row(metric=f"test {number} time", point="", verdict=verdict, reason="why")
        for number, verdict in enumerate(verdicts)
    )
    lines = draw(make_comparison(rows=rows, sweeps=())).splitlines()
    assert len(lines) <= 45
    assert any("59 more unchanged (list: --all)" in line for line in lines)
    assert lines[-2] == "--all prints the full report; --html FILE writes a page with charts"
    everything = draw(make_comparison(rows=rows, sweeps=()), everything=True)
    assert len(everything.splitlines()) > len(lines)
    assert "test 33 time" in everything
    assert "test 33 time" not in "\n".join(lines)


def test_everything_cuts_nothing_and_names_what_a_text_has_not(make_comparison: Make) -> None:
    drawn = draw(make_comparison(), everything=True)
    assert " more, see " not in drawn
    assert drawn.splitlines()[-2] == (
        "charts, long tables and some columns are only in the HTML page (--html FILE)"
    )


@pytest.mark.parametrize("everything", [False, True])
def test_no_evidence_is_named_as_an_anchor(make_comparison: Make, *, everything: bool) -> None:
    comparison = make_comparison()
    absent = {
        name: replace(found, status="absent", reason="not recorded", data=None)
        for name, found in comparison.sections.items()
    }
    drawn = draw(replace(comparison, sections=absent), everything=everything)
    assert "absent-" not in drawn
    assert ("not in this report]" in " ".join(drawn.split())) == everything


def test_why_and_what_next_stand_behind_the_results(make_comparison: Make) -> None:
    titles = {section.name: section.title for section in all_report_sections()}
    lines = draw(make_comparison()).splitlines()
    assert lines.index(titles["benchmarks"]) < lines.index(titles["findings"])


def test_what_the_table_below_says_is_not_told_above_it(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    rows = (make_row(family="informational", verdict="inconclusive", ci_low=0.9, ci_high=1.2),)
    comparison = make_comparison(
        rows=rows,
        sweeps=(),
        overall=overall_of("inconclusive", "no result can decide: x", 0),
    )
    brief, everything = (draw(comparison, everything=whole) for whole in (False, True))
    assert "not used for the verdict" in everything
    assert "not used for the verdict" not in brief
    assert "[-10.0%, +20.0%]" in brief


@pytest.mark.parametrize("example", ["deep-cgroup", "cluster-percpu"])
def test_the_first_screen_leaves_out_no_section_that_has_something_for_it(
    compared_example: Callable[[str], Comparison], example: str
) -> None:
    comparison = compared_example(example)
    shown = {
        section.name
        for section in all_report_sections()
        if list(shorten(plain_blocks(section.describe(comparison)), see=""))
    }
    assert "verdict" in shown
    assert shown <= {section.name for section in all_report_sections() if section.is_brief}
