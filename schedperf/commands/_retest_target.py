# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose what ``ab --retest`` reproduces: a step of a history, or a result of a comparison."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from schedperf.compare.json import MOST_BYTES, read_comparison
from schedperf.history.retests import Suspect, read_suspect
from schedperf.history.store.directory import open_directory
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.manifest import LARGEST_SEEN
from schedperf.lab.bisect.checks import pooled_sd
from schedperf.model.errors import InputError
from schedperf.model.rows import Row, RunValue
from schedperf.model.text import clean_line, cut, list_some
from schedperf.model.units import percent, signed
from schedperf.model.verdict import CHANGED
from schedperf.stats.looks import RETEST, least_reproduced

_MOST_NAMES = 3
_LONGEST = 80
_FEWEST_BOOTS = 2
_LAST = RETEST.looks[-1].boots


class Question(Struct, frozen=True, kw_only=True):
    """What shall be retested, as the recorder asks.

    :param of: identity of a step, or path of a comparison
    :param result: name of the result; None for the one that changed
    :param jobs: what the boots can record
    :param underpowered: whether to retest what the machine is too noisy to reproduce
    :param owner: absolute prefix of the bundles
    """

    of: str
    store: str | None
    result: str | None
    underpowered: bool
    jobs: "Annotated[tuple[RecordedJob, ...], Meta(min_length=1)]"
    owner: str
    kernels: "tuple[Kernel, Kernel]"


class RecordedJob(Struct, frozen=True, kw_only=True):
    """A command that the boots can record.

    :param workload: the command, with placeholders
    :param points: canonical texts of its points
    """

    workload: str
    points: tuple[str, ...]


class Kernel(Struct, frozen=True, kw_only=True):
    release: str
    commit: str | None


class Target(Struct, frozen=True, kw_only=True):
    """What to reproduce.

    :param name: for messages
    :param suspect: the step of a history; None for a result of a comparison
    :param seen: new / base - 1
    :param boot_sd: standard deviation between boots, of logarithms; None if unknown
    """

    name: str
    suspect: Suspect | None
    workload: str
    point: str
    metric: str
    seen: float
    boot_sd: float | None


def choose_target(asked: Question) -> Target:
    """Return what to reproduce.

    :raises InputError: there is nothing that can be retested
    """
    if asked.store is None:
        return _of_comparison(asked)
    return _of_step(read_suspect(open_directory(Path(asked.store)), asked.of), asked)


def choose_job(target: Target, jobs: Sequence[RecordedJob]) -> int:
    """Return the index of the job that records the workload of the result.

    :raises InputError: none of several jobs does
    """
    if len(jobs) == 1:
        return 0
    same = [i for i, job in enumerate(jobs) if job.workload == target.workload]
    with_point = [i for i in same if target.point in jobs[i].points]
    if not same:
        names = list_some([clean_line(job.workload) for job in jobs], _MOST_NAMES)
        raise InputError(
            f"--jobs: no job records {clean_line(target.workload)}, the workload of {target.name} "
            f"(they record {names}); add it to the file"
        )
    return (with_point or same)[0]


def warnings_of(target: Target, asked: Question, job: RecordedJob) -> Iterator[str]:
    """Yield what is not as it was when the change was seen, and what is not known."""
    if target.suspect is not None:
        yield from _warn_of_kernels(target.suspect, asked.kernels)
    if target.workload != job.workload:
        yield f"{target.name} is of {target.workload}, not of {job.workload}"
    if target.boot_sd is None:
        yield (
            f"{target.name}: the boot-to-boot standard deviation is unknown, so it is not known "
            f"whether {_LAST} boots per side suffice"
        )


def _of_step(suspect: Suspect, asked: Question) -> Target:
    return Target(
        name=f"step {suspect.step.id}",
        suspect=suspect,
        workload=suspect.series.workload,
        point=suspect.series.point,
        metric=asked.result or suspect.series.metric,
        seen=_check_seen(f"step {suspect.step.id}", suspect.seen),
        boot_sd=suspect.boot_sd,
    )


