# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.nightly: steps of a store are found once, whatever the order of its nights."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from schedperf.cli import main
from schedperf.history.decide import decide_step, service_machine
from schedperf.history.nightly import Suspected, watch_store
from schedperf.history.questions.history import open_history
from schedperf.history.questions.watched import read_services, to_watched
from schedperf.history.store.directory import Directory
from schedperf.history.store.nights import position_of
from schedperf.history.store.writer import rebuild
from schedperf.history.watch.nights import watch_series
from schedperf.model.errors import InputError
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
        return tuple(each for together in found for each in together.suspected)

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
    assert watch_series(to_watched(series, nights, [service], ())).alarms == ()
    assert len(watch_series(to_watched(series, nights, (), ())).alarms) == 1


def test_of_several_kernels_of_a_night_the_last_one_counts(tmp_path: Path) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    with open_history(directory.folder) as history:
        [series] = history.series()
        nights = history.nights(series)
    twice = [each for night in nights for each in (replace(night, new=9.0), night)]
    assert to_watched(series, twice, (), ()) == to_watched(series, nights, (), ())


def test_a_step_that_a_kill_left_without_a_request_gets_one(tmp_path: Path, watch: Watch) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    watch(directory)
    lines = directory.log.path.read_bytes().splitlines(keepends=True)
    assert b'"requested"' in lines[-1]
    directory.log.path.write_bytes(b"".join(lines[:-1]))
    rebuild(directory, print)
    assert dump(directory)["request"] == []
    assert watch(directory) == ()
    assert len(dump(directory)["request"]) == 1
    assert watch(directory) == ()
    assert len(dump(directory)["request"]) == 1


def test_two_watches_at_the_same_time_find_a_step_once(tmp_path: Path, watch: Watch) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(watch, [directory, directory]))
    assert sorted(map(len, found)) == [0, 1]
    rebuild(directory, print)
    assert len(dump(directory)["step"]) == 1


def test_steps_of_one_night_are_found_together(tmp_path: Path) -> None:
    tables = [write_table(tmp_path / "a.csv", levels(1)).read_text()]
    tables += [
        write_table(tmp_path / "a.csv", levels(2), name="other").read_text().partition("\n")[2]
    ]
    (tmp_path / "a.csv").write_text("".join(tables))
    directory, _ = add_to(tmp_path / "history", tmp_path / "a.csv")
    [together] = watch_store(directory, print)
    assert {each.series.metric for each in together.suspected} == {"boot", "other"}


def test_a_person_closes_a_step(tmp_path: Path, watch: Watch) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    [found] = watch(directory)
    name = found.step.step
    with pytest.raises(InputError, match="expected one line"):
        decide_step(directory, name, "fixed", reason="x\ny", by="x", say=print)
    decide_step(directory, name, "accepted", reason="a fix of a bug", by="A. Author", say=print)
    with open_history(directory.folder) as history:
        [step] = history.steps()
        assert (step.state, step.change) == ("accepted", found.step.change)
        assert [each.state for each in history.step_changes(name)] == ["suspected", "accepted"]
    assert watch(directory) == ()
    with pytest.raises(InputError, match="cannot follow 'accepted'"):
        decide_step(directory, name, "fixed", reason="x", by="x", say=print)
    with pytest.raises(InputError, match="unknown step"):
        decide_step(directory, "0123", "fixed", reason="x", by="x", say=print)


def test_a_service_is_stored(tmp_path: Path) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    service_machine(directory, "2x48", night_name(3), reason="new memory", say=print)
    with open_history(directory.folder) as history:
        assert read_services(history) == {"2x48": [position_of(night_name(3))]}
    with pytest.raises(InputError, match="expected e.g. 2026-11-30"):
        service_machine(directory, "2x48", "yesterday", reason="new memory", say=print)


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
