# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf profile``: events that only one side, or only some of its runs, have samples of."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf_generators.events import Event
from schedperf_generators.perf_data import write_perf_data
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
    assert any(text.startswith("new: no samples of cycles") for text in data["cautions"])
    assert any(text.startswith("base: no samples of cpu-clock") for text in data["cautions"])


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
    cycles, clock = (
        profiled.run(
            write_perf_data(profile(profiled_kernel(), {("schedule", 0): 40}, event=event))
        )
        for event in (None, CLOCK)
    )
    paths = make_pair([cycles, cycles, clock], [cycles, cycles])
    assert main(["profile", *paths, "--event", "cycles", "--export", "folded"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    for line in lines:
        _, base, new = line.rsplit(" ", 2)
        assert base == new


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
        "--symbols: bundles contain their own symbols (expected perf.data); leave it out"
        in capsys.readouterr().err
    )
