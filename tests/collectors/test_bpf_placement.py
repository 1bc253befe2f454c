# SPDX-License-Identifier: GPL-2.0-or-later
"""Where tasks are put, counted in the kernel that runs here."""

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle
from schedperf_collectors.bpf.libbpf import NothingWorks
from schedperf_collectors.bpf_placement import _refusals, bpf_placement
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System
from schedperf_collectors.placement.machine import read_machine
from schedperf_collectors.placement.tracepoints import TRACEPOINTS, Tracepoints
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Collector, all_collectors

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("machine")]

# Tasks between copy_process() and wake_up_new_task() at one moment; each holds a CPU or was
# preempted there.
UNDER_WAY = 8
# Pipes back and forth between processes that come and go, for half a second.
WORKLOAD = ("hackbench", "-l", "200", "-g", "2")

TURNS = 101
PINNED_IN_TURNS = f"""
import os, sys
first, second = map(int, sys.argv[1:])
for _ in range({TURNS}):
    os.sched_setaffinity(0, {{first}})
    os.sched_setaffinity(0, {{second}})
"""

Record = Callable[[Sequence[str]], Any]


@pytest.fixture
def needs_bpf() -> None:
    """Skip where the programs cannot be loaded."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    try:
        Tracepoints(read_machine(System())).close()
    except Unavailable as unavailable:
        pytest.skip(unavailable.reason)


@pytest.fixture
def record(capture: Capture, needs_bpf: None) -> Record:  # noqa: ARG001 # skips
    """Run a command and return its placement.json."""

    def run(command: Sequence[str]) -> Any:
        if shutil.which(command[0]) is None:
            pytest.skip(f"needs {command[0]}")
        running = bpf_placement(capture)
        assert [next(running), next(running)] == [PREPARED, BEGUN]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        assert list(running) == []
        return json.loads((capture.folder / "placement.json").read_text())

    return run


def totals(document: Any) -> Counter[str]:
    counts: Counter[str] = Counter()
    for move in document["moves"]:
        counts[move["event"]] += move["count"]
    return counts


def causes(document: Any) -> Counter[str]:
    counts: Counter[str] = Counter()
    for move in document["moves"]:
        if move["event"] == "migration":
            counts[move["cause"]] += move["count"]
    return counts


def test_the_file_is_as_promised(record: Record) -> None:
    document = record(WORKLOAD)
    assert document["schema"] == "schedperf/bpf_placement/1"
    assert document["mechanism"] == "bpf"
    assert document["seconds"] > 0.05
    assert document["lost"] == {}
    assert document["levels_from"] in {"domains", "topology"}
    for name in TRACEPOINTS:
        assert document["programs"][name]["mechanism"] in {"tp_btf", "raw_tp", None}
        assert document["programs"][name]["mechanism"] or document["programs"][name]["reason"]
    nodes = set(document["nodes"].values())
    for move in document["moves"]:
        assert {move["from_node"], move["to_node"]} <= nodes
        assert (move["level"] == "NUMA") == (move["from_node"] != move["to_node"])
        assert (move["cause"] is None) == (move["event"] != "migration")
        assert move["count"] > 0


# Forks, sleeps and moves; how often it was each is known by itself or by the kernel.
FORKS, MOVES = 211, 499
MARKED = f"""
import os
for _ in range({FORKS}):
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
first, second = sorted(os.sched_getaffinity(0))[:2]
for number in range({MOVES}):
    os.sched_setaffinity(0, {{(first, second)[number % 2]}})
