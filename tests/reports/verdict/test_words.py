# SPDX-License-Identifier: GPL-2.0-or-later
"""Words of a verdict: changes, notes of several sides, what sides are called."""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf.model.rows import Row
from schedperf.model.sides import SideSummary
from schedperf_reports.words.rows import describe_change, merge_sides, name_side

MakeRow = Callable[..., Row]

LOWER = "(n = 5+5 runs, lower is better)"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ci_low": 1.1, "ci_high": 1.3}, f"+20.0% [+10.0%, +30.0%] {LOWER}"),
        ({"ratio": 0.8, "ci_low": 0.7, "ci_high": 0.9}, f"-20.0% [-30.0%, -10.0%] {LOWER}"),
        (
            {"ci_low": 0.01, "ci_high": 9.0},
            f"+20.0% (95% CI too wide: factor of more than 100) {LOWER}",
        ),
        (
            {"ratio": 0.8, "ci_low": None, "unit": "1/s", "better": "higher"},
            "-20.0% (n = 5+5 runs, higher is better)",
        ),
        ({"ci_low": None}, f"+20.0% {LOWER}"),
        ({"ratio": None, "base": 0.0, "new": 0.004}, f"0 ms -> 4 ms {LOWER}"),
        (
            {"n_base": None, "n_new": None, "ci_low": None},
            "+20.0% (n unknown, lower is better)",
        ),
        ({"ci_low": None, "n_base": None}, "+20.0% (n = unknown+5 runs, lower is better)"),
        ({"ci_low": None, "replication": "boots"}, "+20.0% (n = 5+5 boots, lower is better)"),
        ({"ci_low": None, "replication": "rounds"}, "+20.0% (n = 5 pairs, lower is better)"),
        ({"ratio": None, "base": None, "new": 4.0}, f"- -> 4 s {LOWER}"),
    ],
)
def test_a_change_has_its_interval_n_and_direction(
    make_row: MakeRow, changes: dict[str, Any], words: str
) -> None:
    assert describe_change(make_row(**{"ratio": 1.2} | changes)) == words


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
    assert named == ["base", "new", "new2", "new3", "cluster"]


def test_a_pair_keeps_its_labels_when_the_sides_are_swapped(
    make_side: Callable[..., SideSummary],
) -> None:
    assert name_side(make_side("base", label="new")) == "new"
    assert name_side(make_side("new", label="base")) == "base"
