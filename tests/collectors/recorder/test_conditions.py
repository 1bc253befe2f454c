# SPDX-License-Identifier: GPL-2.0-or-later
"""Collectors that make a condition of the run begin first, end last, and may discard the run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.recorder.plan import fill_options

pytestmark = pytest.mark.system

RecorderWith = Callable[[str], Any]

CONDITIONS = """
from pathlib import Path
from schedperf_collectors.plugin import BEGUN, PREPARED, InvalidRun

def note(capture, text):
    with open("steps", "a") as file:
        file.write(text + "\\n")
    (capture.folder / "level").write_text(capture.options.get("level", "none"))

# Named so that it would be the last one, and begins the first.
@collector(scope="run", outermost=True, cost="", options=("level",))
def zone(capture):
    "Make a condition."
    yield PREPARED
    note(capture, "zone begins")
    yield BEGUN
    note(capture, "zone ends")
    if Path("broken").exists():
        raise InvalidRun("the zone was left", "stay in it")

@collector(scope="run", cost="")
def counter(capture):
    "Count."
    yield PREPARED
    note(capture, "counter begins")
    yield BEGUN
    note(capture, "counter ends")
"""
AROUND = ["zone begins", "counter begins", "run", "counter ends", "zone ends"]


@pytest.fixture
def recorder_with_zone(recorder_with: RecorderWith) -> Any:
    return recorder_with(CONDITIONS.replace("\\\\", "\\"))


def record(recorder: Any, command: str) -> Any:
    return recorder(
        "record", "-o", "b.tar", "-n", "1", "--warmup", "0", "--instrumented", "0", "--point",
        "level=5", "--set", "zone.level=at {level} of {{level}} {other}", "--", "sh", "-c",
        command,
    )  # fmt: skip


def test_a_condition_begins_before_other_collectors_and_ends_after_them(
    recorder_with_zone: Any, read_bundle: Callable[[Path], Any]
) -> None:
    done = record(recorder_with_zone, "echo run >>steps; : {level}")
    assert done.returncode == 0, done.stderr
    steps = (recorder_with_zone.folder / "steps").read_text().splitlines()
    # The trial comes first.
    assert steps[-5:] == AROUND
    bundle = read_bundle(recorder_with_zone.folder / "b.tar")
    assert bundle.members["boots/0/runs/000/zone/level"] == b"at 5 of {level} {other}"


def test_a_run_without_its_condition_is_discarded(
    recorder_with_zone: Any, read_bundle: Callable[[Path], Any]
) -> None:
    done = record(recorder_with_zone, "touch broken; : {level}")
    assert done.returncode == 2
    assert "the last run was discarded: the zone was left" in done.stderr
    [run] = read_bundle(recorder_with_zone.folder / "b.tar").runs
    assert (run["exit_status"], run["discarded"]) == (0, "the zone was left")
    [capture] = [entry for entry in run["captures"] if entry["collector"] == "zone"]
    assert (capture["status"], capture["reason"]) == ("failed", "the zone was left; stay in it")


def test_only_parameters_of_the_point_are_placeholders() -> None:
    options = {"perf_stat": {"events": "{cycles,instructions}:S", "x": "{cycles}"}}
    assert fill_options(options, {"n": "1"}) == json.loads(json.dumps(options))
