# SPDX-License-Identifier: GPL-2.0-or-later
"""JUnit XML: well-formed whatever texts are, and only primary rows fail a test."""

from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.sides import SideSummary
from schedperf_reports.formats import Options
from schedperf_reports.formats.junit import junit

Make = Callable[..., Comparison]

OPTIONS = Options(width=78, colour=False)


def parse(comparison: Comparison) -> ET.Element:
    return ET.fromstring(junit(comparison, OPTIONS).encode())  # noqa: S314 # our own text


def outcomes(comparison: Comparison) -> list[str]:
    """Return how each test of a result ends."""
    cases = parse(comparison).iter("testcase")
    ends = [[child.tag for child in case if child.tag != "system-out"] for case in cases]
    return ["".join(tags) or "passed" for tags in ends][1:]


@pytest.mark.parametrize(
    ("verdict", "primary", "secondary"),
    [
        ("regression", "failure", "skipped"),
        ("invalid", "error", "skipped"),
        ("inconclusive", "skipped", "skipped"),
        ("no-change", "passed", "passed"),
        ("improvement", "passed", "passed"),
    ],
)
def test_only_primary_rows_fail(
    make_comparison: Make, make_row: Callable[..., Row], verdict: str, primary: str, secondary: str
) -> None:
    row = replace(make_row(), verdict=verdict)
    rows = (row, replace(row, metric="other", family="secondary"))
    comparison = make_comparison(rows=rows)
    assert outcomes(comparison) == [primary, secondary]
    root = parse(comparison)
    assert root.attrib["tests"] == "3"
    ends = [primary, secondary]
    for attribute, end in (("failures", "failure"), ("errors", "error")):
        assert root.attrib[attribute] == root[0].attrib[attribute] == str(ends.count(end))
    assert root[0].attrib["skipped"] == str(ends.count("skipped"))
    # Schemas do not allow it there.
    assert "skipped" not in root.attrib


def test_a_comparison_without_primary_rows_has_a_test_for_the_verdict(
    make_comparison: Make,
) -> None:
    comparison = make_comparison(rows=())
    overall = replace(comparison.overall, verdict="invalid", reason="no run")
    [_, case] = parse(replace(comparison, overall=overall)).iter("testcase")
    assert case.attrib["name"] == "verdict"
    error = case.find("error")
    assert error is not None
    assert error.attrib == {"message": "invalid: no run", "type": "invalid"}


def test_each_side_has_a_suite_and_its_own_names(
    make_comparison: Make, make_row: Callable[..., Row], make_side: Callable[..., SideSummary]
) -> None:
    row = make_row()
    sides = tuple(make_side(name) for name in ("base", "new", "new2"))
    comparison = make_comparison(rows=(row, replace(row, side="new2")), sides=sides)
    root = parse(comparison)
    assert [suite.attrib["name"] for suite in root] == ["new", "new2"]
    names = [(case.attrib["classname"], case.attrib["name"]) for case in root.iter("testcase")]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "text",
    ["]]>", "<failure/>", "&lt;&#0;", "\"'", "\x00\x01\x1b", "\ufffe\uffff", "\ud800", "\r\n\t"],
)
def test_hostile_texts_are_text(
    make_comparison: Make, replace_texts: Callable[[Comparison, str], Comparison], text: str
) -> None:
    expected = {(each.tag, *sorted(each.attrib)) for each in parse(make_comparison()).iter()}
    root = parse(replace_texts(make_comparison(), f"x{text}y"))
    assert {(each.tag, *sorted(each.attrib)) for each in root.iter()} <= expected


def test_a_megabyte_in_every_field_becomes_a_small_file(
    make_comparison: Make, replace_texts: Callable[[Comparison, str], Comparison]
) -> None:
    assert len(junit(replace_texts(make_comparison(), "m" * 1_000_000), OPTIONS)) < 200_000
