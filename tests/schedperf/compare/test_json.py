# SPDX-License-Identifier: GPL-2.0-or-later
"""The record as JSON, and the published schema that describes it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.compare.json import json_schema
from schedperf.evidence import all_sections
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.comparison import Comparison
from schedperf.model.json_text import to_json
from schedperf.model.schema import to_plain

PUBLISHED = Path(__file__).parents[3] / "docs" / "schema" / "compare-2.schema.json"

MakeBundle = Callable[..., Path]


def comparison_of(make_bundle: MakeBundle, folder: Path, *sides: dict[str, Any]) -> Comparison:
    paths = [make_bundle(folder / f"{index}.tar", **side) for index, side in enumerate(sides)]
    return compare_bundles([open_bundle(path) for path in paths])


@pytest.fixture(scope="module")
def validator() -> jsonschema_rs.Draft202012Validator:
    """Validate against the published schema."""
    return jsonschema_rs.Draft202012Validator(json.loads(PUBLISHED.read_text()))


@pytest.mark.usefixtures("_golden_plugins")
def test_the_published_schema_is_the_records() -> None:
    found = json.loads(PUBLISHED.read_text())
    assert found == json_schema(), (
        f"{PUBLISHED.name} is out of date; write it with: "
        f"python -m schedperf.compare.json > docs/schema/{PUBLISHED.name}"
    )


def test_the_schema_is_itself_valid_with_those_of_all_sections() -> None:
    jsonschema_rs.meta.validate(json_schema())
    described: Any = json_schema()["$defs"]
    records = {plugin.record.__name__ for plugin in all_sections().values()}
    assert records <= described.keys()


@pytest.mark.parametrize(
    "sides",
    [
        [{}, {}],
        [{}, {"runs": 4, "host": {"kernel": {"release": "6.13"}}}],
        [{}, {"runs": [{"kind": "instrumented"}, {}]}, {"host": {"cpu": {"smt": "on"}}}],
        [{"runs": 0}, {"host": None}],
        [{"runs": [{"stdout": "\x1b[31m\u202e"}]}, {"label": "<script>\x00"}],
    ],
)
def test_every_output_validates(
    make_bundle: MakeBundle,
    tmp_path: Path,
    validator: jsonschema_rs.Draft202012Validator,
    sides: list[dict[str, Any]],
) -> None:
    comparison = comparison_of(make_bundle, tmp_path, *sides)
    text = to_json(comparison)
    assert text.isascii()
    validator.validate(json.loads(text))
    assert json.loads(text) == to_plain(comparison)


def test_the_schema_refuses_a_record_that_lost_something(
    make_bundle: MakeBundle, tmp_path: Path, validator: jsonschema_rs.Draft202012Validator
) -> None:
    record: Any = to_plain(comparison_of(make_bundle, tmp_path, {}, {"runs": 4}))
    record["rows"][0]["verdict"] = "maybe"
    del record["overall"]["reason"]
    problems = sorted(
        (error.instance_path, error.message) for error in validator.iter_errors(record)
    )
    assert problems == [
        (["overall"], '"reason" is a required property'),
        (
            ["rows", 0, "verdict"],
            '"maybe" is not one of "regression", "improvement" or 3 other candidates',
        ),
    ]


def test_the_schema_lets_new_fields_and_sections_through(
    make_bundle: MakeBundle, tmp_path: Path, validator: jsonschema_rs.Draft202012Validator
) -> None:
    record: Any = to_plain(comparison_of(make_bundle, tmp_path, {}, {}))
    record["tomorrow"] = record["rows"][0]["tomorrow"] = 1
    record["sections"]["tomorrow"] = {
        "schema": "x/1", "status": "ok", "reason": None, "data": {},
    }  # fmt: skip
    validator.validate(record)


def test_the_schema_holds_a_section_to_its_own(
    make_bundle: MakeBundle, tmp_path: Path, validator: jsonschema_rs.Draft202012Validator
) -> None:
    record: Any = to_plain(comparison_of(make_bundle, tmp_path, {}, {}))
    probe = record["sections"]["probe_effect"]
    probe |= {"status": "ok", "data": {"rows": [{"side": "base"}]}}
    assert not validator.is_valid(record)
