# SPDX-License-Identifier: GPL-2.0-or-later
"""Traces of trace-cmd and perf become bundles with the numbers of what their tasks did.

examples/traces has two traces that `trace-cmd record` wrote, without kallsyms; in lost.dat.xz the
kernel lost events.
"""

import json
import lzma
import os
import random
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.inputs.importers import Imported, _trace_flow, _trace_lines
from schedperf.inputs.importers._trace_documents import Traced
from schedperf.inputs.importers._trace_events import EventReader
from schedperf.inputs.importers._trace_flow import Flow
from schedperf.inputs.importers.open import import_results, read_results
from schedperf.model.errors import InputError

ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "examples" / "traces"
LOST = ROOT / "tests" / "data" / "traces" / "lost.dat.xz"
MS = 1_000_000
STATES = {"R": 0, "S": 1, "D": 2, "Z": 32, "I": 128}

needs_trace_cmd = pytest.mark.skipif(
    shutil.which("trace-cmd") is None, reason="trace-cmd is not installed"
)

# An event: its time in ms, its CPU, its name and its fields.
Event = tuple[int, int, str, Mapping[str, Any]]


def switch(ms: int, cpu: int, prev: tuple[str, int], state: str, coming: tuple[str, int]) -> Event:
    return ms, cpu, "sched_switch", {"prev": prev, "state": state, "next": coming}


def woken(ms: int, cpu: int, name: str, task: tuple[str, int]) -> Event:
    return ms, cpu, name, {"task": task}


IDLE, JOB, CHILD, DAEMON = ("swapper/0", 0), ("job", 7), ("job", 8), ("daemon", 3)
# The command runs 2 ms, starts a child, is preempted by a daemon for 3 ms, runs 5 ms, is blocked
# for 20 ms until the child wakes it, waits 1 ms, and ends after another 4 ms.
STORY: Sequence[Event] = (
    switch(0, 0, IDLE, "R", ("trace-cmd", 7)),
    (1, 0, "sched_process_exec", {"filename": "/usr/bin/job", "pid": 7}),
    (2, 0, "sched_process_fork", {"parent": JOB, "child": CHILD}),
    woken(2, 0, "sched_wakeup_new", CHILD),
    switch(3, 0, JOB, "R", DAEMON),
    switch(6, 0, DAEMON, "S", JOB),
    switch(9, 1, ("swapper/1", 0), "R", CHILD),
    switch(11, 0, JOB, "S", IDLE),
    woken(31, 1, "sched_waking", JOB),
    woken(31, 1, "sched_wakeup", JOB),
    switch(32, 0, IDLE, "R", JOB),
    (33, 1, "sched_migrate_task", {"task": CHILD}),
    switch(35, 1, CHILD, "Z", ("swapper/1", 0)),
    (36, 0, "sched_process_exit", {"task": JOB}),
    switch(36, 0, JOB, "Z", IDLE),
)


def raw(event: Event) -> bytes:
    """Write a line as `trace-cmd report -R -t` does."""
    ms, cpu, name, fields = event
    ns = ms * MS
    head = (
        f"{'anything':>16s}-42    [{cpu:03d}] {ns // 10**9:5d}.{ns % 10**9:09d}: {name}: {'':10s}"
    )
    return (head + _raw_fields(name, fields)).encode("utf-8", "surrogateescape")


def _raw_fields(name: str, fields: Mapping[str, Any], *, number: bool = True) -> str:
    if name == "sched_switch":
        (prev, pid), (comm, coming) = fields["prev"], fields["next"]
        state = STATES[fields["state"]] if number else fields["state"]
        arrow = "" if number else " ==>"
        return (
            f"prev_comm={prev} prev_pid={pid} prev_prio=120 prev_state={state}{arrow} "
            f"next_comm={comm} next_pid={coming} next_prio=120"
        )
    if name == "sched_process_fork":
        (comm, pid), (child, number_of_child) = fields["parent"], fields["child"]
        return f"parent_comm={comm} parent_pid={pid} child_comm={child} child_pid={number_of_child}"
    if name == "sched_process_exec":
        return f"filename={fields['filename']} pid={fields['pid']} old_pid={fields['pid']}"
    comm, pid = fields["task"]
    more = {
        "sched_migrate_task": " orig_cpu=0 dest_cpu=1",
        "sched_process_exit": " group_dead=true",
    }.get(name, " target_cpu=000")
    return f"comm={comm} pid={pid} prio=120{more}"


