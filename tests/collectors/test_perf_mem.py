# SPDX-License-Identifier: GPL-2.0-or-later
"""Loads are sampled without stores, by the same machinery as perf_c2c."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from schedperf_collectors.machine.system import System
from schedperf_collectors.perf_mem import capture_mem, perf_mem
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture

DEVICES = "sys/bus/event_source/devices"


@pytest.mark.usefixtures("needs_perf")
def test_its_file_and_facts_are_those_of_loads(
    make_system: Callable[..., System], capture: Capture, tmp_path: Path
) -> None:
    names = ("events/mem-loads", "events/mem-stores", "format/ldlat")
    system = make_system({f"{DEVICES}/cpu/{name}": "x" for name in names})
    program = tmp_path / "clock-perf"
    program.write_text('#!/bin/bash\nexec perf "${@/#cpu\\/mem-loads*/cpu-clock}" -c 1000000\n')
    program.chmod(0o755)
    running = capture_mem(system, replace(capture, options={"perf": str(program), "ldlat": "3"}))
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    assert list(running) == []
    facts = json.loads((capture.folder / "perf_mem.json").read_text())
    assert facts["requested"] == ["cpu/mem-loads,ldlat=3,period=20011/P"]
    assert (facts["store_period"], facts["ldlat"]) == (None, 3)
    assert {file.name for file in capture.folder.iterdir()} == {"perf.data", "perf_mem.json"}


def test_here_it_runs_or_says_why_not(capture: Capture, run_here: Callable[..., str]) -> None:
    reason = run_here(perf_mem)
    assert bool(reason) != (capture.folder / "perf_mem.json").exists()
