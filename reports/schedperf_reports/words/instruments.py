# SPDX-License-Identifier: GPL-2.0-or-later
"""Caveats of instrumented runs: whether they show the change, and what their collectors cost.

Verdicts use clean runs, explanations use instrumented ones. Where instrumented runs do not show
the change, their captures can hardly explain it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedperf.evidence.probe_effect.record import (
    ProbeCostRow,
    ProbedChangeRow,
    ProbeEffect,
)
from schedperf.model.comparison import Comparison, Row, data_of
from schedperf.stats.verdicts import name_units
from schedperf_reports.blocks import Item, Items
from schedperf_reports.words.rows import count_of, name_rows
from schedperf_reports.words.units import format_change, format_interval

# From this ratio of times on more than a third of a run is what its collectors added.
SLOW = 1.5

# What each of these sections shows was recorded by this collector. Where no clean run had that, the
# section rests on instrumented runs.
COLLECTORS: Mapping[str, str] = {
    "schedstat": "schedstat",
    "placement": "bpf_placement",
    "pelt": "bpf_pelt",
    "system_counters": "system_counters",
    "counters": "perf_stat",
    "profile": "perf_profile",
    "c2c": "perf_c2c",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One result as the clean runs have it, beside what the instrumented runs have.

    :param name: of the result, among all of the comparison
    :param probed: what the instrumented runs have of it
    """

    clean: Row
    name: str
    probed: ProbedChangeRow

    @property
    def clean_direction(self) -> int:
        """Where the clean runs say that it went: 1 up, -1 down, 0 where nothing is decided."""
        ratio = self.clean.ratio
        if ratio is None or self.clean.verdict not in ("regression", "improvement"):
            return 0
        return (ratio > 1.0) - (ratio < 1.0)

    @property
    def probed_direction(self) -> int | None:
        """Where the interval of the instrumented runs says that it went; None without one."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Slowdown:
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
            told = "no CI"
        else:
            told = "95% CI [{:.1f}, {:.1f}]".format(*self.interval)
        return f"{self.ratio:.1f} ({told}, {count_kinds(self.row)})"


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
    """Say which changes the instrumented runs show, too; None where they show none."""
    changed = [one for one in pairs if one.clean_direction]
    shown = [one for one in changed if one.is_shown]
    if not shown:
        return None
    if len(pairs) == 1:
        return f"the instrumented runs show the change too: {describe_ratio(shown[0].probed)}"
    number = count_of(len(changed), "change")
    return f"the instrumented runs show {len(shown)} of {number} of the clean runs too"


def list_doubts(comparison: Comparison) -> Iterator[Item]:
    """Yield what weakens all that rests on instrumented runs: they show something else."""
    pairs = [one for one in pairs_of(comparison) if one.probed_direction is not None]
    missing = [one for one in pairs if one.clean_direction and not one.is_shown]
    alone = [one for one in pairs if not one.clean_direction and one.probed_direction]
    has_others = len(pairs) > 1
    if missing:
        told, numbers = _tell(missing, has_others=has_others)
        yield _warning(
            f"instrumented runs, at {numbers}, do not show the change{told}: "
            "their captures may not explain it"
        )
    if alone:
        told, numbers = _tell(alone, has_others=has_others)
        yield _warning(
            f"instrumented runs show a change{told}, {numbers}, that clean runs do not: "
            "their captures may explain the collectors instead"
        )


def count_kinds(row: ProbeCostRow) -> str:
    """Write how many values of clean and of instrumented runs a row has: ``8 and 5 pairs``."""
    return (
        f"{row.n_clean} and {row.n_instrumented} {name_units(row.n_instrumented, row.replication)}"
    )


def list_costs(comparison: Comparison) -> Iterator[Item]:
    """Yield how much longer runs took with collectors than without, where that is much.

    Where some results show it significantly, the others are left out.
    """
    data = data_of(comparison.sections, ProbeEffect)
    if data is None:
        return
    slow = [one for one in map(_slowdown, data.rows) if one.ratio > SLOW]
    slow = [one for one in slow if one.is_shown] or slow
    if not slow:
        return
    sides = dict.fromkeys(one.row.side for one in slow)
    where = f" of {' and '.join(sides)}" if len(sides) < len(comparison.sides) else ""
    slow.sort(key=lambda one: one.ratio)
    ends = " to ".join(dict.fromkeys(one.text for one in (slow[0], slow[-1])))
    doubt = "" if slow[0].is_shown else " (not significant)"
    runs = [run for run in data.runs if run.side in sides]
    names = ", ".join(sorted({name for run in runs for name in run.collectors}))
    yield _warning(
        f"with collectors, runs{where} took {ends} times as long{doubt}: their captures may "
        f"contain collector overhead{f' ({names})' if names else ''}"
    )


def warn_of_instruments(comparison: Comparison, section: str) -> Iterator[Items]:
    """Yield what stands over a section that rests on instrumented runs, where something does."""
    data = data_of(comparison.sections, ProbeEffect)
    runs = () if data is None else data.runs
    if any(COLLECTORS.get(section) in run.collectors for run in runs):
        items = (*list_doubts(comparison), *list_costs(comparison))
        if items:
            yield Items(items=items)


def _tell(pairs: Sequence[Pair], *, has_others: bool) -> tuple[str, str]:
    # Which of several results it is of, and what instrumented runs have of the clearest one.
    first, *others = sorted(pairs, key=lambda one: -one.distance)
    more = f" and {len(others)} more" if others else ""
    told = f" of {first.name}{more}" if has_others else ""
    return told, describe_ratio(first.probed)


def _warning(text: str) -> Item:
    return Item(text=text, tone="warning", evidence=("probe_effect",))


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
