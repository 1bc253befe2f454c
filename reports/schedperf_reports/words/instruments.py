# SPDX-License-Identifier: GPL-2.0-or-later
"""Check instrumented runs: whether they show the change, and the overhead of their collectors.

Verdicts use clean runs, explanations use instrumented runs. If instrumented runs do not show the
change, their captures can hardly explain it.
"""

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from schedperf.evidence.probe_effect.record import (
    ProbeCostRow,
    ProbedChangeRow,
    ProbeEffect,
)
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.sections import data_of
from schedperf.model.text import join_names
from schedperf.model.verdict import name_units
from schedperf_reports.blocks import Item, Items
from schedperf_reports.words.quantities import TOO_WIDE, format_change, format_interval, is_wide
from schedperf_reports.words.rows import count_of, name_rows

# At this ratio of run times collectors add a third of the run time.
SLOW = 1.5


class Pair(Struct, frozen=True, kw_only=True):
    """One result in the clean and in the instrumented runs.

    :param clean: the result in the clean runs
    :param name: unique name of the result in the comparison
    :param probed: the result in the instrumented runs
    """

    clean: Row
    name: str
    probed: ProbedChangeRow

    @property
    def clean_direction(self) -> int:
        """Return the direction of the change in the clean runs: 1 if the value rose, -1 if it fell.

        Return 0 if the verdict is neither a regression nor an improvement, or without a ratio.
        """
        ratio = self.clean.ratio
        if ratio is None or self.clean.verdict not in ("regression", "improvement"):
            return 0
        return (ratio > 1.0) - (ratio < 1.0)

    @property
    def probed_direction(self) -> int | None:
        """Return the direction of the change in instrumented runs: 1 if the CI is above 1.

        Return -1 if the CI is below 1, 0 if it contains 1, and None without a CI.
        """
        low, high = self.probed.ci_low, self.probed.ci_high
        return None if low is None or high is None else (low > 1.0) - (high < 1.0)

    @property
    def is_shown(self) -> bool:
        """Return whether both kinds of runs changed significantly in the same direction."""
        return self.clean_direction != 0 and self.clean_direction == self.probed_direction

    @property
    def distance(self) -> float:
        """Return the distance of the two changes as a logarithm; 0 if one has no ratio."""
        clean, probed = self.clean.ratio, self.probed.ratio
        return abs(math.log(probed / clean)) if clean and probed else 0.0


class _Slowdown(Struct, frozen=True, kw_only=True):
    # The ratio of instrumented to clean run time, with its 95% CI.
    row: ProbeCostRow
    ratio: float
    interval: tuple[float, float] | None

    @property
    def is_shown(self) -> bool:
        return self.interval is not None and self.interval[0] > 1.0

    @property
    def text(self) -> str:
        if self.interval is None:
            interval = "no CI"
        else:
            interval = "95% CI [{:.1f}, {:.1f}]".format(*self.interval)
        return f"{self.ratio:.1f} ({interval}, {self.n})"

    @property
    def is_unknown(self) -> bool:
        return self.interval is not None and not self.is_shown and is_wide(*self.interval)

    @property
    def n(self) -> str:
        units = name_units(self.row.n_instrumented, self.row.replication)
        return f"n = {self.row.n_clean} clean and {self.row.n_instrumented} instrumented {units}"


def pairs_of(comparison: Comparison) -> tuple[Pair, ...]:
    """Return the results that both clean and instrumented runs have, in their order."""
    names = name_rows(comparison.rows)
    data = data_of(comparison.sections, ProbeEffect)
    probed = {} if data is None else {_key(row): row for row in data.between}
    return tuple(
        Pair(clean=row, name=names[index], probed=probed[_key(row)])
        for index, row in enumerate(comparison.rows)
        if _key(row) in probed
    )


def _key(row: Row | ProbedChangeRow) -> tuple[str, ...]:
    return row.side, row.workload, row.point, row.metric, row.unit


def describe_ratio(row: ProbeCostRow | ProbedChangeRow) -> str:
    """Format a ratio as a change with its CI, if it has one: ``+6.6% [-3.5%, +17.7%]``."""
    change, low, high = format_change(row.ratio), row.ci_low, row.ci_high
    if low is None:
        return change
    interval = format_interval(low, high)
    return f"{change} (95% CI {TOO_WIDE})" if interval == TOO_WIDE else f"{change} {interval}"


def describe_agreement(pairs: Sequence[Pair]) -> str | None:
    """State how many changes of the clean runs the instrumented runs also show.

    Return None if they show none of them.
    """
    changed = [pair for pair in pairs if pair.clean_direction]
    shown = [pair for pair in changed if pair.is_shown]
    if not shown:
        return None
    if len(pairs) == 1:
        return f"the instrumented runs also show the change: {describe_ratio(shown[0].probed)}"
    number = count_of(len(changed), "change")
    return f"the instrumented runs also show {len(shown)} of {number} found in the clean runs"


