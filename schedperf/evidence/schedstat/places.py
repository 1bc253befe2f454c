"""Schedstat by place: what each CPU counted, and which domains there are, smallest first."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from schedperf.evidence.schedstat.fields import FIELDS
from schedperf.evidence.schedstat.levels import Level
from schedperf.evidence.schedstat.record import LevelRow
from schedperf.evidence.schedstat.totals import NS_PER_S, SchedCounts
from schedperf.model.run import SideOf
from schedperf.stats.counted.per_cpu import CpuMeasure, CpuValues


def cpu_rates(
    side: SideOf[SchedCounts], cpus: Collection[int] | None, *, has_seconds: bool
) -> SideOf[CpuValues]:
    """Return the rates of each CPU in each run; a run that did not count has none.

    :param cpus: these only; None: all
    :param has_seconds: rates are per second; else per tick
    """
    return SideOf(
        name=side.name,
        runs=tuple(
            run.having(dict(_values(run.content, cpus, has_seconds=has_seconds)))
            for run in side.runs
            if not run.content.is_off
        ),
    )


def _values(
    counts: SchedCounts, cpus: Collection[int] | None, *, has_seconds: bool
) -> Iterator[tuple[CpuMeasure, Mapping[int, float]]]:
    change = counts.change
    time = counts.seconds if has_seconds else change.jiffies
    if not time:
        return
    tick = "s" if has_seconds else "tick"
    for place, column in enumerate(counts.cpu_columns):
        field = FIELDS[column.field]
        scale = 1.0 / NS_PER_S if field.unit == "ns" else 1.0
        of_cpus = zip(change.cpus, change.cpu_counts[:, place].tolist(), strict=True)
        known = {
            cpu: count * scale / time
            for cpu, count in of_cpus
            # NaN, of a counter that cannot be known, is not itself.
            if count == count and (cpus is None or cpu in cpus)  # noqa: PLR0124
        }
        if field.is_used and known:
            counted = "s" if field.unit == "ns" else "1"
            yield CpuMeasure(field.name, f"{counted}/{tick}", field.meaning), known


def levels_of_side(side: SideOf[SchedCounts], labels: Mapping[Level, str]) -> Iterator[LevelRow]:
    """Yield the levels of the domains, the one with the fewest CPUs first."""
    found: dict[str, list[Level]] = {}
    for run in side.runs:
        for level in run.content.levels:
            found.setdefault(labels[level], []).append(level)
    described = [_describe(side, label, levels) for label, levels in found.items()]
    yield from sorted(described, key=lambda row: row.cpus or 0)


def _describe(side: SideOf[SchedCounts], label: str, levels: Sequence[Level]) -> LevelRow:
    widths = [level.widest for level in levels if level.widest is not None]
    spans = [{span for _, span in level.spans} for level in levels if level.spans is not None]
    return LevelRow(
        side=side.name,
        level=label,
        cpus=max(widths, default=None),
        domains=max(map(len, spans), default=None),
        flags=next(
            (run.content.flags[label] for run in side.runs if label in run.content.flags), None
        ),
    )
