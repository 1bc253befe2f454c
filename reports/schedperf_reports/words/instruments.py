# SPDX-License-Identifier: GPL-2.0-or-later
"""Caveats of instrumented runs: whether they show the change, and what their collectors cost.

Verdicts use clean runs, explanations use instrumented ones. Where instrumented runs do not show
the change, their captures can hardly explain it.
"""

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from schedperf.evidence.probe_effect.record import (
    ProbeCostRow,
    ProbedChangeRow,
    ProbeEffect,
)
from schedperf.model.comparison import Comparison, Row, data_of
from schedperf.model.text import join_names
from schedperf.model.verdict import name_units
from schedperf_reports.blocks import Item, Items
from schedperf_reports.words.rows import count_of, name_rows
from schedperf_reports.words.units import format_change, format_interval

# At this ratio of run times collectors add a third of the run time.
SLOW = 1.5


class Pair(Struct, frozen=True, kw_only=True):
    """One result in the clean and in the instrumented runs.

    :param name: unique name of the result in the comparison
    :param probed: the result in the instrumented runs
    """

    clean: Row
    name: str
    probed: ProbedChangeRow

    @property
    def clean_direction(self) -> int:
        """Direction of the change in the clean runs: 1 up, -1 down, 0 if not decided."""
        ratio = self.clean.ratio
        if ratio is None or self.clean.verdict not in ("regression", "improvement"):
            return 0
        return (ratio > 1.0) - (ratio < 1.0)

    @property
    def probed_direction(self) -> int | None:
        """Direction of the CI of the instrumented runs: 1 up, -1 down, 0 unclear; None without."""
        low, high = self.probed.ci_low, self.probed.ci_high
        return None if low is None or high is None else (low > 1.0) - (high < 1.0)

    @property
    def is_shown(self) -> bool:
        """Whether both kinds of runs changed significantly in the same direction."""
        return self.clean_direction != 0 and self.clean_direction == self.probed_direction

    @property
    def distance(self) -> float:
        """How far apart the two changes are, as a logarithm; 0 where one has no ratio."""
        clean, probed = self.clean.ratio, self.probed.ratio
        return abs(math.log(probed / clean)) if clean and probed else 0.0


class _Slowdown(Struct, frozen=True, kw_only=True):
    # How many times as long instrumented runs took, with its interval of 95%.
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
        units = name_units(self.row.n_instrumented, self.row.replication)
        n = f"n = {self.row.n_clean} clean and {self.row.n_instrumented} instrumented {units}"
        return f"{self.ratio:.1f} ({interval}, {n})"


def pairs_of(comparison: Comparison) -> tuple[Pair, ...]:
    """Return the results that clean and instrumented runs have, in the order of the results."""
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
    """Write a ratio as a change with its interval: ``+6.6% [-3.5%, +17.7%]``."""
    change, low, high = format_change(row.ratio), row.ci_low, row.ci_high
    return change if low is None else f"{change} {format_interval(low, high)}"


def say_agreement(pairs: Sequence[Pair]) -> str | None:
    """State which changes the instrumented runs also show; None if they show none."""
    changed = [pair for pair in pairs if pair.clean_direction]
    shown = [pair for pair in changed if pair.is_shown]
    if not shown:
        return None
    if len(pairs) == 1:
        return f"the instrumented runs also show the change: {describe_ratio(shown[0].probed)}"
    number = count_of(len(changed), "change")
    return f"the instrumented runs also show {len(shown)} of {number} found in the clean runs"


def list_doubts(comparison: Comparison) -> Iterator[Item]:
    """Yield a warning for each disagreement between instrumented and clean runs."""
    pairs = [pair for pair in pairs_of(comparison) if pair.probed_direction is not None]
    missing = [pair for pair in pairs if pair.clean_direction and not pair.is_shown]
    alone = [pair for pair in pairs if not pair.clean_direction and pair.probed_direction]
    has_others = len(pairs) > 1
    if missing:
        named, numbers = _tell(missing, has_others=has_others)
        yield _warning(
            f"the instrumented runs do not reproduce the change{named} but show {numbers}, so "
            "their data may not explain the change"
        )
    if alone:
        named, numbers = _tell(alone, has_others=has_others)
        yield _warning(
            f"the instrumented runs show a change{named} ({numbers}) that the clean runs do not "
            "show, so the collected data may reflect collector overhead"
        )


def count_kinds(row: ProbeCostRow) -> str:
    """Write how many values of clean and of instrumented runs a row has: ``8 and 5 pairs``."""
    return (
        f"{row.n_clean} and {row.n_instrumented} {name_units(row.n_instrumented, row.replication)}"
    )


def list_costs(comparison: Comparison) -> Iterator[Item]:
    """Yield a warning if collectors slowed the runs a lot.

    If the slowdown is significant for some results, the other results are left out.
    """
    data = data_of(comparison.sections, ProbeEffect)
    if data is None:
        return
    slow = [slowdown for slowdown in map(_slowdown, data.rows) if slowdown.ratio > SLOW]
    slow = [slowdown for slowdown in slow if slowdown.is_shown] or slow
    if not slow:
        return
    sides = dict.fromkeys(slowdown.row.side for slowdown in slow)
    where = f" of {join_names(sides)}" if len(sides) < len(comparison.sides) else ""
    slow.sort(key=lambda slowdown: slowdown.ratio)
    ends = " to ".join(dict.fromkeys(slowdown.text for slowdown in (slow[0], slow[-1])))
    doubt = "" if slow[0].is_shown else " (not significant)"
    runs = [run for run in data.runs if run.side in sides]
    names = ", ".join(sorted({name for run in runs for name in run.collectors}))
    slowed = f"collectors slowed the instrumented runs{where} by a factor of {ends}{doubt}"
    yield _warning(
        f"{slowed}, so their data may reflect collector overhead{f' ({names})' if names else ''}",
        short=_warning(slowed),
    )


def warn_of_instruments(comparison: Comparison, section: str) -> Iterator[Items]:
    """Yield the warnings of a section whose captures come from instrumented runs."""
    effect = data_of(comparison.sections, ProbeEffect)
    runs = () if effect is None else effect.runs
    # Without captures in clean runs, instrumented runs are used.
    found = comparison.sections.get(section)
    collector = "" if found is None or found.data is None else found.data.collector
    if any(collector in run.collectors for run in runs):
        items = (*list_doubts(comparison), *list_costs(comparison))
        if items:
            yield Items(items=items)


def _tell(pairs: Sequence[Pair], *, has_others: bool) -> tuple[str, str]:
    # The names of the results, and the change of the clearest one in instrumented runs.
    first, *others = sorted(pairs, key=lambda pair: -pair.distance)
    more = f" and {len(others)} more" if others else ""
    named = f" of {first.name}{more}" if has_others else ""
    return named, describe_ratio(first.probed)


def _warning(text: str, *, short: Item | None = None) -> Item:
    return Item(text=text, short=short, tone="warning", evidence=("probe_effect",))


def _slowdown(row: ProbeCostRow) -> _Slowdown:
    ratio, low, high = row.ratio, row.ci_low, row.ci_high
    if not ratio:
        return _Slowdown(row=row, ratio=1.0, interval=None)
    # An end that rounds to 0 does not bound the ratio, and cannot be a divisor.
    interval = (low, high) if low and high else None
    if row.better == "lower":
        return _Slowdown(row=row, ratio=ratio, interval=interval)
    # Half as many operations in a second take twice as long.
    turned = None if interval is None else (1.0 / interval[1], 1.0 / interval[0])
    return _Slowdown(row=row, ratio=1.0 / ratio, interval=turned)
