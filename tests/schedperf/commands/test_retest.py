# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab --retest``: what is retested, when it is over, and what the history and `compare` say."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.commands._judge import Judge
from schedperf.history.decide import decide_step
from schedperf.history.questions.history import open_history
from schedperf.history.questions.records import StepChange
from schedperf.history.store.directory import Directory
from schedperf.history.store.requests import Queue
from schedperf.inputs.bundle.open import open_bundle
from tests.collectors.boots.test_machine import HOOK, running_machine
from tests.histories import dump
from tests.retests import (
    LOOKS,
    NOISE,
    REQUEST,
    STEP,
    WORKLOAD,
    make_plan,
    make_store,
    record_boots,
)

RECORDED = {"workload": WORKLOAD, "points": [""]}
KERNELS = [{"release": "6.18.0", "commit": None}, {"release": "6.19.0", "commit": None}]


def ask(of: str, judge: Judge | None = None, **changes: Any) -> Any:
    """Ask for the plan of a retest."""
    question = {
        "ask": "retest", "of": of, "store": None, "result": None, "underpowered": False,
        "jobs": [RECORDED], "owner": "/lab/retest", "kernels": KERNELS,
    }  # fmt: skip
    return (judge or Judge()).answer({**question, **changes})


def look(folder: Path, begun: Any, boots: int, change: float, judge: Judge | None = None) -> Any:
    """Record boots, and ask whether they suffice."""
    sides = [
        record_boots(
            folder / f"{side}.tar", side,
            [0.5 * math.exp(noise) * factor for noise in NOISE[:boots]], begun["plan"],
        )
        for side, factor in (("base", 1.0), ("new", 1.0 + change))
    ]  # fmt: skip
    question = {
        "ask": "retested", "plan": begun["plan"], "request": begun["request"], "boots": boots,
        "is_last": boots == LOOKS[-1][0], "sides": list(map(str, sides)),
    }  # fmt: skip
    return (judge or Judge()).answer(question)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Directory:
    """Make a store that no test changes."""
    return make_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    return make_store(tmp_path)


def changes_of(directory: Directory) -> Sequence[StepChange]:
    with open_history(directory.folder) as history:
        return history.step_changes(STEP)


def request_of(directory: Directory) -> Any:
    [row] = dump(directory)["request"]
    return row


def test_the_plan_is_that_of_the_step(store: Directory) -> None:
    judge = Judge()
    begun = ask(STEP, judge, store=str(store.folder))
    assert (begun["answer"], begun["warnings"]) == ("continue", [])
    plan = {**begun["plan"], "looks": [list(each) for each in begun["plan"]["looks"]]}
    assert plan == make_plan(step=STEP)
    # Another runner waits until this one has ended.
    other = ask(STEP, store=str(store.folder), owner="/lab/other")
    assert other["answer"] == "refuse"
    assert "another runner has its retest" in other["text"]
    assert ask(STEP, store=str(store.folder))["answer"] == "continue"
    judge.close()
    assert ask(STEP, store=str(store.folder), owner="/lab/other")["answer"] == "continue"


def test_a_step_that_is_reproduced(store: Directory, tmp_path: Path) -> None:
    begun = ask(STEP, store=str(store.folder))
    answer = look(tmp_path, begun, 4, 0.10)
    assert answer["answer"] == "stop"
    assert answer["text"].startswith("retest: reproduced: +10.1% [+7.9%, +12.3%] (one-sided p = ")
    # Again after a kill: it is decided once.
    assert look(tmp_path, begun, 4, 0.10) == answer
    suspected, reproduced = changes_of(store)
    assert (suspected.state, reproduced.state) == ("suspected", "reproduced")
    assert reproduced.change == pytest.approx(0.10, abs=0.002)
    numbers = json.loads(reproduced.numbers)
    assert (numbers["boots"], numbers["level"]) == (4, 0.0005)
    assert numbers["p_one_sided"] < 0.0005
    assert "done" in request_of(store)
    assert Queue(store.database()).take_request(REQUEST, "another", 60.0) is False


