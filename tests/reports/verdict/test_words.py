"""Words of a verdict: directions, notes of several sides, letters."""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf.model.comparison import (
    Row,
    SideSummary,
)
from schedperf_reports.words.rows import describe_change, merge_sides, name_side, side_letter

MakeRow = Callable[..., Row]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ratio": 1.2}, " is 20.0 % longer"),
        ({"ratio": 0.8}, " is 20.0 % shorter"),
        ({"ratio": 0.8, "unit": "1/s", "better": "higher"}, " is 20.0 % lower, which is worse"),
        ({"ratio": 1.2, "unit": "1/s", "better": "higher"}, " is 20.0 % higher, which is better"),
        ({"ratio": 1.2, "unit": "B", "better": "lower"}, " is 20.0 % higher, which is worse"),
        ({"ratio": 1.2, "ci_low": None}, " is 20.0 % longer (5+5 runs)"),
        ({"ratio": None, "base": 0.0, "new": 0.004}, ": 0 before and 4 ms after (5+5 runs)"),
        (
            {"ratio": 1.2, "n_base": None, "n_new": None, "ci_low": None},
            " is 20.0 % longer (number",
        ),
        ({"ratio": 1.2, "ci_low": None, "n_base": None}, " is 20.0 % longer (?+5 runs)"),
        ({"ratio": 1.2, "ci_low": None, "replication": "boots"}, " is 20.0 % longer (5+5 boots)"),
        ({"ratio": 1.2, "ci_low": None, "replication": "rounds"}, " is 20.0 % longer (5 rounds)"),
        ({"ratio": None, "base": None, "new": 4.0}, ": - before and 4 s after (5+5 runs)"),
    ],
)
def test_words_know_the_direction(make_row: MakeRow, changes: dict[str, Any], words: str) -> None:
    assert describe_change(make_row(**changes)).startswith(words)


@pytest.mark.parametrize(
    ("notes", "merged"),
    [
        (["x of base: y", "x of new: y", "x of new2: z"], ["x of base and new: y", "x of new2: z"]),
        (
            ["base.tar is damaged", "new.tar is damaged"],
            ["base.tar is damaged", "new.tar is damaged"],
        ),
        (["/a/base/x fails", "/a/new/x fails"], ["/a/base/x fails", "/a/new/x fails"]),
        (["nothing", "nothing"], ["nothing"]),
        ([], []),
    ],
)
def test_notes_that_differ_in_the_side_alone_are_merged(
    notes: list[str], merged: list[str]
) -> None:
    assert merge_sides(notes) == merged


def test_no_two_sides_are_called_new(make_side: Callable[..., SideSummary]) -> None:
    labels = {"base": "base", "new": "new", "new2": "new", "new3": "base", "new4": "cluster"}
    named = [name_side(make_side(name, label=label)) for name, label in labels.items()]
    assert named == ["A base", "B new", "C new2", "D new3", "E cluster"]


def test_a_pair_keeps_its_labels_when_the_sides_are_swapped(
    make_side: Callable[..., SideSummary],
) -> None:
    assert name_side(make_side("base", label="new")) == "A new"
    assert name_side(make_side("new", label="base")) == "B base"


def test_sides_have_letters() -> None:
    assert [side_letter(name) for name in ("base", "new", "new2", "new25", "new26", "x")] == [
        "A", "B", "C", "Z", "?", "?",
    ]  # fmt: skip
