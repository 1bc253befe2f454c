"""What each CPU counted, base against new: the numbers behind heat maps of the CPUs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from schedperf.model.counted import CpuRow
from schedperf.model.run import Captured, SideOf
from schedperf.stats.counted.grids import compare_places


class CpuMeasure(NamedTuple):
    """What is measured of a CPU.

    :param unit: "1/s", "s/s"; "" for a share of its time
    """

    name: str
    unit: str
    meaning: str


# Of one run: the values of each CPU, by measure.
CpuValues = Mapping[CpuMeasure, Mapping[int, float]]


def compare_cpus(
    base: SideOf[CpuValues],
    new: SideOf[CpuValues] | None,
    *,
    invalid: frozenset[str] = frozenset(),
) -> Iterator[CpuRow]:
    """Yield each measure of each point, CPU by CPU; one that is 0 on all of them is left out.

    :param new: None: base is alone
    :param invalid: names of measures whose values are shown and not compared
    One measure is a family of tests.
    """
    others = {} if new is None else new.by_point()
    for (workload, point), runs in base.by_point().items():
        sides = [runs, others.get((workload, point), [])]
        if new is not None and not sides[1]:
            continue
        for measure in dict.fromkeys(one for side in sides for run in side for one in run.content):
            before, after = (_placed(side, measure) for side in sides)
            cpus = sorted({cpu for run in (*before, *after) for cpu in run.content})
            if any(value for run in (*before, *after) for value in run.content.values()):
                is_comparable = measure.name not in invalid
                grid = compare_places(before, after, cpus, is_comparable=is_comparable)
                yield CpuRow(
                    side=(new or base).name,
                    workload=workload,
                    point=point,
                    measure=measure.name,
                    unit=measure.unit,
                    meaning=measure.meaning,
                    cpus=tuple(cpus),
                    **grid.as_fields(),
                )


def _placed(
    runs: Sequence[Captured[CpuValues]], measure: CpuMeasure
) -> list[Captured[Mapping[int, float]]]:
    return [run.having(run.content[measure]) for run in runs if measure in run.content]
