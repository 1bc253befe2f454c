# SPDX-License-Identifier: GPL-2.0-or-later
"""Nights of two machines with two jobs each, in one process per machine, and killed at random."""

import os
import random
import subprocess

import pytest

from tests.schedperf.lab.night.machines import Laboratory, kill

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root"),
]

KILLS = [pytest.param(8, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.repeats)]
TIMEOUT_S = 3600


@pytest.mark.timeout(TIMEOUT_S)
def test_two_machines_record_two_jobs_in_the_boots_of_one(laboratory: Laboratory) -> None:
    laboratory.write(boots=1)
    status, output, errors = laboratory.run("check")
    assert status == 0, output + errors
    assert "a: 2 boots per night (1 tree; score, other), duration unknown" in output
    status, _, errors = laboratory.run("run")
    assert status == 0, errors
    found = laboratory.summary()
    assert found["night_run"] == ["('a', False)", "('b', False)"]
    # Per machine and kernel: two runs of each job in the boot.
    assert len(found["run"]) == 2 * 2 * 2 * 2
    assert (laboratory.out / "pages" / "index.html").exists()
    status, output, errors = laboratory.run("status")
    assert status == 0, output + errors
    lines = output.splitlines()
    assert lines[0].split() == ["machine", "night", "state"]
    assert [line.split()[0] for line in lines[1:] if line[:1] in {"a", "b"}] == ["a", "b"]


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("most_kills", KILLS)
def test_kills_at_random_leave_what_an_undisturbed_night_leaves(
    laboratory: Laboratory, most_kills: int
) -> None:
    laboratory.write(boots=2)
    status, _, errors = laboratory.run("run")
    assert status == 0, errors
    expected = laboratory.summary()
    assert [each.split(", ")[1] for each in expected["step"]] == ["'range known')"]
    laboratory.out.rename(laboratory.out.with_name("undisturbed"))
    delays = random.Random(1)  # noqa: S311 # not for cryptography
    status, kills = 75, 0
    while status != 0:
        # A machine whose night had not begun begins it.
        has_begun = len([*laboratory.out.glob("*/2*/state.json")]) == len(laboratory.names)
        night = laboratory.start("run", *(["--unfinished"] if has_begun else []))
        try:
            night.communicate(timeout=delays.expovariate(1 / 4.0) if kills < most_kills else None)
        except subprocess.TimeoutExpired:
            kill(night)
            kills += 1
            continue
        status = night.returncode
    assert laboratory.summary() == expected
    assert not list(laboratory.out.glob("*/*/*.boots/claim*"))
