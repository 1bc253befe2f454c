# SPDX-License-Identifier: GPL-2.0-or-later
"""A function is called for all items, in order, though some items kill the process."""

import os
import signal

import pytest

from schedperf.inputs.many import workers as module
from schedperf.inputs.many.lost import Lost
from schedperf.inputs.many.workers import start_workers

MANY = range(40)


def double(number: int) -> int:
    return 2 * number


def die_at_seven(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def fail_at_seven(number: int) -> int:
    if number == 7:
        raise ValueError("seven")
    return 2 * number


@pytest.fixture(autouse=True)
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "count_workers", lambda: 2)


@pytest.mark.parametrize("are_long", [False, True])
@pytest.mark.parametrize("items", [0, 1, 3, 40])
def test_results_come_in_the_order_of_the_items(items: int, are_long: bool) -> None:  # noqa: FBT001 # a parameter
    with start_workers(items, are_long=are_long) as workers:
        found = list(workers.map(double, range(items)))
    assert found == [(number, 2 * number) for number in range(items)]


def test_items_of_one_map_may_be_the_results_of_another() -> None:
    with start_workers(len(MANY)) as workers:
        doubled = workers.map(double, MANY)
        inner = (result for _, result in doubled if not isinstance(result, Lost))
        assert [result for _, result in workers.map(double, inner)] == [4 * each for each in MANY]


def test_an_item_that_kills_its_process_does_not_cost_the_others() -> None:
    with start_workers(len(MANY)) as workers:
        inner = (number for number, _ in workers.map(double, MANY))
        found = dict(workers.map(die_at_seven, inner))
    assert isinstance(found.pop(7), Lost)
    assert found == {number: 2 * number for number in MANY if number != 7}


def test_an_error_of_the_function_is_raised() -> None:
    with start_workers(len(MANY)) as workers, pytest.raises(ValueError, match="seven"):
        list(workers.map(fail_at_seven, MANY))
