# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.questions.causes: steps of one place and tree have one cause."""

from datetime import timedelta
from pathlib import Path

import pytest

from schedperf.history.questions.causes import cause_of, find_causes
from schedperf.history.questions.history import open_history
from schedperf.history.store.directory import Directory
from schedperf.history.store.nights import night_of, position_of
from schedperf.model.errors import InputError
from tests.step_stores import OTHER_STEP, PLACE, STEP, decide, make_step_store


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    return make_step_store(tmp_path)


def around(days: int, before: int, after: int) -> dict[str, object]:
    """Return a night, and a range of possible nights around it."""
    night = PLACE + timedelta(days=days)
    first, last = (f"{night + timedelta(days=each)}" for each in (-before, after))
    numbers = {"earliest": position_of(first), "latest": position_of(last)}
    return {"night": f"{night}", "numbers": {**numbers, "found": position_of(last)}}


def causes(store: Directory) -> list[list[str]]:
    with open_history(store.folder) as history:
        return [[each.id for each in cause.steps] for cause in find_causes(history)]


def test_steps_that_share_a_night_have_one_cause(store: Directory) -> None:
    decide(store, "groups=4", step=OTHER_STEP, **around(1, 2, 1))
    decide(store, "groups=1", step="5e0", **around(10, 1, 1))
    assert causes(store) == [[STEP, OTHER_STEP], ["5e0"]]
    with open_history(store.folder) as history:
        cause = cause_of(history, OTHER_STEP)
        assert cause.leader.id == STEP
        assert cause.leader.suspicion.found == f"{PLACE}"
        assert (cause.direction, cause.is_open, len(cause.machines)) == ("worse", True, 1)
        with pytest.raises(InputError, match="no such step"):
            cause_of(history, "nothing")


def test_a_chain_of_ranges_is_not_one_cause(store: Directory) -> None:
    # The first and the last of these share no night.
    decide(store, "groups=4", step="5e1", **around(0, 1, 3))
    decide(store, "groups=1", step="5e2", **around(4, 2, 2))
    assert causes(store) == [[STEP, "5e1"], ["5e2"]]


def test_what_was_refuted_has_no_cause(store: Directory) -> None:
    decide(store, state="not reproduced")
    assert causes(store) == []
    with open_history(store.folder) as history:
        assert [each.id for each in cause_of(history, STEP).steps] == [STEP]


def test_a_regression_beside_an_improvement_is_worse(store: Directory) -> None:
    decide(store, "groups=4", step="00", direction="better", change=-0.1)
    with open_history(store.folder) as history:
        [cause] = find_causes(history)
    assert ({each.id for each in cause.steps}, cause.direction) == ({"00", STEP}, "worse")


@pytest.mark.parametrize("night", ["2026-11-23", "2026-11-23-2", "0001-01-01"])
def test_nights_and_positions(night: str) -> None:
    assert night_of(position_of(night)) == night


@pytest.mark.parametrize("order", [-1, 0, 57, 10**12])
def test_orders_are_no_nights(order: int) -> None:
    assert night_of(order) is None