def test_boots_are_added_until_a_look_decides(store: Directory, tmp_path: Path) -> None:
    begun = ask(STEP, store=str(store.folder))
    answer = look(tmp_path, begun, 4, 0.04)
    assert answer["answer"] == "continue"
    assert answer["text"].startswith("open, +4.0% so far (one-sided p = ")
    assert answer["text"].endswith("the next look is at 8")
    answer = look(tmp_path, begun, 8, 0.04)
    assert answer["answer"] == "stop"
    assert "n = 8+8 boots" in answer["text"]


@pytest.mark.parametrize(
    ("change", "text", "state"),
    [
        (0.0, "not reproduced, smaller than half of what was seen (+10.0%): +0.0% [", "not "),
        (-0.05, "not reproduced, smaller than half of what was seen (+10.0%): -5.0% [", "not "),
        (0.025, "smaller than half of what was seen (+10.0%): +2.5% [+0.", ""),
    ],
)
def test_a_step_that_is_not_there(
    change: float, text: str, state: str, store: Directory, tmp_path: Path
) -> None:
    answer = look(tmp_path, ask(STEP, store=str(store.folder)), 4, change)
    assert answer["answer"] == "stop"
    assert answer["text"].startswith(f"retest: {text}")
    suspected, decided = changes_of(store)
    # A smaller change is left to people: the step stays as it was.
    assert decided.state == ("not reproduced" if state else "suspected")
    assert decided.reason == answer["text"]
    # What was seen stays with the step.
    assert decided.change == suspected.change == 0.10
    assert "done" in request_of(store)


def test_the_last_look_may_decide_nothing(store: Directory, tmp_path: Path) -> None:
    begun = ask(STEP, store=str(store.folder))
    begun["plan"]["seen"] = 0.011
    answer = look(tmp_path, begun, 16, 0.008)
    assert answer["answer"] == "stop"
    assert (
        "neither reproduced nor excluded by the last look, at 16 boots per side" in answer["text"]
    )
    assert changes_of(store)[-1].state == "suspected"


def test_a_step_that_was_closed_meanwhile_stays_closed(store: Directory, tmp_path: Path) -> None:
    begun = ask(STEP, store=str(store.folder))
    decide_step(store, STEP, "accepted", reason="known", by="me", say=print)
    assert look(tmp_path, begun, 4, 0.10)["answer"] == "stop"
    assert changes_of(store)[-1].state == "accepted"


def test_a_retest_without_a_request_has_no_lease(store: Directory, tmp_path: Path) -> None:
    begun = ask(STEP, store=str(store.folder))
    look(tmp_path, begun, 4, 0.0)
    # What was not reproduced may be retested again.
    begun = ask(STEP, store=str(store.folder))
    assert begun["request"]["request"] is None
    look(tmp_path, begun, 4, 0.10)
    assert [each.state for each in changes_of(store)][1:] == ["not reproduced", "reproduced"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"state": "accepted"}, f"step {STEP}: its state is 'accepted' (expected suspected or"),
        ({"state": "reproduced"}, "its state is 'reproduced'"),
        ({"change": None}, "the size of its change is not known as a ratio"),
        ({"change": 0.0}, "the size of its change is not known as a ratio"),
        ({"change": -0.1}, "its change (-10.0%) is not in its direction (worse)"),
        ({"change": 1e9}, "cannot be retested"),
    ],
)
def test_a_step_that_cannot_be_retested(changes: dict[str, Any], text: str, tmp_path: Path) -> None:
    store = make_store(tmp_path, **changes)
    before = dump(store)
    answer = ask(STEP, store=str(store.folder))
    assert answer["answer"] == "refuse"
    assert text in answer["text"]
    assert dump(store) == before


