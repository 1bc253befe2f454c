"""Schedstat by place: what each CPU counted, and which domains there are, smallest first."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from schedperf.evidence.schedstat.fields import FIELDS
from schedperf.evidence.schedstat.levels import Level
from schedperf.evidence.schedstat.record import LevelRow
from schedperf.evidence.schedstat.totals import NS_PER_S, SideRuns, StatRun
from schedperf.stats.counted.per_cpu import CpuMeasure, CpuRun


def cpu_runs(side: SideRuns, cpus: Collection[int] | None, *, has_seconds: bool) -> list[CpuRun]:
    """Return the rates of each CPU in each run; a run that did not count has none.

    :param cpus: these only; None: all
    :param has_seconds: rates are per second; else per tick
    """
    return [
        CpuRun(
            workload=run.workload,
            point=run.point,
            boot=run.boot,
            round=run.round,
            values=dict(_values(run, cpus, has_seconds=has_seconds)),
        )
        for run in side.runs
        if not run.is_off
    ]


def _values(
    run: StatRun, cpus: Collection[int] | None, *, has_seconds: bool
) -> Iterator[tuple[CpuMeasure, Mapping[int, float]]]:
    time = run.seconds if has_seconds else run.change.jiffies
    if not time:
        return
    tick = "s" if has_seconds else "tick"
    for place, column in enumerate(run.cpu_columns):
        field = FIELDS[column.field]
        scale = 1.0 / NS_PER_S if field.unit == "ns" else 1.0
        counts = zip(run.change.cpus, run.change.cpu_counts[:, place].tolist(), strict=True)
        known = {
            cpu: count * scale / time
            for cpu, count in counts
            # NaN, of a counter that cannot be known, is not itself.
            if count == count and (cpus is None or cpu in cpus)  # noqa: PLR0124
        }
        if field.is_used and known:
            counted = "s" if field.unit == "ns" else "1"
            yield CpuMeasure(field.name, f"{counted}/{tick}", field.meaning), known


def levels_of_side(side: SideRuns, labels: Mapping[Level, str]) -> Iterator[LevelRow]:
    """Yield the levels of the domains, the one with the fewest CPUs first."""
    found: dict[str, list[Level]] = {}
    for run in side.runs:
        for level in run.levels:
            found.setdefault(labels[level], []).append(level)
    described = [_describe(side, label, levels) for label, levels in found.items()]
    yield from sorted(described, key=lambda row: row.cpus or 0)


def _describe(side: SideRuns, label: str, levels: Sequence[Level]) -> LevelRow:
    widths = [level.widest for level in levels if level.widest is not None]
    spans = [{span for _, span in level.spans} for level in levels if level.spans is not None]
    return LevelRow(
        side=side.name,
        level=label,
        cpus=max(widths, default=None),
        domains=max(map(len, spans), default=None),
        flags=side.flags.get(label),
    )
