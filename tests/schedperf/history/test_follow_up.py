# SPDX-License-Identifier: GPL-2.0-or-later
"""Which runs the state of a step asks for."""

from pathlib import Path

import pytest

from schedperf.history.decide import advance_step, decide_step
from schedperf.history.follow_up import REVERTED
from schedperf.history.nightly import watch_store
from schedperf.history.questions.history import open_history
from schedperf.history.states import StepState
from schedperf.history.store.directory import Directory
from schedperf.history.store.requests import Request, end_request, open_requests
from tests.histories import add_to, night_name
from tests.schedperf.history.test_nightly import NIGHTS, PLACE, levels

COMMITS = [f"{number:040x}" for number in range(NIGHTS)]


def make_step(tmp_path: Path, revisions: list[str], better: str = "lower") -> tuple[Directory, str]:
    """Return a store with a step, and its identity."""
    lines = [
        f"boot,{night_name(i)},{revision},{value!r},1.0,s,{better}\n"
        for i, (value, revision) in enumerate(zip(levels(1), revisions, strict=True))
    ]
    path = tmp_path / "a.csv"
    path.write_text("series,time,revision,value,ref,unit,better\n" + "".join(lines))
    directory, _ = add_to(tmp_path / "history", path)
    watch_store(directory, pytest.fail)
    with open_history(directory.folder) as history:
        [step] = history.steps()
    return directory, step.id


def requests_of(directory: Directory) -> list[Request]:
    """Watch, and return the open requests."""
    watch_store(directory, pytest.fail)
    with open_history(directory.folder) as history:
        return [each.request for each in open_requests(history.database)]


def end_all(directory: Directory, state: str = "done") -> None:
    for each in requests_of(directory):
        end_request(directory, each.id, state, boots=1, reason="x", say=pytest.fail)  # type: ignore[arg-type]


def reach(directory: Directory, step: str, *states: StepState, **numbers: float) -> None:
    for state in states:
        assert advance_step(
            directory, step, state, reason=f"found: {state}", numbers=numbers, say=pytest.fail
        )


def test_each_state_asks_for_the_next_runs(tmp_path: Path) -> None:
    directory, step = make_step(tmp_path, COMMITS)
    assert [each.kind for each in requests_of(directory)] == ["retest"]
    end_all(directory)
    reach(directory, step, "reproduced")
    [request] = requests_of(directory)
    # The last night before the step, and the first one after it.
    expected = ("bisect", COMMITS[PLACE - 1], COMMITS[PLACE])
    assert (request.kind, request.reference, request.new) == expected
    end_all(directory)
    reach(directory, step, "first bad known")
    assert [each.kind for each in requests_of(directory)] == ["revert"]
    end_all(directory)
    assert requests_of(directory) == []


def test_a_revert_that_the_bisection_has_tested_is_not_requested(tmp_path: Path) -> None:
    directory, step = make_step(tmp_path, COMMITS)
    end_all(directory)
    reach(directory, step, "reproduced")
    end_all(directory)
    reach(directory, step, "first bad known", **{REVERTED: 1.0})
    assert requests_of(directory) == []


def test_releases_and_improvements_are_not_bisected(tmp_path: Path) -> None:
    directory, step = make_step(tmp_path, [f"6.19.{i}" for i in range(NIGHTS)])
    end_all(directory)
    reach(directory, step, "reproduced")
    assert requests_of(directory) == []
    other = tmp_path / "other"
    other.mkdir()
    directory, step = make_step(other, COMMITS, "higher")
    end_all(directory)
    reach(directory, step, "reproduced")
    assert requests_of(directory) == []


def test_a_failed_request_is_made_three_times_and_a_cancelled_one_once(tmp_path: Path) -> None:
    directory, _ = make_step(tmp_path, COMMITS)
    for _ in range(3):
        assert len(requests_of(directory)) == 1
        end_all(directory, "failed")
    assert requests_of(directory) == []
    other = tmp_path / "other"
    other.mkdir()
    directory, _ = make_step(other, COMMITS)
    end_all(directory, "cancelled")
    assert requests_of(directory) == []


def test_what_was_found_does_not_reopen_a_closed_step(tmp_path: Path) -> None:
    directory, step = make_step(tmp_path, COMMITS)
    decide_step(directory, step, "accepted", reason="known", by="a person", say=pytest.fail)
    assert not advance_step(
        directory, step, "range known", reason="found", numbers={}, say=pytest.fail
    )
    with open_history(directory.folder) as history:
        assert history.step(step).state == "accepted"
