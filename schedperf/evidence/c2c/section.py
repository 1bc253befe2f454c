"""Bouncing cache lines: which ones move between CPUs more, or less, in new than in base.

Rates are accesses for each 1000 operations of the benchmark (for each run of a fixed amount of
work). Only runs of one workload at one point are compared, and only equal observables: what a
HITM is on one vendor's machines is something else on another's. Of several points the one with
the most samples comes first; in a point what changed, then what is most contended.
"""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence import Absent, section
from schedperf.evidence.c2c.bundle_sources import PointRun, SideMemory, load_memory
from schedperf.evidence.c2c.point import describe_point
from schedperf.evidence.c2c.record import C2c, C2cComparison, C2cMissing, C2cPoint
from schedperf.runs.side import FIRST_NEW, Side

# Workload and point.
_Key = tuple[str, str]


@section(C2c)
def c2c(sides: Sequence[Side]) -> C2c:
    """Compare the cache lines of each new side with base's."""
    base = load_memory(sides[0])
    if base.reason is not None:
        raise Absent(f"{sides[0].name}: {base.reason}")
    comparisons, missing = [], []
    for side in sides[1:]:
        new = load_memory(side)
        if new.reason is not None:
            missing.append(C2cMissing(side=side.name, reason=f"{side.name}: {new.reason}"))
        else:
            comparisons.append(_compare(sides[0].name, base, side.name, new))
    if not comparisons:
        raise Absent("; ".join(one.reason for one in missing) or "there is no new side")
    return C2c(comparisons=tuple(comparisons), missing=tuple(missing))


def _compare(base_name: str, base: SideMemory, name: str, new: SideMemory) -> C2cComparison:
    # The first new side's rows have plain names.
    path = [] if name == FIRST_NEW else [name]
    points = (_by_point(base.runs), _by_point(new.runs))
    return C2cComparison(
        side=name,
        points=tuple(_compare_points(path, *points)),
        notes=(
            *(f"{base_name}: {note}" for note in base.notes),
            *(f"{name}: {note}" for note in new.notes),
            *_describe_single_points(name, *points),
        ),
    )


def _by_point(runs: Sequence[PointRun]) -> dict[_Key, list[PointRun]]:
    found: dict[_Key, list[PointRun]] = {}
    for run in runs:
        found.setdefault((run.workload, run.point), []).append(run)
    return found


def _compare_points(
    path: Sequence[str],
    base: Mapping[_Key, Sequence[PointRun]],
    new: Mapping[_Key, Sequence[PointRun]],
) -> Iterator[C2cPoint]:
    samples = {
        key: sum(one.run.profile.totals.get("total_records", 0) for one in (*base[key], *new[key]))
        for key in base
        if key in new
    }
    for place, key in enumerate(sorted(samples, key=lambda key: (-samples[key], key))):
        names = [*path, *(key if place else ())]
        yield describe_point(base[key], new[key], "".join(f"{name}/" for name in names))


def _describe_single_points(
    side: str,
    base: Mapping[_Key, Sequence[PointRun]],
    new: Mapping[_Key, Sequence[PointRun]],
) -> Iterator[str]:
    for workload, point in sorted(base.keys() ^ new.keys()):
        where = "base" if (workload, point) in base else side
        at = f"{workload} at {point}" if point else workload
        yield f"memory was sampled for {at} on {where} only"