def list_doubts(comparison: Comparison) -> Iterator[Item]:
    """Yield up to two warnings about disagreements of instrumented and clean runs.

    The first is about changes that only clean runs show, the second about changes that only
    instrumented runs show. Each names the result with the largest disagreement.
    """
    pairs = [pair for pair in pairs_of(comparison) if pair.probed_direction is not None]
    missing = [pair for pair in pairs if pair.clean_direction and not pair.is_shown]
    alone = [pair for pair in pairs if not pair.clean_direction and pair.probed_direction]
    has_others = len(pairs) > 1
    if missing:
        first, more = _clearest(missing)
        named = f" of {first.name}{more}" if has_others else ""
        yield _warning(
            f"the instrumented runs do not reproduce the change{named} but show "
            f"{describe_ratio(first.probed)}, so their data may not explain the change"
        )
    if alone:
        first, more = _clearest(alone)
        yield _warning(
            f"only the instrumented runs differ significantly ({first.name} "
            f"{describe_ratio(first.probed)}{more}), so their data may show collector overhead"
        )


def count_kinds(row: ProbeCostRow) -> str:
    """Format the sample sizes of clean and instrumented runs: ``8 and 5 pairs``."""
    return (
        f"{row.n_clean} and {row.n_instrumented} {name_units(row.n_instrumented, row.replication)}"
    )


def list_costs(comparison: Comparison) -> Iterator[Item]:
    """Yield a warning if collectors slowed the runs by a factor of more than ``SLOW``.

    If the slowdown is significant for some results, the other results are left out. If its CI is
    too wide for all results, the warning states that the slowdown is unknown.
    """
    data = data_of(comparison.sections, ProbeEffect)
    if data is None:
        return
    slow = [slowdown for slowdown in map(_slowdown, data.rows) if slowdown.ratio > SLOW]
    slow = [slowdown for slowdown in slow if slowdown.is_shown] or slow
    slow = [slowdown for slowdown in slow if not slowdown.is_unknown] or slow[:1]
    if not slow:
        return
    sides = dict.fromkeys(slowdown.row.side for slowdown in slow)
    where = f" of {join_names(sides)}" if len(sides) < len(comparison.sides) else ""
    workloads = dict.fromkeys(slowdown.row.workload for slowdown in slow)
    if len(workloads) < len({row.workload for row in data.rows}):
        where += f" ({join_names(workloads)})"
    slow.sort(key=lambda slowdown: slowdown.ratio)
    ends = " to ".join(dict.fromkeys(slowdown.text for slowdown in (slow[0], slow[-1])))
    doubt = "" if slow[0].is_shown else " (not significant)"
    runs = [run for run in data.runs if run.side in sides]
    names = ", ".join(sorted({name for run in runs for name in run.collectors}))
    slowed = (
        f"how much collectors slowed the instrumented runs{where} is unknown (95% CI {TOO_WIDE}, "
        f"{slow[0].n})"
        if slow[0].is_unknown
        else f"collectors slowed the instrumented runs{where} by a factor of {ends}{doubt}"
    )
    yield _warning(
        f"{slowed}, so their data may reflect collector overhead{f' ({names})' if names else ''}",
        short=_warning(slowed),
    )


def warn_of_instruments(comparison: Comparison, section: str) -> Iterator[Items]:
    """Yield the warnings of a section, if its captures come from instrumented runs.

    :param section: name of the section
    """
    effect = data_of(comparison.sections, ProbeEffect)
    runs = () if effect is None else effect.runs
    # Without captures in clean runs, instrumented runs are used.
    found = comparison.sections.get(section)
    collector = "" if found is None or found.data is None else found.data.collector
    if any(collector in run.collectors for run in runs):
        items = (*list_doubts(comparison), *list_costs(comparison))
        if items:
            yield Items(items=items)


def _clearest(pairs: Sequence[Pair]) -> tuple[Pair, str]:
    # The result whose instrumented and clean runs differ most, and how many more there are.
    first, *others = sorted(pairs, key=lambda pair: -pair.distance)
    return first, f" and {len(others)} more" if others else ""


def _warning(text: str, *, short: Item | None = None) -> Item:
    return Item(text=text, short=short, tone="warning", evidence=("probe_effect",))


def _slowdown(row: ProbeCostRow) -> _Slowdown:
    ratio, low, high = row.ratio, row.ci_low, row.ci_high
    if not ratio:
        return _Slowdown(row=row, ratio=1.0, interval=None)
    # A bound that rounds to 0 does not limit the ratio, and cannot be a divisor.
    interval = (low, high) if low and high else None
    if row.better == "lower":
        return _Slowdown(row=row, ratio=ratio, interval=interval)
    # Half as many operations per second take twice as long.
    turned = None if interval is None else (1.0 / interval[1], 1.0 / interval[0])
    return _Slowdown(row=row, ratio=1.0 / ratio, interval=turned)
