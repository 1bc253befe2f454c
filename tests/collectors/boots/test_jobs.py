# SPDX-License-Identifier: GPL-2.0-or-later
"""Several jobs per boot: each is recorded once in each planned boot, whatever happens between."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle
from schedperf_collectors.boots import commands
from schedperf_collectors.boots import engine as engine_module
from schedperf_collectors.boots.engine import AFTER_RUN, Engine
from schedperf_collectors.boots.retest import begin_retest
from schedperf_collectors.boots.state import OVER, JobState, State, Store
from schedperf_collectors.command_line.main import _run
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.analysis import CONTINUE
from schedperf_collectors.recorder.jobs import read_jobs
from schedperf_collectors.recorder.options import make_parser
from schedperf_collectors.recorder.request import Request
from tests.collectors.boots.test_engine import RUNS, CrashingStore, Machine, _until_over
from tests.collectors.boots.test_engine import _state as one_job
from tests.collectors.boots.test_machine import HOOK, ProcessMachine, running_machine

_LIMIT_S = 240
NAMES = ("one", "two", "three")


class JobMachine(Machine):
    """A target on which some jobs fail: by name, in boots of these kernels."""

    def __init__(self, **failing: Sequence[str]) -> None:
        super().__init__()
        self.failing = failing
        self.started: list[tuple[str, str]] = []
        self.states: dict[str, dict[str, Any]] = {}

    def _start(self, wanted: dict[str, Any]) -> None:
        super()._start(wanted)
        self.started.append((wanted["id"], wanted["command"][0]))
        self.status = int(self.release in self.failing.get(wanted["command"][0], ()))


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "machine" not in request.fixturenames:
        monkeypatch.setattr(engine_module, "_POLL_S", 0.0)
        monkeypatch.setattr(os, "fsync", lambda _: None)


def _state(tmp_path: Path, boots: int = 2) -> State:
    jobs = [JobState(name, [f"--runs={i}"], [name]) for i, name in enumerate(NAMES, 1)]
    return dataclasses.replace(one_job(tmp_path, boots=boots), jobs=jobs)


def _recorded(machine: JobMachine) -> Counter[str]:
    """Return how many recordings of each job have all their runs."""
    commands_ = dict(machine.started)
    runs = Counter(job for each in machine.bundles.values() for job, _, _ in each)
    return Counter(commands_[job] for job, count in runs.items() if count == RUNS)


def test_each_boot_records_all_jobs_in_the_order_of_the_file(tmp_path: Path) -> None:
    store, machine, said = Store(tmp_path / "state"), JobMachine(), list[str]()
    store.write(_state(tmp_path))
    state = _until_over(store, machine, said)
    assert (state.phase, state.done, state.status, state.job) == (OVER, [0, 1, 2, 3], 0, 0)
    assert [name for _, name in machine.started] == [*NAMES] * 4
    # Three jobs take the boots of one, and one more to the default kernel.
    assert machine.boots == 4
    assert "boot 1 of 4 (k-one): recording two (job 2 of 3)" in said
    assert machine.job["options"][0] == "--runs=3"
    assert state.boot_s is not None
    assert machine.reasons == {"k-one": None, "k-two": None}


@pytest.mark.parametrize("seed", range(60))
def test_crashes_and_power_cuts_record_nothing_twice(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311 # faults, no secrets
    store, machine = CrashingStore(tmp_path / "state", ()), JobMachine()
    store.write(_state(tmp_path))
    store.moments = [choose.choice((-1, 1)) * choose.randint(1, 50) for _ in range(5)]
    machine.random = choose
    machine.deaf_chance = 0.1
    machine.cut_chance = 0.01 if seed % 2 else 0.0
    state = _until_over(store, machine, [])
    if not machine.cut_chance:
        assert (state.done, state.ended) == ([0, 1, 2, 3], None)
    if state.ended is None:
        # A recording that a power cut ended just before its end may be there twice.
        assert all(count >= 4 for count in _recorded(machine).values())
        assert machine.cut_chance or _recorded(machine) == dict.fromkeys(NAMES, 4)


def test_a_job_that_fails_leaves_the_others(tmp_path: Path) -> None:
    store, machine, said = Store(tmp_path / "state"), JobMachine(two=("two",)), list[str]()
    store.write(_state(tmp_path))
    state = _until_over(store, machine, said)
    assert (state.phase, state.done, state.status) == (OVER, [0, 1, 2, 3], 1)
    assert state.jobs[1].failed == [1, 2]
    text = "two: not recorded in 2 of 4 boots (no space left on device)"
    assert state.failures() == [text]
    assert machine.reasons == {"k-one": None, "k-two": text.replace("of 4", "of 2")}
    failed = "boot 2 of 4 (k-two): the recording two (job 2 of 3) failed: no space left on device"
    assert failed in said
    with pytest.raises(RecordError, match="two: not recorded in 2 of 4 boots") as ended:
        commands._conclude(state)  # noqa: SLF001 # what the command prints
    assert ended.value.exit_status == 1


def test_a_boot_without_any_job_ends_the_recording(tmp_path: Path) -> None:
    store, machine = Store(tmp_path / "state"), JobMachine(**dict.fromkeys(NAMES, ("two",)))
    store.write(_state(tmp_path))
    state = _until_over(store, machine, [])
    assert (state.done, state.status) == ([0], 1)
    assert state.ended is not None
    assert state.ended.startswith("boot 2 of 4 (k-two): the recording three (job 3 of 3) failed")


def test_a_stop_begins_no_other_job(tmp_path: Path) -> None:
    store, machine = Store(tmp_path / "state"), JobMachine()
    store.write(_state(tmp_path))
    asked: list[str] = []

    def ask() -> str | None:
        if len(machine.started) == 2:
            asked.append(AFTER_RUN)
        return asked[0] if asked else None

    with signals:
        engine = Engine(store, machine, lambda _: None, ask)  # type: ignore[arg-type]
        engine.run()
    assert [name for _, name in machine.started] == ["one", "two"]
    assert (engine.state.done, engine.state.ended) == ([], "stopped by the user")
    assert machine.reasons["k-one"] == "stopped by the user after 0 of 2 boots"


def test_status_names_the_job_and_the_time_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "night.boots"
    folder.mkdir()
    state = dataclasses.replace(
        _state(tmp_path), output=f"{tmp_path}/night", phase="record", next=1, done=[0], job=2,
        boot_s=2000.0,
    )  # fmt: skip
    state.jobs[0].failed, state.jobs[0].problem = [0], "no such file"
    Store(folder / "state.json").write(state)
    commands.act("status", commands.parse_action("status", ["-o", f"{tmp_path}/night"]))
    assert capsys.readouterr().out.splitlines()[3:] == [
        "boot 2: job 3 of 3 (three)",
        "one: not recorded in 1 of 4 boots (no such file)",
        "about 1 h 40 min left (the last boot took 33 min)",
    ]


KERNELS = ("--kernel", "base=one", "--kernel", "new=two")
JOBS = '{"job": [{"name": "a", "run": ["true"]}, {"name": "b", "run": ["false"]}]}'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--jobs", JOBS), "--jobs: only valid with --kernel"),
        ((*KERNELS, "--jobs", JOBS, "--", "true"), "--jobs: cannot be combined with a command"),
        ((*KERNELS, "--jobs", JOBS, "--point", "g=1"), "--jobs: cannot be combined with --point"),
        ((*KERNELS, "--jobs", "/nonexistent"), "/nonexistent: no such file"),
        ((*KERNELS, "--jobs", JOBS, "--boot", "virtme-ng"), "--jobs: cannot be combined with --bo"),
        (
            (*KERNELS, "--jobs", JOBS.replace('"run"', '"with": ["x"], "run"', 1)),
            "--jobs: job a: --with: unknown collector 'x'",
        ),
    ],
)
def test_options_that_do_not_suit_jobs(arguments: Sequence[str], message: str) -> None:
    with pytest.raises(RecordError) as refused:
        _run(["ab", "-o", "night", *arguments])
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_a_retest_records_the_job_that_the_analysis_names() -> None:
    arguments = [*KERNELS, "--on", "ssh:lab", "--retest", "5e", "-o", "night"]
    options = make_parser("ab", "schedperf").parse_args(arguments)
    asked: list[Mapping[str, Any]] = []

    class Analysis:
        def ask(self, what: str, **values: Any) -> Mapping[str, Any]:
            asked.append({"what": what, **values})
            plan = {"looks": [[4, 0.01], [8, 0.02]]}
            return {"answer": CONTINUE, "text": "", "plan": plan, "request": {}, "job": 1}

    requests = [
        Request((name, "{g}"), ({"g": "1"}, {"g": "4"}), 1, 1, None, 0, 0, (), (), {})
        for name in ("a", "b")
    ]
    retest, job = begin_retest(Analysis(), options, requests)  # type: ignore[arg-type] # a fake
    assert (retest.looks, job) == ([4, 8], 1)
    assert asked[0]["what"] == "retest"
    assert asked[0]["jobs"] == [
        {"workload": "a {g}", "points": ["g=1", "g=4"]},
        {"workload": "b {g}", "points": ["g=1", "g=4"]},
    ]


# Real programs, in the processes of a machine.

_BENCHMARK = """\
#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
case $1 in
wait) until test -e "$2"; do sleep 0.05; done ;;
fail) [ "$(cat /proc/sys/kernel/osrelease)" != two ] || { echo "no device" >&2; exit 1; } ;;
esac
[ "$(cat /proc/sys/kernel/osrelease)" = two ] && echo "$1 score: 160" || echo "$1 score: 100"
"""
_FILE = """\
[[job]]
name = "quick"
run = ["{program}", "quick", "{{n}}"]
points = {{n = [1, 2]}}
runs = 2
metric = ["score[s,lower]=score: (.*)"]