def perf(event: Event) -> bytes:
    """Write a line as `perf script -F trace:cpu,time,event,trace` does."""
    ms, cpu, name, fields = event
    ns = ms * MS
    head = f"[{cpu:03d}] {ns // 10**9:5d}.{ns % 10**9:09d}:       sched:{name}: "
    text = head + _raw_fields(name, fields, number=False)
    return text.encode("utf-8", "surrogateescape")


def plugin(event: Event) -> bytes:
    """Write a line as a perf with plugins for its events does."""
    _, _, name, fields = event
    line = perf(event)
    at = line.index(b": ", line.index(b"sched:")) + 2
    if name == "sched_switch":
        (prev, pid), (comm, coming) = fields["prev"], fields["next"]
        state = fields["state"]
        return line[:at] + f"{prev}:{pid} [120] {state} ==> {comm}:{coming} [120]".encode()
    if name in {"sched_waking", "sched_wakeup", "sched_wakeup_new"}:
        comm, pid = fields["task"]
        return line[:at] + f"{comm}:{pid} [120] CPU:001".encode()
    return line


def follow(events: Sequence[Event], write: Callable[[Event], bytes] = raw) -> EventReader:
    reader = EventReader()
    reader.read(map(write, events))
    return reader


@pytest.mark.parametrize("write", [raw, perf, plugin])
def test_what_the_command_did_with_its_time_is_summed(write: Callable[[Event], bytes]) -> None:
    reader = follow(STORY, write)
    traced = Traced(reader, lost=0)
    own = reader.flow.own
    assert (traced.command, traced.elapsed_s, traced.seconds) == ("job", 0.035, 0.036)
    # 1 to 3, 6 to 11, 32 to 36 of the command, and 9 to 35 of its child.
    assert own.cpu_of == {"job": (2 + 5 + 4 + 26) * MS}
    assert (own.waits["preempted"].ns, own.waits["preempted"].count) == (3 * MS, 1)
    # The child waits from its start for 7 ms, the command after its wakeup for 1 ms.
    assert (own.waits["woken"].ns, own.waits["woken"].count) == (8 * MS, 2)
    assert (own.blocked.ns, own.blocked.count) == (20 * MS, 1)
    assert (own.voluntary, own.involuntary, own.migrations) == (3, 1, 1)
    assert (own.tasks, own.ended) == (2, 2)
    [(key, pauses)] = own.pauses.items()
    assert key == ("S", "job")
    assert (pauses.count, pauses.ns, pauses.max_ns, pauses.runnable_ns) == (
        1, 21 * MS, 21 * MS, MS,
    )  # fmt: skip
    assert reader.flow.others.cpu_of == {"daemon": 3 * MS}
    assert reader.flow.tracer.cpu_of == {"trace-cmd": 1 * MS} or write is not raw
    waits = {key: (sum(one.bins.values()), one.sum_ns) for key, one in reader.flow.waits.items()}
    assert waits == {("job", 0): (1, MS), ("job", 1): (1, 7 * MS)}
    assert (reader.flow.gaps, reader.flow.missed, reader.unreadable) == (0, 0, 0)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a prev_pid=1 b",
        " ==> x:1 [1] R",
        "] 1.0: x: a=",
        "two\nlines",
        "\udcff\udc80",
        "x:y [3]",
    ],
)
@pytest.mark.parametrize("write", [raw, perf])
def test_a_name_is_not_taken_for_a_field(write: Callable[[Event], bytes], name: str) -> None:
    events = [
        switch(0, 0, IDLE, "R", (name, 9)),
        switch(5, 0, (name, 9), "D", IDLE),
        woken(7, 0, "sched_wakeup", (name, 9)),
        switch(8, 0, IDLE, "R", (name, 9)),
    ]
    reader = follow(events, write)
    assert reader.unreadable == 0
    assert reader.flow.others.cpu_ns == 5 * MS
    assert [key[0] for key in reader.flow.others.pauses] == ["D"]


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("0", "R"), ("256", "R"), ("R+", "R"), ("1", "S"), ("S", "S"), ("2", "D"), ("130", "D"),
        ("D|K", "D"), ("16", "X"), ("x", "X"), ("32", "Z"), ("128", "I"), ("t", "T"), ("?", "R"),
    ],
)  # fmt: skip
def test_states_of_all_versions_are_read(text: str, letter: str) -> None:
    line = (
        f"[000] 1.000000001: sched:sched_switch: prev_comm=a prev_pid=1 prev_prio=1 "
        f"prev_state={text} ==> next_comm=b next_pid=2 next_prio=1"
    )
    seen: list[str] = []

    class Recorded(Flow):
        def switch(self, *arguments: Any) -> None:
            seen.append(arguments[3])

    reader = EventReader()
    reader.flow = Recorded()
    reader.read([line.encode()])
    assert seen == [letter]


