# SPDX-License-Identifier: GPL-2.0-or-later
"""bpf_pelt says what it could not see and why, and keeps what was counted until then."""

import importlib.util
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schedperf.evidence.pelt.capture import parse_bpf_pelt
from schedperf_collectors.bpf.probes import (
    FENTRY,
    KPROBE,
    RAW_TRACEPOINT,
    NoPrograms,
    Programs,
)
from schedperf_collectors.bpf_pelt import (
    Watch,
    Window,
    attach,
    bpf_pelt,
    describe,
    incidents,
    read_wanted,
)
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel_files import KernelFunctions
from schedperf_collectors.machine.system import System
from schedperf_collectors.pelt.programs import CONTEXTS, FUNCTIONS, SLOTS, TRACEPOINTS, Marked
from schedperf_collectors.pelt.trial import PROOF_CALLS, Trial, still_counts
from schedperf_collectors.perf.breakpoints import BREAKPOINT, BreakpointCounts
from schedperf_collectors.plugin import Skipped

MARKED = Marked(FENTRY, {"enqueue": ["enqueue_task_fair"]}, {"tick": "task_tick_fair: refused"})
KERNEL = KernelFunctions(addresses=dict.fromkeys(FUNCTIONS, (0xFFFFFFFF81000000,)), copies={})

KERNELS_OWN = KernelFunctions(
    addresses={name: (0xFFFFFFFF81000000 + 64 * place,) for place, name in enumerate(FUNCTIONS)},
    copies={},
)


@pytest.fixture
def perf_that_counts(tmp_path: Path) -> str:
    """Return a perf at the edge: this machine's may have no debug registers to give."""
    program = tmp_path / "perf"
    lines = "".join(
        f"CPU0,1,,mem:{one:#x}:x,9,100.00,,\\n" for (one,) in KERNELS_OWN.addresses.values()
    )
    program.write_text(f"#!/bin/sh\nprintf '{lines}' >&2\n")
    program.chmod(0o755)
    return str(program)


def counted(enqueue: int, other: int, *, timed: int = 0) -> Any:
    """Return what one CPU counted of one function, as bcc hands it over."""
    by_context = [0] * len(CONTEXTS)
    by_context[CONTEXTS.index("enqueue")], by_context[CONTEXTS.index("other")] = enqueue, other
    bins = [timed, *[0] * 63]
    return SimpleNamespace(
        by_context=by_context, timed=timed, sum_ns=10 * timed, unpaired=1, nested=0,
        log2_ns=bins[:32], linear_ns=bins, lost=0,
    )  # fmt: skip


class Counting(Programs):
    """The edge to the loader: programs that are refused, or have counted something."""

    def __init__(self, *, refuses: bool = False, runs: bool = True, marks_lost: int = 0) -> None:
        self.refuses, self.runs, self.marks_lost = refuses, runs, marks_lost
        self.gates: list[int] = []

    def attach_pair(self, mechanism: str, name: str) -> None:  # noqa: ARG002 # the loader's edge
        if self.refuses:
            raise Unavailable("operation not permitted")

    def attach_raw_tracepoint(self, name: str) -> None:
        self.attach_pair(RAW_TRACEPOINT, name)

    def write(self, table: str, index: int, value: int) -> None:  # noqa: ARG002 # same
        self.gates.append(value)

    def read(self, table: str, index: int) -> dict[int, Any]:
        if table == "marks":
            return {0: SimpleNamespace(lost=self.marks_lost)}
        if index == len(SLOTS) - 1:
            return {0: counted(0, PROOF_CALLS if self.gates and self.runs else 0)}
        return {0: counted(3, 4, timed=7), 1: counted(5, 0, timed=5), 2: counted(0, 0)}

    def close(self) -> None:
        """Nothing is attached."""


def watch_of(programs: Programs) -> Watch:
    """Return a watch of which programs see all but two functions."""
    tried: dict[str, dict[str, str | None]] = {name: {FENTRY: None} for name in FUNCTIONS}
    tried |= {name: {RAW_TRACEPOINT: None} for name in TRACEPOINTS}
    tried["update_load_avg"] = {FENTRY: "busy", KPROBE: "notrace", BREAKPOINT: None}
    tried["update_cfs_group"] = {FENTRY: "inlined", KPROBE: "inlined", BREAKPOINT: "inlined"}
    return Watch(programs, tried, MARKED, None, {"update_load_avg": 1})


def window() -> Window:
    return Window(frozenset({0, 1}), time.monotonic(), time.time() - time.monotonic())


def test_it_runs_here_or_says_why(run_here: Callable[..., str], capture: Any) -> None:
    reason = run_here(bpf_pelt)
    if not reason:
        record = json.loads((capture.folder / "pelt.json").read_text())
        assert record["schema"] == "schedperf/bpf_pelt/1"
    else:
        assert reason.startswith(("libbpf: ", "BPF programs cannot be attached ("))
        assert not list(capture.folder.iterdir())


