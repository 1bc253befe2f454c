# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf profile``: events that only one side, or only some of its runs, have samples of."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.profiles import profile, profiled_kernel
from schedperf_generators.samples import Sample

CLOCK = Event(name="cpu-clock", type=1)
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def make_pair(profiled: Any) -> Any:
    """Make base of some runs of cycles, and new of others: ``make_pair([…], […]) -> paths``."""

    def make(*sides: list[dict[str, Any]]) -> list[str]:
        files = {"boots/0/layout/kallsyms": profiled.kallsyms()}
        return [
            str(profiled.make_bundle(profiled.folder / f"{n}.tar", runs=runs, files=files))
            for n, runs in enumerate(sides)
        ]

    return make


def data_of(capsys: Capture, *arguments: str) -> Any:
    assert main(["profile", *arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def run_of(profiled: Any, event: Event | None) -> Any:
    """Return a run with 40 samples of one function; None: of cycles."""
    data = profile(profiled_kernel(), {("schedule", 0): 40}, event=event)
    return profiled.run(write_perf_data(data))


def test_an_event_of_one_side_alone_is_compared_with_nothing(
    profiled: Any, make_pair: Any, capsys: Capture
) -> None:
    paths = make_pair(profiled.runs(10, 11, 12), profiled.runs(10, 11, 12, event=CLOCK))
    data = data_of(capsys, *paths)
    assert data["operation"] is not None
    assert {event["event"]: event["n"] for event in data["events"]} == {
        "cycles": {"base": 3, "new": 0},
        "cpu-clock": {"base": 0, "new": 3},
    }
    # Costs of 0 would say that new does all of it for nothing.
    assert [(row["change"], row["cost"]) for row in data["rows"]] == [(None, None)] * 4
    only = [f"{name} was sampled on {side} only, so it is not compared" for name, side in (
        ("cycles", "base"), ("cpu-clock", "new"))]  # fmt: skip
    assert set(only) <= set(data["cautions"])


def test_a_run_without_samples_of_an_event_does_not_count(
    profiled: Any, make_pair: Any, capsys: Capture
) -> None:
    mixed = [*profiled.runs(10, 10), *profiled.runs(10, event=CLOCK)]
    paths = make_pair(mixed, profiled.runs(10, 10, 10))
    data = data_of(capsys, *paths, "--event", "cycles")
    assert data["events"][0]["n"] == {"base": 2, "new": 3}
    assert {row["cost"]["change"] for row in data["rows"]} == {0.0}


def test_means_of_stacks_are_of_runs_with_samples(
    profiled: Any, make_pair: Any, capsys: Capture
) -> None:
    cycles, clock = (run_of(profiled, event) for event in (None, CLOCK))
    paths = make_pair([cycles, cycles, clock], [cycles, cycles])
    assert main(["profile", *paths, "--event", "cycles", "--export", "folded"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    for line in lines:
        _, base, new = line.rsplit(" ", 2)
        assert base == new


def test_stacks_of_an_event_that_one_side_did_not_sample_are_not_0(
    profiled: Any, make_pair: Any, capsys: Capture
) -> None:
    paths = make_pair(*([run_of(profiled, event)] for event in (None, CLOCK)))
    assert main(["profile", *paths, "--export", "folded"]) == 2
    assert "no samples of cycles (expected samples on both sides for folded stacks)" in (
        capsys.readouterr().err
    )
    assert main(["profile", *paths, "--export", "speedscope"]) == 0
    profiles = json.loads(capsys.readouterr().out)["profiles"]
    assert [one["name"].partition(": ")[2] for one in profiles] == ["cycles", "cpu-clock"]


def test_an_export_to_stdout_prints_on_stderr_what_it_cannot_hold(
    tmp_path: Path, capsys: Capture
) -> None:
    event = Event(
        name="cpu-clock:u", type=1, excluded=frozenset({"kernel", "hv"}),
        sample_type=PLAIN | SampleType.CALLCHAIN,
    )  # fmt: skip
    data = profile(profiled_kernel(), {("schedule", 0): 40}, event=event)
    path = tmp_path / "perf.data"
    path.write_bytes(write_perf_data(data))
    assert main(["profile", str(path), "--export", "folded"]) == 0
    printed = capsys.readouterr()
    assert "schedperf: recorded with cpu-clock:u, which does not count the kernel" in printed.err
    assert "schedperf: " not in printed.out


def test_samples_that_weigh_nothing_have_a_graph_and_no_shares(
    tmp_path: Path, capsys: Capture
) -> None:
    data = profile(profiled_kernel(), {("schedule", 0): 40})
    records = [replace(one, period=0) if isinstance(one, Sample) else one for one in data.records]
    path = tmp_path / "perf.data"
    path.write_bytes(write_perf_data(replace(data, records=records)))
    # A quotient of zeros would be a warning, which is an error here.
    assert main(["profile", str(path), "--flamegraph", str(tmp_path / "flames.html")]) == 0
    capsys.readouterr()
    found = data_of(capsys, str(path))
    assert found["events"][0]["n"] == {"base": 0}
    assert {row["share"] for row in found["rows"]} == {None}


def test_symbols_are_for_perf_data_alone(profiled: Any, make_pair: Any, capsys: Capture) -> None:
    (path,) = make_pair(profiled.runs(10))
    assert main(["profile", path, "--symbols", path]) == 2
    assert (
        "--symbols: bundles contain their own symbols (expected perf.data); leave this option out"
        in capsys.readouterr().err
    )


LEVELS = {
    "cpu-clock:u": frozenset({"kernel", "hv"}),
    "cpu-clock:k": frozenset({"user", "hv"}),
    "cpu-clock": frozenset[str](),
}


@pytest.fixture
def three_levels(tmp_path: Path) -> str:
    """Write a recording of one event three times: 3 samples with u, 2 with k, 4 without."""
    events = tuple(
        Event(name=name, type=1, ids=(number,), sample_type=PLAIN | SampleType.IDENTIFIER,
              excluded=excluded)
        for number, (name, excluded) in enumerate(LEVELS.items(), start=1)
    )  # fmt: skip
    samples = [Sample(ip=4096, event=number, period=10) for number in (0, 0, 0, 1, 1, 2, 2, 2, 2)]
    path = tmp_path / "levels.data"
    path.write_bytes(write_perf_data(PerfData(events=events, records=samples)))
    return str(path)


def test_events_that_differ_in_modifiers_alone_are_counted_apart(
    three_levels: str, capsys: Capture
) -> None:
    data = data_of(capsys, three_levels)
    counted = {event["event"]: event["samples"]["base"] for event in data["events"]}
    assert counted == {"cpu-clock:u": 3, "cpu-clock:k": 2, "cpu-clock": 4}
    assert {row["event"]: row["samples"] for row in data["rows"]} == counted


@pytest.mark.parametrize(("event", "count"), [("cpu-clock:u", 3), ("cpu-clock", 4)])
def test_an_event_is_chosen_by_the_name_that_perf_prints(
    three_levels: str, capsys: Capture, event: str, count: int
) -> None:
    data = data_of(capsys, three_levels, "--event", event)
    assert [(row["samples"], row["share"]) for row in data["rows"]] == [(count, 100.0)]


def test_without_the_kernel_every_output_says_so(three_levels: str, capsys: Capture) -> None:
    (event,) = data_of(capsys, three_levels, "--event", "cpu-clock:u")["events"]
    assert event["sight"][0]["excluded"] == ["kernel", "hv"]
    assert event["sight"][0]["blind"] is True
    assert main(["profile", three_levels, "--event", "cpu-clock:u"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "recorded with cpu-clock:u, which does not count the kernel" in text


def test_a_name_of_several_events_is_refused_with_their_names(
    tmp_path: Path, capsys: Capture
) -> None:
    events = tuple(
        Event(name=f"cycles:{modifiers}", ids=(number,), excluded=excluded,
              sample_type=PLAIN | SampleType.IDENTIFIER)
        for number, (modifiers, excluded) in enumerate(
            (("u", LEVELS["cpu-clock:u"]), ("k", LEVELS["cpu-clock:k"])), start=1)
    )  # fmt: skip
    path = tmp_path / "two.data"
    samples = [Sample(ip=4096, event=number) for number in (0, 1)]
    path.write_bytes(write_perf_data(PerfData(events=events, records=samples)))
    assert main(["profile", str(path), "--event", "cycles"]) == 2
    assert (
        "--event 'cycles' matches several events (expected one of cycles:u, cycles:k); choose "
        "one of them" in capsys.readouterr().err
    )


def test_sides_of_different_modifiers_are_not_compared(tmp_path: Path, capsys: Capture) -> None:
    paths = []
    for event in (
        Event(name="cycles:u", excluded=frozenset({"kernel", "hv"})),
        Event(name="cycles:pp", precise_ip=2),
    ):
        paths.append(tmp_path / f"{event.precise_ip}.data")
        paths[-1].write_bytes(write_perf_data(PerfData(events=(event,), records=[Sample(ip=4096)])))
    data = data_of(capsys, *map(str, paths))
    assert {row["change"] for row in data["rows"]} == {None}
    assert (
        "cycles:u of base and cycles:pp of new are different events (base does not count the "
        "kernel or the hypervisor, precise level 0 in base and 2 in new), so they are not "
        "compared; record "
        "the same event on both sides"
    ) in data["cautions"]


@pytest.mark.parametrize(
    "of_command",
    [
        Event(on_exec=True, sample_type=PLAIN & ~SampleType.CPU),
        # perf record --sample-cpu
        Event(on_exec=True),
        # perf record -p
        Event(sample_type=PLAIN & ~SampleType.CPU),
    ],
)
def test_shares_of_cpus_and_of_a_command_have_different_totals(
    tmp_path: Path, capsys: Capture, of_command: Event
) -> None:
    paths = [str(tmp_path / name) for name in ("cpus.data", "command.data")]
    for path, event in zip(paths, (Event(), of_command), strict=True):
        Path(path).write_bytes(
            write_perf_data(PerfData(events=(event,), records=[Sample(ip=0x1000)] * 3))
        )
    start = "shares are not comparable, because "
    forth, back, same = (
        [text for text in data_of(capsys, *pair)["cautions"] if text.startswith(start)]
        for pair in (paths, paths[::-1], [paths[1], paths[1]])
    )
    cpus, tasks = "has samples of whole CPUs (perf record -a or -C)", "only of a command or tasks"
    advice = "record both sides the same way"
    assert forth == [f"{start}base {cpus} and new {tasks}; {advice}"]
    assert back == [f"{start}new {cpus} and base {tasks}; {advice}"]
    assert same == []


@pytest.mark.parametrize(
    ("kind", "name", "warnings"),
    [
        (2, "", 1),
        (11, "", 1),
        (2, "sched:sched_switch", 0),
        # The kernel's ABI fixes the numbers of raw events.
        (4, "", 0),
    ],
)
def test_numbers_of_events_are_not_the_same_on_all_kernels(
    tmp_path: Path, capsys: Capture, kind: int, name: str, warnings: int
) -> None:
    path = tmp_path / "perf.data"
    event = Event(name=name, type=kind, config=0x13B)
    path.write_bytes(write_perf_data(PerfData(events=(event,), records=[Sample(ip=0x1000)])))
    cautions = data_of(capsys, str(path), str(path))["cautions"]
    warned = [text for text in cautions if "does not record the event's name" in text]
    assert len(warned) == warnings
