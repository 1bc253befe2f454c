# SPDX-License-Identifier: GPL-2.0-or-later
"""Flame graphs of a few frames whose numbers are known, and their page in a browser."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from schedperf.evidence.profile.flame import REMAINDER, ROOT, Flame
from schedperf.evidence.profile.flame_data import Part, describe_flame
from schedperf.evidence.profile.flame_record import FlameTree, Numbers
from schedperf.evidence.profile.samples import Runs
from schedperf.model.place import Place
from schedperf_reports.blocks import Text
from schedperf_reports.page.flame_page import draw_flame_page
from schedperf_reports.standalone import Head, PageSource
from tests.chromium import Tab
from tests.reports.visits import Visit

MakeTrees = Callable[..., tuple[FlameTree, ...]]

# Parent, symbol, own time of base and of new.
FRAMES = (
    (-1, "", 0.0, 0.0),
    (0, "main", 10.0, 10.0),
    (1, "write", 20.0, 20.0),
    (2, "update_cfs_group", 10.0, 30.0),
    (1, "read", 40.0, 40.0),
    (4, "old_lock", 8.0, 0.0),
    (4, "(rest)", 2.0, 2.0),
)


def _make_flame(runs: Sequence[int], names: Sequence[str], event: str) -> Flame:
    draw = np.random.default_rng(7)
    sides = np.repeat(np.arange(len(runs)), runs)
    own = np.array([[frame[2 + side] for frame in FRAMES] for side in sides])
    own *= 1.0 + draw.normal(0.0, 0.01, own.shape)
    inclusive = add_called(own)
    return Flame(
        runs=Runs(
            event=event,
            unit=event,
            labels=("tip", "patched")[: len(runs)],
            sides=sides,
            boots=np.zeros(len(sides), dtype=np.int64),
            totals=inclusive[:, 0],
            operations=np.full(len(sides), 10.0),
            sees_kernel=True,
        ),
        least_share=0.001,
        places=tuple(Place(name, "[kernel]") for name in names),
        is_hidden=np.zeros(len(names), dtype=np.bool_),
        parent=np.array([frame[0] for frame in FRAMES]),
        place=np.array([ROOT, 0, 1, 2, 3, 4, REMAINDER]),
        hidden=np.array([0, 0, 0, 0, 0, 0, 17]),
        inclusive=inclusive,
        own=own,
        end=np.arange(len(FRAMES)),
        by_place=own[:, 1:6],
    )


def add_called(own: Any) -> Any:
    inclusive = own.copy()
    for frame in range(len(FRAMES) - 1, 0, -1):
        inclusive[:, FRAMES[frame][0]] += inclusive[:, frame]
    return inclusive


def part_of(flame: Flame, part: float) -> Flame:
    """Return what a part of the samples of each frame would be."""
    own = flame.own * part
    return replace(flame, own=own, inclusive=add_called(own), by_place=own[:, 1:6])


@pytest.fixture
def make_flame() -> Callable[..., Flame]:
    """Make the tree of some runs: ``make_flame((4, 4), places=[…])``; a place a name of FRAMES."""

    def make(runs: Sequence[int], places: Sequence[Place] = ()) -> Flame:
        flame = _make_flame(runs, [frame[1] for frame in FRAMES[1:6]], "cycles")
        return replace(flame, places=tuple(places)) if places else flame

    return make


@pytest.fixture
def page_of() -> Callable[[Sequence[FlameTree]], str]:
    """Draw the page of some trees."""
    return _page_of


@pytest.fixture
def make_trees() -> MakeTrees:
    """Make the trees of a drawing: ``make_trees(runs=(4, 4), names=[…], events=["cycles"])``."""

    def make(
        runs: Sequence[int] = (4, 4),
        names: Sequence[str] = tuple(frame[1] for frame in FRAMES[1:6]),
        events: Sequence[str] = ("cycles",),
    ) -> tuple[FlameTree, ...]:
        return tuple(describe(_make_flame(runs, names, event)) for event in events)

    def describe(flame: Flame) -> FlameTree:
        parts = [(Part(kind="node", name="0"), part_of(flame, 0.75))]
        parts += [(Part(kind="comm", name="bench"), part_of(flame, 0.5))]
        return describe_flame(flame, "message", parts=parts)

    return make


def with_measure(tree: FlameTree, **chosen: Any) -> FlameTree:
    """Return a tree with something else in its first measure."""
    first, *others = tree.measures
    return replace(tree, measures=(replace(first, **chosen), *others))


def with_number(numbers: Numbers, index: int, value: float) -> Numbers:
    """Return the numbers with another one at this index."""
    return (*numbers[:index], value, *numbers[index + 1 :])


def _page_of(trees: Sequence[FlameTree]) -> str:
    head = Head(
        title="profile",
        sides=(PageSource(name="base", label="tip", path="tip.tar"),),
        tool_version="1",
        schema="schedperf/profile/1",
    )
    return draw_flame_page([Text(text="5 runs")], trees, head)


class Flames(Visit):
    """An opened page with a flame graph."""

    def frames(self, extra: str = "") -> list[str]:
        return list(self.page.locator(f".frame{extra}").all_inner_texts())

    def detail(self) -> str:
        return str(self.page.locator(".flame-detail").inner_text())


@pytest.fixture
def visit_flames(lend_tab: Callable[..., Tab], tmp_path: Path) -> Callable[..., Flames]:
    """Open the page of some trees: ``visit_flames(trees, width=400, color_scheme="dark")``."""

    def open_page(trees: Sequence[FlameTree], **settings: Any) -> Flames:
        path = tmp_path / "flames.html"
        path.write_text(_page_of(trees), encoding="utf-8")
        opened = Flames(lend_tab(**settings))
        opened.page.goto(path.as_uri())
        if opened.tab.has_scripts:
            opened.page.wait_for_selector("figure.flames[data-drawn]")
        return opened

    return open_page
