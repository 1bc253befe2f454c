"""bpf_pelt in a real kernel: its programs agree with execution breakpoints and with each other."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schedperf.commands._zipapp import write_zipapp

ROOT = Path(__file__).parent.parent.parent
KERNELS = Path(os.environ.get("SCHEDPERF_KERNELS", ROOT.parent / "shared" / "kernels"))
KERNEL = KERNELS / "tip" / "bzImage"
# vng comes with the development dependencies, so it lies beside the interpreter.
SEARCH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86", "hackbench": "rt-tests", "perf": "linux-perf",
}  # fmt: skip
# A boot takes 20 s, compiling for the first time 20 to 60, and the kernel is emulated.
SECONDS = 240
# What breakpoints may see more: perf begins before the gate is opened, and ends after it is closed.
# 27 to 52 calls more were seen, of 61,000 to 120,000.
SKEW_SHARE, SKEW_CALLS = 0.001, 150
# hackbench -g 2 has 80 tasks.
TASKS = 80

# The collector by itself, without the recorder's time limits, which are of real machines.
GUEST = """\
import contextlib, os, pathlib, subprocess, sys, time
sys.path.insert(0, "/mnt/collect.pyz")
from schedperf_collectors._base import Capture
from schedperf_collectors.bpf_pelt import bpf_pelt

@contextlib.contextmanager
def counting(name, **options):
    folder = pathlib.Path("/mnt") / name
    folder.mkdir()
    running = bpf_pelt(Capture(folder, os.getpid(), options))
    next(running)
    next(running)
    yield
    assert list(running) == []

def hackbench(loops):
    subprocess.run(["hackbench", "-l", loops, "-g", "2"], check=True)

with counting("checked", cross_check="1"):
    hackbench("100")
with counting("sampled", sampling="4"):
    hackbench("100")
# Without its types the kernel has no fentry.
subprocess.run(["mount", "--bind", "/dev/null", "/sys/kernel/btf/vmlinux"], check=True)
with counting("disturbed"):
    hackbench("20")
    pathlib.Path("/sys/devices/system/cpu/cpu3/online").write_text("0")
    pathlib.Path("/sys/kernel/debug/kprobes/enabled").write_text("0")
    time.clock_settime(time.CLOCK_REALTIME, time.time() + 3600)
"""
BOOT = """\
vng --disable-kvm --force-9p --disable-microvm --cpus 4 --memory 4G \\
    --numa 2G,cpus=0-1 --numa 2G,cpus=2-3 --run "$0" --rwdir "/mnt=$1" --cwd /mnt \\
    --exec 'mount -t debugfs debugfs /sys/kernel/debug; /usr/bin/python3 guest.py' </dev/null
"""
CAPTURES = ("checked", "sampled", "disturbed")
PROBED = ("update_cfs_group", "__update_load_avg_se", "__update_load_avg_cfs_rq")

pytestmark = [pytest.mark.vm, pytest.mark.timeout(2 * SECONDS + 60)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Boot a guest and count in it; return each pelt.json."""
    for program, package in PACKAGES.items():
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing; run: apt-get install -y {package}")
    if shutil.which("vng", path=SEARCH) is None:
        pytest.skip("vng is missing; run: pip install virtme-ng")
    if subprocess.run(["/usr/bin/python3", "-c", "import bcc"], capture_output=True).returncode:
        pytest.skip("bcc is missing; run: apt-get install -y python3-bpfcc")
    if not KERNEL.is_file():
        pytest.skip(f"no {KERNEL}; set SCHEDPERF_KERNELS to a folder with tip/bzImage")
    share = tmp_path_factory.mktemp("guest")
    # One boot in twenty hangs for good.
    said = boot(share) or boot(share)
    assert (share / "sampled" / "pelt.json").exists(), said
    return {
        name: json.loads((share / name / "pelt.json").read_text())
        for name in ("checked", "sampled")
    }


def boot(share: Path) -> str:
    """Boot once; return what the guest said, "" where it hung."""
    for name in CAPTURES:
        shutil.rmtree(share / name, ignore_errors=True)
    write_zipapp(share / "collect.pyz")
    (share / "guest.py").write_text(GUEST)
    done = subprocess.run(
        ["timeout", "--kill-after", "10", str(SECONDS), "sh", "-c", BOOT, str(KERNEL), str(share)],
        env={**os.environ, "PATH": SEARCH},
        capture_output=True,
        text=True,
        errors="replace",
    )
    return "" if done.returncode == 124 else done.stdout[-2000:] + done.stderr[-2000:]


def total(counts: dict[str, int]) -> int:
    return sum(counts.values())


def test_pairs_agree_with_breakpoints(recorded: dict[str, Any]) -> None:
    checked = recorded["checked"]
    for name in PROBED:
        function = checked["functions"][name]
        assert function["mechanism"] == "fentry/fexit"
        calls, seen = total(function["calls"]), checked["breakpoints"]["functions"][name]
        assert calls > 1000
        assert -10 <= seen - calls <= SKEW_SHARE * calls + SKEW_CALLS


