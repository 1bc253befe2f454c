# SPDX-License-Identifier: GPL-2.0-or-later
"""The time of day is set while runs are recorded: durations, order and verdict stay right."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.inputs.bundle.open import open_bundle

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
]

HOUR_S = 3600
# Sets the clock in the middle of each run: right, an hour back, an hour forward.
WORKLOAD = """
echo x >>$NAME.count
n=$(wc -l <$NAME.count)
sleep 0.1
[ $NAME != set ] || echo $(( (n % 3 - 1) * -3600 )) >offset
sleep 0.1
echo "rate: $((RATE + n % 2))"
"""


@pytest.fixture
def record(recorder: Any, tmp_path: Path) -> Callable[..., Path]:
    """Record runs; while those of the bundle "set" run, the time of day is set."""
    library = tmp_path / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    (tmp_path / "offset").write_text("0\n")
    (tmp_path / "workload").write_text(WORKLOAD)

    def make(name: str, rate: int) -> Path:
        recorder.environment.update(
            LD_PRELOAD=str(library),
            CLOCK_OFFSET=str(tmp_path / "offset"),
            NAME=name,
            RATE=str(rate),
        )
        how = ("-n", "10", "--warmup", "0", "--with", "none")
        rule = ("--metric", "rate[1/s,higher]=rate: ([0-9]+)")
        done = recorder("record", "-o", f"{name}.tar", *how, *rule, "--", "sh", "workload")
        assert done.returncode == 0, done.stderr
        return tmp_path / f"{name}.tar"

    return make


def test_a_clock_that_is_set_while_runs_are_recorded(
    record: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    base, plain, jumped = record("base", 100), record("plain", 120), record("set", 120)
    bundle = open_bundle(jumped)
    assert bundle.complete
    starts = [run.start or "" for run in bundle.runs]
    # What is stored as date is what the clock said; it went back and forward.
    assert starts != sorted(starts)
    for run in bundle.runs:
        assert run.wall_s is not None
        assert 0.2 <= run.wall_s < HOUR_S / 2
    said = []
    for new in (plain, jumped):
        status = main(["compare", os.fspath(base), os.fspath(new)])
        out = capsys.readouterr().out
        # CPU time differs between any two recordings.
        said.append((status, out.replace("set", "plain").partition("Where the time went")[0]))
    assert said[0] == said[1]
    assert "rate +19.9%" in said[0][1]
