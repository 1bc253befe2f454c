# SPDX-License-Identifier: GPL-2.0-or-later
"""The flame graph of the report: who its sides are, and where it stands."""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf.evidence.profile.flame_record import FlameComparison, FlameTree, FlameTrees
from schedperf.evidence.profile.record import Profile, ProfileComparison
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from schedperf_reports.blocks import Table, Text
from schedperf_reports.evidence.profile.section import profile
from schedperf_reports.graphics.flames import Flames

MakeTrees = Callable[..., tuple[FlameTree, ...]]


@pytest.fixture
def describe(
    make_trees: MakeTrees, make_comparison: Callable[..., Comparison]
) -> Callable[..., list[Any]]:
    """Describe the profile section of a side: ``describe("new2", left_out=[…]) -> blocks``."""

    def run(side: str = "new", left_out: tuple[str, ...] = ()) -> list[Any]:
        trees = FlameComparison(side=side, events=make_trees(), left_out=left_out)
        compared = ProfileComparison(side=side, events=(), notes=())
        found = (
            Profile(comparisons=(compared,), missing=()),
            FlameTrees(comparisons=(trees,), missing=()),
        )
        sections = {data.section: Section.of(data) for data in found}
        return list(profile(make_comparison(sections=sections)))

    return run


def test_the_graph_comes_first_and_its_tables_say_what_changed(
    describe: Callable[..., list[Any]],
) -> None:
    drawing, *rest = describe()
    assert isinstance(drawing, Flames)
    assert drawing.caption == (
        "Call stacks: patched vs tip, n = 4 + 4 runs; 4 frames changed significantly (coloured)"
    )
    tables = [block for block in rest if isinstance(block, Table)]
    captions = [table.caption for table in tables]
    (changed,) = (table for table in tables if "frames changed significantly" in table.caption)
    assert len(changed.rows) == 4
    assert changed.caption.startswith("cycles: 4 frames changed")
    assert any("1 call path only in base" in caption for caption in captions)


def test_a_third_side_has_its_own_name_and_shape(describe: Callable[..., list[Any]]) -> None:
    data: Any = describe("new2")[0].data()
    assert data["sides"] == [
        {"name": "base", "place": 0},
        {"name": "new2", "place": 2},
    ]


def test_points_without_a_graph_are_named(describe: Callable[..., list[Any]]) -> None:
    said = [
        block.text for block in describe(left_out=("cycles, x at a=1",)) if isinstance(block, Text)
    ]
    assert any(text.endswith("--flamegraph): cycles, x at a=1") for text in said)
