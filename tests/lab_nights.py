# SPDX-License-Identifier: GPL-2.0-or-later
"""The nights of a lab with planted changes: bundles as ``schedperf night`` leaves them.

Two machines run two benchmarks on a reference kernel and on a new one, two boots of each. Machines
drift, which both kernels share.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from tests.histories import FIRST_NIGHT, make_recording

MACHINES = ("2x48", "4x16")
HACKBENCH, PIPE = "hackbench", "pipe"
TREE = "tip"
REFERENCES = ("6.18.0", "6.19.0")
# Time of the next reference kernel relative to the first one.
RENEWED = 0.97
BOOT_SD = 0.004
_DRIFT_SD = 0.0005
_DRIFT_NIGHTS = 30
_BOOTS = 2
_CHAIN_BOOTS = 8
_TIMES = {HACKBENCH: 0.6, PIPE: 5e-6}
_COMMANDS = {HACKBENCH: "hackbench -l 100 -g 4", PIPE: "perf bench sched pipe"}


class Event(Struct, frozen=True, kw_only=True):
    """A lasting change of the new kernel.

    :param size: as a fraction of the time
    :param until: first night without it
    """

    night: int
    size: float
    job: str
    machines: Sequence[str] = MACHINES
    until: int = 1_000_000


class Plan(Struct, frozen=True, kw_only=True):
    """What is planted; nights are counted from 0, and None is never.

    :param drift: by how much both kernels of the first machine become slower in the last 30 nights,
        as a fraction
    :param update: night from which hackbench is another program, which is faster on both kernels,
        and more so on the new one
    :param lost: nights in which no machine booted
    :param renewal: first night of the next reference kernel, after a chain night
    :param commits: of the new kernels of the last nights
    """

    nights: int
    events: Sequence[Event]
    jobs: Sequence[str] = (HACKBENCH, PIPE)
    drift: float = 0.0
    update: int | None = None
    lost: range = range(0)
    renewal: int | None = None
    commits: Sequence[str] = ()

    def commit(self, number: int) -> str:
        """Return the commit of the new kernel of a night."""
        index = number - self.nights + len(self.commits)
        made = hashlib.sha1(str(number).encode(), usedforsecurity=False).hexdigest()
        return self.commits[index] if index >= 0 else made


def date_of(number: int) -> str:
    """Return the date of a night, counted from 0."""
    return f"{FIRST_NIGHT - timedelta(days=120) + timedelta(days=number):%Y-%m-%d}"


def write_lab(folder: Path, plan: Plan) -> list[Path]:
    """Write the nights; return the directories to add, one per machine and job."""
    folders = []
    for seed, (machine, job) in enumerate(product(MACHINES, plan.jobs)):
        random = np.random.default_rng(seed)
        drift = random.normal(0.0, _DRIFT_SD, plan.nights).cumsum()
        if machine == MACHINES[0]:
            drift[-_DRIFT_NIGHTS:] += np.linspace(0.0, math.log1p(plan.drift), _DRIFT_NIGHTS)
        of_job = folder / f"{job}-{machine}"
        writer = _Writer(of_job, plan, machine, job, random)
        for number in range(plan.nights):
            writer.write(number, _TIMES[job] * float(np.exp(drift[number])))
        folders.append(of_job)
    return folders


class _Writer:
    """Writes the nights of a machine and a job."""

    def __init__(
        self, folder: Path, plan: Plan, machine: str, job: str, random: np.random.Generator
    ) -> None:
        self._folder = folder
        self._plan = plan
        self._machine = machine
        self._job = job
        self._random = random

    def write(self, number: int, time_s: float) -> None:
        """Write a night, and the chain night before the first one of the next reference."""
        plan, night = self._plan, date_of(number)
        if number in plan.lost:
            self._state(night, outcome="no result: the machine did not boot", failed=True)
            return
        is_updated = self._job == HACKBENCH and plan.update is not None and number >= plan.update
        is_renewed = plan.renewal is not None and number >= plan.renewal
        time_s *= 0.8 if is_updated else 1.0
        program = "b2" if is_updated else "a1"
        references = (time_s, time_s * RENEWED)
        if number == plan.renewal:
            chain = f"{date_of(number - 1)}-2"
            self._state(chain)
            for side, reference in zip(("base", "new"), (0, 1), strict=True):
                self._record(
                    f"chain-{side}", chain, references[reference], program, boots=_CHAIN_BOOTS,
                    release=REFERENCES[reference],
                )  # fmt: skip
        self._state(night)
        release = REFERENCES[is_renewed]
        self._record("night-base", night, references[is_renewed], program, release=release)
        commit = plan.commit(number)
        source = {"commit": commit, "tree": TREE, "subject": f"sched: change {number}"}
        new_s = time_s * self._size(number) * (0.98 if is_updated else 1.0)
        self._record("night-new", night, new_s, program, release="6.20.0-rc1", source=source)

    def _size(self, number: int) -> float:
        """Return the time of the new kernel relative to the first reference."""
        size = 1.0
        for event in self._plan.events:
            is_here = event.job == self._job and self._machine in event.machines
            if is_here and event.night <= number < event.until:
                size *= 1.0 + event.size
        return size

    def _record(
        self,
        name: str,
        night: str,
        time_s: float,
        program: str,
        *,
        release: str,
        boots: int = _BOOTS,
        **manifest: Any,
    ) -> None:
        factors = np.exp(self._random.normal(0.0, BOOT_SD, boots))
        command = _COMMANDS[self._job]
        programs = [{"name": command.split()[0], "sha256": program * 32}]
        make_recording(
            self._folder / night / f"{name}.tar",
            night,
            name.partition("-")[2],
            [[time_s * float(each)] for each in factors],
            release=release,
            workload=command,
            printed=_print_pipe if self._job == PIPE else None,
            manifest={
                "machine": self._machine,
                "recordings": [{"command": ["ab"], "programs": programs}],
                **manifest,
            },
        )

    def _state(self, night: str, *, outcome: str = "no regression", failed: bool = False) -> None:
        state = {
            "schema": "schedperf/night/1",
            "id": night,
            "machine": self._machine,
            "job": self._job,
            "outcome": outcome,
            "failed": failed,
        }
        folder = self._folder / night
        folder.mkdir(parents=True)
        (folder / "state.json").write_text(json.dumps(state))


def _print_pipe(time_s: float) -> str:
    return (
        "# Running 'sched/pipe' benchmark:\n"
        "# Executed 1000000 pipe operations between two processes\n\n"
        f"     Total time: {time_s * 1e6:.6f} [sec]\n\n"
        f"      {time_s * 1e6:.6f} usecs/op\n"
        f"      {1.0 / time_s:.0f} ops/sec\n"
    )