def test_the_time_around_lost_events_is_left_out() -> None:
    lines = [*map(raw, STORY)]
    # The CPU of the command loses events before the switch from it: 5 ms are not counted.
    lines.insert(7, b"CPU:0 [17 EVENTS DROPPED]")
    reader = EventReader()
    reader.read(lines)
    assert reader.lost == 17
    assert reader.flow.own.cpu_of == {"job": (2 + 4 + 26) * MS}
    lines[7] = b"       job     7 [000]     0.006500000: PERF_RECORD_LOST lost 17"
    again = EventReader()
    again.read(lines)
    assert (again.lost, again.flow.own.cpu_of) == (17, reader.flow.own.cpu_of)


def test_a_switch_that_does_not_continue_is_counted() -> None:
    events = list(STORY)
    del events[4]
    reader = follow(events)
    assert reader.flow.gaps == 1
    # What ran between 3 and 6 ms is unknown, also whether the command did.
    assert reader.flow.own.cpu_of == {"job": (5 + 4 + 26) * MS}
    assert dict(Traced(reader, 0).counts()) == {
        "context switches that lack the one before, with the time between left out": 1
    }


@pytest.mark.parametrize("seen", [True, False])
def test_a_trace_of_some_tasks_is_recognised(seen: bool) -> None:  # noqa: FBT001 # a parameter
    # Tasks of other programs run after the one that is traced, and their switches are traced or
    # not.
    events: list[Event] = []
    for ms in range(0, 200, 2):
        other = (f"other{ms % 20}", 100 + ms % 20)
        events.append(switch(ms, 0, JOB, "S", other))
        events += [switch(ms + 1, 0, other, "S", JOB)] if seen else []
    assert Traced(follow(events), 0).is_partial == (not seen)


def test_waits_begin_at_sched_waking_if_there_is_no_sched_wakeup() -> None:
    reader = follow([event for event in STORY if event[2] != "sched_wakeup"])
    assert reader.flow.own.waits["woken"].ns == 8 * MS
    assert reader.flow.own.blocked.ns == 20 * MS
    assert any("sched_waking" in note for note in Traced(reader, 0).notes())


def test_without_wakeups_only_the_cpu_time_is_known() -> None:
    traced = Traced(follow([event for event in STORY if "wak" not in event[2]]), 0)
    assert traced.usage["cpu_s"] == pytest.approx(0.037)
    assert list(traced.captures()) == []
    assert any("no wakeups are traced" in note for note in traced.notes())


def test_a_trace_that_ends_before_the_command_has_no_elapsed_time() -> None:
    traced = Traced(follow(STORY[:-2]), None)
    assert (traced.command, traced.elapsed_s) == ("job", None)
    assert "unknown whether events were lost" in list(traced.notes())


def test_a_command_that_sleeps_only_sets_the_time() -> None:
    events: list[Event] = []
    for ms, cpu, name, fields in STORY:
        renamed = json.loads(json.dumps(fields).replace("job", "sleep"))
        events.append((ms, cpu, name, renamed))
    traced = Traced(follow(events), 0)
    assert (traced.command, traced.elapsed_s) == (None, None)
    # The daemon, and the command, but not the tracer.
    assert traced.sums.cpu_of == {"daemon": 3 * MS, "sleep": 37 * MS}
    account = json.loads(dict(traced.captures())["account/traced.json"])
    assert "others_cpu_s" not in account


