# SPDX-License-Identifier: GPL-2.0-or-later
"""``record --turn``: recordings that are turns of one session."""

from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import Side
from schedperf.runs.timeline import place_in_time

pytestmark = pytest.mark.system

QUICK = ("--warmup", "0", "--with", "none", "-q")


def test_recordings_of_one_session_are_placed_in_time_and_paired_by_round(
    recorder: Any, read_bundle: Any
) -> None:
    for target, turn in (
        (("-o", "base.tar"), "3f,0,0"),
        (("-o", "new.tar"), "3f,0,100"),
        (("--append", "new.tar"), "3f,1,200"),
        (("--append", "base.tar"), "3f,1,300"),
    ):
        done = recorder("record", *target, "--turn", turn, "-n", "2", *QUICK, "--", "true")
        assert done.returncode == 0, done.stderr
    runs = read_bundle(recorder.folder / "new.tar").runs
    assert [(run["session"], run["round"], run["order"]) for run in runs] == [
        ("3f", 0, 100),
        ("3f", 0, 101),
        ("3f", 1, 200),
        ("3f", 1, 201),
    ]
    sides = [
        Side(name=name, bundle=open_bundle(Path(recorder.folder, file)))
        for name, file in (("A", "base.tar"), ("B", "new.tar"))
    ]
    moments = sorted(
        (moment.order, name, moment.round) for (name, _), moment in place_in_time(sides).items()
    )
    assert "".join(name for _, name, _ in moments) == "AABBBBAA"
    assert [number for _, _, number in moments] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_turn_that_is_none_is_refused(recorder: Any) -> None:
    for turn in ("3f,0", "3f,-1,0", "../x,0,0", "3f,0,9999999999999"):
        done = recorder("record", "-o", "a.tar", "--turn", turn, *QUICK, "--", "true")
        assert done.returncode == 2
        assert "expected SESSION,ROUND,ORDER, e.g. 3f,0,7" in done.stderr
