# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparisons are parsed from the JSON that ``compare`` prints; damaged ones are refused."""

import json
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedperf.compare.bundles import compare_bundles
from schedperf.compare.json import MOST_BYTES, MOST_VALUES, read_comparison
from schedperf.evidence.probe_effect.record import ProbeEffect
from schedperf.inputs.bundle.json import MOST_JSON_VALUES
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.errors import BundleError
from schedperf.model.json_text import to_json
from schedperf.model.schema import to_plain


@pytest.fixture
def printed(make_bundle: Callable[..., Path], tmp_path: Path) -> Any:
    """Return the JSON document of a comparison of three sides, one of them emulated."""
    sides: list[dict[str, Any]] = [
        {},
        {"runs": [{"kind": "instrumented"}, {}]},
        {"runs": 4, "host": {"virtualisation": {"kind": "qemu", "emulated": True}}},
    ]
    paths = [make_bundle(tmp_path / f"{index}.tar", **side) for index, side in enumerate(sides)]
    return json.loads(to_json(compare_bundles([open_bundle(path) for path in paths])))


def read(document: object) -> Any:
    return read_comparison(json.dumps(document).encode(), "a.json")


def test_what_is_parsed_is_the_record_that_was_printed(printed: Any) -> None:
    comparison = read(printed)
    assert to_plain(comparison) == printed
    assert comparison.sides[2].name == "new2"
    assert [caveat.code for caveat in comparison.caveats]


def test_a_section_has_its_own_type(printed: Any) -> None:
    assert printed["sections"]["probe_effect"]["status"] == "ok"
    data = read(printed).section(ProbeEffect)
    assert isinstance(data, ProbeEffect)
    assert to_plain(data) == printed["sections"]["probe_effect"]["data"]


def test_unknown_fields_and_sections_are_ignored(printed: Any) -> None:
    later = json.loads(json.dumps(printed))
    later["tomorrow"] = later["rows"][0]["tomorrow"] = 1
    later["sections"]["tomorrow"] = {"schema": "x/1", "status": "ok", "reason": None, "data": {}}
    assert to_plain(read(later)) == printed


def test_a_section_of_another_version_is_absent(printed: Any) -> None:
    printed["sections"]["probe_effect"]["schema"] = "schedperf/section/probe_effect/9"
    section = read(printed).sections["probe_effect"]
    assert section.data is None
    assert (section.status, section.reason) == (
        "absent",
        "recorded as schedperf/section/probe_effect/9",
    )


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("schema", "schedperf/compare/9",
         '$.schema is "schedperf/compare/9" (expected "schedperf/compare/2"); use the version'),
        ("id", "../../etc/passwd", r"$.id is "),
        ("id", "a" * 64 + "\n", r"$.id is "),
        ("sides", [], "$.sides has the names [] (expected base, new, new2 ...)"),
        ("sides.1.name", "base", '$.sides has the names ["base", "base", "new2"] (expected'),
        ("rows.0.side", "new9", '$.rows[0].side is "new9" (expected base or new or new2)'),
        ("rows.0.verdict", "maybe", '$.rows[0].verdict is "maybe" (expected "improvement" or'),
        ("rows.0.ratio", "1.5", '$.rows[0].ratio is "1.5" (expected float | null, got str)'),
        ("rows.0.values_base", None, "$.rows[0].values_base is null (expected array, got null)"),
        ("overall", [], "$.overall is [] (expected object, got array)"),
        ("caveats.0.code", "tomorrow", "$.caveats[0]: unknown caveat 'tomorrow'"),
        ("caveats.0.numbers", {}, "$.caveats[0]: caveat one-boot: invalid numbers (KeyError: 's"),
        ("sections", [], "$.sections is [] (expected object, got array)"),
        ("sections.probe_effect", 3, "$.sections.probe_effect is 3 (expected object, got int)"),
        ("sections.probe_effect.data", None, "$.sections.probe_effect.data is null (expected"),
        ("sections.probe_effect.status", "fine", "$.sections.probe_effect.status is "),
    ],
)  # fmt: skip
def test_a_damaged_comparison_is_one_line(
    printed: Any, path: str, value: object, problem: str
) -> None:
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    reduce(lambda part, step: part[step], steps, printed)[last] = value
    with pytest.raises(BundleError) as caught:
        read(printed)
    message = str(caught.value)
    assert message.startswith(f"a.json: {problem}")
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"\x00\xff",
        b"[" * 100_000,
        b'{"schema": "schedperf/compare/2", "id": NaN}',
        b'{"schema": "schedperf/compare/2", "id": 1e999}',
        b" " * (MOST_BYTES + 1),
        b"[" + b"[]," * (MOST_VALUES + 1) + b"1]",
    ],
)
def test_what_is_no_comparison_is_one_line(content: bytes) -> None:
    with pytest.raises(BundleError, match=r"\Aa\.json: [^\n]+\Z"):
        read_comparison(content, "a.json")


def test_a_comparison_may_have_more_values_than_other_json(printed: Any) -> None:
    later = json.dumps(printed | {"later": [0] * MOST_JSON_VALUES})
    assert to_plain(read_comparison(later.encode(), "a.json")) == printed


def test_a_truncated_file_is_one_line(printed: Any) -> None:
    content = json.dumps(printed).encode()
    for end in range(0, len(content) - 1, 997):
        with pytest.raises(BundleError, match=r"\Aa\.json: [^\n]+\Z"):
            read_comparison(content[:end], "a.json")


@settings(
    max_examples=100, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=st.lists(st.integers(0, 30), min_size=1, max_size=6),
    value=st.sampled_from([None, True, -1, 0.5, "", "\r\n\u202e\x00", [], {}, [[]], {"": None}]),
)
def test_any_change_is_read_or_one_line(printed: Any, steps: list[int], value: object) -> None:
    document = json.loads(json.dumps(printed))
    part: Any = document
    for step in steps:
        keys = list(part) if isinstance(part, dict) else range(len(part))
        key = keys[step % len(keys)]
        if not (isinstance(part[key], dict | list) and part[key]):
            break
        part, parent = part[key], part
    else:
        part = parent
    part[key] = value
    problem = ""
    try:
        to_json(read(document))
    except BundleError as error:
        problem = str(error)
    assert len(problem.splitlines()) <= 1
