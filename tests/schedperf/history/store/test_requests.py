# SPDX-License-Identifier: GPL-2.0-or-later
"""Requests are taken by one runner, whose lease ends; all but leases is made again."""

from pathlib import Path

import pytest

from schedperf.history.store.check import check
from schedperf.history.store.database import Database
from schedperf.history.store.directory import Directory, open_or_create
from schedperf.history.store.requests import (
    LONGEST_LEASE_S,
    Queue,
    end_request,
    find_open,
    make_request,
)
from schedperf.history.store.writer import rebuild
from schedperf.model.errors import InputError
from tests.histories import dump


def silent(_line: str) -> None:
    pass


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    return open_or_create(tmp_path / "store")[0]


def request(store: Directory, machine: str = "2x48") -> str:
    return make_request(
        store, "retest", machine=machine, job="hackbench", boots=8, why="+5%", say=silent
    )


def queue(store: Directory, clock: Clock) -> Queue:
    database: Database = store.database()
    return Queue(database, clock)


def test_requests_are_taken_in_their_order_by_the_named_machine(store: Directory) -> None:
    first, second, other = request(store), request(store), request(store, "arm-32")
    open_requests = queue(store, Clock())
    taken = [open_requests.take("2x48", "runner", 60.0) for _ in range(3)]
    assert [each.id if each else None for each in taken] == [first, second, None]
    found = open_requests.take("arm-32", "runner", 60.0)
    assert found is not None
    assert (found.id, found.boots, found.why) == (other, 8, "+5%")


def test_the_request_of_a_runner_that_died_is_taken_again(store: Directory) -> None:
    first = request(store)
    clock = Clock()
    open_requests = queue(store, clock)
    assert open_requests.take("2x48", "one", 60.0)
    clock.now += 30.0
    open_requests.renew(first, "one", 60.0)
    clock.now += 59.0
    assert open_requests.take("2x48", "two", 60.0) is None
    clock.now += 1.0
    assert open_requests.take("2x48", "two", 60.0)
    with pytest.raises(InputError, match="not taken by one any more"):
        open_requests.renew(first, "one", 60.0)
    open_requests.release(first, "two")
    assert open_requests.take("2x48", "three", 60.0)


def test_a_request_is_taken_by_its_identity_and_kept(store: Directory) -> None:
    first, second = request(store), request(store)
    clock = Clock()
    open_requests = queue(store, clock)
    assert open_requests.take_request(second, "one", 60.0)
    assert not open_requests.take_request(second, "two", 60.0)
    # Its runner keeps it for longer, also after it was killed.
    clock.now += 50.0
    assert open_requests.take_request(second, "one", 60.0)
    clock.now += 50.0
    assert not open_requests.take_request(second, "two", 60.0)
    assert not open_requests.take_request("0" * 12, "two", 60.0)
    end_request(store, first, "done", boots=8, reason="reproduced", say=silent)
    assert not open_requests.take_request(first, "two", 60.0)


def test_the_open_request_for_a_step_is_found(store: Directory) -> None:
    made = [
        make_request(
            store, "retest", machine="2x48", job="hackbench", boots=8, why="+5%", say=silent,
            step="s1",
        )
        for _ in range(2)
    ]  # fmt: skip
    database = store.database()
    assert find_open(database, "retest", "s1") == made[0]
    end_request(store, made[0], "failed", boots=0, reason="power", say=silent)
    assert find_open(database, "retest", "s1") == made[1]
    assert find_open(database, "bisect", "s1") is None
    assert find_open(database, "retest", "s2") is None


def test_a_clock_that_was_set_back_does_not_hold_a_request_for_ever(store: Directory) -> None:
    request(store)
    clock = Clock()
    open_requests = queue(store, clock)
    assert open_requests.take("2x48", "one", 1e12)
    clock.now -= 2 * LONGEST_LEASE_S
    assert open_requests.take("2x48", "two", 60.0)


def test_requests_and_their_ends_are_made_again_without_leases(store: Directory) -> None:
    first, second = request(store), request(store)
    open_requests = queue(store, Clock())
    assert open_requests.take("2x48", "runner", 60.0)
    end_request(store, first, "done", boots=8, reason="reproduced", say=silent)
    before = dump(store)
    assert [row[0] for row in before["request"] if row[11] == "open"] == [second]
    rebuild(store, silent)
    assert dump(store) == before
    assert list(check(store, pytest.fail)) == []
    # The other request still has its lease, since a rebuild does not touch them.
    taken = open_requests.take("2x48", "runner", 60.0)
    assert taken is not None
    assert taken.id == second
