# SPDX-License-Identifier: GPL-2.0-or-later
"""A lab of four machines and six jobs, whose nights are recorded already: what follows is real.

The first nights are over. Each later one has its bundles, and a state after the step ``record``;
``schedperf night run`` goes on with it. Machines differ, and wander from night to night; both
kernels share that.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from schedperf.lab.night.state import AFTER, MAIN
from tests.conftest import bundle_members, hackbench_text, write_tar

NIGHTS = 40
MACHINES = ("2x48", "1x64", "2x56", "arm80")
# The first night whose steps are run.
FIRST = 25
DEAD, DEAD_SINCE = "arm80", 37
REFERENCE, NEW = "6.18.0", "6.19.0-rc2"
BOOTS, RUNS = 4, 2
BOOT_SD, RUN_SD, NIGHT_SD = 0.004, 0.002, 0.01
MAIL = """
[mail]
allow = ["sched-perf@lab.example"]
[mail.site]
name = "Example lab"
domain = "lab.example"
from = "schedperf <schedperf@lab.example>"
contact = "perf-team@lab.example"
list = "sched-perf@lab.example"
base_url = "https://lab.example/schedperf"
"""


class Job(Struct, frozen=True, kw_only=True):
    """A benchmark of the lab.

    :param run: the command, with placeholders
    :param printed: what it prints of a level, which is lower if it is better
    :param level: of the reference on the first machine
    """

    name: str
    run: str
    printed: Callable[[float], str]
    level: float
    points: Mapping[str, Sequence[int]] = {}


def _perf_bench(name: str, operations: str) -> Callable[[float], str]:
    return lambda time_s: (
        f"# Running '{name}' benchmark:\n# Executed 1000000 {operations}\n"
        f"     Total time: {time_s * 1e6:.6f} [sec]\n\n"
        f"     {time_s * 1e6:.6f} usecs/op\n     {1.0 / time_s:.0f} ops/sec\n"
    )


def _messaging(time_s: float) -> str:
    return (
        "# Running 'sched/messaging' benchmark:\n"
        "# 20 sender and receiver processes per group\n# 10 groups == 400 processes run\n\n"
        f"     Total time: {time_s:.3f} [sec]\n"
    )


def _will_it_scale(level: float) -> str:
    return (
        f"testcase:Context switch via pipes\nwarmup\nmeasurement\naverage:{250_000 / level:.0f}\n"
    )


HACKBENCH, PIPE, FORK, SCALE = "hackbench", "pipe", "fork", "will-it-scale"
JOBS = (
    Job(
        name=HACKBENCH, run="hackbench -l 4000 -g {groups}", level=1.7, points={"groups": [1, 16]},
        printed=lambda time_s: hackbench_text({}, time_s),
    ),
    Job(name=PIPE, run="perf bench sched pipe", level=5e-6,
        printed=_perf_bench("sched/pipe", "pipe operations between two processes")),
    Job(name="messaging", run="perf bench sched messaging", level=12.0, printed=_messaging),
    Job(name="syscall", run="perf bench syscall basic", level=2.4e-7,
        printed=_perf_bench("syscall/basic", "getppid() calls")),
    Job(name=FORK, run="perf bench syscall fork", level=9e-5,
        printed=_perf_bench("syscall/fork", "fork() calls")),
    Job(name=SCALE, run="./context_switch1_processes -t 8 -s 10", level=1.0,
        printed=_will_it_scale),
)  # fmt: skip


class Change(Struct, frozen=True, kw_only=True):
    """A change of the new kernel that is planted.

    :param size: as a fraction of the time
    :param until: first night without it
    """

    night: int
    size: float
    job: str
    machines: Sequence[str] = MACHINES
    until: int = NIGHTS


EVERYWHERE = Change(night=27, size=0.065, job=HACKBENCH)
ON_ONE = Change(night=26, size=0.05, job=PIPE, machines=[MACHINES[1]])
AWAY = Change(night=28, until=36, size=0.08, job=FORK, machines=MACHINES[:2])
CHANGES = (EVERYWHERE, ON_ONE, AWAY)
# Night from which will-it-scale is another program, which is faster on both kernels.
UPDATE = 33


def date_of(number: int) -> date:
    """Return the date of a night, counted from 0; the last one is today's."""
    return datetime.now().date() - timedelta(days=NIGHTS - 1 - number)  # noqa: DTZ005 # local


def commit_of(number: int) -> str:
    """Return the commit of a night's new kernel."""
    return hashlib.sha1(str(number).encode(), usedforsecurity=False).hexdigest()


