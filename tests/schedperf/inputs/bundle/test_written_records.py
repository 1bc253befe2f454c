# SPDX-License-Identifier: GPL-2.0-or-later
"""Records are parsed from the JSON that they are written as."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, Struct, UnsetType, field

from schedperf.inputs.bundle.json import convert
from schedperf.model.base_new import BaseNew
from schedperf.model.errors import BundleError
from schedperf.model.schema import to_plain


class Means(Struct, frozen=True, kw_only=True):
    """A result."""

    mean: float


class Result(Struct, frozen=True, kw_only=True):
    """Every type that records have."""

    class_: Literal["micro", "application"] = field(name="class")
    runs: Annotated[BaseNew[int | None], "null: not recorded"]
    form: Means | None
    pairs: tuple[tuple[str, Means], ...] = ()
    per_cpu: Mapping[int, Means] | None = None
    node: int | UnsetType | None = UNSET
    host: Mapping[str, object] = {}


RESULTS = [
    Result(class_="micro", runs=BaseNew(base=1, new=None), form=None),
    Result(
        class_="application",
        runs=BaseNew(base=0, new=2),
        form=Means(mean=3.0),
        pairs=(("a", Means(mean=1.0)),),
        per_cpu={3: Means(mean=0.5)},
        node=None,
        host={"class": {"from": [1, None]}},
    ),
]


@pytest.mark.parametrize("result", RESULTS)
def test_what_is_parsed_is_the_record_that_was_written(result: Result) -> None:
    assert convert(to_plain(result), Result, "a.json") == result


def test_unknown_keys_are_ignored() -> None:
    plain: Any = to_plain(RESULTS[0])
    plain["tomorrow"] = plain["runs"]["tomorrow"] = 1
    assert convert(plain, Result, "a.json") == RESULTS[0]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("class", "macro", '$.class is "macro" (expected "application" or "micro")'),
        ("runs", {"base": 1}, "$.runs.new is missing"),
        ("runs", {"base": 1, "new": 1.5}, "$.runs.new is 1.5 (expected int | null, got float)"),
        ("runs", [], "$.runs is [] (expected object, got array)"),
        ("form", {}, "$.form.mean is missing"),
        ("form", {"mean": "2"}, '$.form.mean is "2" (expected float, got str)'),
        ("pairs", [["a"]], '$.pairs[0] is ["a"] (expected array of length 2, got 1)'),
        ("pairs", {}, "$.pairs is {} (expected array, got object)"),
        ("per_cpu", {"x": {"mean": 1}}, "key in $.per_cpu is invalid (expected int, got str)"),
    ],
)
def test_what_does_not_fit_is_one_line_with_the_position(
    key: str, value: object, problem: str
) -> None:
    plain: Any = to_plain(RESULTS[0])
    with pytest.raises(BundleError) as caught:
        convert({**plain, key: value}, Result, "a.json")
    assert str(caught.value) == f"a.json: {problem}; copy the file again"