def _of_comparison(asked: Question) -> Target:
    path = Path(asked.of)
    if not path.exists():
        shown = clean_line(cut(asked.of, _LONGEST))
        raise InputError(
            f"--retest {shown}: no such file (expected one of compare --json); for a step of a "
            "history, add --store DIR"
        )
    content = read_regular(path, MOST_BYTES, "a comparison (compare --json)")
    comparison = read_comparison(content, str(path))
    row = _choose_row(comparison.rows, asked.result, str(path))
    if row.ratio is None:
        raise InputError(f"{path}: {row.metric} has no ratio; name another result by --result")
    return Target(
        name=f"{path}",
        suspect=None,
        workload=row.workload,
        point=row.point,
        metric=row.metric,
        seen=_check_seen(f"{path}: {row.metric}", row.ratio - 1.0),
        boot_sd=_boot_sd(row),
    )


def _choose_row(rows: Sequence[Row], result: str | None, path: str) -> Row:
    if result is None:
        found = [row for row in rows if row.family == "primary" and row.verdict in CHANGED]
    else:
        found = [row for row in rows if result in {row.metric, f"{row.metric} {row.point}"}]
    if len(found) == 1:
        return found[0]
    given = "" if result is None else f"--result {clean_line(cut(result, _LONGEST))}: "
    if not found:
        names = [f"{row.metric} {row.point}".rstrip() for row in rows]
        what = "not found" if result else "no result has changed"
        known = list_some(list(map(clean_line, names)), _MOST_NAMES) or "none"
        raise InputError(f"{path}: {given}{what} (it has {known}); name a result by --result")
    names = [f"{row.metric} {row.point}".rstrip() for row in found]
    raise InputError(
        f"{path}: {given}{len(found)} results ({list_some(names, _MOST_NAMES)}; expected one); "
        "name one by --result 'METRIC POINT', and compare two bundles"
    )


def _check_seen(name: str, seen: float) -> float:
    # Also what a comparison without rows of this program may contain.
    if not -1.0 < seen <= LARGEST_SEEN or seen == 0.0 or not math.isfinite(math.log1p(seen)):
        raise InputError(
            f"{name}: a change of {signed(seen)} cannot be retested (expected at most "
            f"{signed(LARGEST_SEEN)}, and not 0); name another result by --result"
        )
    return seen


def _boot_sd(row: Row) -> float | None:
    """Return the standard deviation between boots that a comparison shows; None if unknown."""
    sides = [_logs_of_boots(values) for values in (row.values_base, row.values_new)]
    if all(len(logs) >= _FEWEST_BOOTS for logs in sides):
        return pooled_sd(*sides)
    is_measured = row.boot_sd is not None and row.boot_sd.source != "assumed"
    return row.boot_sd.sd if row.boot_sd is not None and is_measured else None


def _logs_of_boots(values: Sequence[RunValue]) -> Sequence[float]:
    boots: dict[int, list[float]] = {}
    for value in values:
        if value.boot is not None and value.value > 0.0:
            boots.setdefault(value.boot, []).append(math.log(value.value))
    return [sum(logs) / len(logs) for logs in boots.values()]


def why_not_reproducible(target: Target) -> str | None:
    """Return why the machine is too noisy to reproduce a change; None if it is not, or unknown."""
    if target.boot_sd is None:
        return None
    least = least_reproduced(RETEST, target.boot_sd)
    if abs(math.log1p(target.seen)) >= least:
        return None
    return (
        f"{target.name}: {_LAST} boots per side reproduce changes from "
        f"{percent(math.expm1(min(least, 1.0)))} (80% power), because boots of this machine "
        f"differ (standard deviation {percent(target.boot_sd)}), and {signed(target.seen)} was seen"
    )


def choose_point(target: Target, points: Sequence[str]) -> str:
    """Return the point of the result, of those that the command records.

    :raises InputError: it does not record that point
    """
    if target.point in points:
        return target.point
    if len(points) == 1:
        return points[0]
    shown = list_some(list(points), _MOST_NAMES)
    raise InputError(
        f"{target.name}: is of {target.point or 'a command without points'}, which this command "
        f"does not record (its points: {shown}); give the --point of the result"
    )


def _warn_of_kernels(suspect: Suspect, kernels: "tuple[Kernel, Kernel]") -> Sequence[str]:
    expected = (suspect.base, suspect.new)
    names = ("before the step, or of its reference", "since the step")
    return [
        f"step {suspect.step.id}: {kernel.release} is not one of the kernels {name} (e.g. "
        f"{min(revisions)}); state its commit by --source if it is"
        for kernel, revisions, name in zip(kernels, expected, names, strict=True)
        if revisions and not {kernel.release, kernel.commit} & revisions
    ]