[[job]]
name = "slow"
run = ["{program}", "wait", "{folder}/go"]
runs = 1
instrumented = 0
with = ["layout"]
metric = ["score[s,lower]=score: (.*)"]

[[job]]
name = "failing"
run = ["{program}", "fail"]
runs = 3
metric = ["other[s,lower]=fail score: (.*)"]
"""


def _schedperf(machine: ProcessMachine, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        machine.command(sys.executable, "-m", "schedperf", *words),
        env=machine.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _options(folder: Path) -> list[str]:
    how = ["--boot", f"command:{HOOK}", "--on", "ssh:root@lab", "--settle", "0", "--boots", "1"]
    what = ["-n", "5", "--warmup", "0", "--with", "none"]
    return ["ab", "-o", str(folder / "out"), *KERNELS, *how, *what]


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")
def test_three_programs_in_the_boots_of_one(tmp_path: Path) -> None:
    program = tmp_path / "benchmark"
    program.write_text(_BENCHMARK)
    program.chmod(0o755)
    file = tmp_path / "jobs.toml"
    with running_machine(tmp_path / "machine") as machine:
        file.write_text(_FILE.format(program="/nonexistent/program", folder=tmp_path))
        before = (machine.folder / "boot_id").read_text()
        controller = _schedperf(machine, *_options(tmp_path), "--jobs", str(file))
        _, errors = controller.communicate(timeout=_LIMIT_S)
        assert controller.returncode == 2
        missing = "--jobs: job quick: /nonexistent/program: no such program on root@lab"
        assert missing in errors
        assert (machine.folder / "boot_id").read_text() == before

        file.write_text(_FILE.format(program=program, folder=tmp_path))
        controller = _schedperf(machine, *_options(tmp_path), "--jobs", str(file))
        first = machine.await_job()
        second = machine.await_job(other_than=first)
        controller.kill()
        controller.communicate()
        machine.power_cut()
        (tmp_path / "go").touch()
        controller = _schedperf(machine, "ab", "continue", "-o", str(tmp_path / "out"))
        _, errors = controller.communicate(timeout=_LIMIT_S)
        assert controller.returncode == 1, errors
    assert str(second).endswith("-1-1")
    assert "boot 1 of 2 (base): recording slow (job 2 of 3)" in errors
    assert "failing: not recorded in 1 of 2 boots (" in errors.splitlines()[-1]
    assert "(2 of 2 boots recorded)" in errors.splitlines()[-1]
    _check(tmp_path, program)


def _check(folder: Path, program: Path) -> None:
    base, new = (open_bundle(folder / f"out-{name}.tar") for name in ("base", "new"))
    quick, slow, failing = (
        f"{program} quick {{n}}", f"{program} wait {folder}/go", f"{program} fail",
    )  # fmt: skip
    counts = Counter((run.workload, run.warmup) for run in base.runs if run.exit_status == 0)
    # The boot that was interrupted in the second job was repeated from this job on.
    assert counts == {(quick, False): 4, (slow, False): 1, (failing, False): 3}
    assert len({run.order for run in base.runs}) == len(base.runs)
    assert base.complete
    assert not new.complete
    assert new.incomplete_reason is not None
    assert new.incomplete_reason.startswith("failing: not recorded in 1 of 1 boots (")
    # The second job's collectors are captured in each boot, although the first has none.
    captured = {entry.path for entry in base.captures if entry.collector == "layout"}
    assert captured
    compared = subprocess.run(
        [sys.executable, "-m", "schedperf", "compare", base.path, new.path, "--json", "-"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    rows = {(row["workload"], row["point"], row["metric"]) for row in _rows(compared.stdout)}
    assert rows >= {(quick, "n=1", "score"), (quick, "n=2", "score"), (slow, "", "score")}
    assert not any(workload == failing and metric == "score" for workload, _, metric in rows)
    # The same boots record it again.
    again = subprocess.run(
        [sys.executable, "-m", "schedperf", "rerun", base.path, new.path, "--print"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    jobs = read_jobs(shlex.split(again.stdout)[-1])[1]
    assert [job.command for job in jobs] == [
        (str(program), "quick", "{n}"), (str(program), "wait", f"{folder}/go"),
        (str(program), "fail"),
    ]  # fmt: skip


def _rows(text: str) -> Sequence[Mapping[str, Any]]:
    rows: Sequence[Mapping[str, Any]] = json.loads(text)["rows"]
    return rows
