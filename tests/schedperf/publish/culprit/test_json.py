# SPDX-License-Identifier: GPL-2.0-or-later
"""The record about a first bad commit as JSON; damaged and contradictory ones are refused."""

import json
from functools import reduce
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedperf.model.errors import BundleError
from schedperf.model.schema import document_schema
from schedperf.publish.culprit.json import MOST_BYTES, read_culprit, write_culprit
from schedperf.publish.culprit.record import (
    Bisection,
    BisectionStep,
    Commit,
    Culprit,
    Elsewhere,
    Measured,
    Retest,
    Revert,
    Trailer,
    Tree,
)

PUBLISHED = Path(__file__).parents[4] / "docs" / "schema" / "culprit-1.schema.json"
FOUND, RETESTED, ELSEWHERE = ("a" * 64, "b" * 64, "c" * 64)
GOOD, BAD = ("1" * 40, "2" * 40)


def whole() -> Culprit:
    return Culprit(
        good=Commit(commit=GOOD, subject="sched: before"),
        bad=Commit(
            commit=BAD,
            subject='sched/fair: "quote" <tag> \u00e9',
            author="A. Author <a@example.org>",
            trailers=(Trailer(name="Signed-off-by", value="A. Author <a@example.org>"),),
            links=("https://lore.kernel.org/r/1@example.org",),
        ),
        is_range=False,
        benchmark="hackbench",
        tree=Tree(name="tip/sched/core", commit="3" * 40),
        merged=True,
        main=Measured(comparison=RETESTED, side="new2", before="new"),
        comparisons=(RETESTED, FOUND, ELSEWHERE),
        retest=Retest(result=Measured(comparison=RETESTED), found=FOUND),
        bisection=Bisection(
            good=GOOD,
            bad=BAD,
            steps=(BisectionStep(commit=BAD, boots=2, probability=0.99),),
            builds=3,
            boots=12,
            probability=0.996,
            neighbours_tested=True,
        ),
        revert=Revert(impossible="conflicts with 333333333333"),
        regressed_on=(
            Elsewhere(result=Measured(comparison=ELSEWHERE), machine="1-socket, 64-CPU EPYC"),
        ),
    )


def test_what_is_parsed_is_the_record_that_was_written() -> None:
    content = write_culprit(whole())
    assert content.isascii()
    assert read_culprit(content, "c.json") == whole()
    assert write_culprit(read_culprit(content, "c.json")) == content


def test_the_published_schema_is_the_records() -> None:
    found = json.loads(PUBLISHED.read_text())
    assert found == json.loads(json.dumps(document_schema(Culprit))), (
        f"{PUBLISHED.name} is out of date; write it with: "
        "python -m schedperf.model.schema schedperf.publish.culprit.record:Culprit "
        f"> docs/schema/{PUBLISHED.name}"
    )
    jsonschema_rs.meta.validate(found)
    jsonschema_rs.validate(found, json.loads(write_culprit(whole())))


@pytest.mark.parametrize("digits", [40, 64])
def test_the_description_of_a_hash_names_its_lengths(digits: int) -> None:
    document = json.loads(write_culprit(whole()))
    document["tree"]["commit"] = "a" * digits
    read = read_culprit(json.dumps(document).encode(), "c.json")
    assert read.tree is not None
    assert read.tree.commit == "a" * digits
    described = document_schema(Culprit)["$defs"]["Commit"]["properties"]["commit"]  # type: ignore[index]
    assert str(digits) in described["description"]


