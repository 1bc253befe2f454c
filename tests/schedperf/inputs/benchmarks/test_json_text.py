# SPDX-License-Identifier: GPL-2.0-or-later
"""JSON among the lines of a benchmark: whole, damaged, and made to do harm."""

import json
from collections.abc import Sequence

import pytest

from schedperf.inputs.benchmarks import _json_text
from schedperf.inputs.benchmarks._json_text import MOST_LEVELS, Document, Path, read_documents

FEW_VALUES = 1000


def everything(path: Path) -> bool:
    return bool(path)


def documents(text: str) -> Sequence[Document]:
    return list(read_documents(text.splitlines(), "stdout", keep=everything))


def problem(text: str) -> str:
    [document] = documents(text)
    assert document.problem is not None
    return document.problem.problem


@pytest.fixture
def _few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_text, "MOST_VALUES", FEW_VALUES)


VALUE = {"a": [1, {"b": -2.50e3, "c": 'x "y" {,}'}, [], {}], "d": None, "e": True, "": {"f": 0}}


@pytest.mark.parametrize("indent", [None, 0, 4, "\t"])
def test_values_are_found_however_they_are_spaced(indent: int | str | None) -> None:
    [document] = documents(f"begin\n{json.dumps(VALUE, indent=indent)}\nend\n")
    assert document.problem is None
    assert {path: value.text for path, value in document.values.items()} == {
        ("a", "0"): "1",
        ("a", "1", "b"): "-2500.0",
        ("a", "1", "c"): r"x \"y\" {,}",
        ("d",): "null",
        ("e",): "true",
        ("", "f"): "0",
    }


def test_each_value_has_its_line() -> None:
    [document] = documents('first\n{\n "a":\n 1.50\n}\n')
    assert document.values["a",].where == ("stdout", 4, " 1.50")
    assert document.where == ("stdout", 2, "{")


def test_one_document_per_line() -> None:
    found = documents('{"a": 1}\n{"a": 2}\n')
    assert [document.values["a",].text for document in found] == ["1", "2"]


def test_a_document_that_ends_early_does_not_cost_the_next() -> None:
    first, second = documents('{"a": 1,\n{"a": 2}\n')
    assert first.problem is not None
    assert first.problem.problem == "stdout:2: invalid JSON: ends early; record again"
    assert (second.problem, second.values["a",].text) == (None, "2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "stdout:1: invalid JSON: ends early"),
        ('{"a": [1}', "stdout:1: invalid JSON: unexpected '}'"),
        ('{"a": "b', "stdout:1: invalid JSON: unexpected text ' \"b'"),
        (
            '{"a":' + "[" * 100_000,
            f"stdout:1: invalid JSON: nested too deeply (expected at most {MOST_LEVELS} levels)",
        ),
        (
            '{"a": [' + "1," * (FEW_VALUES + 1),
            f"stdout:1: invalid JSON: too many values (expected at most {FEW_VALUES})",
        ),
    ],
    ids=["early end", "bracket", "string", "depth", "size"],
)
@pytest.mark.usefixtures("_few_values")
def test_damage_is_one_problem(text: str, expected: str) -> None:
    assert problem(text) == f"{expected}; record again"


@pytest.mark.usefixtures("_few_values")
def test_values_that_nobody_needs_are_not_kept() -> None:
    text = '{"a": [' + "1," * (FEW_VALUES + 1) + '1], "b": 2}\n'
    [document] = read_documents(text.splitlines(), "stdout", keep=lambda path: path[0] == "b")
    assert document.problem is None
    assert list(document.values) == [("b",)]
