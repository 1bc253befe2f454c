# SPDX-License-Identifier: GPL-2.0-or-later
"""Forty nights of a simulated lab: what its nights say of planted changes.

``SIMULATED_LAB=DIR`` keeps the nights, pages and mails in a new directory, to be read.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schedperf.history.questions.history import open_history
from schedperf.history.questions.records import Series, Step
from schedperf.history.retests import Outcome, store_outcome
from schedperf.history.store.directory import open_directory
from tests.simulated_lab import (
    AWAY,
    CHANGES,
    DEAD,
    DEAD_SINCE,
    EVERYWHERE,
    FIRST,
    JOBS,
    MACHINES,
    NIGHTS,
    ON_ONE,
    Change,
    date_of,
    write_lab,
    write_night,
)

pytestmark = [
    pytest.mark.repeats,
    pytest.mark.system,
    pytest.mark.timeout(7200),
    # All tests read the nights of one lab.
    pytest.mark.xdist_group("simulated-lab"),
]
BOOTS = 8
RUN_OF = {job.run: job.name for job in JOBS}


class Lab:
    """The lab, night by night."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = write_lab(folder)
        self.out = folder / "nights"
        self.store = self.out / "history"

    def schedperf(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return subprocess.run(
            [sys.executable, "-m", "schedperf", *map(str, words)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def begin(self) -> None:
        """Add the first nights."""
        for machine in MACHINES:
            for number in range(FIRST):
                write_night(self.out, machine, number)
        folders = [self.out / machine for machine in MACHINES]
        ran = self.schedperf("history", "add", "--store", self.store, *folders)
        assert ran.returncode == 0, ran.stderr

    def night(self, number: int) -> None:
        """Let all machines have a night; then retest what is suspected."""
        for machine in MACHINES:
            if machine == DEAD and number >= DEAD_SINCE:
                continue
            write_night(self.out, machine, number)
            ran = self.schedperf("night", "run", self.file, "--machine", machine)
            assert ran.returncode == 0, ran.stderr
        self.retest(number)

    def retest(self, number: int) -> None:
        """Decide what is suspected as a retest on new boots of a night's kernels would."""
        for series, step in self.steps():
            if step.state != "suspected":
                continue
            planted = self.planted(series, step)
            is_there = planted is not None and planted.night <= number < planted.until
            outcome = Outcome(
                state="reproduced" if is_there else "not reproduced",
                change=step.change if is_there else None,
                ci_low=step.ci_low if is_there else None,
                ci_high=step.ci_high if is_there else None,
                boots=BOOTS,
                reason=f"{BOOTS} + {BOOTS} boots of {date_of(number)}",
                numbers={},
            )
            store_outcome(open_directory(self.store), step.id, outcome, print)

    def steps(self) -> list[tuple[Series, Step]]:
        """Return the steps of the store, each with its series."""
        with open_history(self.store) as history:
            series = {each.key: each for each in history.series()}
            return [(series[step.series], step) for step in history.steps()]

    @staticmethod
    def planted(series: Series, step: Step) -> Change | None:
        """Return the planted change that a step is; None if it is none, or the end of one."""
        for change in CHANGES:
            is_there = change.job == RUN_OF[series.workload] and any(
                series.machine_class.startswith(machine) for machine in change.machines
            )
            near = date_of(change.night).toordinal() - 3, date_of(change.night).toordinal() + 3
            day = step.day
            if is_there and step.direction == "worse" and day and near[0] <= day <= near[1]:
                return change
        return None


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Return the lab after its last night."""
    kept = os.environ.get("SIMULATED_LAB")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("lab")
    folder.mkdir(exist_ok=True)
    lab = Lab(folder)
    lab.begin()
    for number in range(FIRST, NIGHTS):
        lab.night(number)
    return lab


def test_the_planted_changes_are_steps_and_nothing_else_is_open(lab: Lab) -> None:
    found = [
        (series.machine_class, lab.planted(series, step))
        for series, step in lab.steps()
        if series.family == "primary" and step.state in {"reproduced", "range known"}
    ]
    counted = {
        change.job: sum(planted == change for _, planted in found)
        for change in (EVERYWHERE, ON_ONE, AWAY)
    }
    assert {step.direction for _, step in lab.steps()} == {"worse"}
    points = 2
    assert counted == {EVERYWHERE.job: points * len(MACHINES), ON_ONE.job: 1, AWAY.job: 2}
    assert len(found) == sum(counted.values())


def test_status_names_the_dead_machine(lab: Lab) -> None:
    said = lab.schedperf("night", "status", lab.file)
    assert said.returncode == 1
    assert DEAD in said.stdout
    assert "without a result" in said.stdout or "lost" in said.stdout


def test_each_change_has_one_record(lab: Lab) -> None:
    records = [*(lab.out / "pages" / "r").glob("*/index.html")]
    assert len(records) == len(CHANGES)
