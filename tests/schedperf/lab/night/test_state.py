# SPDX-License-Identifier: GPL-2.0-or-later
"""The state of a night: damaged files are one line, and its folders are in order."""

from pathlib import Path

import pytest

from schedperf.lab.night.state import (
    STATE,
    STEPS,
    Night,
    NightError,
    NightKernel,
    Store,
    find_nights,
    in_turn,
    locked,
    new_store,
)
from schedperf.model.errors import InputError


def _night() -> Night:
    kernels = (NightKernel(name="base", release="6.18.0"),)
    night = Night(id="2026-11-27", machine="lab", job="hackbench", kernels=kernels)
    night.step("prepare").result = "ok"
    return night


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    night = _night()
    store.write(night)
    assert store.read() == night
    assert night.step("record").began is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"schema": "schedperf/night/2"}',
        b'{"schema": "schedperf/night/1", "id": "../x", "machine": "a", "job": "b"}',
        b'{"schema": "schedperf/night/1", "id": "2026-11-27", "machine": 3, "job": "b"}',
        b'{"id": "2026-11-27", "machine": "a", "job": "b", "steps": {"record": []}}',
        b"[" * 100_000,
        b" " * (2 << 20),
    ],
)
def test_damaged_state(tmp_path: Path, content: bytes) -> None:
    (tmp_path / STATE).write_bytes(content)
    with pytest.raises(InputError) as error:
        Store(tmp_path).read()
    assert str(error.value).startswith(str(tmp_path / STATE))
    assert str(error.value).isprintable()


def test_state_of_an_older_version(tmp_path: Path) -> None:
    (tmp_path / STATE).write_text(
        '{"id": "2026-11-27", "machine": "a", "job": "b", "outcome": "no-change", "workload": "0", '
        '"steps": {"retest": {"ended": "x"}}, "store": null, "retest": null}'
    )
    night = Store(tmp_path).read()
    assert (night.start, night.following) == ("2026-11-27", "history")


def test_machines_take_turns(tmp_path: Path) -> None:
    busy = pytest.raises(NightError, match="another machine of the lab has it")
    with in_turn(tmp_path / "lock", 0.0), busy, in_turn(tmp_path / "lock", 0.0):
        pass
    with in_turn(tmp_path / "lock", 0.0):
        pass
    with pytest.raises(NightError, match="not a directory"), in_turn(tmp_path / "lock" / "x", 0.0):
        pass


def test_state_of_a_cut_off_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(_night())
    whole = (tmp_path / STATE).read_bytes()
    for end in range(0, len(whole) - 1, 7):
        (tmp_path / STATE).write_bytes(whole[:end])
        with pytest.raises(InputError):
            store.read()


def test_nights_of_one_date_are_numbered(tmp_path: Path) -> None:
    for number in range(11):
        store = new_store(tmp_path, "2026-11-27")
        assert store.path.name == ("2026-11-27" if not number else f"2026-11-27-{number + 1}")
        store.write(_night())
    assert [store.path.name for store in find_nights(tmp_path)][-2:] == [
        "2026-11-27-10",
        "2026-11-27-11",
    ]


def test_folder_without_state_is_used(tmp_path: Path) -> None:
    first = new_store(tmp_path, "2026-11-27")
    assert new_store(tmp_path, "2026-11-27").path == first.path


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NightError, match="not a directory"):
        new_store(tmp_path / "file", "2026-11-27")
    with pytest.raises(InputError, match="lock"), locked(tmp_path / "file"):
        pass


def test_second_night_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(InputError, match="another night runs"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_steps_are_in_order() -> None:
    assert STEPS[0] == "prepare"
    assert STEPS[-1] == "digest"