def test_a_machine_that_is_too_noisy(tmp_path: Path) -> None:
    store = make_store(tmp_path, change=0.0102)
    answer = ask(STEP, store=str(store.folder))
    assert answer["answer"] == "refuse"
    assert "16 boots per side reproduce changes from 1.1% (80% power)" in answer["text"]
    assert "+1.0% was seen; it stays 'suspected'" in answer["text"]
    assert [each.state for each in changes_of(store)] == ["suspected"]
    answer = ask(STEP, store=str(store.folder), underpowered=True)
    assert answer["answer"] == "continue"
    assert "+1.0% was seen" in answer["warnings"][0]


@pytest.mark.parametrize(
    ("of", "changes", "text"),
    [
        ("unknown", {}, "unknown: no such step"),
        ("\x1b[2J", {}, "no such step"),
        (
            STEP,
            {"jobs": [{**RECORDED, "points": ["groups=1", "groups=2"]}]},
            "is of a command without points, which this",
        ),
        (STEP, {"store": "/nonexistent"}, "/nonexistent: no store"),
        (STEP, {"store": None}, "no such file (expected one of compare --json)"),
    ],
)
def test_what_cannot_be_retested(
    of: str, changes: dict[str, Any], text: str, made: Directory
) -> None:
    answer = ask(of, **{"store": str(made.folder), **changes})
    assert answer["answer"] == "refuse"
    assert text in answer["text"]
    assert answer["text"].isprintable()


def test_of_several_jobs_that_of_the_step_is_recorded(made: Directory) -> None:
    judge = Judge()
    other = {"workload": "other", "points": ["g=1"]}
    answer = ask(STEP, judge, store=str(made.folder), jobs=[other, RECORDED])
    judge.close()
    assert (answer["answer"], answer["job"]) == ("continue", 1)
    assert answer["plan"]["workload"] == WORKLOAD
    assert answer["warnings"] == []
    answer = ask(STEP, judge, store=str(made.folder), jobs=[other, other])
    assert answer["answer"] == "refuse"
    assert f"--jobs: no job records {WORKLOAD}, the workload of step {STEP}" in answer["text"]


def test_another_kernel_or_command_is_a_warning(made: Directory) -> None:
    kernels = [{"release": "6.1.0", "commit": None}, {"release": "6.2.0", "commit": "6.19.0"}]
    judge = Judge()
    jobs = [{**RECORDED, "workload": "./test"}]
    answer = ask(STEP, judge, store=str(made.folder), kernels=kernels, jobs=jobs)
    judge.close()
    assert answer["answer"] == "continue"
    kernel, command = answer["warnings"]
    assert "6.1.0 is not one of the kernels before the step, or of its reference" in kernel
    assert f"is of {WORKLOAD}, not of ./test" in command


def compared(folder: Path, run_cli: Any, **chosen: Any) -> Path:
    """Compare 4 boots of both kernels, of which new is 10% slower; return the file."""
    for side, factor in (("base", 1.0), ("new", 1.1)):
        times = [0.5 * math.exp(noise) * factor for noise in NOISE[:4]]
        record_boots(folder / f"{side}.tar", side, times, **chosen)
    done = run_cli("compare", str(folder / "base.tar"), str(folder / "new.tar"), "--json", "-")
    assert done.returncode == 1, done.stderr
    path = folder / "comparison.json"
    path.write_text(done.stdout)
    return path


def test_a_comparison_is_retested(run_cli: Any, tmp_path: Path) -> None:
    path = compared(tmp_path, run_cli)
    begun = ask(str(path))
    assert (begun["answer"], begun["request"]) == ("continue", {})
    assert begun["plan"]["seen"] == pytest.approx(0.10, abs=0.002)
    assert begun["plan"]["step"] is None
    assert ask(str(path), result="hackbench time")["plan"] == begun["plan"]
    assert look(tmp_path, begun, 4, 0.10)["text"].startswith("retest: reproduced: +10.1%")
    answer = ask(str(path), result="rate")
    assert answer["answer"] == "refuse"
    assert "--result rate: not found (it has hackbench time" in answer["text"]


