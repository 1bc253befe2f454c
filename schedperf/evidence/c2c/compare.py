"""Cache lines of two sides compared: contended samples per operation of the benchmark.

::

    found = compare_memory(base_runs, new_runs)
    found.lines[0].remote.ratio, found.lines[0].remote.ratio_low

What is compared are counts over what gave occasion for them, never shares of a total: where one
line calms down, the shares of all others grow. A run's exposure is its operations over the period
of the samples, so that a rate is the number of accesses, sampled or not, per ``per`` operations.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from schedperf.evidence.c2c.comparable import Runs, why_incomparable
from schedperf.evidence.c2c.merge import MemoryRun, Pair, SeenLine, pair_lines, see_lines
from schedperf.evidence.c2c.model import Observable
from schedperf.model.comparison import Replication
from schedperf.stats import Rates, compare_counts
from schedperf.stats.verdicts import FALSE_DISCOVERY_RATE
from schedperf.stats.welch import FEWEST_RUNS

# Rates of single operations are small numbers; a whole run that is one operation has large ones.
USUAL_PER = 1000
WHOLE_RUN = "run"

# Perf's words for what is counted over all lines, by observable: "Trace Event Information" in snake
# case.
_STORES = "store_operations"
STORES = "stores"
TOTALS: Mapping[str, Mapping[Observable, str]] = {
    "remote": {
        "hitm": "load_remote_hitm",
        "ibs": "load_remote_hitm",
        "peer": "load_hit_remote_peer",
    },
    "local": {"hitm": "load_local_hitm", "ibs": "load_local_hitm", "peer": "load_hit_local_peer"},
    STORES: {"hitm": _STORES, "ibs": _STORES, "peer": _STORES},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One rate on both sides; rates are accesses per ``MemoryComparison.per`` operations.

    :param samples: how many were seen on base and on new, in all runs together; None where the line
        may be there under another name, so that not to see it says nothing, or where a side has
        no totals
    :param base: None where no rate can be known; ``base_low`` and ``base_high`` are the ends of its
        95 % interval, as for all that follows
    :param ratio: new / base; None where base has none. ``ratio_high`` is None where nothing bounds
        it
    :param q: p after the correction for all lines; None where it was not tested
    :param least_ratio: the smallest ratio above 1 that as many runs find with a power of 80 %; None
        where nothing was seen on either side
    """

    samples: tuple[int | None, int | None]
    base: float | None
    base_low: float | None
    base_high: float | None
    new: float | None
    new_low: float | None
    new_high: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    p: float | None
    q: float | None
    least_ratio: float | None

    @property
    def is_changed(self) -> bool:
        """Whether it changed beyond chance."""
        return self.q is not None and self.q < FALSE_DISCOVERY_RATE


@dataclass(frozen=True, kw_only=True, slots=True)
class LineChange:
    """One cache line on both sides.

    :param unmatched: why it may be there on the other side under another name; None where both
        sides know it, or one knows that it has none
    """

    base: SeenLine | None
    new: SeenLine | None
    unmatched: str | None
    remote: Change
    local: Change


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryComparison:
    """What two sides' memory samples say.

    :param reason: why no rates are compared; None where they are. The lines are there all the same
    :param unit: what an operation is; None where it is unknown
    :param per: rates are per so many of them
    :param model: of the counts: "Poisson" or "negative binomial"; None where nothing was compared
    :param phi: squared coefficient of variation of a rate from run to run
    :param replication: what is independent: runs, or boots where both sides have several
    :param totals: "remote", "local" and "stores" over all addresses
    :param lines: most contended first
    :param least_ratio: the smallest ratio that these runs find on the line that is known best; None
        where nothing was compared
    """

    reason: str | None
    unit: str | None
    per: int
    model: str | None
    phi: float | None
    replication: Replication
    totals: Mapping[str, Change]
    lines: tuple[LineChange, ...]
    least_ratio: float | None
    notes: tuple[str, ...]


Sides = tuple[Runs, Runs]
Floats = npt.NDArray[np.float64]
_NUMBER = re.compile(r"\d+")
# Counts of base's runs and of new's.
_Column = tuple[Sequence[int], Sequence[int]]