def test_the_command_of_perf_is_its_child_that_gets_another_name() -> None:
    # The first event after that may be the start of a child.
    events = [
        switch(0, 0, IDLE, "R", ("perf-exec", 7)),
        (2, 0, "sched_process_fork", {"parent": JOB, "child": CHILD}),
        switch(4, 0, JOB, "S", CHILD),
        switch(9, 0, CHILD, "R", DAEMON),
    ]
    reader = follow(events, perf)
    assert Traced(reader, 0).command == "job"
    assert reader.flow.own.cpu_of == {"job": 9 * MS}


def test_a_shell_that_executes_the_command_gives_it_its_name() -> None:
    events = list(STORY)
    events[1] = (1, 0, "sched_process_exec", {"filename": "/bin/sh", "pid": 7})
    events.insert(2, (1, 0, "sched_process_exec", {"filename": "/usr/bin/job", "pid": 7}))
    assert Traced(follow(events), 0).command == "job"


def test_an_interrupt_of_an_idle_cpu_is_a_waker() -> None:
    events = [
        switch(0, 1, ("x", 5), "S", ("swapper/1", 0)),
        switch(0, 0, DAEMON, "S", IDLE),
        woken(4, 1, "sched_waking", DAEMON),
        woken(4, 1, "sched_wakeup", DAEMON),
        switch(5, 0, IDLE, "R", DAEMON),
    ]
    assert list(follow(events).flow.others.pauses) == [("S", "swapper/1")]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trace_flow, "MOST_TASKS", 10)
    monkeypatch.setattr(_trace_flow, "MOST_NAMES", 5)
    events = [
        switch(ms, 0, (f"task{ms}", ms + 1), "S", (f"task{ms + 1}", ms + 2)) for ms in range(100)
    ]
    flow = follow(events).flow
    assert flow.forgotten == 101 - 10
    assert len(flow.others.cpu_of) <= 6
    assert flow.others.cpu_ns == 99 * MS


def test_lines_that_are_no_events_are_skipped() -> None:
    reader = EventReader()
    junk = [b"", b"\0" * 100, b"cpus=2", b"[" * 5000, b" " * 10_000, b"-" * 10_000, b"\xff" * 999,
            b"[9999] 1.000000000: sched_switch: a:1 [120] R ==> b:2 [120]",
            b"  a-1 [000] 1.000000000: sched_switch: x", b"a-1 [000] 1.0: irq_handler_entry: irq=1",
            ]  # fmt: skip
    reader.read(junk)
    assert (sum(reader.seen.values()), reader.unreadable) == (0, 2)


# --- Files of trace-cmd


def imported(kind: str, path: Path, output: Path) -> tuple[Bundle, Imported]:
    written, result = import_results(kind, path, output, better={})
    return open_bundle(written), result


def document(bundle: Bundle, name: str) -> Any:
    return json.loads(bundle.read(f"{bundle.runs[0].folder}/{name}"))


def report(path: Path) -> Iterator[tuple[float, str, str]]:
    """Yield time in s, CPU and event with its fields, as people read traces."""
    text = subprocess.run(["trace-cmd", "report", "-t", "-i", str(path)], capture_output=True,
                          check=True).stdout.decode(errors="replace")  # fmt: skip
    for line in text.splitlines():
        found = re.match(r".{16}-\d+ +\[(\d+)\] +([\d.]+): (.*)", line)
        if found is not None:
            yield float(found[2]), found[1], found[3]


def count_cpu_time(path: Path, names: Collection[str]) -> tuple[float, int]:
    """Add the times between switches to and from tasks of some names; return s and preemptions."""
    began: dict[str, float] = {}
    total, preempted = 0.0, 0
    for time_s, cpu, event in report(path):
        found = re.match(r"sched_switch: +(.*):\d+ \[\d+\] (\S+) ==> (.*):\d+ \[\d+\]", event)
        if found is None:
            continue
        if found[1] in names:
            total += time_s - began.get(cpu, time_s)
            preempted += found[2].startswith("R")
        if found[3] in names:
            began[cpu] = time_s
    return total, preempted


