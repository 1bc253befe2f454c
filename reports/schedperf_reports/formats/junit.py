# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the results as JUnit XML, which CI systems show as tests.

Each row is a test. Only primary rows can fail one, because only they decide the exit status: a
regression is a failure, an invalid row is an error, and an inconclusive row is skipped. Any other
row with one of these verdicts is also skipped, so that it is visible but fails nothing. Two tests
of a side belong to no row: ``comparable``, which is an error if there are blocking differences from
base, and ``verdict``, which a side without primary rows has: the verdict of the comparison.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree as ET

from msgspec import Struct

from schedperf.model.base_new import FIRST_NEW
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row, Verdict
from schedperf.model.sides import SideSummary
from schedperf_reports.formats import Options, output_format
from schedperf_reports.verdict.comparable import name_kernel
from schedperf_reports.words.clean import clean
from schedperf_reports.words.rows import describe_change, name_with_role

# Maximum length of a name, and of a text.
LONGEST_NAME = 300
LONGEST_TEXT = 2000

# XML 1.0 cannot represent these characters; controls and surrogates are removed anyway.
_NO_XML = re.compile("[\ufffe\uffff]")

# The element of a test that does not pass; a test without one passes.
ELEMENTS: Mapping[Verdict, str] = {
    "regression": "failure",
    "invalid": "error",
    "inconclusive": "skipped",
}
# The attributes of a suite that count these elements; the root has no `skipped`.
COUNTS: Mapping[str, str] = {"failures": "failure", "errors": "error", "skipped": "skipped"}


@output_format("junit", drawings="never")
def junit(comparison: Comparison, _options: Options) -> str:
    """Return JUnit XML for CI systems: a test per result, a regression is a failure."""
    suites = ET.Element("testsuites", name="schedperf compare")
    for side in comparison.sides[1:]:
        suite = _add(suites, "testsuite", name=_name(name_with_role(side)))
        _describe(comparison, side, suite)
        for case in _cases(comparison, side):
            suite.append(case)
        _count(suite, COUNTS)
    _count(suites, {name: COUNTS[name] for name in ("failures", "errors")})
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of a test.

    :param element: name of its XML element; None if the test passes
    """

    element: str | None
    verdict: Verdict
    reason: str


def _cases(comparison: Comparison, side: SideSummary) -> Iterator[ET.Element]:
    rows = [row for row in comparison.rows if row.side == side.name]
    yield _case(side, "schedperf", "comparable", _is_comparable(comparison, side))
    if not any(row.family == "primary" for row in rows):
        verdict, reason = comparison.overall.verdict, comparison.overall.reason
        outcome = Outcome(element=ELEMENTS.get(verdict), verdict=verdict, reason=reason)
        yield _case(side, "schedperf", "verdict", outcome)
    for row in rows:
        name = f"{row.metric} at {row.point}" if row.point else row.metric
        case = _case(side, row.workload, name, _outcome_of(row))
        lines = [f"{row.verdict}: {describe_change(row)}", *(each.text for each in row.caveats)]
        _add(case, "system-out").text = "\n".join(map(_text, lines))
        yield case


def _is_comparable(comparison: Comparison, side: SideSummary) -> Outcome:
    blocking = [
        f"{each.path}: {each.base!r} in base, {each.new!r} in {each.side} ({each.reason})"
        for each in comparison.comparability.differences
        if each.severity == "blocking" and each.side == side.name
    ]
    element = "error" if blocking else None
    return Outcome(element=element, verdict="invalid", reason="; ".join(blocking))


def _outcome_of(row: Row) -> Outcome:
    element = ELEMENTS.get(row.verdict)
    if row.family == "primary" or element is None:
        return Outcome(element=element, verdict=row.verdict, reason=row.reason)
    reason = f"{row.reason} ({row.family}: not used for the verdict)"
    return Outcome(element="skipped", verdict=row.verdict, reason=reason)


def _case(side: SideSummary, group: str, name: str, outcome: Outcome) -> ET.Element:
    """Return a test as an XML element.

    CI systems that ignore suites identify a test by class and name, so the class names the side,
    unless it is the first new one.

    :param group: the workload; "schedperf" for a test that belongs to no row
    """
    prefix = "" if side.name == FIRST_NEW else f"{side.name}: "
    case = ET.Element("testcase", classname=_name(f"{prefix}{group}"), name=_name(name))
    if outcome.element is not None:
        element = _add(case, outcome.element)
        element.set("message", _text(f"{outcome.verdict}: {outcome.reason}"))
        if outcome.element != "skipped":
            element.set("type", outcome.verdict)
    return case


def _describe(comparison: Comparison, side: SideSummary, suite: ET.Element) -> None:
    properties = _add(suite, "properties")
    values = {"schedperf": comparison.tool_version, "comparison": comparison.id}
    for each in (comparison.sides[0], side):
        values[f"{each.name} file"] = each.path
        values[f"{each.name} digest"] = each.digest
        values[f"{each.name} kernel"] = name_kernel(each) or ""
    for name, value in values.items():
        if value:
            _add(properties, "property", name=_name(name), value=_name(value))


def _count(element: ET.Element, counts: Mapping[str, str]) -> None:
    cases: Sequence[ET.Element] = [*element.iter("testcase")]
    element.set("tests", str(len(cases)))
    for attribute, name in counts.items():
        element.set(attribute, str(sum(case.find(name) is not None for case in cases)))


def _add(parent: ET.Element, tag: str, **attributes: str) -> ET.Element:
    return ET.SubElement(parent, tag, attributes)


def _name(text: str) -> str:
    return clean(_NO_XML.sub("", text), limit=LONGEST_NAME)


def _text(text: str) -> str:
    return clean(_NO_XML.sub("", text), limit=LONGEST_TEXT)