def compare_memory(base: Runs, new: Runs) -> MemoryComparison:
    """Compare the cache lines of two sides' runs of one benchmark at one point.

    :param base: one or more runs
    :raises ValueError: a side has no run
    """
    if not base or not new:
        raise ValueError("both sides need a run")
    sides = (base, new)
    reason = why_incomparable(base, new)
    unit = None if base[0].operations is None else base[0].operations.unit
    per = 1 if unit == WHOLE_RUN else USUAL_PER
    basis = None if reason else _Basis.of(sides, per)
    seen = (see_lines(base), see_lines(new))
    sights = (_Sight.of("base", base, seen[0]), _Sight.of("new", new, seen[1]))
    pairs = [(pair, _why_unmatched(pair, sights)) for pair in pair_lines(*seen)]
    lines, rates = _compare_lines(pairs, sides, basis)
    is_tried = rates is not None and not math.isnan(rates.phi)
    return MemoryComparison(
        reason=reason,
        unit=unit,
        per=per,
        model=rates.method if rates is not None and is_tried else None,
        phi=None if rates is None else _known(rates.phi),
        replication="runs" if basis is None else basis.replication,
        totals=_compare_totals(sides, basis),
        lines=lines,
        least_ratio=min(filter(None, _least_ratios(lines)), default=None),
        notes=tuple(_notes(sides, lines)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Basis:
    # What counts are divided by to get rates: by side and independent unit, for loads and for
    # stores, which may have a period of their own. ``units`` has each run's unit.
    replication: Replication
    units: tuple[Sequence[int], Sequence[int]]
    loads: tuple[Floats, Floats]
    stores: tuple[Floats, Floats] | None

    @classmethod
    def of(cls, sides: Sides, per: int) -> "_Basis":
        boots = [list(dict.fromkeys(run.boot for run in runs)) for runs in sides]
        by_boot = min(map(len, boots)) >= FEWEST_RUNS
        units = [
            [known.index(run.boot) for run in runs] if by_boot else [*range(len(runs))]
            for known, runs in zip(boots, sides, strict=True)
        ]
        loads, stores = (
            tuple(
                _summed([_done(run) / (period(run) or 1) / per for run in runs], of_run)
                for runs, of_run in zip(sides, units, strict=True)
            )
            for period in (_load_period, _store_period)
        )
        periods = {run.store_period for runs in sides for run in runs}
        return cls(
            replication="boots" if by_boot else "runs",
            units=(units[0], units[1]),
            loads=(loads[0], loads[1]),
            stores=(stores[0], stores[1]) if len(periods) == 1 and None not in periods else None,
        )


def _load_period(run: MemoryRun) -> int | None:
    return run.profile.period


def _store_period(run: MemoryRun) -> int | None:
    return run.store_period


def _done(run: MemoryRun) -> float:
    return 1.0 if run.operations is None else run.operations.count


def _summed(values: Sequence[float], units: Sequence[int]) -> Floats:
    sums = np.zeros(max(units) + 1)
    np.add.at(sums, list(units), values)
    return sums


def _compare_totals(sides: Sides, basis: _Basis | None) -> dict[str, Change]:
    # Loads are one question with two answers; stores may have another period.
    columns = {name: _total(sides, name) for name in TOTALS}
    loads = [name for name in TOTALS if name != STORES]
    changes, _ = _compare([columns[name] for name in loads], basis, is_load=True)
    stores, _ = _compare([columns[STORES]], basis, is_load=False)
    found = zip((*loads, STORES), (*changes, *stores), strict=True)
    return {name: _but_unsaid(change, sides, name) for name, change in found}


def _but_unsaid(change: Change, sides: Sides, name: str) -> Change:
    # A text may have its lines and no totals.
    base, new = (
        count if all(_key_of(run, name) in run.profile.totals for run in runs) else None
        for runs, count in zip(sides, change.samples, strict=True)
    )
    return replace(change, samples=(base, new))


def _key_of(run: MemoryRun, name: str) -> str:
    return TOTALS[name][run.profile.observable]


def _total(sides: Sides, name: str) -> _Column:
    def count(run: MemoryRun) -> int:
        return run.profile.totals.get(_key_of(run, name), 0)

    return [count(run) for run in sides[0]], [count(run) for run in sides[1]]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sight:
    # What one side could have seen: in which boots and builds, and how well lines have names there.
    name: str
    boots: frozenset[str]
    kernels: frozenset[str]
    kinds: frozenset[str]
    hidden: int

    @classmethod
    def of(cls, name: str, runs: Runs, seen: Mapping[str, SeenLine]) -> "_Sight":
        lines = seen.values()
        return cls(
            name=name,
            boots=frozenset(run.boot for run in runs),
            kernels=frozenset(run.kernel for run in runs),
            kinds=frozenset(_kind(line) for line in lines if line.names),
            hidden=sum(line.is_address and line.contended > 0 for line in lines),
        )

    def why_unknown(self, line: SeenLine) -> str | None:
        """Say why this side may have a line that it was not seen to have; None where it has not."""
        if line.is_address:
            is_same = not line.boots.isdisjoint(self.boots)
            return None if is_same else "an address means nothing in another boot"
        if not line.names:
            is_same = not line.kernels.isdisjoint(self.kernels)
            return None if is_same else "an offset without a name means nothing in another build"
        if self.hidden and _kind(line) not in self.kinds:
            return f"{self.name} may have it among its {self.hidden} lines without a name"
        return None


def _kind(line: SeenLine) -> str:
    # What has the line: "percpu", "globals", a struct.
    return re.split(r"[+:]", line.key, maxsplit=1)[0]


def _why_unmatched(pair: Pair, sights: tuple[_Sight, _Sight]) -> str | None:
    if pair.base is None:
        return None if pair.new is None else sights[0].why_unknown(pair.new)
    return sights[1].why_unknown(pair.base) if pair.new is None else None


def _compare_lines(
    pairs: Sequence[tuple[Pair, str | None]],
    sides: Sides,
    basis: _Basis | None,
) -> tuple[tuple[LineChange, ...], Rates | None]:
    # All lines that both sides can have seen are one family, remote and local samples alike.
    columns = [_line_column(pair, sides, name) for name in ("remote", "local") for pair, _ in pairs]
    is_matched = [why is None for _, why in pairs] * 2
    tested = [column for column, matched in zip(columns, is_matched, strict=True) if matched]
    compared, rates = _compare(tested, basis, is_load=True)
    rest = iter(compared)
    changes = [
        next(rest) if matched else _one_sided(column, pair)
        for column, matched, (pair, _) in zip(columns, is_matched, [*pairs, *pairs], strict=True)
    ]
    lines = [
        LineChange(base=pair.base, new=pair.new, unmatched=why, remote=remote, local=local)
        for (pair, why), remote, local in zip(
            pairs, changes[: len(pairs)], changes[len(pairs) :], strict=True
        )
    ]
    return tuple(lines), rates


def _line_column(pair: Pair, sides: Sides, name: Literal["remote", "local"]) -> _Column:
    def counts(line: SeenLine | None, runs: Runs) -> list[int]:
        seen = {} if line is None else line.remote if name == "remote" else line.local
        # A run without the line has counted none.
        return [seen.get(place, 0) for place in range(len(runs))]

    return counts(pair.base, sides[0]), counts(pair.new, sides[1])


def _compare(
    columns: Sequence[_Column], basis: _Basis | None, *, is_load: bool
) -> tuple[list[Change], Rates | None]:
    exposures = None if basis is None else basis.loads if is_load else basis.stores
    if basis is None or exposures is None or not columns:
        return [_bare(column) for column in columns], None
    base, new = (
        np.array([_summed(column[side], basis.units[side]) for column in columns]).T
        for side in (0, 1)
    )
    rates = compare_counts(base, new, base_exposure=exposures[0], new_exposure=exposures[1])
    changes = [
        Change(
            samples=_samples(column),
            **{name: _known(getattr(rates, name)[place]) for name in _OF_RATES},
        )
        for place, column in enumerate(columns)
    ]
    return changes, rates


_OF_RATES = tuple(field.name for field in fields(Change) if field.name != "samples")


def _bare(column: _Column) -> Change:
    # What was counted, where no rate can be known.
    return Change(samples=_samples(column), **dict.fromkeys(_OF_RATES))


def _one_sided(column: _Column, pair: Pair) -> Change:
    # That the other side has none of it would be a claim.
    base, new = _samples(column)
    seen = (None if pair.base is None else base, None if pair.new is None else new)
    return Change(samples=seen, **dict.fromkeys(_OF_RATES))


def _samples(column: _Column) -> tuple[int, int]:
    return sum(column[0]), sum(column[1])


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _least_ratios(lines: Sequence[LineChange]) -> Iterator[float | None]:
    for line in lines:
        yield line.remote.least_ratio
        yield line.local.least_ratio


def _notes(sides: Sides, lines: Sequence[LineChange]) -> Iterator[str]:
    for name, runs in zip(("base", "new"), sides, strict=True):
        # What differs between runs in its numbers alone is said once.
        alike: dict[str, list[str]] = {}
        for run in runs:
            for note in run.profile.notes:
                alike.setdefault(_NUMBER.sub("", note), []).append(note)
        for notes in alike.values():
            more = f" (and alike in {len(notes) - 1} more runs)" if len(set(notes)) > 1 else ""
            yield f"{name}: {notes[0]}{more}"
        if len(runs) < FEWEST_RUNS:
            yield f"{name}: one run alone cannot tell how much runs differ"
    unmatched = Counter(line.unmatched for line in lines if line.unmatched is not None)
    for why, count in unmatched.items():
        yield f"{count} {'line is' if count == 1 else 'lines are'} compared with nothing: {why}"