@needs_trace_cmd
@pytest.mark.parametrize("side", ["base", "new"])
def test_numbers_are_those_of_another_computation(tmp_path: Path, side: str) -> None:
    path = EXAMPLES / f"{side}.dat"
    bundle, _ = imported("trace", path, tmp_path / "a.tar")
    [run] = bundle.runs
    seconds, preempted = count_cpu_time(path, {"taskset", "hackbench"})
    assert run.rusage is not None
    # The command runs for some us under the name of what executes it.
    assert run.rusage["cpu_s"] == pytest.approx(seconds, rel=0.01, abs=0.0005)
    assert run.rusage["nivcsw"] == pytest.approx(preempted, abs=2)
    events = Counter(event.partition(":")[0] for _, _, event in report(path))
    account = document(bundle, "account/traced.json")
    assert account["tasks"] == 21
    assert events["sched_process_fork"] >= 20
    waits = document(bundle, "bpf_account/waits.json")
    assert (waits["tasks"], waits["unfinished"], waits["missed"]) == (21, 0, 0)
    assert waits["migrations"] == sum(
        event.startswith("sched_migrate_task:") and "comm=hackbench" in event
        for _, _, event in report(path)
    )
    times = [time_s for time_s, _, _ in report(path)]
    assert run.period_s == pytest.approx(max(times) - min(times), abs=1e-5)
    assert run.wall_s is not None
    assert run.period_s is not None
    assert run.wall_s < run.period_s


