# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.store: damaged, foreign and locked directories of searches."""

from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.lab.bisect.judge import Options
from schedperf.lab.bisect.store import (
    OPTIONS,
    AnyEvent,
    Booted,
    Booting,
    Built,
    Chosen,
    Confirmed,
    Marked,
    Request,
    Skipped,
    Store,
    read_progress,
)
from schedperf.model.errors import InputError

COMMIT, OTHER = "a" * 40, "b" * 40
REQUEST = Request(
    repository="/linux",
    good=COMMIT,
    bad=OTHER,
    search=Options(paths=("kernel/sched",)),
    place="here",
    target="",
    result=None,
    build="0" * 64,
    recording=("-n=3",),
    words=("./prog",),
)
EVENTS: tuple[AnyEvent, ...] = (
    Built(at=1.0, commit=COMMIT, took_s=2.0),
    Booting(at=3.0, commit=COMMIT, boots=2),
    Chosen(at=4.0, workload="./prog", point="", metric="time", emulated=False),
    Booted(at=4.0, commit=COMMIT, values=(1.0, 1.5), took_s=3.0),
    Skipped(at=5.0, commit=OTHER, reason="does not boot"),
    Marked(at=6.0, commit=OTHER, side="bad"),
    Confirmed(at=7.0),
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with a few events."""
    store = Store(tmp_path / "search")
    store.begin(REQUEST)
    for event in EVENTS:
        store.append(event)
    return store


def test_events_are_read_as_they_were_written(store: Store) -> None:
    assert tuple(store.events()) == EVENTS
    progress = read_progress(store.events())
    assert progress.boots == [(COMMIT, 1.0), (COMMIT, 1.5)]
    assert progress.untestable == {OTHER: "does not boot"}
    assert progress.marks == {OTHER: "bad"}
    assert progress.is_confirmed
    assert (progress.builds, progress.build_s, progress.boot_s) == (1, 2.0, 1.5)
    assert progress.time_of(boots=4.0, builds=2.0) == 10.0
    assert progress.last == EVENTS[-1]


@pytest.mark.parametrize("left", ["{", '{"happened":{"event":"conf', "\x00" * 100])
def test_an_incomplete_last_line_is_left_out_and_removed(store: Store, left: str) -> None:
    with (store.folder / "events.jsonl").open("a") as file:
        file.write(left)
    assert tuple(store.events()) == EVENTS
    store.append(Confirmed(at=8.0))
    assert tuple(store.events()) == (*EVENTS, Confirmed(at=8.0))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"", "invalid JSON"),
        (b"null", "8: $ is null"),
        (b'{"happened": {"event": "exploded", "at": 1.0}}', "exploded"),
        (b'{"happened": {"event": "confirmed", "at": -1.0}}', "at is -1.0"),
        (b'{"happened": {"event": "building", "at": 1.0, "commit": "../.."}}', "commit"),
        (b'{"happened": {"event": "booted", "at": 1.0, "commit": "%b", "values": [0], '
         b'"took_s": null}}' % COMMIT.encode(), "values[0] is 0"),
        (b"[" * 100_000, "8:"),
        (b"\xff\xfe", "8:"),
    ],
)  # fmt: skip
def test_a_damaged_line_is_named(store: Store, line: bytes, problem: str) -> None:
    with (store.folder / "events.jsonl").open("ab") as file:
        file.write(line + b"\n" + b'{"happened":{"event":"confirmed","at":9.0}}\n')
    with pytest.raises(InputError) as error:
        store.events()
    assert f"{store.folder / 'events.jsonl'}:8" in str(error.value)
    assert problem in str(error.value)
    assert len(str(error.value)) < 1000


def test_an_enormous_file_is_refused(store: Store) -> None:
    with (store.folder / "events.jsonl").open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match="events"):
        store.events()


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"schema": "schedperf/bisect/1"}', b"\x00" * 1000]
)
def test_a_damaged_request_is_one_line(store: Store, content: bytes) -> None:
    (store.folder / "search.json").write_bytes(content)
    with pytest.raises(InputError, match=r"search\.json"):
        store.request()


def test_a_directory_belongs_to_one_search(store: Store) -> None:
    store.begin(REQUEST)
    with pytest.raises(InputError, match=r"another search \(different: the command\); choose"):
        store.begin(replace(REQUEST, words=("./other",)))


def test_each_field_of_a_request_has_an_option() -> None:
    assert {"schema", *OPTIONS} == {*Request.__struct_fields__}


def test_a_directory_without_a_search_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no search"):
        Store(tmp_path).request()


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "search").touch()
    with pytest.raises(InputError, match="choose another --output"):
        Store(tmp_path / "search").begin(REQUEST)


def test_a_second_search_in_a_directory_is_refused(store: Store) -> None:
    assert not store.is_claimed()
    with store.claimed():
        assert store.is_claimed()
        with pytest.raises(InputError, match="another `schedperf bisect run`"), store.claimed():
            pass
    assert not store.is_claimed()


def test_a_full_disk_loses_no_event(small_disk: Path) -> None:
    store = Store(small_disk / "search")
    store.begin(REQUEST)
    store.append(EVENTS[0])
    fill(small_disk / "full")
    long = Skipped(at=1.0, commit=COMMIT, reason="x" * 4000)
    kept = append_until_full(store, long)
    (small_disk / "full").unlink()
    assert len(store.events()) == 1 + kept
    store.append(EVENTS[-1])
    assert len(store.events()) == 2 + kept


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with path.open("wb", 0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def append_until_full(store: Store, event: AnyEvent) -> int:
    """Add an event until that is refused; return how often it was added."""
    kept = 0
    refused = ""
    while not refused:
        try:
            store.append(event)
            kept += 1
        except InputError as error:
            refused = str(error)
    assert "no space left on device; free space there" in refused
    return kept
