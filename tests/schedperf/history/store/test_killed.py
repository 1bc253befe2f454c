# SPDX-License-Identifier: GPL-2.0-or-later
"""A kill before any system call of ``add``, ``watch`` and ``rebuild``: no row twice, none lost."""

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.outbox.trace import run_traced
from schedperf.history.nightly import watch_store
from schedperf.history.store.add import add
from schedperf.history.store.check import check
from schedperf.history.store.directory import open_directory, open_or_create
from schedperf.history.store.inputs import find_sources
from schedperf.history.store.tables import STEP_CHANGE
from schedperf.history.store.writer import rebuild
from tests.histories import DEFAULTS, add_to, dump, make_night
from tests.programs import skip_without_strace

SEED = 37
# Kills of a test, and of one with many.
FEW, MANY = 8, 100

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


def silent(_line: str) -> None:
    pass


def runs(function: Callable[[], object]) -> Callable[[], int]:
    """Return a function that calls another one and returns the exit status 0."""

    def run() -> int:
        function()
        return 0

    return run


def kill_points(function: Callable[[], object], number: int) -> list[int]:
    """Run a function to its end; return system calls before which to kill it."""
    traced = run_traced(runs(function), None, None)
    assert traced.status == 0
    return sorted(random.Random(SEED).sample(range(len(traced.calls)), number))  # noqa: S311 # a seed


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    """Return two nights and a table."""
    skip_without_strace()
    for number in range(2):
        make_night(tmp_path / "nights", number)
    table = tmp_path / "table.csv"
    table.write_text("series,order,value\nboot,1,1.5\nboot,2,1.6\n")
    return [tmp_path / "nights", table]


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(FEW, id="few"),
        pytest.param(MANY, marks=pytest.mark.slow, id="many"),
    ],
)
def test_a_killed_addition_is_completed_by_the_next(
    kills: int, inputs: list[Path], tmp_path: Path
) -> None:
    def add_all(folder: Path) -> None:
        directory, _ = open_or_create(folder)
        add(directory, find_sources(inputs), DEFAULTS, silent)

    whole = tmp_path / "whole"
    # Modules that are imported late are so before system calls are counted.
    add_all(whole)
    points = kill_points(lambda: add_all(tmp_path / "counted"), kills)
    expected = dump(open_or_create(whole)[0])
    assert len(expected["input"]) == 5
    killed = 0
    for point in points:
        folder = tmp_path / str(point)
        killed += run_traced(runs(partial(add_all, folder)), point, None).killed
        add_all(folder)
        directory, _ = open_or_create(folder)
        assert dump(directory) == expected, point
        assert list(check(directory, silent)) == [], point
        assert len([*directory.log.read()]) == 7, point
    # The number of system calls varies a little, so the last ones may not be reached.
    assert killed >= kills // 2


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(FEW, id="few"),
        pytest.param(MANY, marks=pytest.mark.slow, id="many"),
    ],
)
def test_a_killed_watch_finds_each_step_once(kills: int, tmp_path: Path) -> None:
    skip_without_strace()
    lines = [
        f"{name},{night},{value + night % 7 / 1000},1.0\n"
        for name in ("boot", "build")
        for night in range(50)
        for value in [1.1 if night >= 40 else 1.0]
    ]
    table = tmp_path / "table.csv"
    table.write_text("series,order,value,ref\n" + "".join(lines))
    whole, _ = add_to(tmp_path / "store", table)
    unwatched = tmp_path / "unwatched"
    shutil.copytree(whole.folder, unwatched)
    # In this process, so that modules that are imported late are so before calls are counted.
    watch_store(whole, silent)
    expected = dump(whole)
    assert (len(expected["step"]), len(expected["request"])) == (2, 2)

    def watch(folder: Path) -> None:
        watch_store(open_directory(folder), silent)

    counted = tmp_path / "counted"
    shutil.copytree(unwatched, counted)
    points = kill_points(lambda: watch(counted), kills)
    killed = 0
    for point in points:
        folder = tmp_path / str(point)
        shutil.copytree(unwatched, folder)
        killed += run_traced(runs(partial(watch, folder)), point, None).killed
        watch(folder)
        directory = open_directory(folder)
        assert without_times(dump(directory)) == without_times(expected), point
        assert list(check(directory, silent)) == [], point
        shutil.rmtree(folder)
    assert killed >= kills // 2


def without_times(rows: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """Return rows without the time of each decision."""
    at = [column.name for column in STEP_CHANGE.columns].index("at")
    changes = [(*row[:at], *row[at + 1 :]) for row in rows["step_change"]]
    return {**rows, "step_change": changes}


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(FEW, id="few"),
        pytest.param(MANY, marks=pytest.mark.slow, id="many"),
    ],
)
def test_a_killed_rebuild_leaves_the_old_rows_or_the_new_ones(
    kills: int, inputs: list[Path], tmp_path: Path
) -> None:
    directory, _ = open_or_create(tmp_path / "store")
    add(directory, find_sources(inputs), DEFAULTS, silent)
    expected = dump(directory)
    trial = tmp_path / "trial"
    shutil.copytree(directory.folder, trial)
    rebuild(directory, silent)
    points = kill_points(lambda: rebuild(open_or_create(trial)[0], silent), kills)
    killed = 0
    for point in points:
        copied, _ = open_or_create(trial)
        killed += run_traced(runs(partial(rebuild, copied, silent)), point, None).killed
        assert dump(copied) == expected, point
    assert killed >= kills // 2
    rebuild(copied, silent)
    assert dump(copied) == expected
    assert list(check(copied, silent)) == []