def write_lab(folder: Path) -> Path:
    """Write the file of the lab, whose machines are outside their hours; return its path."""
    later = datetime.now() + timedelta(hours=12)  # noqa: DTZ005 # local
    hours = f"{later:%H:%M}-{later + timedelta(minutes=1):%H:%M}"
    path = folder / "lab.toml"
    texts = ['[site]\nout = "nights"\npublic = ["context_switch1_processes"]\n']
    texts += [
        f'[[machine]]\nname = "{name}"\nreach = "ssh:root@{name}"\nhours = "{hours}"\n'
        for name in MACHINES
    ]
    texts.append(f'[[tree]]\nname = "tip"\nreference = "{REFERENCE}"\nnew = "{NEW}"\n')
    for job in JOBS:
        points = f"points = {{groups = {[*job.points['groups']]}}}\n" if job.points else ""
        texts.append(
            f'[[job]]\nname = "{job.name}"\nrun = {json.dumps(job.run.split())}\n'
            f'runs = {RUNS}\nwith = ["none"]\n{points}'
        )
    path.write_text("\n".join([*texts, f"[plan]\nboots = {BOOTS}\n", MAIL]))
    # As the step "prepare" leaves it.
    outbox = folder / "nights" / "outbox"
    outbox.mkdir(parents=True)
    (outbox / "lab.toml").symlink_to(path)
    return path


def write_night(out: Path, machine: str, number: int) -> None:
    """Write a night of a machine: one that is over, or one as it is after the step ``record``."""
    night = f"{date_of(number)}"
    folder = out / machine / night
    folder.mkdir(parents=True)
    writer = _Writer(machine, number)
    for side in ("base", "new"):
        write_tar(folder / f"night-{side}.tar", writer.members(side).items())
    ended = {"began": f"{night}T22:00:00+00:00", "ended": f"{night}T23:30:00+00:00"}
    over = {"outcome": "no-change", "verdict": "no-change"} if number < FIRST else {}
    steps = [*MAIN, *AFTER] if over else MAIN[:2]
    state = {
        "schema": "schedperf/night/1",
        "id": night,
        "machine": machine,
        "job": ", ".join(job.name for job in JOBS),
        "tree": "tip",
        "first": night,
        "kernels": [{"name": "base", "release": REFERENCE}, {"name": "new", "release": NEW}],
        "programs": {job.name: _program(job, number) for job in JOBS},
        "steps": {name: {**ended, "result": ""} for name in steps},
        **over,
    }
    (folder / "state.json").write_text(json.dumps(state))


def _program(job: Job, number: int) -> str:
    is_updated = job.name == SCALE and number >= UPDATE
    return hashlib.sha256(f"{job.name}{is_updated}".encode()).hexdigest()


class _Writer:
    """Makes the bundles of a night."""

    def __init__(self, machine: str, number: int) -> None:
        self._machine = machine
        self._number = number
        self._night = f"{date_of(number)}"
        self._random = np.random.default_rng([MACHINES.index(machine), number])
        # What both kernels share.
        self._levels = {job.name: job.level * self._factor(NIGHT_SD) for job in JOBS}

    def _factor(self, sd: float) -> float:
        return math.exp(self._random.normal(0.0, sd))

    def members(self, side: str) -> dict[str, bytes]:
        """Return the members of the bundle of a kernel."""
        number, is_base = self._number, side == "base"
        release = REFERENCE if is_base else NEW
        recordings = [
            {
                "command": ["ab", "--", *job.run.split()],
                "minutes": 15.0,
                "programs": [{"name": job.run.split()[0], "sha256": _program(job, number)}],
            }
            for job in JOBS
        ]
        manifest = {
            "created": f"{self._night}T22:00:00.000000Z",
            "machine": self._machine,
            "source": {
                "commit": commit_of(-1 if is_base else number),
                "tree": "tip",
                "subject": "Linux 6.18" if is_base else f"sched: change {number}",
            },
            "recordings": recordings,
        }
        return bundle_members(
            runs=[*self._runs(side)],
            label=side,
            workload="true",
            host={"kernel": {"release": release}},
            manifest=manifest,
        )

    def _runs(self, side: str) -> Iterator[dict[str, Any]]:
        order = 0
        for boot in range(BOOTS):
            for job in JOBS:
                of_boot = self._levels[job.name] * self._factor(BOOT_SD) * self._size(job, side)
                for groups in job.points.get("groups", [0]):
                    level = of_boot * (0.25 if groups == 1 else 1.0)
                    for _ in range(RUNS):
                        run = self._run(job, groups, level * self._factor(RUN_SD))
                        yield {
                            **run,
                            "boot": boot,
                            "run": order,
                            "order": order,
                            "boot_id": f"{self._night}-{side}-{boot}",
                            "session": f"{self._night}-{side}",
                            "side": side,
                            "start": f"{self._night}T22:{boot:02d}:{order % 60:02d}.000000Z",
                        }
                        order += 1

    def _size(self, job: Job, side: str) -> float:
        """Return the time of a kernel relative to that of the reference on the first machine."""
        size = 1.0 + 0.1 * MACHINES.index(self._machine)
        if job.name == SCALE and self._number >= UPDATE:
            size *= 0.9
        for change in CHANGES:
            is_here = change.job == job.name and self._machine in change.machines
            if side == "new" and is_here and change.night <= self._number < change.until:
                size *= 1.0 + change.size
        return size

    @staticmethod
    def _run(job: Job, groups: int, value: float) -> dict[str, Any]:
        return {
            "workload": job.run,
            "command": job.run.format(groups=groups).split(),
            "point": {"groups": str(groups)} if groups else {},
            "stdout": job.printed(value),
        }