"""


def test_nothing_that_a_workload_does_is_missed(
    record: Record, forks_since_boot: Callable[[], int]
) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    slept = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw
    forks = forks_since_boot()
    document = record((sys.executable, "-c", MARKED))
    forks = forks_since_boot() - forks
    slept = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw - slept
    counted = totals(document)
    assert document["lost"] == {}
    # Other programs of this machine only add. A fork is counted by the kernel before the task is
    # woken, so some that were under way at the beginning may come on top.
    assert FORKS + 1 <= counted["fork"] <= forks + UNDER_WAY
    assert counted["exec"] >= 1
    # Who sleeps is woken: the workload's tasks, as often as they gave up a CPU on their own.
    assert counted["wakeup"] >= slept >= 1
    # The first of the moves may have found the task where it was already.
    assert causes(document)["affinity"] >= MOVES - 1


def test_the_series_adds_up_to_the_moves(record: Record) -> None:
    document = record((*WORKLOAD, "-l", "600"))
    counts: Counter[tuple[str, str | None, bool]] = Counter()
    for move in document["moves"]:
        crossing = move["from_node"] != move["to_node"]
        counts[move["event"], move["cause"], crossing] += move["count"]
    rows = document["series"]["rows"]
    sums = {(row["event"], row["cause"], row["crossing"]): sum(row["counts"]) for row in rows}
    assert sums == counts
    [steps] = {len(row["counts"]) for row in rows}
    assert (steps - 1) * document["series"]["step_s"] <= document["seconds"]


def test_who_waits_for_a_cpu_is_measured(record: Record) -> None:
    # More tasks than CPUs that never sleep: each waits for the others' time slices.
    spin = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
    tasks = 2 * len(os.sched_getaffinity(0)) + 1
    document = record(("sh", "-c", " & ".join([f"({spin})"] * tasks) + " & wait"))
    for node in document["latency"]:
        assert sum(node["log2_ns"]) == node["count"]
        assert len(node["log2_ns"]) == 40
    slices = sum(sum(node["log2_ns"][20:]) for node in document["latency"])
    assert slices >= tasks
    longest = max(node["max_ns"] for node in document["latency"])
    assert 1_000_000 < longest < 60_000_000_000
    assert sum(node["sum_ns"] for node in document["latency"]) >= longest


def test_a_change_of_the_cpu_mask_is_told_from_balancing(record: Record) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    back_and_forth = (
        f"import os\nfor _ in range(50):\n    os.sched_setaffinity(0, {{{cpus[0]}}})\n"
        f"    os.sched_setaffinity(0, {{{cpus[1]}}})\n"
    )
    counted = causes(record((sys.executable, "-c", back_and_forth)))
    # 99 or 100 by ours; other programs of this machine may do the same.
    assert counted["affinity"] >= 99
    assert counted["other"] == 0


def test_forks_and_execs_of_the_workload_are_counted(record: Record) -> None:
    document = record(("sh", "-c", "for i in $(seq 101); do /bin/true; done"))
    counted = totals(document)
    # One each of sh and seq, and what else runs on this machine.
    assert counted["fork"] >= 103
    assert counted["exec"] >= 103


@pytest.fixture
def deep_group() -> Iterator[Path]:
    """A cgroup of the cpu controller, three below the root of its hierarchy."""
    roots = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/cpu,cpuacct")]
    root = next((root for root in roots if (root / "cpu.shares").exists()), None)
    if root is None:
        pytest.skip("needs the cpu controller of cgroup v1")
    top = root / f"schedperf-{os.getpid()}"
    deepest = top / "b" / "c"
    deepest.mkdir(parents=True)
    yield deepest
    for folder in (deepest, deepest.parent, top):
        folder.rmdir()


def test_the_depth_is_that_of_the_workloads_task_group(record: Record, deep_group: Path) -> None:
    join = f"echo $$ > {deep_group}/cgroup.procs; for i in $(seq 50); do sleep 0.001; done"
    document = record(("sh", "-c", join))
    switches = {row["depth"]: row["switches"] for row in document["depth"]}
    assert switches[3] >= 50
    # Only before it joined, and after: nothing else on this machine is the workload.
    assert sum(switches.values()) - switches[3] <= 10


@pytest.mark.usefixtures("needs_bpf")
def test_inside_a_pid_namespace_the_depth_is_said_to_be_unknown(capture: Capture) -> None:
    code = (
        "import os, pathlib, sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from schedperf_collectors.plugin import Capture\n"
        "from schedperf_collectors.bpf_placement import bpf_placement\n"
        f"list(bpf_placement(Capture(pathlib.Path({str(capture.folder)!r}), os.getpid(), {{}})))\n"
    )
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    if subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode:
        pytest.skip("cannot make a pid namespace here")
    subprocess.run(command, check=True)
    document = json.loads((capture.folder / "placement.json").read_text())
    assert document["depth"] == []
    assert document["notes"] == [
        "`depth`: the workload's tasks cannot be identified inside a pid namespace"
    ]


def test_a_user_without_rights_is_told_to_be_root(run_as_nobody: Callable[[str], str]) -> None:
    said = run_as_nobody("bpf_placement")
    assert said.startswith("Skipped placement")
    assert said.endswith("run as root\n")


@pytest.mark.usefixtures("needs_perf", "needs_tracefs")
def test_without_an_object_perf_counts(
    capture: Capture, run_here: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "perf").symlink_to(shutil.which("perf") or "")
    monkeypatch.setenv("PATH", str(programs))
    assert run_here(bpf_placement) == ""
    document = json.loads((capture.folder / "placement.json").read_text())
    assert document["mechanism"] == "perf"
    assert "clang is not installed" in json.dumps(document["notes"])


@pytest.mark.usefixtures("needs_bpf", "needs_perf", "needs_tracefs")
def test_root_without_rights_is_told_what_refused_bpf(tmp_path: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    dropped = "-bpf,-sys_admin,-perfmon"
    code = (
        "import os, pathlib, sys\n"
        "sys.path[:] = sys.argv[2:]\n"
        "from schedperf_collectors.plugin import Capture, Skipped\n"
        "from schedperf_collectors.bpf_placement import bpf_placement\n"
        "try: next(bpf_placement(Capture(pathlib.Path(sys.argv[1]), os.getpid(), {})))\n"
        "except Skipped as skipped: print(skipped.reason, skipped.remedy, sep='|')\n"
    )
    command = ["setpriv", "--bounding-set", dropped, "--inh-caps", dropped, sys.executable]
    done = subprocess.run(
        [*command, "-c", code, str(tmp_path), *sys.path], capture_output=True, text=True, check=True
    )
    reason, _, remedy = done.stdout.strip().partition("|")
    assert reason.startswith("placement: tp_btf, raw_tp: ")
    assert reason.endswith("; perf is not permitted, although this user is root")
    assert "…" not in reason
    assert "CAP_PERFMON" in remedy


@pytest.mark.slow
@pytest.mark.usefixtures("needs_bpf")
def test_the_window_is_the_run(tmp_path: Path) -> None:
    arguments = ["-q", "-o", "b.tar", "-n", "1", "--instrumented", "3", "--warmup", "0"]
    names = ["--with", "default,bpf_placement"]
    command = [sys.executable, "-m", "schedperf_collectors", "record", *arguments, *names]
    subprocess.run([*command, "--", "sleep", "2"], cwd=tmp_path, check=True)
    bundle = open_bundle(tmp_path / "b.tar")
    runs = [run for run in bundle.runs if run.kind == "instrumented"]
    windows = [
        (
            json.loads(bundle.read(f"{run.folder}/run.json"))["wall_s"],
            json.loads(bundle.read(f"{run.folder}/bpf_placement/placement.json"))["seconds"],
        )
        for run in runs
    ]
    assert len(windows) == 3
    assert all(wall_s <= seconds for wall_s, seconds in windows)
    # What the collector itself does besides is in each of them; what a busy machine lets it wait
    # for may be in one or another.
    assert any(seconds <= 0.2 + 1.2 * wall_s for wall_s, seconds in windows)


def test_why_programs_see_nothing_is_said_once() -> None:
    def refused(function: str) -> dict[str, str | None]:
        reason = f"fexit: not permitted; kretprobe: no '{function}+0x0' event"
        return {"mechanism": None, "function": None, "reason": reason}

    seen = {"mechanism": "tp_btf", "function": "sched_switch", "reason": None}
    unseen = {"source_leave": refused("find_busiest_group"), "attempt_leave": refused("any")}
    assert _refusals({"sched_switch": seen, **unseen}) == (
        "2 of 3 BPF programs not attached: fexit: not permitted; kretprobe: no event "
        "(source, attempt)"
    )
    without = {
        "timers": {"mechanism": None, "reason": "clang is not installed; apt-get install clang"}
    }
    assert _refusals(without).endswith(": clang is not installed; apt-get install clang (timers)")
    assert _refusals({"sched_switch": seen}) == ""


def test_it_is_chosen_by_name_and_kept_out_of_clean_runs() -> None:
    one: Collector = all_collectors()["bpf_placement"]
    assert (one.scope, one.intrusive, one.default) == ("run", True, False)


@pytest.mark.usefixtures("needs_bpf")
def test_raw_tracepoints_count_as_btf_tracepoints_do(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("hackbench") is None:
        pytest.skip("needs hackbench")
    machine = read_machine(System())
    typed = Tracepoints(machine)
    mechanisms = "schedperf_collectors.placement.tracepoints.MECHANISMS"
    monkeypatch.setattr(mechanisms, {"raw_tp": "raw"})
    try:
        raw = Tracepoints(machine)
    except NothingWorks as refused:
        pytest.skip(refused.reason)
    assert {program["mechanism"] for program in raw.programs.values()} <= {"raw_tp", None}
    for one in (typed, raw):
        one.open_gate()
    slept = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw
    subprocess.run(WORKLOAD, check=True, stdout=subprocess.DEVNULL)
    slept = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw - slept
    # The first to open closes last, so that it saw all that the other saw.
    for one in (raw, typed):
        one.close_gate()
    more, fewer = typed.moves(), raw.moves()
    for one in (typed, raw):
        one.close()
    assert fewer <= more
    # All that hackbench does lies between the gates of both: 40 tasks a group.
    forks = sum(count for move, count in fewer.items() if move.event == "fork")
    wakeups = sum(count for move, count in fewer.items() if move.event == "wakeup")
    assert forks >= 2 * 40
    # Each sleep ends with a wakeup, save the last one of each task.
    assert wakeups + forks >= slept > 100


@pytest.mark.usefixtures("needs_bpf")
def test_moves_between_types_of_cores_are_counted() -> None:
    machine = read_machine(System())
    first, *others = sorted(machine.places)
    second = next((cpu for cpu in others if machine.nodes[cpu] == machine.nodes[first]), None)
    if second is None:
        pytest.skip("needs two CPUs of one node")
    # This machine with the names of types that it may not have.
    places = {
        cpu: replace(location, core_type="first" if cpu == first else "other")
        for cpu, location in machine.places.items()
    }
    tracepoints = Tracepoints(replace(machine, places=places))
    with contextlib.closing(tracepoints):
        tracepoints.open_gate()
        subprocess.run([sys.executable, "-c", PINNED_IN_TURNS, f"{first}", f"{second}"], check=True)
        tracepoints.close_gate()
        moves = tracepoints.moves()
    pinned = {
        move: count
        for move, count in moves.items()
        if (move.event, move.cause) == ("migration", "affinity") and move.from_type != move.to_type
    }
    level = machine.level_of(machine.places[first], machine.places[second])
    assert {move.level for move in pinned} == {level}
    of_types = Counter[tuple[str | None, str | None]]()
    for move, count in pinned.items():
        of_types[move.from_type, move.to_type] += count
    # Others may move tasks too.
    assert of_types["first", "other"] >= TURNS
    assert of_types["other", "first"] >= TURNS - 1
