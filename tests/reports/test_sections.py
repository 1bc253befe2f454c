# SPDX-License-Identifier: GPL-2.0-or-later
"""Analyses without data are one list behind the others, and nothing is lost by that."""

from collections.abc import Callable

import pytest

from schedperf.evidence import all_sections
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section, SectionStatus
from schedperf_reports.blocks import Items, Text
from schedperf_reports.formats import Options, all_formats
from schedperf_reports.sections import CHAPTERS, all_report_sections, shown_sections

Make = Callable[..., Comparison]

ANALYSES = [section.name for section in all_report_sections() if section.is_analysis]


def section(status: SectionStatus, reason: str | None) -> Section:
    return Section(schema="schedperf/section/x/1", status=status, reason=reason, data=None)


def names(comparison: Comparison) -> list[str]:
    return [one.name for one in shown_sections(comparison)]


def test_every_analysis_of_the_report_is_told_to_be_one() -> None:
    shown = {one.name for one in all_report_sections()}
    assert set(ANALYSES) == shown & all_sections().keys()


def test_the_scheduler_and_memory_have_their_sections_in_order() -> None:
    order = ["schedstat", "placement", "pelt", "system_counters", "counters", "layout", "c2c"]
    inner = [one.name for one in all_report_sections() if one.chapter in {"scheduler", "memory"}]
    assert [name for name in inner if name in order] == order


@pytest.mark.parametrize("name", sorted(set(ANALYSES) - {"c2c", "probe_effect"}))
def test_an_analysis_without_data_is_one_muted_line_that_says_why(
    name: str, make_comparison: Make
) -> None:
    [analysis] = [one for one in all_report_sections() if one.name == name]
    for sections, why in (
        ({}, "not analysed"),
        ({name: section("absent", "no perf")}, "no perf"),
    ):
        blocks = list(analysis.describe(make_comparison(sections=sections)))
        assert blocks == [Text(text=why, tone="muted")]


def test_absent_analyses_are_one_list_at_the_end_of_their_chapter(make_comparison: Make) -> None:
    reasons = {name: section("absent", f"no {name}") for name in ANALYSES}
    reasons["pelt"] = section("failed", "KeyError: 'calls'")
    comparison = make_comparison(sections=reasons)
    shown = names(comparison)
    assert shown[:5] == ["verdict", "findings", "next_steps", "evidence", "benchmarks"]
    assert shown[-5:] == ["absent-memory", "environment", "caveats", "absent-environment", "raw"]
    scheduler = [one for one in shown_sections(comparison) if one.chapter == "scheduler"]
    # What failed has its heading: it was asked for.
    assert [one.name for one in scheduler] == ["pelt", "absent-scheduler"]
    assert [one.is_absent for one in scheduler] == [False, True]
    [listed] = scheduler[1].describe(comparison)
    assert isinstance(listed, Items)
    assert [item.text for item in listed.items] == [
        f"{one.title}: no {one.name}"
        for one in all_report_sections()
        if one.is_analysis and one.name != "pelt" and one.chapter == "scheduler"
    ]


def test_reasons_that_name_collectors_share_a_line(make_comparison: Make) -> None:
    analyses = ("pelt", "placement", "energy")
    sections = {
        name: section("absent", f"no run of base was recorded with {name}") for name in analyses
    }
    sections["locks"] = section("absent", "locks of base: no BTF")
    comparison = make_comparison(sections=sections | {"c2c": section("absent", "no samples")})
    [absent] = [one for one in shown_sections(comparison) if one.name == "absent-scheduler"]
    [listed] = absent.describe(comparison)
    assert isinstance(listed, Items)
    texts = [item.text for item in listed.items]
    shared = "Task placement; PELT updates; Energy: no run of base was recorded with "
    assert f"{shared}placement, pelt, energy" in texts
    assert "Kernel locks: locks of base: no BTF" in texts


def test_one_reason_for_all_is_one_line(make_comparison: Make) -> None:
    comparison = make_comparison(sections={})
    [absent] = [one for one in shown_sections(comparison) if one.name == "absent-memory"]
    [text] = absent.describe(comparison)
    assert isinstance(text, Text)
    assert text.text == "Cache lines; Bouncing cache lines: not analysed"


def test_what_the_recordings_are_not_about_is_not_mentioned(make_comparison: Make) -> None:
    comparison = make_comparison(sections={"load": section("not-applicable", "no load")})
    assert "load" not in names(comparison)
    for name, form in all_formats().items():
        if name in {"text", "html", "lkml", "markdown"}:
            assert "Load beside the workload" not in form.render(
                comparison, Options(width=200, colour=False)
            )


def test_chapters_come_in_the_order_of_the_report(make_comparison: Make) -> None:
    chapters = [one.chapter for one in shown_sections(make_comparison())]
    assert chapters == sorted(chapters, key=list(CHAPTERS).index)


def test_where_everything_failed_nothing_is_absent(make_comparison: Make) -> None:
    failed = {name: section("failed", "KeyError: 'x'") for name in ANALYSES}
    comparison = make_comparison(sections=failed)
    assert shown_sections(comparison) == all_report_sections()


@pytest.mark.parametrize("name", ["text", "html"])
def test_formats_name_what_is_absent_once(name: str, make_comparison: Make) -> None:
    comparison = make_comparison(sections={"pelt": section("absent", "no run was recorded")})
    options = Options(width=200, colour=False, see="--json", everything=True)
    text = all_formats()[name].render(comparison, options)
    assert text.count("PELT updates: ") == 1
    assert "PELT updates: no run was recorded" in text
    assert "not in this report" in text
