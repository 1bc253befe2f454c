# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare contended cache lines of base and new.

Rates are accesses per 1000 operations of the benchmark (per run for a fixed amount of work).
Only runs of one workload at one point are compared, and only if their PMUs report the same kind of
contended load (HITM, peer snoop), since these differ between vendors. The point with the most
samples comes first; within a point changed lines come first, then the most contended ones.
"""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence import Absent, section
from schedperf.evidence.c2c.merge import MemorySamples
from schedperf.evidence.c2c.point import describe_point
from schedperf.evidence.c2c.record import C2c, C2cComparison, C2cPoint
from schedperf.evidence.c2c.sources import load_memory
from schedperf.inputs.side import Side
from schedperf.model.base_new import FIRST_NEW
from schedperf.model.run import Captured, SideOf
from schedperf.model.sections import MissingSide

# Runs by workload and point.
_Runs = Mapping[tuple[str, str], Sequence[Captured[MemorySamples]]]


@section(C2c)
def c2c(sides: Sequence[Side]) -> C2c:
    """Compare the cache lines of each new side with base's.

    :raises Absent: base has no memory samples, or no new side has any
    """
    base = sides[0].once(load_memory)
    if not base.runs:
        raise Absent(f"{base.name}: {base.notes[0]}")
    comparisons, missing = [], []
    for side in sides[1:]:
        new = side.once(load_memory)
        if new.runs:
            comparisons.append(_compare(base, new))
        else:
            missing.append(MissingSide(side=new.name, reason=f"{new.name}: {new.notes[0]}"))
    if not comparisons:
        raise Absent("; ".join(absent.reason for absent in missing) or "no new side")
    return C2c(comparisons=tuple(comparisons), missing=tuple(missing))


def _compare(base: SideOf[MemorySamples], new: SideOf[MemorySamples]) -> C2cComparison:
    # Row ids of the first new side have no prefix.
    path = [] if new.name == FIRST_NEW else [new.name]
    points = (base.by_point(), new.by_point())
    return C2cComparison(
        side=new.name,
        points=tuple(_compare_points(path, *points)),
        notes=(
            *(f"{base.name}: {note}" for note in base.notes),
            *(f"{new.name}: {note}" for note in new.notes),
            *_describe_single_points(new.name, *points),
        ),
    )


def _compare_points(
    path: Sequence[str],
    base: _Runs,
    new: _Runs,
) -> Iterator[C2cPoint]:
    samples = {
        key: sum(
            run.content.profile.totals.get("total_records", 0) for run in (*base[key], *new[key])
        )
        for key in base
        if key in new
    }
    for index, key in enumerate(sorted(samples, key=lambda key: (-samples[key], key))):
        names = [*path, *(key if index else ())]
        yield describe_point(base[key], new[key], "".join(f"{name}/" for name in names))


def _describe_single_points(
    side: str,
    base: _Runs,
    new: _Runs,
) -> Iterator[str]:
    for workload, point in sorted(base.keys() ^ new.keys()):
        where = "base" if (workload, point) in base else side
        at = f"{workload} at {point}" if point else workload
        yield f"memory accesses of {at} were sampled in {where} only"
