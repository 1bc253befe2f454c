# SPDX-License-Identifier: GPL-2.0-or-later
"""Plan the recordings of one kernel, and count what earlier ones have recorded already."""

from __future__ import annotations

import json
import shlex
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedperf_collectors.contract import MANIFEST, point_key
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.recorder.captures import Chosen, choose
from schedperf_collectors.recorder.jobs import Job
from schedperf_collectors.recorder.options import RUNS, make_parser
from schedperf_collectors.recorder.plan import CLEAN, cross_points, fill
from schedperf_collectors.request.ask import Ask

_WORDS_OF_ALL = ("default", "none")
_RUN = "/run.json"
HOST = "/host.json"


@dataclass(frozen=True)
class Workload:
    """The workload of a request.

    :param options: options of the recorder
    :param runs: clean runs of each point
    :param instrumented: instrumented runs of each point, at most
    :param warmup: warm-up runs of each point
    :param points: canonical texts of the points
    :param programs: the program of the command, at each point
    :param collectors: collectors to try
    """

    options: tuple[str, ...]
    command: tuple[str, ...]
    runs: int
    instrumented: int
    warmup: int
    points: tuple[str, ...]
    programs: tuple[str, ...]
    collectors: Chosen

    @property
    def runs_of_a_side(self) -> int:
        """Return the number of runs that one side takes."""
        return len(self.points) * (self.runs + self.instrumented + self.warmup)


@dataclass(frozen=True)
class Step:
    """One recording on one kernel.

    :param feature: scheduler feature that is switched; None for the kernel as it is
    :param paths: the bundles that it writes
    :param prefix: value of -o
    """

    feature: str | None
    paths: tuple[Path, ...]
    prefix: Path

    def arguments(self, work: Workload, missing: int) -> list[str]:
        """Return the arguments of the recorder.

        :param missing: number of clean runs of each point
        """
        if self.feature is None:
            [path] = self.paths
            start = ["record", "--append" if path.exists() else "-o", str(path)]
        else:
            start = ["ab", "--append", "-o", str(self.prefix), "--feature", self.feature]
        return [*start, *work.options, f"--runs={missing}", "--", *work.command]


def read_workload(job: Job) -> Workload:
    """Return the workload of a request, with its default values.

    Collectors that a maintainer names are left out where they do not work.

    :raises RecordError: a collector is unknown
    """
    options = make_parser("record", "schedperf").parse_args(["-o", "x", *job.options])
    names = list(options.collectors)
    points = cross_points(options.point)
    usual = [name for name in names if name in _WORDS_OF_ALL] or ["default"]
    attempted = [name for name in names if name not in _WORDS_OF_ALL]
    runs = options.runs or RUNS
    chosen = choose(usual, attempted, without=options.left_out)
    instrumented = runs if options.instrumented is None else options.instrumented
    kept = [word for word in job.options if not word.startswith(("--with=", "--runs="))]
    added = [f"--with={','.join(usual)}", *([f"--try={','.join(attempted)}"] if attempted else [])]
    return Workload(
        options=(*kept, *added),
        command=job.command,
        runs=runs,
        instrumented=instrumented if chosen.intrusive else 0,
        warmup=options.warmup,
        points=tuple(point_key(dict(point)) for point in points),
        programs=tuple(fill(job.command[:1], point)[0] for point in points),
        collectors=chosen,
    )


def plan_steps(ask: Ask, folder: Path, kernel: str) -> Iterator[Step]:
    """Yield the recordings of one kernel: as it is, then each feature switched off and on."""
    yield Step(None, (folder / f"{kernel}.tar",), folder / kernel)
    for feature in ask.features:
        prefix = folder / f"{kernel}+{feature}"
        paths = (Path(f"{prefix}-NO_{feature}.tar"), Path(f"{prefix}-{feature}.tar"))
        yield Step(feature, paths, prefix)


def count_missing(step: Step, work: Workload) -> int:
    """Return how many clean runs of each point are missing in the bundles of a step.

    :raises RecordError: a bundle cannot be read
    """
    counts = [_count(path) for path in step.paths]
    fewest = min(count[point] for count in counts for point in work.points)
    return max(0, work.runs - fewest)


def _count(path: Path) -> Counter[str]:
    """Return the number of clean runs of each point, without warm-up runs and discarded ones."""
    runs = read_runs(path) if path.exists() else []
    return Counter(
        str(run.get("point_key"))
        for run in runs
        if run.get("kind") == CLEAN and not run.get("warmup") and run.get("discarded") is None
    )


def read_runs(path: Path) -> list[Mapping[str, Any]]:
    """Return run.json of each run of a bundle.

    :raises RecordError: the bundle cannot be read
    """
    return [run for name, run in read_records(path).items() if name.endswith(_RUN)]


def read_records(path: Path) -> dict[str, Any]:
    """Return the JSON files of a bundle that the recorder itself writes, by name.

    :raises RecordError: the bundle cannot be read
    """
    records = {}
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name.endswith((_RUN, HOST)) or member.name == MANIFEST:
                    file = tar.extractfile(member)
                    records[member.name] = json.loads(file.read()) if file else {}
    except (OSError, tarfile.TarError, EOFError, ValueError) as error:
        reason = explain(error) if isinstance(error, OSError) else str(error)
        raise RecordError(
            f"{path}: {reason} (expected a bundle of this request); move it away and record again"
        ) from error
    return records


def show_command(command: Sequence[str]) -> str:
    """Return a command as a shell reads it."""
    return " ".join(map(shlex.quote, command))
