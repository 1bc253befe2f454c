"""Analyses without data are one list behind the others, and nothing is lost by that."""

from collections.abc import Callable

import pytest

from schedperf.model import Comparison, Section, SectionStatus
from schedperf_reports.blocks import Items, Text
from schedperf_reports.formats import Options, all_formats
from schedperf_reports.sections import all_report_sections, shown_sections

Make = Callable[..., Comparison]

ANALYSES = [section.name for section in all_report_sections() if section.is_analysis]


def section(status: SectionStatus, reason: str | None) -> Section:
    return Section(schema="schedperf/section/x/1", status=status, reason=reason, data=None)


def names(comparison: Comparison) -> list[str]:
    return [one.name for one in shown_sections(comparison)]


def test_every_analysis_of_the_report_is_told_to_be_one() -> None:
    assert set(ANALYSES) == {
        "counters", "placement", "schedstat", "pelt", "system_counters", "layout", "c2c",
        "profile", "probe_effect",
    }  # fmt: skip


def test_absent_analyses_are_one_list_behind_the_others(make_comparison: Make) -> None:
    reasons = {name: section("absent", f"no {name}") for name in ANALYSES}
    reasons["pelt"] = section("failed", "KeyError: 'calls'")
    comparison = make_comparison(sections=reasons)
    shown = names(comparison)
    assert shown[:3] == ["verdict", "benchmarks", "findings"]
    # What failed has its heading: it was asked for.
    assert shown[3:5] == ["pelt", "absent"]
    assert "environment" in shown[5:]
    [absent] = [one for one in shown_sections(comparison) if one.name == "absent"]
    [listed] = absent.describe(comparison)
    assert isinstance(listed, Items)
    assert [item.text for item in listed.items] == [
        f"{one.title}: no {one.name}"
        for one in all_report_sections()
        if one.is_analysis and one.name != "pelt"
    ]


def test_one_reason_for_all_is_one_line(make_comparison: Make) -> None:
    comparison = make_comparison(sections={})
    [absent] = [one for one in shown_sections(comparison) if one.name == "absent"]
    [text] = absent.describe(comparison)
    assert isinstance(text, Text)
    assert text.text.startswith("Counters; Where tasks went; ")
    assert text.text.endswith("; Probe effect: not analysed")


def test_where_everything_failed_nothing_is_absent(make_comparison: Make) -> None:
    failed = {name: section("failed", "KeyError: 'x'") for name in ANALYSES}
    comparison = make_comparison(sections=failed)
    assert shown_sections(comparison) == all_report_sections()


@pytest.mark.parametrize("name", ["terminal", "html"])
def test_formats_name_what_is_absent_once(name: str, make_comparison: Make) -> None:
    comparison = make_comparison(sections={"pelt": section("absent", "no run was recorded")})
    text = all_formats()[name].render(comparison, Options(width=200, colour=False, see="--json"))
    assert text.count("PELT updates") == 1
    assert "PELT updates: no run was recorded" in text
    assert "Not in this report" in text