def test_unknown_fields_are_ignored() -> None:
    document: Any = json.loads(write_culprit(whole()))
    document["tomorrow"] = document["bad"]["tomorrow"] = 1
    assert read_culprit(json.dumps(document).encode(), "c.json") == whole()


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("schema", "schedperf/culprit/2", '$.schema is "schedperf/culprit/2" (expected "sched'),
        ("bad", None, "$.bad is null (expected object, got null)"),
        ("bad.commit", "2" * 12, '$.bad.commit is "222222222222" (expected str matching regex'),
        ("bad.commit", "../../../etc", '$.bad.commit is "../../../etc" (expected str matching'),
        ("bad.commit", GOOD, f'$.bad.commit is "{GOOD}" (expected another commit than $.good)'),
        ("bad.subject", "x\r\nBcc: y", '$.bad.subject is "x\\r\\nBcc: y" (expected one line'),
        ("bad.subject", "\u202ex", '$.bad.subject is "\\u202ex" (expected one line without'),
        ("bad.subject", "x" * 10_240, "$.bad.subject has 10240 characters (expected at most"),
        ("bad.trailers.0.value", "a\0", '$.bad.trailers[0].value is "a\\u0000" (expected one'),
        ("comparisons", [], "$.comparisons does not begin with $.main.comparison"),
        ("comparisons", [RETESTED], f"$.comparisons does not list {FOUND}, which is referred to"),
        ("comparisons", [RETESTED] * 2, "$.comparisons lists a comparison twice"),
        ("retest.found", RETESTED, "$.retest.found is the retest itself (expected the comparison"),
        ("main.comparison", "x", '$.main.comparison is "x" (expected str matching regex'),
        ("bisection.probability", 1.5, "$.bisection.probability is 1.5 (expected float <= 1.0)"),
        ("bisection.boots", -1, "$.bisection.boots is -1 (expected int >= 0)"),
        ("regressed_on", {}, "$.regressed_on is {} (expected array, got object)"),
        ("checks", [{}], "$.checks[0].name is missing"),
        ("links.page", "javascript:x", '$.links.page is "javascript:x" (expected r/'),
        ("links.page", "r/00000000/", '$.links.page is "r/00000000/" (expected r/'),
        ("links.posted", "a@b@c", '$.links.posted is "a@b@c" (expected a Message-ID)'),
        ("links.report", "<a@b> <c@d>", '$.links.report is "<a@b> <c@d>" (expected a Message-ID)'),
    ],
)
def test_a_damaged_record_is_one_line(path: str, value: object, problem: str) -> None:
    document: Any = json.loads(write_culprit(whole()))
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    reduce(lambda part, step: part[step], steps, document)[last] = value
    with pytest.raises(BundleError) as caught:
        read_culprit(json.dumps(document).encode(), "c.json")
    message = str(caught.value)
    assert message.startswith(f"c.json: {problem}")
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"\x00", b"[" * 9999, b" " * MOST_BYTES * 2]
)
def test_what_is_no_record_is_one_line(content: bytes) -> None:
    with pytest.raises(BundleError, match=r"\Ac\.json: [^\n]+\Z"):
        read_culprit(content, "c.json")


def test_a_truncated_file_is_one_line() -> None:
    content = write_culprit(whole())
    for end in range(0, len(content) - 1, 37):
        with pytest.raises(BundleError, match=r"\Ac\.json: [^\n]+\Z"):
            read_culprit(content[:end], "c.json")


@settings(max_examples=150, derandomize=True)
@given(
    steps=st.lists(st.integers(0, 30), min_size=1, max_size=4),
    value=st.sampled_from([None, True, -1, 0.5, "", "\r\n\u202e\x00", [], {}, [[]], {"": None}]),
)
def test_any_change_is_read_or_one_line(steps: list[int], value: object) -> None:
    document: Any = json.loads(write_culprit(whole()))
    part, parent, key = document, document, "good"
    for step in steps:
        if not part:
            break
        parent, key = (
            part,
            [*(part if isinstance(part, dict) else range(len(part)))][step % len(part)],
        )
        part = part[key] if isinstance(part[key], dict | list) else None
    parent[key] = value
    problem = ""
    try:
        write_culprit(read_culprit(json.dumps(document).encode(), "c.json"))
    except BundleError as error:
        problem = str(error)
    assert len(problem.splitlines()) <= 1


def test_the_key_of_a_range_is_another_than_that_of_its_bad_end() -> None:
    one = whole()
    document: Any = json.loads(write_culprit(one))
    document["is_range"] = True
    other = read_culprit(json.dumps(document).encode(), "c.json")
    assert other.key != one.key
    assert other.id == one.id == BAD[:12]
