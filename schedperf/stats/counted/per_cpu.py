"""What each CPU counted, base against new: the numbers behind heat maps of the CPUs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from schedperf.model.counted import CpuRow
from schedperf.stats.counted.grids import PlacedRun, compare_places


class CpuMeasure(NamedTuple):
    """What is measured of a CPU.

    :param unit: "1/s", "s/s"; "" for a share of its time
    """

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuRun:
    """One run: the values of each CPU, by measure.

    :param round: where sides took turns
    """

    workload: str
    point: str
    boot: int
    round: int | None = None
    values: Mapping[CpuMeasure, Mapping[int, float]]


def compare_cpus(
    base: tuple[str, Sequence[CpuRun]],
    new: tuple[str, Sequence[CpuRun]] | None,
    *,
    invalid: frozenset[str] = frozenset(),
) -> Iterator[CpuRow]:
    """Yield each measure of each point, CPU by CPU; one that is 0 on all of them is left out.

    :param base: name and runs of a side
    :param new: None: base is alone
    :param invalid: names of measures whose values are shown and not compared
    One measure is a family of tests.
    """
    name, others = new or (base[0], ())
    for place in dict.fromkeys((run.workload, run.point) for run in base[1]):
        sides = [_at(runs, place) for runs in (base[1], others)]
        if new is not None and not sides[1]:
            continue
        for measure in dict.fromkeys(one for side in sides for run in side for one in run.values):
            before, after = (_placed(side, measure) for side in sides)
            cpus = sorted({cpu for run in (*before, *after) for cpu in run.values})
            if any(value for run in (*before, *after) for value in run.values.values()):
                is_comparable = measure.name not in invalid
                grid = compare_places(before, after, cpus, is_comparable=is_comparable)
                yield CpuRow(
                    side=name,
                    workload=place[0],
                    point=place[1],
                    measure=measure.name,
                    unit=measure.unit,
                    meaning=measure.meaning,
                    cpus=tuple(cpus),
                    **grid.as_fields(),
                )


def _placed(runs: Sequence[CpuRun], measure: CpuMeasure) -> list[PlacedRun[int]]:
    return [
        PlacedRun(run.boot, run.values[measure], run.round) for run in runs if measure in run.values
    ]


def _at(runs: Sequence[CpuRun], place: tuple[str, str]) -> list[CpuRun]:
    return [run for run in runs if (run.workload, run.point) == place]