def test_hostile_comparisons_are_refused(run_cli: Any, tmp_path: Path) -> None:
    path = compared(tmp_path, run_cli)
    good = json.loads(path.read_text())

    def refused(content: str) -> str:
        path.write_text(content)
        answer = ask(str(path))
        assert answer["answer"] == "refuse"
        assert answer["text"].isprintable()
        return str(answer["text"])

    for damaged in ("", "[]", "{}", "[" * 100_000, path.read_text()[:2000], '{"rows": 1e999}'):
        refused(damaged)
    for ratio in (0, -1.0, 1.0, 1e300, None):
        good["rows"][0]["ratio"] = ratio
        assert "name another result by --result" in refused(json.dumps(good))
    good["rows"][0].update(ratio=1.1, verdict="no-change")
    assert "no result has changed" in refused(json.dumps(good))


def test_a_bundle_without_the_result_ends_the_recording(tmp_path: Path) -> None:
    begun = {"plan": make_plan(metric="rate"), "request": {}}
    answer = look(tmp_path, begun, 1, 0.0)
    assert answer["answer"] == "refuse"
    assert (
        "rate has no value (the runs have hackbench time); name a result by --result"
        in answer["text"]
    )


def test_a_damaged_bundle_interrupts_the_retest(tmp_path: Path) -> None:
    (tmp_path / "base.tar").write_bytes(b"cut")
    question = {
        "ask": "retested", "plan": make_plan(), "request": {}, "boots": 4, "is_last": False,
        "sides": [str(tmp_path / "base.tar")],
    }  # fmt: skip
    assert Judge().answer(question)["answer"] == "lost"


# Boots of both kernels differ by 10%; the noise of a boot follows from its number.
SCRIPT = """
number=$(cat {folder}/number 2>/dev/null || echo 0); echo $((number + 1)) > {folder}/number
awk -v n="$number" -v new="$(grep -c two /proc/sys/kernel/osrelease)" \
    'BEGIN {{ print "took", (1 + 0.1 * new) * (1 + 0.004 * ((n * 5 % 7) - 3)) }}'
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")
def test_a_machine_that_is_reached_by_ssh_reproduces_a_step(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    out = tmp_path / "out"
    words = [
        "-o", str(out), "--kernel", "base=one", "--kernel", "new=two", "--boot",
        f"command:{HOOK}", "--on", "ssh:root@lab", "--settle", "0", "-n", "1", "--warmup", "0",
        "--with", "none", "--metric", "time[s,lower]=took ([0-9.]+)", "--retest", STEP, "--store",
        str(store.folder), "--result", "time", "--", "sh", "-c", SCRIPT.format(folder=tmp_path),
    ]  # fmt: skip
    with running_machine(tmp_path / "machine") as machine:

        def start(*arguments: str) -> subprocess.Popen[str]:
            return subprocess.Popen(
                machine.command(sys.executable, "-m", "schedperf", "ab", *arguments),
                env=machine.environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )

        killed = start(*words)
        until = time.monotonic() + 240
        while not Path(f"{out}-new.tar").exists() and time.monotonic() < until:
            time.sleep(0.05)
        killed.kill()
        killed.communicate()
        again = start("continue", "-o", str(out))
        _, errors = again.communicate(timeout=240)
    assert again.returncode == 0, errors
    assert "look at 4 boots per kernel: retest: reproduced: +1" in errors
    assert [each.state for each in changes_of(store)] == ["suspected", "reproduced"]
    assert "done" in request_of(store)
    bundles = [open_bundle(Path(f"{out}-{name}.tar")) for name in ("base", "new")]
    assert all(bundle.complete and bundle.retest is not None for bundle in bundles)
    assert [len(bundle.boots) for bundle in bundles] == [4, 4]
    paths = [str(bundle.path) for bundle in bundles]
    done = subprocess.run(
        [sys.executable, "-m", "schedperf", "compare", *paths, "--json", "-"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    [row] = json.loads(done.stdout)["rows"]
    decided = changes_of(store)[-1]
    assert row["verdict"] == "regression"
    assert row["ratio"] - 1.0 == pytest.approx(decided.change)
    assert decided.reason.removeprefix("retest: reproduced: ") in row["reason"]
