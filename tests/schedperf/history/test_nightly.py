# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.nightly: steps of a store are found once, whatever the order of its nights."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from schedperf.cli import main
from schedperf.history.nightly import Suspected, to_watched, watch_store
from schedperf.history.questions.history import open_history
from schedperf.history.store.directory import Directory
from schedperf.history.store.writer import rebuild
from schedperf.history.watch.nights import watch_series
from tests.histories import add_to, dump, night_name

NIGHTS, PLACE = 80, 50
SIZE = 1.10


def levels(seed: int, *, nights: int = NIGHTS, place: int = PLACE) -> list[float]:
    """Return values that rise by 10% at a night."""
    noise = np.random.default_rng(seed).normal(0.0, 0.01, nights)
    return [float(np.exp(each)) * (SIZE if i >= place else 1.0) for i, each in enumerate(noise)]


def write_table(path: Path, values: Sequence[float], *, first: int = 0, name: str = "boot") -> Path:
    """Write a foreign history with a reference that does not change."""
    lines = [
        f"{name},{night_name(first + i)},r{first + i},{value!r},1.0,s,lower\n"
        for i, value in enumerate(values)
    ]
    path.write_text("series,time,revision,value,ref,unit,better\n" + "".join(lines))
    return path


Watch = Callable[[Directory], tuple[Suspected, ...]]


@pytest.fixture
def watch() -> Watch:
    """Return a function that watches a store, of which nothing has to be repaired."""

    def run(directory: Directory) -> tuple[Suspected, ...]:
        said: list[str] = []
        found = watch_store(directory, said.append)
        assert said == []
        return found

    return run


def test_a_step_is_found_once(tmp_path: Path, watch: Watch) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    [found] = watch(directory)
    step = found.step
    assert (step.state, step.direction, step.night) == ("suspected", "worse", night_name(PLACE))
    assert step.change is not None
    assert step.ci_low is not None
    assert step.ci_high is not None
    assert step.ci_low < SIZE - 1.0 < step.ci_high
    assert watch(directory) == ()
    with open_history(directory.folder) as history:
        [stored] = history.steps()
        assert stored.id == step.step
        [change] = history.step_changes(step.step)
        assert change.decided_by == "schedperf"


def test_a_retest_of_it_is_requested(tmp_path: Path, watch: Watch) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    [found] = watch(directory)
    [request] = dump(directory)["request"]
    assert "retest" in request
    assert found.step.step in request
    assert f"r{PLACE}" in request


def test_the_database_can_be_made_again(tmp_path: Path, watch: Watch) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    watch(directory)
    before = dump(directory)
    rebuild(directory, print)
    assert dump(directory) == before
    assert watch(directory) == ()


def test_later_nights_do_not_make_another_step(tmp_path: Path, watch: Watch) -> None:
    values = levels(1)
    early = write_table(tmp_path / "a.csv", values[: PLACE + 12])
    directory, _ = add_to(tmp_path / "history", early)
    found = watch(directory)
    late = write_table(tmp_path / "b.csv", values[PLACE + 12 :], first=PLACE + 12)
    add_to(tmp_path / "history", late)
    assert len((*found, *watch(directory))) == 1


def test_without_a_step_nothing_is_found(tmp_path: Path, watch: Watch) -> None:
    values = levels(2, place=NIGHTS)
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", values))
    assert watch(directory) == ()
    assert watch(add_to(tmp_path / "empty", write_table(tmp_path / "b.csv", values[:1]))[0]) == ()


def test_after_a_service_nights_are_compared_anew(tmp_path: Path) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    with open_history(directory.folder) as history:
        [series] = history.series()
        nights = history.nights(series)
    service = nights[PLACE].position
    # The new level has too few nights to be compared with itself.
    assert watch_series(to_watched(series, nights, [service])).alarms == ()
    assert len(watch_series(to_watched(series, nights, [])).alarms) == 1


def test_of_several_kernels_of_a_night_the_last_one_counts(tmp_path: Path) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    with open_history(directory.folder) as history:
        [series] = history.series()
        nights = history.nights(series)
    twice = [each for night in nights for each in (replace(night, new=9.0), night)]
    assert to_watched(series, twice, ()) == to_watched(series, nights, ())


def test_the_command_prints_new_steps_and_has_an_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table(tmp_path / "a.csv", levels(1))
    store = tmp_path / "history"
    add_to(store, table)
    assert main(["history", "watch", "--store", str(store)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("suspected: ")
    assert f"worse since {night_name(PLACE)}: +" in out
    assert main(["history", "watch", "--store", str(store)]) == 0
    assert capsys.readouterr().out == f"{store}: no new step\n"
    assert main(["history", "watch", "--json", "--store", str(store)]) == 0
    assert json.loads(capsys.readouterr().out) == []