def test_a_user_without_rights_gets_one_line(run_as_nobody: Callable[[str], str]) -> None:
    said = run_as_nobody("bpf_pelt")
    assert said.startswith("Skipped ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"sampling": "0"}, "sampling: 0 is out of range (expected 1 to 1000000)"),
        ({"sampling": "-1"}, "sampling: -1 is out of range (expected 1 to 1000000)"),
        ({"sampling": "x"}, "sampling: not a number: 'x'"),
        ({"sampling": "9" * 30}, f"sampling: number exceeds 64 bits: '{'9' * 30}'"),
        ({"cross_check": "2"}, "cross_check: 2 is out of range (expected 0 to 1)"),
        ({"loader": "bpftool"}, "unknown loader 'bpftool' (expected auto, libbpf or bcc)"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], reason: str) -> None:
    with pytest.raises(Skipped) as skipped:
        read_wanted(options)
    assert skipped.value.reason == reason
    assert skipped.value.remedy.startswith(("use e.g. --set bpf_pelt.", "use --pelt-loader "))


def test_what_was_counted_is_what_the_analysis_reads() -> None:
    wanted = read_wanted({"cross_check": "1"})
    counts = BreakpointCounts(calls={"update_load_avg": {0: 70, 1: 0}})
    watch = watch_of(Counting())
    record = describe(watch, window(), counts, wanted)
    facts = {"schema": "schedperf/bpf_pelt/1", "seconds": 1.0, "sampling": 1, **record,
             "lost_cpus": [], "notes": []}  # fmt: skip
    read = parse_bpf_pelt(json.dumps(facts).encode(), "pelt.json")
    assert {name: function.mechanism for name, function in read.functions.items()} == {
        "update_cfs_group": None,
        "__update_load_avg_se": FENTRY,
        "__update_load_avg_cfs_rq": FENTRY,
        "update_load_avg": BREAKPOINT,
        "pelt_cfs_tp": RAW_TRACEPOINT,
        "pelt_se_tp": RAW_TRACEPOINT,
    }
    # CPU 2 is offline and counted nothing.
    assert read.functions["__update_load_avg_se"].calls == {0: 7, 1: 5}
    assert read.functions["pelt_se_tp"].durations is None
    assert read.functions["update_load_avg"].calls == {0: 70, 1: 0}
    assert record["breakpoints"] == {"functions": {"update_load_avg": 70}}
    functions: Any = record["functions"]
    assert functions["pelt_se_tp"]["contexts"] == {
        "other": {"0": 4, "1": 0}, "enqueue": {"0": 3, "1": 5},
    }  # fmt: skip
    assert functions["__update_load_avg_se"]["lost"] == {"unpaired": 2, "nested": 0}


def test_a_cpu_that_breakpoints_lost_is_noted() -> None:
    watch = watch_of(Counting())
    describe(watch, window(), BreakpointCounts({"update_load_avg": {0: 70}}), read_wanted({}))
    assert watch.notes == ["CPU 1 has no breakpoint counts"]


def test_a_perf_that_died_costs_its_own_functions_only() -> None:
    watch = watch_of(Counting())
    lost = BreakpointCounts(reason="perf: exit status -9")
    functions: Any = describe(watch, window(), lost, read_wanted({}))["functions"]
    assert functions["update_load_avg"]["mechanism"] is None
    assert functions["update_load_avg"]["calls"] is None
    assert functions["update_load_avg"]["tried"][BREAKPOINT] == lost.reason
    assert functions["__update_load_avg_se"]["calls"] == {"0": 7, "1": 5}
    assert watch.notes == ["breakpoint counts are not available: perf: exit status -9"]


def test_a_kernel_that_refuses_everything_says_each_reason(
    make_system: Callable[..., System],
) -> None:
    with pytest.raises(Skipped) as skipped:
        attach(Counting(refuses=True), make_system({}), KERNEL, read_wanted({"perf": "no-perf"}))
    assert skipped.value.reason == (
        "BPF programs cannot be attached (operation not permitted), nor can breakpoints (no-perf "
        "is not on PATH)"
    )
    assert skipped.value.remedy == ("" if os.geteuid() == 0 else "run as root")


def test_without_programs_and_breakpoints_the_first_remedy_is_bcc_s(
    make_system: Callable[..., System],
) -> None:
    without = NoPrograms(Skipped("python3-bpfcc is not installed", "apt-get install it"))
    with pytest.raises(Skipped) as skipped:
        attach(without, make_system({}), KERNEL, read_wanted({"perf": "no-perf"}))
    assert skipped.value.reason == (
        "python3-bpfcc is not installed; breakpoints cannot be used (no-perf is not on PATH)"
    )
    assert skipped.value.remedy == "apt-get install it"


