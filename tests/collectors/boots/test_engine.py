# SPDX-License-Identifier: GPL-2.0-or-later
"""The engine of boots: a crash at any moment loses no run; the wrong kernel is never recorded."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.boots import agent
from schedperf_collectors.boots import engine as engine_module
from schedperf_collectors.boots.call import Called
from schedperf_collectors.boots.engine import AFTER_RUN, DOES_NOT_BOOT, NOW, Engine, pause_s
from schedperf_collectors.boots.shell import Unreachable
from schedperf_collectors.boots.state import (
    ARM,
    HOME,
    OVER,
    STATE_VERSION,
    JobState,
    KernelState,
    State,
    Store,
)
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.kernel_files import Identity
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.options import make_parser

RUNS = 2
NOT_REBOOTED = "not rebooted within 0 s, it answers in the same boot"


class Crash(Exception):
    """The controller is killed."""


class Machine:
    """A target whose faults are chosen: what it does is written to ``bundles`` once finished."""

    is_here = False
    name = "lab"

    def __init__(self) -> None:
        self.boots = 0
        self.release = self.default = "one"
        self.armed: str | None = None
        self.job: dict[str, Any] = {}
        self.bundles: dict[str, list[tuple[str, int, str]]] = {}
        self.claim: str | None = "session"
        self.broken: set[str] = set()
        self.is_sticky = False
        # The boot loader does not see these entries once, as after a power cut.
        self.unseen: set[str] = set()
        self.status = 0
        # The next exit statuses of the hook's verbs; 0 after them.
        self.hook_statuses: dict[str, list[int | None]] = {}
        self.random = random.Random(0)  # noqa: S311 # faults, no secrets
        self.cut_chance = 0.0
        # How often the power is cut when `arm` has just set an entry.
        self.cuts_after_arm = 0
        self.deaf_chance = 0.0
        self.calls: list[str] = []
        # Why boots are missing, by name of the bundle.
        self.reasons: dict[str, str | None] = {}

    def power_cut(self) -> None:
        """Boot without anybody having asked for it."""
        self.boots += 1
        if self.job.get("state") == "running":
            self.job["state"] = "lost"
        if self.armed in self.unseen:
            self.unseen.remove(self.armed)
            self.release = self.default
            return
        self.release = self.armed or self.default
        if self.release in self.broken:
            self.release = self.default
        if not self.is_sticky:
            self.armed = None

    def act(self, verb: str, *arguments: str, source: bytes = b"") -> Mapping[str, Any]:
        if self.random.random() < self.deaf_chance:
            raise Unreachable("connection timed out")
        if self.random.random() < self.cut_chance:
            self.power_cut()
        self.calls.append(verb)
        if verb == "look":
            self._work()
            return self._look()
        if verb == "start":
            self._start(json.loads(source))
        if verb == "finish":
            self.job["is_last"] = True
            return {"is_running": self.job.get("state") == "running"}
        if verb == "stop" and self.job.get("state") == "running":
            self.job.update(state="done", status=143)
        if verb == "release":
            self.claim = None
        if verb == "seal":
            self.reasons = json.loads(source)
        if verb == "list":
            return {name: {"bytes": 1} if name in self.bundles else None for name in arguments}
        return {}

    def _start(self, wanted: dict[str, Any]) -> None:
        is_new = self.job.get("id") != wanted["id"]
        if is_new and wanted["boot_id"] == str(self.boots):
            self.job = {**wanted, "state": "running", "made": 0, "status": None}

    def _work(self) -> None:
        job = self.job
        if job.get("state") != "running":
            return
        for name in job["bundles"]:
            runs = self.bundles.setdefault(name, [])
            runs.append((job["id"], job["made"], self.release))
        job["made"] += 1
        if job["made"] == RUNS:
            job.update(state="done", status=self.status)
        elif job.get("is_last"):
            job.update(state="done", status=143)

    def _look(self) -> Mapping[str, Any]:
        job = self.job
        return {
            "boot_id": str(self.boots),
            "release": self.release,
            "version": f"#1 {self.release}",
            "build_id": None,
            "job": {
                "id": job.get("id"),
                "state": job.get("state", "none"),
                "status": job.get("status"),
                "text": "no space left on device" if job.get("status") == self.status != 0 else "",
            },
        }

    def call(self, hook: str, arguments: Sequence[str], limit_s: float = 60) -> Called:
        del hook, limit_s
        verb = arguments[0]
        out = ""
        if self.hook_statuses.get(verb):
            status = self.hook_statuses[verb].pop(0)
            if status != 0:
                return Called(status, "", "no access\n")
        if verb == "arm":
            self.armed = arguments[1]
            if self.cuts_after_arm > 0 or self.random.random() < self.cut_chance:
                self.cuts_after_arm -= 1
                self.power_cut()
        elif verb == "disarm":
            self.armed = None
        elif verb == "armed":
            out = self.armed or ""
        elif verb == "reboot":
            self.power_cut()
        return Called(0, out, "")

    def install(self, recorder: bytes) -> None:
        del recorder

    def fetch(self, name: str, path: Path, mode: int) -> None:
        path.write_text(json.dumps(self.bundles[name]))
        path.chmod(mode)


class CrashingStore(Store):
    """Kill the controller before or after some writes.

    :param moments: numbers of the writes, negative for before
    """

    def __init__(self, path: Path, moments: Sequence[int]) -> None:
        super().__init__(path)
        self.moments = moments
        self.writes = 0

    def write(self, state: State) -> None:
        self.writes += 1
        if -self.writes in self.moments:
            raise Crash
        super().write(state)
        if self.writes in self.moments:
            raise Crash


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_POLL_S", 0.0)
    # No power is cut here, and syncing a thousand times takes minutes.
    monkeypatch.setattr(os, "fsync", lambda _: None)


def _state(tmp_path: Path, boots: int = 4, kernels: Sequence[str] = ("one", "two")) -> State:
    return State(
        version=STATE_VERSION,
        session="5e55",
        target="ssh:lab",
        hook="command:hook",
        kernels=[KernelState(f"k-{release}", release) for release in kernels],
        boots=boots,
        options=[],
        jobs=[JobState("", [], ["true"])],
        is_design=False,
        settings=[],
        output=f"{tmp_path}/",
        boot_limit_s=0.05,
        settle_s=0,
        default="one",
    )


def _drive(store: Store, machine: Machine, said: list[str]) -> State:
    with signals:
        engine = Engine(store, machine, said.append, lambda: None)  # type: ignore[arg-type]
        engine.run()
        return engine.state


def _until_over(store: Store, machine: Machine, said: list[str]) -> State:
    for _ in range(1000):
        try:
            return _drive(store, machine, said)
        except Crash:
            continue
    raise AssertionError("no end")


def _check(machine: Machine, state: State) -> None:
    for kernel in state.kernels:
        runs = machine.bundles.get(kernel.name, [])
        assert len(set(runs)) == len(runs)
        assert {release for _, _, release in runs} <= {kernel.release}
        jobs = [job for job, _, _ in runs]
        made = sum(
            state.plan[number].kernel == state.kernels.index(kernel) for number in state.done
        )
        assert sum(jobs.count(job) == RUNS for job in set(jobs)) >= made
    assert machine.armed is None
    assert machine.release == machine.default
    assert machine.claim is None


def test_all_boots_are_recorded_in_balanced_order(tmp_path: Path) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(_state(tmp_path))
    state = _drive(store, machine, said)
    assert (state.phase, state.done, state.status) == (OVER, list(range(8)), 0)
    _check(machine, state)
    assert {name: len(runs) for name, runs in machine.bundles.items()} == {"k-one": 8, "k-two": 8}
    booting = [line for line in said if "booting" in line]
    assert "".join("12"["two" in line] for line in booting[:8]) == "12211221"


@pytest.mark.parametrize("seed", range(220))
def test_crashes_and_power_cuts_lose_no_run(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311 # faults, no secrets
    moments = [choose.choice((-1, 1)) * choose.randint(1, 50) for _ in range(5)]
    store, machine = CrashingStore(tmp_path / "state", ()), Machine()
    store.write(_state(tmp_path, boots=3))
    store.moments = moments
    machine.random = choose
    machine.deaf_chance = 0.1
    machine.cut_chance = 0.01 if seed % 2 else 0.0
    state = _until_over(store, machine, [])
    _check(machine, state)
    if not machine.cut_chance:
        assert (state.done, state.ended) == (list(range(6)), None)


def test_a_power_cut_after_arm_costs_one_boot(tmp_path: Path) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(_state(tmp_path, boots=2))
    machine.cuts_after_arm = 2
    state = _drive(store, machine, said)
    _check(machine, state)
    assert (state.done, state.ended, state.started) == ([0, 1, 2, 3], None, 6)


def test_power_cuts_after_each_arm_end_at_the_cap(tmp_path: Path) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(_state(tmp_path, boots=2))
    machine.cuts_after_arm = 1000
    state = _drive(store, machine, said)
    assert state.ended is not None
    assert "boots is reached; too many boots failed" in state.ended


def test_a_kernel_that_does_not_boot_is_given_up(tmp_path: Path) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(_state(tmp_path, boots=2, kernels=("one", "two", "three")))
    machine.broken = {"two"}
    state = _drive(store, machine, said)
    _check(machine, state)
    assert state.kernels[1].gave_up == "did not boot: one booted, expected two"
    assert (state.status, state.ended) == (DOES_NOT_BOOT, None)
    assert sorted(machine.bundles) == ["k-one", "k-three"]


def test_one_kernel_left_ends_the_recording(tmp_path: Path) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(_state(tmp_path))
    machine.broken = {"two"}
    state = _drive(store, machine, said)
    _check(machine, state)
    assert state.ended == "1 kernel left (expected at least 2)"
    assert state.status == DOES_NOT_BOOT


@pytest.mark.parametrize("seed", range(40))
def test_crashes_and_power_cuts_lose_no_run_of_a_single_kernel(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311 # faults, no secrets
    store, machine = CrashingStore(tmp_path / "state", ()), Machine()
    store.write(_state(tmp_path, boots=3, kernels=("two",)))
    store.moments = [choose.choice((-1, 1)) * choose.randint(1, 25) for _ in range(5)]
    machine.random = choose
    machine.deaf_chance = 0.1
    state = _until_over(store, machine, [])
    _check(machine, state)
    assert (state.done, state.ended, state.status) == ([0, 1, 2], None, 0)


@pytest.mark.parametrize("made", [0, 1])
def test_a_single_kernel_that_does_not_boot_has_its_own_status(tmp_path: Path, made: int) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    store.write(_state(tmp_path, boots=3, kernels=("two",)))
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if sum(line.endswith(": done") for line in said) == made:
            machine.broken = {"two"}

    machine.broken = set() if made else {"two"}
    with signals:
        engine = Engine(store, machine, say, lambda: None)  # type: ignore[arg-type]
        engine.run()
    state = engine.state
    _check(machine, state)
    assert (state.status, state.ended, len(state.done)) == (DOES_NOT_BOOT, None, made)
    assert state.kernels[0].gave_up == "did not boot: one booted, expected two"
    assert machine.reasons.get("k-two") == (
        f"did not boot: one booted, expected two after {made} of 3 boots"
    )


@pytest.mark.parametrize(
    ("version", "build_id", "is_same"),
    [
        ("#1 two", None, True),
        # The machine does not know its build id.
        ("#1 two", "ab12", True),
        ("#7 older", None, False),
    ],
)
def test_boots_are_added_only_to_the_bundle_of_the_same_build(
    tmp_path: Path, version: str, build_id: str | None, *, is_same: bool
) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    state = dataclasses.replace(_state(tmp_path, boots=1, kernels=("two",)), is_append=True)
    state.kernels[0].identity = Identity("two", version, build_id)
    store.write(state)
    ended = _drive(store, machine, [])
    _check(machine, ended)
    if is_same:
        assert (ended.done, ended.ended) == ([0], None)
        return
    assert (ended.status, machine.bundles) == (2, {})
    assert ended.ended == (
        "k-two: another build of two booted: #1 two (its bundle is of #7 older); record it with "
        "another -o"
    )


def test_boots_that_were_missing_stay_so_if_boots_are_added(tmp_path: Path) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    state = dataclasses.replace(_state(tmp_path, boots=1), is_append=True)
    state.kernels[0].incomplete = ["stopped by the user after 1 of 2 boots"]
    store.write(state)
    _drive(store, machine, [])
    assert machine.reasons == {"k-one": "stopped by the user after 1 of 2 boots", "k-two": None}


def test_added_boots_do_not_widen_who_may_read_a_bundle(tmp_path: Path) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    state = dataclasses.replace(_state(tmp_path, boots=1), is_append=True, options=["--shareable"])
    (tmp_path / "k-one.tar").touch(0o600)
    store.write(state)
    _drive(store, machine, [])
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("*.tar")}
    assert modes == {"k-one.tar": 0o600, "k-two.tar": 0o644}


def test_an_entry_that_stays_set_ends_the_recording(tmp_path: Path) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(_state(tmp_path))
    machine.is_sticky = True
    state = _drive(store, machine, said)
    assert state.ended is not None
    assert "did not consume the one-shot entry (one)" in state.ended
    assert machine.armed is None
    assert machine.bundles == {}


def test_an_entry_that_the_boot_loader_did_not_see_costs_a_boot(tmp_path: Path) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(_state(tmp_path))
    machine.unseen = {"two"}
    state = _drive(store, machine, said)
    _check(machine, state)
    assert (state.done, state.ended) == (list(range(8)), None)
    assert any("one booted instead of the one-shot entry (two), which was" in line for line in said)


@pytest.mark.parametrize("status", [1, -9, None])
@pytest.mark.parametrize("reads", [0, 1, 2])
def test_an_entry_that_cannot_be_read_ends_the_recording(
    tmp_path: Path, reads: int, status: int | None
) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(_state(tmp_path))
    # It is read after `arm`, before the boot, and after the boot.
    machine.hook_statuses["armed"] = [*[0] * reads, status]
    state = _drive(store, machine, said)
    assert state.ended is not None
    assert "--boot command:hook: could not read whether a one-shot entry is set (" in state.ended
    assert (state.status, machine.bundles, machine.boots) == (1, {}, reads // 2)
    assert (machine.armed, machine.claim) == (None, None)


def test_a_temporary_failure_to_read_the_entry_is_tried_again(tmp_path: Path) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    store.write(_state(tmp_path))
    machine.hook_statuses["armed"] = [75, 75, 0, 75, 0, 75, 75, 75]
    state = _drive(store, machine, [])
    assert (state.done, state.ended) == (list(range(8)), None)


@pytest.mark.parametrize(
    ("fails", "said_end"),
    [
        ({"disarm": [1]}, "`disarm` failed (no access): the entry one is still set"),
        ({"disarm": [None]}, "`disarm` failed (killed after 60 s): the entry one is still set"),
        ({"disarm": [1], "armed": [0, 0, 0, 1]}, "(no access): could not read whether a one-shot"),
        ({"armed": [0, 0, 0, 1]}, "`disarm` succeeded, but could not read whether a one-shot"),
    ],
)
def test_an_entry_that_is_not_cancelled_is_not_said_to_be(
    tmp_path: Path, fails: dict[str, list[int | None]], said_end: str
) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    store.write(_state(tmp_path))
    machine.is_sticky = True
    machine.hook_statuses = fails
    state = _drive(store, machine, [])
    assert state.ended is not None
    assert "did not consume the one-shot entry (one), and `disarm` " in state.ended
    assert said_end in state.ended
    assert "was cancelled" not in state.ended
    assert state.status == 1


@pytest.mark.parametrize("status", [1, 75, None])
def test_a_disarm_that_fails_at_the_end_is_a_failure(tmp_path: Path, status: int | None) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(_state(tmp_path))
    machine.hook_statuses["disarm"] = [status] * 10
    state = _drive(store, machine, said)
    assert (state.done, state.status, state.phase) == (list(range(8)), 1, OVER)
    assert state.ended == said[-1]
    assert "no entry is set; make sure that none is set before lab boots again" in said[-1]
    assert store.read() == state


def test_a_machine_whose_entry_stays_set_is_not_rebooted(tmp_path: Path) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    store.write(dataclasses.replace(_state(tmp_path), phase=HOME, before="0"))
    machine.release = machine.armed = "two"
    machine.hook_statuses["disarm"] = [1]
    state = _drive(store, machine, [])
    assert (machine.boots, machine.claim, state.status) == (0, None, 1)
    assert state.ended is not None
    assert "the entry two is still set" in state.ended


def test_another_build_of_the_release_is_not_recorded(tmp_path: Path) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    state = _state(tmp_path)
    state.kernels[1].identity = Identity("two", "#7 older", None)
    store.write(state)
    ended = _drive(store, machine, said)
    assert ended.kernels[1].gave_up == "did not boot: another build of two booted: #1 two"
    assert "k-two" not in machine.bundles


@pytest.mark.parametrize(
    ("asked", "made", "runs", "done"),
    # A recording that makes its last run is finished as usual.
    [(NOW, 1, 1, 1), (AFTER_RUN, 0, 1, 1), (AFTER_RUN, 1, 2, 2)],
)
def test_stop_keeps_bundles_and_goes_home(
    tmp_path: Path, asked: str, made: int, runs: int, done: int
) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(_state(tmp_path))
    moments: list[bool] = []

    def ask() -> str | None:
        if machine.job.get("made") == made and machine.job.get("name") == "k-two":
            moments.append(True)
        return asked if moments else None

    with signals:
        engine = Engine(store, machine, said.append, ask)  # type: ignore[arg-type]
        engine.run()
    assert (engine.state.ended, engine.state.status) == ("stopped by the user", 1)
    _check(machine, engine.state)
    assert len(machine.bundles["k-two"]) == runs
    assert len(engine.state.done) == done
    assert sum("finishing the running run" in line for line in said) == (asked == AFTER_RUN)


def test_looks_at_a_recording_become_rare() -> None:
    assert pause_s(0) == 0
    assert pause_s(60) == 15
    assert pause_s(3600) == 30


def test_stop_before_a_boot_does_not_boot(tmp_path: Path) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(_state(tmp_path))
    machine.armed = "two"
    store.write(dataclasses.replace(store.read(), phase=ARM, before="0"))
    with signals:
        engine = Engine(store, machine, said.append, lambda: AFTER_RUN)  # type: ignore[arg-type]
        engine.run()
    assert said[0] == "ending: stopped by the user"
    assert machine.boots == 0
    assert machine.armed is None


@pytest.mark.parametrize(
    ("busy", "polls"),
    # The second look finds an idle machine; a busy one is recorded after the limit.
    [([1.0, 0.05], 2), ([1.0] * 1000, None)],
)
def test_recording_waits_until_the_machine_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: list[float], polls: int | None
) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(dataclasses.replace(_state(tmp_path, boots=1), settle_s=5))
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    act = machine.act

    def settle(verb: str, *arguments: str, source: bytes = b"") -> Mapping[str, Any]:
        if verb != "settle":
            return act(verb, *arguments, source=source)
        machine.calls.append(verb)
        now[0] += 1.0
        return {"is_starting": False, "busy": busy.pop(0) if busy else 0.0}

    monkeypatch.setattr(machine, "act", settle)
    _drive(store, machine, said)
    before = machine.calls[: machine.calls.index("start")]
    assert before.count("settle") == (polls or 6)
    assert any("not idle within 5 s after the boot" in line for line in said) == (polls is None)


@pytest.mark.parametrize(
    ("hook", "options"),
    [
        ("kexec", ["--set", "host.boot=kexec"]),
        ("grub-reboot", ["--set", "host.boot=cold"]),
        ("command:hook", []),
    ],
)
def test_bundles_have_the_method_of_the_boots(
    tmp_path: Path, hook: str, options: list[str]
) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    store.write(dataclasses.replace(_state(tmp_path, boots=1), hook=hook))
    _drive(store, machine, [])
    assert machine.job["options"][: len(options) + 1] == [*options, "-q"]


def test_each_boot_states_the_commit_of_its_kernel_and_the_command(tmp_path: Path) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    source = '{"commit": "0123456789abcdef0123456789abcdef01234567"}'
    kernels = [KernelState("k-one", "one"), KernelState("k-two", "two", source=source)]
    state = dataclasses.replace(_state(tmp_path, boots=1), kernels=kernels)
    jobs = [JobState("", [], ["true"], recorded_as=["schedperf", "ab", "--", "true"])]
    store.write(dataclasses.replace(state, jobs=jobs))
    _drive(store, machine, [])
    # The last boot is that of the second kernel.
    options = machine.job["options"]
    assert options[options.index("--source") + 1] == source
    assert json.loads(options[options.index("--recorded-as") + 1]) == [
        "schedperf", "ab", "--", "true"
    ]  # fmt: skip
    assert make_parser("record", "x").parse_args(["-o", "a.tar", *options]).source == (
        json.loads(source)
    )


def test_a_lost_network_ends_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_REACH_S", 0.0)
    store, machine = Store(tmp_path / "state"), Machine()
    store.write(_state(tmp_path))
    machine.deaf_chance = 1.0
    said: list[str] = []
    with pytest.raises(RecordError) as error:
        _drive(store, machine, said)
    assert said == ["lab: no answer (connection timed out); trying again for up to 0 s"]
    assert str(error.value) == (
        "lab: not reachable for 0 s (connection timed out); start it, then run `schedperf ab "
        f"continue -o {tmp_path}/`"
    )
    # It goes on as if nothing had happened.
    machine.deaf_chance = 0.0
    state = _drive(store, machine, [])
    _check(machine, state)
    assert state.done == list(range(8))


def test_a_full_disk_of_the_target_stops_before_the_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    store.write(_state(tmp_path))
    act = machine.act
    monkeypatch.setattr(agent, "HOME", tmp_path)

    def check_space(verb: str, *arguments: str, source: bytes = b"") -> Mapping[str, Any]:
        if verb == "space":
            return agent.act(verb, arguments)
        return act(verb, *arguments, source=source)

    monkeypatch.setattr(machine, "act", check_space)
    with monkeypatch.context() as full:
        full.setattr(agent, "LEAST_FREE_BYTES", 1 << 60)
        with pytest.raises(RecordError) as error:
            _drive(store, machine, [])
    assert str(error.value) == (
        f"{tmp_path}: less than {1 << 40} MiB free; remove files there, then continue"
    )
    assert machine.boots == 0
    monkeypatch.setattr(machine, "act", act)
    assert _drive(store, machine, []).done == list(range(8))


def test_a_recording_that_fails_ends_all_with_its_reason(tmp_path: Path) -> None:
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    store.write(_state(tmp_path))
    machine.status = 2
    state = _drive(store, machine, said)
    _check(machine, state)
    assert state.ended == "boot 1 of 8 (k-one): the recording failed: no space left on device"


def test_the_time_of_day_may_go_backwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    store.write(_state(tmp_path))
    now = iter(range(2_000_000_000, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: next(now))
    state = _drive(store, machine, [])
    _check(machine, state)
    assert state.done == list(range(8))


def test_a_target_that_stays_silent_is_given_up_with_its_console(tmp_path: Path) -> None:
    console = tmp_path / "console"
    console.write_text("#!/bin/sh\necho 'Kernel panic - not syncing'\n")
    console.chmod(0o755)
    store, machine, said = Store(tmp_path / "state"), Machine(), list[str]()
    state = _state(tmp_path)
    state.console = str(console)
    store.write(state)
    calls = machine.call

    def call(hook: str, arguments: Sequence[str], limit_s: float = 60) -> Called:
        if hook == f"command:{console}":
            return Called(0, console.read_text().split("'")[1], "")
        if arguments[0] == "reboot":
            machine.deaf_chance = 1.0
            return Called(0, "", "")
        return calls(hook, arguments, limit_s)

    machine.call = call  # type: ignore[method-assign]
    with pytest.raises(RecordError, match="power-cycle it, then run `schedperf ab continue -o /"):
        _drive(store, machine, said)
    assert "no answer within 0 s after a boot; console: Kernel panic - not syncing" in said[-1]
    assert store.read().kernels[0].failures == 1


def test_a_hook_that_sets_no_entry_ends_the_recording(tmp_path: Path) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    store.write(_state(tmp_path))
    calls = machine.call

    def call(hook: str, arguments: Sequence[str], limit_s: float = 60) -> Called:
        return Called(0, "", "") if arguments[0] == "arm" else calls(hook, arguments, limit_s)

    machine.call = call  # type: ignore[method-assign]
    state = _drive(store, machine, [])
    assert (state.status, state.done) == (1, [])
    assert state.ended == "--boot command:hook: no one-shot entry is set after `arm`"
    _check(machine, state)


@pytest.mark.parametrize(
    ("power", "said"),
    [
        (None, f"lab: {NOT_REBOOTED}; power-cycle it, then run `"),
        (Called(0, "", ""), f"lab: power-cycled, but {NOT_REBOOTED}; start it, then run `"),
        (
            Called(1, "", "\ufffd\ufffd\n"),
            "--power /power: cycle failed (\ufffd\ufffd); power-cycle lab, then run `",
        ),
        (
            Called(None, "", ""),
            "--power /power: cycle failed (killed after 60 s); power-cycle lab, then run `",
        ),
    ],
    ids=["no program", "cycled", "failed", "hangs"],
)
def test_a_machine_that_does_not_reboot_loses_no_run(
    tmp_path: Path, power: Called | None, said: str
) -> None:
    store, machine, lines = Store(tmp_path / "state"), Machine(), list[str]()
    state = _state(tmp_path, boots=1)
    state.power = None if power is None else "/power"
    store.write(state)
    calls = machine.call

    def call(hook: str, arguments: Sequence[str], limit_s: float = 60) -> Called:
        if hook == "command:/power":
            assert arguments == ["cycle"]
            assert power is not None
            return power
        if arguments[0] == "reboot" and machine.armed == "two":
            return Called(0, "", "")
        return calls(hook, arguments, limit_s)

    machine.call = call  # type: ignore[method-assign]
    with pytest.raises(RecordError) as caught:
        _drive(store, machine, lines)
    assert str(caught.value).startswith(said)
    assert any(line.endswith(f"failed: {NOT_REBOOTED}") for line in lines)
    assert store.read().done == [0]
    machine.call = calls  # type: ignore[method-assign]
    state = _drive(store, machine, lines)
    assert (state.status, state.done) == (0, [0, 1])
    _check(machine, state)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 1}',
        "[" * 100_000,
        "\0" * 100,
    ],
)
def test_a_damaged_state_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state"
    path.write_text(text)
    with pytest.raises(RecordError, match="damaged state file") as caught:
        Store(path).read()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"phase": "x"},
        {"next": 99},
        {"next": -1},
        {"boots": 10**9},
        {"kernels": []},
        {"kernels": [{"name": 1, "release": "x"}]},
        {"options": "abc"},
        {"version": 1},
        {"hook": "lilo"},
        {"hook": "auto"},
        {"hook": "lilo", "phase": "prepare"},
        {"kernels": [{"name": "a", "release": "1", "incomplete": ["a\nb"]}] * 2},
        {"kernels": [{"name": "a", "release": "1", "incomplete": "ab"}] * 2},
        {"is_append": 1},
        {"default": 5},
        {"default": "a\x1b[2J"},
        {"phase": "record", "next": 8},
        {"phase": "arm", "next": 8},
        {"done": [8]},
        {"done": [-1]},
        {"done": [1, 1]},
        {"settings": ["../.."]},
        {"settings": ["a", ""]},
        {"kernels": [{"name": "../..", "release": "1"}] * 2},
        {"kernels": [{"name": "a", "release": "1\n"}] * 2},
        {"kernels": [{"name": "a", "release": "1", "gave_up": "\x1b[2J"}] * 2},
        {"kernels": [{"name": "a", "release": "1", "failures": -1}] * 2},
        {"owner": []},
        {"owner": [1, 2, 3]},
        {"owner": [0, 1 << 40]},
        {"target": "lab"},
        {"target": "ssh:-oProxyCommand=x"},
        {"ended": "a\nb"},
        {"ended": "\ud800"},
        {"output": "relative"},
        {"jobs": []},
        {"job": 1},
        {"jobs": [{"name": "", "options": [], "command": []}]},
        {"jobs": [{"name": "", "options": [], "command": ["a\0b"]}]},
        {"jobs": [{"name": "../x", "options": [], "command": ["a"]}]},
        {"jobs": [{"name": "", "options": [], "command": ["a"], "failed": [99]}]},
        {"jobs": [{"name": "", "options": [], "command": ["a"], "problem": "\x1b"}]},
        {"boot_s": -1},
        {"session": "../x"},
        {"boot_limit_s": float("nan")},
        {"boot_limit_s": float("inf")},
        {"settle_s": -1},
        {"started": 10**30},
    ],
)
def test_damaged_fields_of_a_state_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    store = Store(tmp_path / "state")
    store.write(_state(tmp_path))
    record = {**json.loads(store.path.read_text()), **changes}
    store.path.write_text(json.dumps(record))
    with pytest.raises(RecordError, match="damaged state file") as caught:
        store.read()
    assert str(caught.value).isprintable()


def test_reasons_of_a_hostile_target_can_be_read_again(tmp_path: Path) -> None:
    store, machine = Store(tmp_path / "state"), Machine()
    store.write(_state(tmp_path))
    machine.default = "x\x1b[2J\n"
    machine.broken = {"one"}
    state = _drive(store, machine, [])
    assert state.kernels[0].gave_up == "did not boot: x[2J booted, expected one"
    assert store.read() == state


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    store.write(_state(tmp_path))
    assert store.read() == _state(tmp_path)
