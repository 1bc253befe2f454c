# SPDX-License-Identifier: GPL-2.0-or-later
"""bpf_pelt in a real kernel: both loaders, contexts, durations, sampling, and a bad day."""

import json
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle

# hackbench -g 2 has 80 tasks.
TASKS = 80
# No capture took so long.
SECONDS = 240
PROBED = ("update_cfs_group", "__update_load_avg_se", "__update_load_avg_cfs_rq")

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1800), pytest.mark.xdist_group("guests-1")]


@pytest.fixture(scope="module")
def recorded(share: Path) -> dict[str, Any]:
    """Return each pelt.json of the guest."""
    bundle = open_bundle(share / "checked.tar")
    (run,) = [run for run in bundle.runs if run.kind == "instrumented"]
    checked = json.loads(bundle.read(f"{run.folder}/bpf_pelt/pelt.json"))
    return {"checked": checked} | {
        name: json.loads((share / name / "pelt.json").read_text())
        for name in ("fallback", "sampled", "disturbed")
    }


def total(counts: dict[str, int]) -> int:
    return sum(counts.values())


# A call that is in progress when counting begins belongs to no context: a path of a few levels of
# groups on each of four CPUs.
MOST_IN_PROGRESS = 16
# Breakpoints may count more than programs: they begin earlier and end later.
MOST_UNSEEN_CALLS = 150


@pytest.fixture(scope="module")
def loaders(share: Path) -> Any:
    """Return what both loaders counted of the same run."""
    return json.loads((share / "loaders.json").read_text())


# Gates of the two open and close within a fraction of a millisecond of each other.
MOST_BETWEEN_LOADERS = 0.001
MOST_BETWEEN_COUNTERS = 0.01


@pytest.mark.parametrize("name", [*PROBED, "pelt_cfs_tp", "pelt_se_tp"])
def test_both_loaders_count_the_same_calls(loaders: Any, name: str) -> None:
    function = loaders["functions"][name]
    assert function["mechanism"] == ("raw_tracepoint" if name.endswith("_tp") else "fentry/fexit")
    assert function["libbpf"] > 5_000
    assert function["libbpf"] == pytest.approx(function["bcc"], rel=MOST_BETWEEN_LOADERS)
    by_libbpf, by_bcc = (loaders["contexts"][loader][name] for loader in ("libbpf", "bcc"))
    few = MOST_BETWEEN_LOADERS * function["libbpf"]
    for context, calls in by_libbpf.items():
        assert calls == pytest.approx(by_bcc[context], rel=MOST_BETWEEN_LOADERS, abs=few)


@pytest.mark.parametrize("name", PROBED)
@pytest.mark.parametrize("loader", ["libbpf", "bcc"])
def test_each_loader_counts_what_breakpoints_count(loaders: Any, name: str, loader: str) -> None:
    function = loaders["functions"][name]
    assert function[loader] == pytest.approx(function["breakpoint"], rel=MOST_BETWEEN_COUNTERS)


def test_libbpf_is_the_loader_where_it_works(recorded: dict[str, Any]) -> None:
    for name in ("checked", "sampled", "disturbed"):
        loader = recorded[name]["loader"]
        assert loader["used"] == "libbpf"
        assert loader["tried"] == {"libbpf": None}


def test_without_an_object_bcc_takes_over_and_the_record_says_so(recorded: dict[str, Any]) -> None:
    record = recorded["fallback"]
    reason = "this recorder does not contain pelt.bpf.o, and clang is not installed"
    assert record["loader"]["used"] == "bcc"
    assert record["loader"]["tried"] == {"libbpf": reason, "bcc": None}
    assert record["notes"] == [f"programs loaded with bcc; libbpf: {reason}"]
    for name in PROBED:
        assert record["functions"][name]["mechanism"] == "fentry/fexit"
        assert total(record["functions"][name]["calls"]) > 1000


def test_a_function_that_ftrace_cannot_touch_is_counted_by_breakpoints(
    recorded: dict[str, Any],
) -> None:
    for capture in ("checked", "sampled"):
        functions = recorded[capture]["functions"]
        function = functions["update_load_avg"]
        assert function["mechanism"] == "breakpoint"
        assert list(function["tried"]) == ["fentry/fexit", "kprobe/kretprobe", "breakpoint"]
        # It calls __update_load_avg_cfs_rq() once, as do a few others.
        callee = total(functions["__update_load_avg_cfs_rq"]["calls"])
        assert 1000 < total(function["calls"]) <= callee + MOST_UNSEEN_CALLS


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
    assert groups["other"] + groups["newidle"] + groups["switch"] <= MOST_IN_PROGRESS, groups


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
    assert "cfs_rq->rq" in record["loader"]["no_types"]
    assert recorded["sampled"]["loader"]["no_types"] is None
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
    assert "CPU 3 has no breakpoint counts" in notes
    assert "CPU 3 went offline during the run" in notes
    assert "the wall clock was stepped by +3600." in notes
    lost = (
        "the probes stopped counting during the run: test calls of __do_sys_getuid() "
        "after the run "
        "were not counted"
    )
    assert lost in notes