def test_a_function_that_ftrace_cannot_touch_is_counted_by_breakpoints(
    recorded: dict[str, Any],
) -> None:
    for capture in ("checked", "sampled"):
        record = recorded[capture]
        function = record["functions"]["update_load_avg"]
        assert function["mechanism"] == "breakpoint"
        assert list(function["tried"]) == ["fentry/fexit", "kprobe/kretprobe", "breakpoint"]
        assert function["tried"]["fentry/fexit"]
        assert function["tried"]["kprobe/kretprobe"]
        # It calls __update_load_avg_cfs_rq() once, as do a few others.
        callee = total(record["functions"]["__update_load_avg_cfs_rq"]["calls"])
        assert 1000 < total(function["calls"]) <= callee + SKEW_CALLS


def test_calls_are_split_by_context(recorded: dict[str, Any]) -> None:
    record = recorded["checked"]
    assert record["contexts"]["mechanism"] == "fentry/fexit"
    assert record["contexts"]["missing"] == {}
    for name in (*PROBED, "pelt_cfs_tp", "pelt_se_tp"):
        function = record["functions"][name]
        contexts = {context: total(by_cpu) for context, by_cpu in function["contexts"].items()}
        assert sum(contexts.values()) == total(function["calls"])
        assert contexts["enqueue"] > 0
        assert contexts["other"] < 0.05 * sum(contexts.values())
    groups = {name: total(by_cpu) for name, by_cpu in
              record["functions"]["update_cfs_group"]["contexts"].items()}  # fmt: skip
    # Each task is enqueued and dequeued once more or less than the other way round; a new task is
    # enqueued as a fork.
    assert groups["dequeue"] == pytest.approx(groups["enqueue"] + groups["fork"], abs=50)
    assert TASKS <= groups["fork"] < TASKS + 100
    assert groups["other"] == groups["newidle"] == groups["switch"] == 0


def test_each_call_is_timed_once(recorded: dict[str, Any]) -> None:
    for name in PROBED:
        function = recorded["checked"]["functions"][name]
        durations = function["durations"]
        calls = total(function["calls"])
        assert function["lost"]["unpaired"] <= 4
        assert calls - 4 <= total(durations["timed"]) <= calls
        for bins in ("log2_ns", "linear_ns"):
            assert {cpu: sum(each) for cpu, each in durations[bins].items()} == durations["timed"]
        for cpu, sum_ns in durations["sum_ns"].items():
            least = sum(count << number for number, count in enumerate(durations["log2_ns"][cpu]))
            # The first bin also holds durations of 0 ns.
            assert least - durations["log2_ns"][cpu][0] <= sum_ns <= 2 * least


def test_one_in_four_is_timed_where_asked_for(recorded: dict[str, Any]) -> None:
    record = recorded["sampled"]
    assert record["sampling"] == 4
    assert record["breakpoints"] is None
    for name in PROBED:
        function = record["functions"][name]
        # Each by chance: six standard deviations of a binomial distribution.
        calls = total(function["calls"])
        assert total(function["durations"]["timed"]) == pytest.approx(
            calls / 4, abs=6 * (calls * 0.25 * 0.75) ** 0.5
        )


def test_the_cost_of_the_probes_is_measured(recorded: dict[str, Any]) -> None:
    probe = recorded["checked"]["empty_probe"]
    assert probe["mechanism"] == "fentry/fexit"
    assert probe["on"] == "__do_sys_getuid"
    for name in ("empty", "pair"):
        low, high = probe[f"{name}_ci"]
        assert low <= probe[f"{name}_ns"] <= high
    assert 0 < probe["empty_ns"] < probe["pair_ns"]
    low, high = probe["reads_ci"]
    assert 0 < low <= probe["reads_ns"] <= high
    assert probe["reads_ns"] < probe["pair_ns"]


def test_a_quiet_run_loses_nothing(recorded: dict[str, Any]) -> None:
    for capture in ("checked", "sampled"):
        record = recorded[capture]
        assert record["lost_cpus"] == []
        assert record["notes"] == []
        assert 0 < record["seconds"] < SECONDS


def test_a_kernel_without_types_is_probed_by_kprobes(recorded: dict[str, Any]) -> None:
    record = recorded["disturbed"]
    assert record["contexts"]["mechanism"] == "kprobe/kretprobe"
    assert record["empty_probe"]["mechanism"] == "kprobe/kretprobe"
    for name in PROBED:
        function = record["functions"][name]
        assert function["tried"]["fentry/fexit"]
        assert function["mechanism"] == "kprobe/kretprobe"
        assert total(function["durations"]["timed"]) > 1000


def test_a_bad_day_costs_no_count_and_is_told(recorded: dict[str, Any]) -> None:
    record = recorded["disturbed"]
    assert record["lost_cpus"] == [3]
    assert record["functions"]["update_cfs_group"]["calls"]["3"] > 0
    assert record["seconds"] < SECONDS
    assert set(record["functions"]["update_load_avg"]["calls"]) == {"0", "1", "2"}
    notes = "\n".join(record["notes"])
    assert "breakpoints of cpu 3 have no count" in notes
    assert "cpu 3 went offline while it counted" in notes
    assert "the wall clock was stepped by +3600." in notes
    assert "probes were lost: calls of __do_sys_getuid were no longer counted at the end" in notes
