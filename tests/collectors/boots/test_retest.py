# SPDX-License-Identifier: GPL-2.0-or-later
"""Retests: boots are made until a look decides; a crash decides nothing else."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.boots import engine as engine_module
from schedperf_collectors.boots.engine import Engine
from schedperf_collectors.boots.retest import Judge, RetestState
from schedperf_collectors.boots.state import OVER, State, Store
from schedperf_collectors.command_line.main import _run
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.analysis import CONTINUE, LOST, REFUSE, STOP
from tests.collectors.boots.test_engine import Crash, CrashingStore, Machine
from tests.collectors.boots.test_engine import _state as new_state

LOOKS = [2, 3, 5]


class Asked:
    """An analysis with chosen answers."""

    def __init__(self, answers: Mapping[int, str]) -> None:
        self.answers = answers
        self.questions: list[Mapping[str, Any]] = []

    def ask(self, what: str, **values: Any) -> Mapping[str, Any]:
        assert what == "retested"
        self.questions.append(values)
        return {"answer": self.answers.get(values["boots"], CONTINUE), "text": "as chosen"}

    @property
    def looks(self) -> list[int]:
        """The boots per kernel at each look."""
        return [each["boots"] for each in self.questions if each["boots"]]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_POLL_S", 0.0)
    monkeypatch.setattr("os.fsync", lambda _: None)


def retest_state(folder: Path) -> State:
    retest = RetestState(plan='{"seen": 0.1}', request='{"step": "5e"}', looks=LOOKS)
    return dataclasses.replace(new_state(folder, boots=LOOKS[-1]), retest=retest)


def drive(store: Store, machine: Machine, asked: Asked | None, said: list[str]) -> State:
    with signals:
        judge = Judge(asked)  # type: ignore[arg-type] # a fake
        engine = Engine(store, machine, said.append, lambda: None, judge=judge)  # type: ignore[arg-type]
        engine.run()
        return engine.state


@pytest.mark.parametrize(
    ("answers", "looks"), [({2: STOP}, [2]), ({3: STOP}, [2, 3]), ({5: STOP}, [2, 3, 5])]
)
def test_boots_end_at_the_look_that_decides(
    answers: Mapping[int, str], looks: Sequence[int], tmp_path: Path
) -> None:
    store, machine, asked, said = Store(tmp_path / "state"), Machine(), Asked(answers), list[str]()
    store.write(retest_state(tmp_path))
    state = drive(store, machine, asked, said)
    assert (state.phase, state.status, state.ended) == (OVER, 0, None)
    assert state.done == list(range(2 * looks[-1]))
    assert asked.looks == looks
    assert machine.reasons == {"k-one": None, "k-two": None}
    assert f"look at {looks[-1]} boots per kernel: as chosen" in said
    # The first boot is checked for the result; there is no other bundle yet.
    first, *_, last = asked.questions
    assert first["boots"] == 0
    assert last == {
        "plan": {"seen": 0.1},
        "request": {"step": "5e"},
        "boots": looks[-1],
        "is_last": looks[-1] == LOOKS[-1],
        "sides": [f"{tmp_path}/k-one.tar", f"{tmp_path}/k-two.tar"],
    }
    job = machine.job["options"]
    assert job[job.index("--retest-plan") + 1] == '{"seen": 0.1}'


@pytest.mark.parametrize("seed", range(30))
def test_crashes_decide_nothing_else(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)  # noqa: S311 # faults, no secrets
    store, machine, asked = CrashingStore(tmp_path / "state", ()), Machine(), Asked({3: STOP})
    store.write(retest_state(tmp_path))
    store.moments = [choose.choice((-1, 1)) * choose.randint(1, 50) for _ in range(5)]
    machine.random = choose
    machine.deaf_chance = 0.1
    machine.cut_chance = 0.01 if seed % 2 else 0.0
    for _ in range(1000):
        try:
            state = drive(store, machine, asked, [])
            break
        except Crash:
            continue
    # A look may be taken again, but none is left out, and none follows.
    assert sorted(set(asked.looks)) == asked.looks or set(asked.looks) == {2, 3}
    if not machine.cut_chance:
        assert (state.done, state.ended) == (list(range(6)), None)


def test_without_the_result_the_recording_ends(tmp_path: Path) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    store.write(retest_state(tmp_path))
    state = drive(store, machine, Asked({0: REFUSE}), [])
    assert (state.done, state.ended, state.status) == ([0], "as chosen", 1)
    assert machine.reasons["k-one"] == "as chosen after 1 of 5 boots"


def test_without_an_answer_the_state_is_kept(tmp_path: Path) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    store.write(retest_state(tmp_path))
    for asked, reason in ((Asked({2: LOST}), "as chosen"), (None, "has no analysis")):
        with pytest.raises(RecordError, match=f"{reason}; then run `schedperf ab continue -o "):
            drive(store, machine, asked, [])
    # It goes on with the same look.
    asked = Asked({2: STOP})
    assert drive(store, machine, asked, []).status == 0
    assert asked.looks == [2]


@pytest.mark.parametrize(
    "changes",
    [
        {"looks": []},
        {"looks": [4, 4]},
        {"looks": [0, 4]},
        {"looks": "4"},
        {"plan": "[]"},
        {"plan": "{"},
        {"request": "\x1b[2J"},
        {"looked": "4"},
    ],
)
def test_a_damaged_state_is_one_line(changes: Mapping[str, object], tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    store.write(retest_state(tmp_path))
    record = json.loads(store.path.read_text())
    record["retest"].update(changes)
    store.path.write_text(json.dumps(record))
    with pytest.raises(RecordError, match="damaged state file") as caught:
        store.read()
    assert str(caught.value).isprintable()


KERNELS = ("--kernel", "base=one", "--kernel", "new=two")
RETEST = (*KERNELS, "--retest", "5e", "--on", "ssh:lab")
ASKING = (*RETEST, "--ask-fd", "98,99")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*KERNELS, "--on", "ssh:lab", "--store", "history"), "--store: only valid with --retest"),
        ((*KERNELS, "--resume", "--retest", "5e"), "--retest: needs another machine"),
        (("--retest", "5e"), "--retest: only valid with --kernel"),
        (RETEST, "--retest: not available in the recorder of `schedperf pack`"),
        ((*ASKING, "--kernel", "c=three"), "--retest: 3 kernels (expected two: base and new)"),
        ((*ASKING, "--boots", "8"), "--boots: cannot be combined with --retest"),
        ((*ASKING, "--append"), "--append: cannot be combined with --retest"),
        ((*ASKING, "--feature", "LAG"), "--feature: cannot be combined with --retest"),
        ((*ASKING, "--boot", "virtme-ng"), "--retest: cannot be combined with --boot virtme-ng"),
        ((*RETEST, "--retest-plan", "[]"), "invalid JSON '[]' (expected an object)"),
    ],
)
def test_options_that_do_not_suit_a_retest(arguments: Sequence[str], message: str) -> None:
    with pytest.raises(RecordError) as caught:
        _run(["ab", "-o", "night", *arguments, "--", "true"])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