@needs_trace_cmd
def test_two_traces_are_compared_without_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    sources = [f"trace:{EXAMPLES / side}.dat" for side in ("base", "new")]
    assert main(["compare", *sources, "--json", "-"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["overall"]["verdict"] == "inconclusive"
    sections = {name: record["sections"][name] for name in
                ("account", "wakeup_latency", "blocking")}  # fmt: skip
    assert {name: section["status"] for name, section in sections.items()} == dict.fromkeys(
        sections, "ok"
    )
    account = sections["account"]["data"]
    rows = [*account["rows"], *account["divided_rows"], *sections["blocking"]["data"]["rows"]]
    assert {row["changed"] for row in rows} == {None}
    # Twenty tasks on one CPU of two, instead of on both, wait longer.
    waiting = {row["kind"]: row["new"] / row["base"] for row in account["rows"] if row["base"]}
    assert waiting["cpu"] < 1.0
    moves = next(row for row in account["divided_rows"] if row["kind"] == "migrations")
    assert (moves["base"], moves["new"], moves["unit"]) == (7.0, 0.0, "1/run")
    [point] = account["points"]
    assert [part["part"] for part in point["parts"]] == ["waiting", "blocked", "cpu"]
    assert point["missing"] == []
    assert {row["cause"] for row in sections["blocking"]["data"]["rows"] if row["cause"]} <= {
        "interruptible sleep (S)", "uninterruptible sleep (D)",
    }  # fmt: skip
    text = json.dumps(record["caveats"])
    assert "one trace has no repeats" in text
    assert "the tracer slows the command down" in text


@needs_trace_cmd
def test_all_tasks_of_a_machine_are_compared_per_second(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side in ("base", "new"):
        content = (EXAMPLES / f"{side}.dat").read_bytes()
        renamed = content.replace(b"hackbench", b"sleep".ljust(len(b"hackbench"), b"\0"))
        (tmp_path / f"{side}.dat").write_bytes(renamed)
    sources = [f"trace:{tmp_path / side}.dat" for side in ("base", "new")]
    assert main(["compare", *sources, "--json", "-"]) == 0
    record = json.loads(capsys.readouterr().out)
    account = record["sections"]["account"]["data"]
    assert {row["workload"] for row in account["rows"]} == {"all tasks"}
    assert {row["basis"] for row in [*account["rows"], *account["divided_rows"]]} == {"time"}
    assert {row["unit"] for row in account["rows"]} == {"s/s", "1/s"}
    assert account["other_load"] == account["others"] == []
    # Two CPUs.
    [cpu] = [row for row in account["rows"] if row["kind"] == "cpu"]
    assert 1.0 < cpu["base"] <= 2.0
    assert 1.0 < cpu["new"] <= 2.0
    assert not record["rows"]


@needs_trace_cmd
def test_several_traces_are_runs(tmp_path: Path) -> None:
    folder = tmp_path / "side"
    folder.mkdir()
    for name in ("2.dat", "10.dat"):
        shutil.copy(EXAMPLES / "base.dat", folder / name)
    (folder / "notes").write_text("x")
    bundle, result = imported("trace", folder, tmp_path / "a.tar")
    assert [run.source for run in bundle.runs] == ["2.dat", "10.dat"]
    assert "not read, because they are other files: notes" in result.notes
    assert not any("no repeats" in note or "2.dat" in note for note in result.notes)
    assert result.label == "side"
    # The traces themselves, of any size, are not copied.
    assert not bundle.names("import/")


@needs_trace_cmd
def test_a_compressed_file_of_version_7_has_the_same_numbers(tmp_path: Path) -> None:
    path = tmp_path / "new.dat"
    convert = ("trace-cmd", "convert", "--file-version", "7", "--compression", "any", "-i")
    subprocess.run([*convert, EXAMPLES / "base.dat", "-o", path], check=True, capture_output=True)
    summary = subprocess.run(["trace-cmd", "dump", "--summary", "-i", path], capture_output=True,
                             text=True, check=True).stdout  # fmt: skip
    assert re.search(r"^\s+7\s+\[Version\]", summary, re.MULTILINE)
    assert not re.search(r"^\s+none\s+\[Compression", summary, re.MULTILINE)
    old, new = (read_results("trace", one)[0] for one in (EXAMPLES / "base.dat", path))
    assert new.boots[0].runs[0].captures == old.boots[0].runs[0].captures


@needs_trace_cmd
def test_lost_events_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "lost.dat"
    path.write_bytes(lzma.decompress(LOST.read_bytes()))
    bundle, result = imported("trace", path, tmp_path / "a.tar")
    overrun = subprocess.run(["trace-cmd", "report", "--stat", "-i", path], capture_output=True,
                             text=True, check=True).stdout  # fmt: skip
    lost = sum(map(int, re.findall(r"^overrun: (\d+)", overrun, re.MULTILINE)))
    assert lost > 100
    assert f"events lost, with the time around them left out: {lost}" in result.notes
    assert document(bundle, "wakeup_latency/wakeups.json")["lost"] == {"events of the trace": lost}
    assert main(["compare", f"trace:{path}", f"trace:{EXAMPLES / 'new.dat'}"]) == 0


@needs_trace_cmd
@pytest.mark.parametrize("part", [0.0001, 0.1, 0.5, 0.9, 0.99])
def test_a_cut_file_is_refused_in_one_line(tmp_path: Path, part: float) -> None:
    content = (EXAMPLES / "base.dat").read_bytes()
    path = tmp_path / "cut.dat"
    path.write_bytes(content[: max(12, int(part * len(content)))])
    with pytest.raises(InputError) as caught:
        read_results("trace", path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert message.endswith(("record it again", "`perf sched record`"))


@needs_trace_cmd
@pytest.mark.parametrize("seed", range(12))
def test_a_corrupted_file_is_refused_or_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 # the same damage each time
    content = bytearray((EXAMPLES / "base.dat").read_bytes())
    for _ in range(200):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path = tmp_path / "a.dat"
    path.write_bytes(content)
    output = tmp_path / "a.tar"
    status = main(["import", "trace", str(path), "-o", str(output)])
    if status:
        assert status == 2
        assert capsys.readouterr().err.count("\n") == 1
        return
    assert main(["show", str(output)]) == 0
    assert main(["compare", str(output), f"trace:{EXAMPLES / 'new.dat'}"]) in {0, 3, 4}


@needs_trace_cmd
@pytest.mark.parametrize("clock", ["counter", "uptime", "x86-tsc"])
def test_a_clock_that_counts_something_else_is_refused(tmp_path: Path, clock: str) -> None:
    content = (EXAMPLES / "base.dat").read_bytes()
    clocks = b"[local] global counter uptime perf mono mono_raw boot tai x86-tsc"
    other = clocks.replace(b"[local]", b"local").replace(clock.encode(), f"[{clock}]".encode())
    assert content.count(clocks) == 1
    path = tmp_path / "a.dat"
    path.write_bytes(content.replace(clocks, other))
    with pytest.raises(InputError, match=f"the clock '{clock}' does not count time; record with"):
        read_results("trace", path)


@needs_trace_cmd
def test_traces_of_two_kernels_are_no_side(tmp_path: Path) -> None:
    content = (EXAMPLES / "base.dat").read_bytes()
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "b").write_bytes(content.replace(b"Linux vm 6.18.44", b"Linux vm 6.18.45"))
    with pytest.raises(InputError, match=r"recordings of 2 kernels \(6.18.44, 6.18.45; expected"):
        read_results("trace", tmp_path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "b").write_text("trace")
    with pytest.raises(InputError, match="no trace.*; check the path"):
        read_results("trace", tmp_path)


@pytest.mark.parametrize("kind", ["trace-cmd", "perf"])
def test_a_missing_program_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\x17\x08\x44tracing6\0" if kind == "trace-cmd" else b"PERFILE2" + bytes(99))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=f"{kind} is not installed, which reads this file; apt"):
        read_results("trace", path)


def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = tmp_path / "trace-cmd"
    hangs.write_text("#!/bin/sh\nexec sleep 1000\n")
    hangs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(_trace_lines, "SILENT_LIMIT_S", 0.1)
    path = tmp_path / "a.dat"
    path.write_bytes(b"\x17\x08\x44tracing6\0")
    with pytest.raises(InputError, match="trace-cmd printed nothing for"):
        read_results("trace", path)


# --- perf.data


def record(path: Path, *command: str) -> None:
    """Record with perf; skip the test where this is not possible."""
    try:
        done = subprocess.run([*command, "-o", path, "hackbench", "-g", "1", "-l", "50"],
                              capture_output=True, text=True)  # fmt: skip
    except FileNotFoundError:
        pytest.skip("perf is not installed")
    if done.returncode:
        pytest.skip(f"perf cannot record here: {done.stderr.strip().splitlines()[-1:]}")


@pytest.fixture(scope="module")
def perf_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record hackbench with perf."""
    path = tmp_path_factory.mktemp("perf") / "perf.data"
    record(path, "perf", "sched", "record", "-m", "8M")
    return path


def perf_sched(path: Path, *arguments: str) -> str:
    return subprocess.run(["perf", "sched", *arguments, "-i", path], capture_output=True, text=True,
                          check=True).stdout  # fmt: skip


@pytest.mark.system
def test_numbers_are_those_of_perf_sched(perf_data: Path, tmp_path: Path) -> None:
    bundle, result = imported("trace", perf_data, tmp_path / "a.tar")
    [run] = bundle.runs
    assert run.workload == "hackbench"
    assert any("waits begin at sched_waking" in note for note in result.notes)
    rows = re.findall(r"\bhackbench\[[\d/]+\] +[\d.]+ +([\d.]+) +[\d.]+ *$",
                      perf_sched(perf_data, "timehist"), re.MULTILINE)  # fmt: skip
    waited_s = sum(map(float, rows)) / 1000
    [ran] = re.findall(r"^ +hackbench:\(\d+\) +\| +([\d.]+) ms ", perf_sched(perf_data, "latency"),
                       re.MULTILINE)  # fmt: skip
    ran_s = float(ran) / 1000
    woken = document(bundle, "bpf_account/waits.json")["parts"]["woken"]
    assert run.rusage is not None
    assert woken["count"] > 100
    # Events that a virtual machine hides, or that are lost, cost the times around them.
    is_whole = not any("lack the one" in note or "lost" in note for note in result.notes)
    least = 0.99 if is_whole else 0.5
    assert least * ran_s <= run.rusage["cpu_s"] <= 1.01 * ran_s
    assert least * waited_s <= woken["seconds"] <= 1.01 * waited_s


@pytest.mark.system
def test_a_recording_of_one_task_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    record(path, "perf", "record", "-e", "sched:sched_switch")
    with pytest.raises(InputError, match="the events of some tasks only"):
        read_results("trace", path)


@pytest.mark.system
def test_a_cut_recording_of_perf_is_refused_in_one_line(perf_data: Path, tmp_path: Path) -> None:
    content = perf_data.read_bytes()
    for size in (8, 100, 2000, len(content) // 2):
        path = tmp_path / "cut.data"
        path.write_bytes(content[:size])
        with pytest.raises(InputError) as caught:
            read_results("trace", path)
        assert str(caught.value).startswith(f"{path}: perf cannot read this file (")
        assert "\n" not in str(caught.value)
