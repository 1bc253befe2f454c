# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.nightly: steps of a store are found once, whatever the order of its nights."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from sqlalchemy import update

from schedperf.cli import main
from schedperf.history import nightly
from schedperf.history.decide import decide_step, service_machine
from schedperf.history.nightly import watch_store
from schedperf.history.questions.history import History, open_history
from schedperf.history.questions.watched import read_services, to_watched
from schedperf.history.states import StepState
from schedperf.history.store.add import Options
from schedperf.history.store.directory import Directory
from schedperf.history.store.nights import position_of
from schedperf.history.store.tables import WATCHED
from schedperf.history.store.watched import read_watched
from schedperf.history.store.writer import rebuild
from schedperf.history.suspects import Suspected
from schedperf.history.watch.nights import watch_series
from schedperf.history.watch.state import Update
from schedperf.model.errors import InputError
from tests.histories import add_to, dump, make_recording, night_name

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
    path.parent.mkdir(exist_ok=True)
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
        assert found.stale == ()
        return tuple(each for together in found.new for each in together.suspected)

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
    late = write_table(tmp_path / "later" / "a.csv", values[PLACE + 12 :], first=PLACE + 12)
    add_to(tmp_path / "history", late)
    assert len((*found, *watch(directory))) == 1


def read_kept(directory: Directory) -> Mapping[int, Update]:
    """Return what is kept of each series."""
    with open_history(directory.folder) as history, history.database.transaction() as connection:
        return read_watched(connection)


def watch_whole(directory: Directory) -> Update:
    """Watch all nights of the only series of a store."""
    with open_history(directory.folder) as history:
        [series] = history.series()
        services = read_services(history).get(series.machine_class, ())
        return watch_series(to_watched(series, history.nights(series), services, ()))


def test_only_later_nights_are_read(
    tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = levels(1)
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", values[:60]))
    watch(directory)
    add_to(tmp_path / "history", write_table(tmp_path / "later" / "a.csv", values[60:], first=60))
    read: list[int] = []

    def count(series: object, nights: Sequence[object], *rest: object, **more: int) -> object:
        read.append(len(nights))
        return to_watched(series, nights, *rest, **more)  # type: ignore[arg-type] # as they come

    monkeypatch.setattr(nightly, "to_watched", count)
    watch(directory)
    watch(directory)
    assert read == [NIGHTS - 60]
    assert read_kept(directory) == {1: watch_whole(directory)}


@pytest.mark.parametrize("late", [0, 20, PLACE, NIGHTS - 2])
def test_a_night_that_comes_late_makes_the_watch_read_all_nights(
    tmp_path: Path, watch: Watch, late: int
) -> None:
    values = levels(1)
    lines = write_table(tmp_path / "a.csv", values).read_text().splitlines(keepends=True)
    (tmp_path / "a.csv").write_text("".join(lines[: late + 1] + lines[late + 2 :]))
    directory, _ = add_to(tmp_path / "history", tmp_path / "a.csv")
    found = watch(directory)
    (tmp_path / "a.csv").write_text("".join((lines[0], lines[late + 1])))
    add_to(tmp_path / "history", tmp_path / "a.csv")
    assert read_kept(directory) == {}
    assert len((*found, *watch(directory))) == 1
    assert read_kept(directory) == {1: watch_whole(directory)}


def test_a_night_that_is_replaced_is_watched_again(tmp_path: Path, watch: Watch) -> None:
    values = levels(1)
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", values))
    watch(directory)
    add_to(tmp_path / "history", write_table(tmp_path / "later" / "a.csv", [9.0], first=NIGHTS - 1))
    watch(directory)
    kept = read_kept(directory)
    assert kept == {1: watch_whole(directory)}


def test_a_service_makes_the_watch_read_all_nights(tmp_path: Path, watch: Watch) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    watch(directory)
    service_machine(directory, "2x48", night_name(3), reason="new memory", say=print)
    assert read_kept(directory) == {}


def test_values_of_another_kind_make_the_watch_read_all_nights(
    tmp_path: Path, watch: Watch
) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    watch(directory)
    add_to(tmp_path / "history", write_table(tmp_path / "later" / "a.csv", [-1.0], first=NIGHTS))
    watch(directory)
    kept = read_kept(directory)[1]
    assert kept == watch_whole(directory)
    assert not kept.state.scale.is_log


def test_what_another_version_kept_is_not_used(tmp_path: Path, watch: Watch) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    watch(directory)
    with directory.database().transaction() as connection:
        connection.execute(update(WATCHED).values(version="0.0", found=b"?"))
    assert read_kept(directory) == {}
    assert watch(directory) == ()
    assert read_kept(directory) == {1: watch_whole(directory)}


@pytest.mark.parametrize("data", [b"", b"?", b"\xc1", b"\x81\xa5state\x01", 1000 * b"\x91"])
def test_what_is_kept_and_damaged_is_refused(tmp_path: Path, watch: Watch, data: bytes) -> None:
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", levels(1)))
    watch(directory)
    with directory.database().transaction() as connection:
        connection.execute(update(WATCHED).values(found=data))
    with pytest.raises(InputError, match=r"^table watched: .*; make the database again by"):
        watch(directory)
    rebuild(directory, print)
    assert watch(directory) == ()


def test_nights_of_known_steps_are_not_read_again(
    tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = levels(1)
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", values))
    watch(directory)
    add_to(tmp_path / "history", write_table(tmp_path / "later" / "a.csv", [SIZE], first=NIGHTS))
    # The retest was requested already, and the step is the one that the store has.
    monkeypatch.setattr(History, "nights", lambda *_: pytest.fail("all nights were read"))
    assert watch(directory) == ()


def test_without_a_step_nothing_is_found(tmp_path: Path, watch: Watch) -> None:
    values = levels(2, place=NIGHTS)
    directory, _ = add_to(tmp_path / "history", write_table(tmp_path / "a.csv", values))
    assert watch(directory) == ()
    assert (
        watch(add_to(tmp_path / "empty", write_table(tmp_path / "later" / "a.csv", values[:1]))[0])
        == ()
    )


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
    [together] = watch_store(directory, print).new
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
    with pytest.raises(InputError, match="no such step"):
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
    assert json.loads(capsys.readouterr().out) == {"new": [], "stale": []}


def test_a_report_without_an_answer_becomes_stale(
    tmp_path: Path, watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "history"
    directory, _ = add_to(store, write_table(tmp_path / "a.csv", levels(1)))
    [found] = watch(directory)
    states: tuple[StepState, ...] = ("reproduced", "reported", "answered")
    for state in states:
        decide_step(directory, found.step.step, state, reason="x", by="A.", say=print)
    today = datetime.now(UTC)

    def add_night(days: int) -> None:
        night = f"{today + timedelta(days=days):%Y-%m-%d}"
        path = make_recording(tmp_path / f"{days}.tar", night, "new", [[0.5]])
        add_to(store, path, options=Options(night=night))

    add_night(89)
    assert watch(directory) == ()
    add_night(91)
    assert main(["history", "watch", "--store", str(store)]) == 0
    stale, none = capsys.readouterr().out.splitlines()
    assert stale.startswith("stale: boot (a) worse since ")
    assert none.endswith("no new step")
    with open_history(store) as history:
        last = history.step_changes(found.step.step)[-1]
    assert (last.state, last.decided_by) == ("stale", "schedperf")
    assert last.reason.startswith("answered, and no decision for 9")
    assert watch(directory) == ()
