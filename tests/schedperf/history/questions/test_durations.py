# SPDX-License-Identifier: GPL-2.0-or-later
"""How long a machine needs, from the starts of past runs."""

from pathlib import Path

import pytest

from schedperf.history.questions.durations import read_durations
from schedperf.history.questions.history import open_history
from tests.histories import MACHINE, add_to, make_night, make_recording


def test_boots_and_runs(tmp_path: Path) -> None:
    # Boots are at 22:00, 22:10, 22:20, 22:30; runs take 60 s.
    for side, minutes in (("base", (0, 30)), ("new", (10, 20))):
        runs = [
            {
                "boot": boot, "run": run, "boot_id": f"{side}{boot}", "session": "s", "side": side,
                "order": 2 * boot + run, "start": f"2026-06-01T22:{minute + run:02d}:00.000000Z",
                "time_s": 0.6,
            }
            for boot, minute in enumerate(minutes)
            for run in range(2)
        ]  # fmt: skip
        path = tmp_path / f"{side}.tar"
        make_recording(path, "2026-06-01", side, [], runs=runs)
        add_to(tmp_path / "store", path)
    with open_history(tmp_path / "store") as history:
        durations = read_durations(history, MACHINE)
        [workload] = durations.runs_s
        unknown = read_durations(history, "1x16")
    # Two runs of 60 s in a boot, and 8 min from the end of one to the begin of the next.
    assert durations.runs_s[workload] == pytest.approx(120.0)
    assert durations.boot_s == pytest.approx(480.0)
    assert durations.of_boots(8, [workload]) == pytest.approx(8 * 600.0)
    assert durations.of_boots(8, ["other"]) is None
    assert unknown.boot_s is None
    assert unknown.of_boots(8, []) is None


def test_lost_nights_and_invalid_times(tmp_path: Path) -> None:
    night = make_night(tmp_path / "nights", 0)
    add_to(tmp_path / "store", night)
    with open_history(tmp_path / "store") as history:
        assert read_durations(history, MACHINE).boot_s is not None