def test_without_programs_breakpoints_count_alone(
    make_system: Callable[..., System], perf_that_counts: str
) -> None:
    reason = "bcc needs kernel headers"
    watch = attach(
        NoPrograms(Skipped(reason)),
        make_system({}),
        KERNELS_OWN,
        read_wanted({"perf": perf_that_counts}),
    )
    assert watch.breakpoints == {name: one for name, (one,) in KERNELS_OWN.addresses.items()}
    calls = {name: {0: 7, 1: 5} for name in FUNCTIONS}
    record = describe(watch, window(), BreakpointCounts(calls), read_wanted({}))
    functions: Any = record["functions"]
    for name in FUNCTIONS:
        assert functions[name]["mechanism"] == BREAKPOINT
        assert functions[name]["tried"] == {FENTRY: reason, KPROBE: reason, BREAKPOINT: None}
        assert functions[name]["calls"] == {"0": 7, "1": 5}
    assert functions["pelt_se_tp"]["tried"] == {RAW_TRACEPOINT: reason}
    assert functions["pelt_se_tp"]["calls"] is None
    assert record["empty_probe"] is None
    facts = {"schema": "schedperf/bpf_pelt/1", "seconds": 1.0, "sampling": 1, **record,
             "lost_cpus": [], "notes": watch.notes}  # fmt: skip
    read = parse_bpf_pelt(json.dumps(facts).encode(), "pelt.json")
    assert read.contexts.mechanism is None
    assert incidents(watch, window(), frozenset({0, 1})) == []


@pytest.mark.parametrize("cross_check", ["0", "1"])
def test_a_missing_perf_costs_what_only_breakpoints_see(
    make_system: Callable[..., System], cross_check: str
) -> None:
    wanted = read_wanted({"perf": "no-perf", "cross_check": cross_check})
    present = {name: place for name, place in KERNEL.addresses.items() if name != "update_load_avg"}
    copies = {"update_load_avg": ("update_load_avg.isra.0",)}
    watch = attach(Counting(), make_system({}), KernelFunctions(present, copies), wanted)
    assert watch.breakpoints == {}
    assert watch.tried["update_cfs_group"] == {FENTRY: None}
    missing = "inlined: the kernel's symbols contain only update_load_avg.isra.0"
    assert watch.tried["update_load_avg"] == dict.fromkeys((FENTRY, KPROBE, BREAKPOINT), missing)
    refusal = "no cross-check with breakpoints: no-perf is not on PATH"
    assert (refusal in watch.notes) == bool(int(cross_check))


def test_probes_whose_cost_cannot_be_measured_still_count(
    make_system: Callable[..., System],
) -> None:
    watch = attach(Counting(), make_system({}), KERNEL, read_wanted({}))
    assert watch.trial is None
    (note,) = watch.notes
    assert note == (
        "probe overhead not measured: the syscall getuid() or geteuid() is not in the "
        "kernel's symbols"
    )
    assert watch.breakpoints == {}


def test_a_quiet_run_has_no_notes() -> None:
    watch = watch_of(Counting(marks_lost=3))
    watch.trial = Trial("__do_sys_getuid", {})
    assert incidents(watch, window(), frozenset({0, 1})) == []


def test_what_happened_meanwhile_is_noted() -> None:
    watch = watch_of(Counting(runs=False, marks_lost=1000))
    watch.trial = Trial("__do_sys_getuid", {})
    began = window()
    stepped = Window(began.online, began.began_s, began.ahead_s - 3600)
    assert incidents(watch, stepped, frozenset({0, 2})) == [
        "CPU 1 went offline during the run",
        "CPU 2 came online during the run",
        "the wall clock was stepped by +3600.0 s; durations are not affected (monotonic clock)",
        (
            "the probes stopped counting during the run: test calls of __do_sys_getuid() "
            "after the "
            "run were not counted"
        ),
        (
            "1000 changes of calling context were not recorded; some calls are attributed to the "
            "wrong context"
        ),
    ]


def test_the_proof_closes_its_gate() -> None:
    programs = Counting()
    assert still_counts(programs)
    assert programs.gates == [1, 0]


@pytest.mark.system
@pytest.mark.skipif(
    importlib.util.find_spec("bcc") is not None, reason="bcc is installed for this Python"
)
def test_the_loader_that_is_asked_for_is_the_only_one_that_is_tried(recorder: Any) -> None:
    asked = ("--with", "bpf_pelt", "--pelt-loader", "bcc")
    done = recorder("record", "-o", "b.tar", "-n", "1", "--warmup", "0", *asked, "--", "true")
    # Where breakpoints can count, this is what would let it see more; else nothing can be recorded.
    assert done.returncode in {0, 2}
    assert "python3-bpfcc is not installed" in done.stderr
    assert "libbpf" not in done.stderr


def test_a_loader_that_there_is_not_is_refused(recorder: Any) -> None:
    done = recorder("record", "-o", "b.tar", "--pelt-loader", "bpftool", "--", "true")
    assert done.returncode == 2
    assert "--pelt-loader: invalid choice: 'bpftool'" in done.stderr
    assert done.stderr.count("\n") == 1
