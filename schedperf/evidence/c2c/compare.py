# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare cache lines of two sides: contended samples per operation of the benchmark.

::

    found = compare_memory(base_runs, new_runs)
    found.lines[0].remote.ratio, found.lines[0].remote.ratio_low

Rates are compared, never shares of a total: if one line becomes less contended, the shares of all
other lines grow. The exposure of a run is its number of operations divided by the sampling period,
so a rate is the estimated number of accesses per ``per`` operations.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.c2c.merge import MemorySamples, Pair, SeenLine, pair_lines, see_lines
from schedperf.evidence.c2c.model import Functions
from schedperf.evidence.c2c.record import C2cChange, C2cTotals, CountModel, Observable
from schedperf.model.base_new import BaseNew
from schedperf.model.rows import Replication
from schedperf.model.run import Captured
from schedperf.model.text import join_names
from schedperf.model.verdict import FALSE_DISCOVERY_RATE, FEWEST_RUNS
from schedperf.stats import ComparedCounts, compare_counts

# Operations per unit of rates: rates of single operations are small, those of whole runs large.
USUAL_PER = 1000
WHOLE_RUN = "run"
# Pairs of functions of a line that are compared; each makes the correction for multiple testing
# stricter. They are selected by the loads of both sides together.
MOST_PAIRS, MOST_UNMATCHED_PAIRS = 4, 10
# Pairs are compared only if at least this fraction of the contended loads is attributed on each
# side: otherwise a change may be one of the sampled writes.
LEAST_ATTRIBUTED = 0.9

# By observable: perf's labels of the totals ("Trace Event Information") in snake case.
REMOTE: Mapping[Observable, str] = {
    "hitm": "load_remote_hitm",
    "ibs": "load_remote_hitm",
    "peer": "load_hit_remote_peer",
    "unknown": "load_remote_hitm",
}
LOCAL: Mapping[Observable, str] = {
    "hitm": "load_local_hitm",
    "ibs": "load_local_hitm",
    "peer": "load_hit_local_peer",
    "unknown": "load_local_hitm",
}
STORES: Mapping[Observable, str] = dict.fromkeys(REMOTE, "store_operations")


class PairChange(NamedTuple):
    """The contended loads of one pair of functions, remote and local together.

    :param share: fraction of the contended loads of the line or lines on each side; None if the
        side did not sample them
    """

    functions: Functions
    share: BaseNew[float | None]
    loads: C2cChange


class LineChange(Struct, frozen=True, kw_only=True):
    """One cache line on both sides.

    :param base: the line in base; None if base did not sample it
    :param new: the line in new; None if new did not sample it
    :param unmatched: reason why the other side may have it under another name; None if both sides
        have it, or if the other side certainly has no samples of it
    :param pairs: at most :data:`MOST_PAIRS` pairs of functions, most contended first; empty if
        the line is not matched
    """

    base: SeenLine | None
    new: SeenLine | None
    unmatched: str | None
    remote: C2cChange
    local: C2cChange
    pairs: tuple[PairChange, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether the rate of remote or of local contended loads changed significantly."""
        return self.remote.changed or self.local.changed


class MemoryComparison(Struct, frozen=True, kw_only=True):
    """The comparison of two sides' memory samples.

    :param reason: why no rates are compared; None if they are. The lines are listed in both cases
    :param unit: unit of an operation; None if unknown
    :param per: rates are per this many operations
    :param model: of the counts: "Poisson" or "negative binomial"; None if ``phi`` is None
    :param phi: squared coefficient of variation of a rate between runs; None if no rates are
        compared, or if each side has one run
    :param replication: unit of replication: runs, or boots if both sides have several
    :param lines: most contended first
    :param unmatched_pairs: pairs of functions of all unmatched lines together, at most
        :data:`MOST_UNMATCHED_PAIRS`
    :param least_ratio: the smallest detectable ratio of any line; None if nothing was compared
    :param notes: what was not measured or not compared, one sentence each
    """

    reason: str | None
    unit: str | None
    per: int
    model: CountModel | None
    phi: float | None
    replication: Replication
    totals: C2cTotals
    lines: tuple[LineChange, ...]
    unmatched_pairs: tuple[PairChange, ...]
    least_ratio: float | None
    notes: tuple[str, ...]


Runs = Sequence[Captured[MemorySamples]]
Sides = tuple[Runs, Runs]
Floats = npt.NDArray[np.float64]
_NUMBER = re.compile(r"\d+")
# Counts of base's runs, and counts of new's runs; of pairs of functions, expected counts.
_Column = tuple[Sequence[float], Sequence[float]]


def compare_memory(base: Runs, new: Runs) -> MemoryComparison:
    """Compare the cache lines of two sides' runs of one benchmark at one point.

    :param base: one or more runs, as for ``new``
    :raises ValueError: a side has no runs
    """
    if not base or not new:
        raise ValueError("a side has no runs (expected at least 1 run per side)")
    sides = (base, new)
    reason = _why_incomparable(base, new)
    unit = None if base[0].ops is None else base[0].ops.unit
    per = 1 if unit == WHOLE_RUN else USUAL_PER
    basis = None if reason else _Basis.of(sides, per)
    seen = (see_lines(base), see_lines(new))
    sights = (_Sight.of("base", base, seen[0]), _Sight.of("new", new, seen[1]))
    pairs = [(pair, _why_unmatched(pair, sights)) for pair in pair_lines(*seen)]
    lines, rates = _compare_lines(pairs, sides, basis)
    lines, unmatched_pairs = _compare_pairs(lines, sides, basis)
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
        unmatched_pairs=unmatched_pairs,
        least_ratio=min(filter(None, _least_ratios(lines)), default=None),
        notes=tuple(_notes(sides, lines)),
    )


def _why_incomparable(base: Runs, new: Runs) -> str | None:
    # Why the sides' rates cannot be compared; None if they can.
    observables = {run.content.profile.observable for run in (*base, *new)}
    if len(observables) == 1 and any(run.content.profile.is_text for run in (*base, *new)):
        return "the output of `perf c2c report` does not contain the sampling period"
    for what, values in _settings((*base, *new)).items():
        if len(values) > 1:
            listed = (_settings(side)[what] for side in (base, new))
            in_base, in_new = (
                ", ".join(sorted("none" if value is None else str(value) for value in some))
                for some in listed
            )
            where = (
                f"{in_base} in base, {in_new} in new"
                if in_base != in_new
                else f"{in_base} in both base and new"
            )
            return f"{what} differ between runs ({where})"
    if base[0].content.profile.period is None:
        return "the sampling period is not fixed, so accesses per sample are unknown"
    if any(run.ops is None for run in (*base, *new)):
        return "the number of benchmark operations per run is unknown"
    return None


def _settings(runs: Runs) -> dict[str, set[object]]:
    profiles = [run.content.profile for run in runs]
    return {
        "kinds of contended loads": {profile.observable for profile in profiles},
        "events": {join_names(sorted(profile.event)) for profile in profiles},
        "sampling periods": {profile.period for profile in profiles},
        "minimum load latencies": {profile.ldlat for profile in profiles},
        "cache line sizes": {profile.line_bytes for profile in profiles},
        "units of operations": {run.ops.unit for run in runs if run.ops is not None},
    }


class _Basis(Struct, frozen=True, kw_only=True):
    # Divisors of the counts, by side and independent unit, for loads and for stores, whose period
    # may differ. ``units`` has each run's unit.
    replication: Replication
    units: tuple[Sequence[int], Sequence[int]]
    loads: tuple[Floats, Floats]
    stores: tuple[Floats, Floats] | None

    @classmethod
    def of(cls, sides: Sides, per: int) -> "_Basis":
        boots = [list(dict.fromkeys(run.content.boot for run in runs)) for runs in sides]
        by_boot = min(map(len, boots)) >= FEWEST_RUNS
        units = [
            [of_side.index(run.content.boot) for run in runs] if by_boot else [*range(len(runs))]
            for of_side, runs in zip(boots, sides, strict=True)
        ]
        loads, stores = (
            tuple(
                _summed([_done(run) / (period(run) or 1) / per for run in runs], of_run)
                for runs, of_run in zip(sides, units, strict=True)
            )
            for period in (_load_period, _store_period)
        )
        periods = {run.content.store_period for runs in sides for run in runs}
        return cls(
            replication="boots" if by_boot else "runs",
            units=(units[0], units[1]),
            loads=(loads[0], loads[1]),
            stores=(stores[0], stores[1]) if len(periods) == 1 and None not in periods else None,
        )


def _load_period(run: Captured[MemorySamples]) -> int | None:
    return run.content.profile.period


def _store_period(run: Captured[MemorySamples]) -> int | None:
    return run.content.store_period


def _done(run: Captured[MemorySamples]) -> float:
    return 1.0 if run.ops is None else run.ops.count


def _summed(values: Sequence[float], units: Sequence[int]) -> Floats:
    sums = np.zeros(max(units) + 1)
    np.add.at(sums, list(units), values)
    return sums


def _compare_totals(sides: Sides, basis: _Basis | None) -> C2cTotals:
    # Remote and local loads are tested together; stores may have a different period.
    loads = [_total(sides, REMOTE), _total(sides, LOCAL)]
    (remote, local), _ = _compare(loads, basis, is_load=True)
    (stores,), _ = _compare([_total(sides, STORES)], basis, is_load=False)
    return C2cTotals(
        remote=_but_unsaid(remote, sides, REMOTE),
        local=_but_unsaid(local, sides, LOCAL),
        stores=_but_unsaid(stores, sides, STORES),
    )


def _but_unsaid(change: C2cChange, sides: Sides, words: Mapping[Observable, str]) -> C2cChange:
    # A report text may contain lines but no totals.
    base, new = (
        count
        if all(words[run.content.profile.observable] in run.content.profile.totals for run in runs)
        else None
        for runs, count in zip(sides, change.samples, strict=True)
    )
    return replace(change, samples=BaseNew(base=base, new=new))


def _total(sides: Sides, words: Mapping[Observable, str]) -> _Column:
    def count(run: Captured[MemorySamples]) -> int:
        return run.content.profile.totals.get(words[run.content.profile.observable], 0)

    return [count(run) for run in sides[0]], [count(run) for run in sides[1]]


class _Sight(Struct, frozen=True, kw_only=True):
    # The boots and builds of one side, the units of its named lines (kinds), and the number of its
    # contended lines that are known by address only (hidden).
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
            boots=frozenset(run.content.boot for run in runs),
            kernels=frozenset(run.content.kernel for run in runs),
            kinds=frozenset(_kind(line) for line in lines if line.names),
            hidden=sum(line.is_address and line.contended > 0 for line in lines),
        )

    def why_unknown(self, line: SeenLine) -> str | None:
        """Return why this side may have a line of the other side under another name.

        :return: None if this side certainly has no samples of the line
        """
        if line.is_address:
            is_same = not line.boots.isdisjoint(self.boots)
            return None if is_same else "addresses differ between boots"
        if not line.names:
            is_same = not line.kernels.isdisjoint(self.kernels)
            return None if is_same else "offsets of unnamed lines differ between builds"
        if self.hidden and _kind(line) not in self.kinds:
            return f"the line may be one of the {self.hidden} unnamed line(s) of {self.name}"
        return None


def _kind(line: SeenLine) -> str:
    # The unit of the line: "percpu", "globals", a struct.
    return re.split(r"[+:]", line.key, maxsplit=1)[0]


def _why_unmatched(pair: Pair, sights: tuple[_Sight, _Sight]) -> str | None:
    if pair.base is None:
        return None if pair.new is None else sights[0].why_unknown(pair.new)
    return sights[1].why_unknown(pair.base) if pair.new is None else None


def _compare_lines(
    pairs: Sequence[tuple[Pair, str | None]],
    sides: Sides,
    basis: _Basis | None,
) -> tuple[tuple[LineChange, ...], ComparedCounts | None]:
    # All matched lines, with remote and local loads, are tested as one family.
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
        # A run without the line counts 0.
        return [seen.get(index, 0) for index in range(len(runs))]

    return counts(pair.base, sides[0]), counts(pair.new, sides[1])


def _compare_pairs(
    lines: Sequence[LineChange], sides: Sides, basis: _Basis | None
) -> tuple[tuple[LineChange, ...], tuple[PairChange, ...]]:
    # The lines with their pairs of functions, and the pairs of all unmatched lines together, which
    # are compared because functions have names where lines have none. The pairs of matched lines
    # and these are tested as one family.
    matched = [line for line in lines if line.unmatched is None]
    unmatched = [line for line in lines if line.unmatched is not None]
    groups = [
        *(_Pairs.of([line], sides, MOST_PAIRS) for line in matched),
        _Pairs.of(unmatched, sides, MOST_UNMATCHED_PAIRS),
    ]
    tested = [
        column for group in groups if group.is_attributed for column in group.columns.values()
    ]
    changes = iter(_compare(tested, basis, is_load=True)[0])
    compared = [tuple(group.changes(changes)) for group in groups]
    of_matched = iter(compared)
    with_pairs = [
        replace(line, pairs=next(of_matched)) if line.unmatched is None else line for line in lines
    ]
    return tuple(with_pairs), compared[-1]


class _Pairs(Struct, frozen=True, kw_only=True):
    # The most contended pairs of functions of some lines, by the loads of both sides.
    # ``attributed`` has the contended loads of these lines that are attributed to any functions,
    # and ``contended`` all, for each side.
    columns: Mapping[Functions, _Column]
    attributed: tuple[float, float]
    contended: tuple[int, int]

    @classmethod
    def of(cls, lines: Sequence[LineChange], sides: Sides, most: int) -> "_Pairs":
        seen = [
            [line for line in of_side if line is not None]
            for of_side in ([each.base for each in lines], [each.new for each in lines])
        ]
        columns = _pair_columns(seen, sides)
        named = [functions for functions in columns if functions.are_named]
        ranked = sorted(named, key=lambda pair: (-sum(map(sum, columns[pair])), pair))
        base, new = (sum(sum(column[side]) for column in columns.values()) for side in (0, 1))
        return cls(
            columns={functions: columns[functions] for functions in ranked[:most]},
            attributed=(base, new),
            contended=(_contended(seen[0]), _contended(seen[1])),
        )

    @property
    def is_attributed(self) -> bool:
        """Whether the writers of nearly all contended loads were sampled on both sides."""
        return all(
            attributed >= LEAST_ATTRIBUTED * contended
            for attributed, contended in zip(self.attributed, self.contended, strict=True)
        )

    def changes(self, compared: Iterator[C2cChange]) -> Iterator[PairChange]:
        """Yield the pairs; the next of the compared changes are theirs if they are attributed."""
        for functions, column in self.columns.items():
            shares = [
                sum(counts) / contended if contended else None
                for counts, contended in zip(column, self.contended, strict=True)
            ]
            loads = next(compared) if self.is_attributed else C2cChange(samples=_samples(column))
            yield PairChange(functions, BaseNew(base=shares[0], new=shares[1]), loads)


def _contended(lines: Sequence[SeenLine]) -> int:
    return sum(line.contended for line in lines)


def _pair_columns(seen: Sequence[Sequence[SeenLine]], sides: Sides) -> dict[Functions, _Column]:
    columns: dict[Functions, tuple[list[float], list[float]]] = {}
    for side, lines in enumerate(seen):
        for line in lines:
            for functions, loads in (line.pairs or {}).items():
                empty = ([0.0] * len(sides[0]), [0.0] * len(sides[1]))
                column = columns.setdefault(functions, empty)
                for index, count in loads.items():
                    column[side][index] += count
    return dict(columns)


def _compare(
    columns: Sequence[_Column], basis: _Basis | None, *, is_load: bool
) -> tuple[list[C2cChange], ComparedCounts | None]:
    exposures = None if basis is None else basis.loads if is_load else basis.stores
    if basis is None or exposures is None or not columns:
        # Without exposures only the sample counts are available.
        return [C2cChange(samples=_samples(column)) for column in columns], None
    base, new = (
        np.array([_summed(column[side], basis.units[side]) for column in columns]).T
        for side in (0, 1)
    )
    rates = compare_counts(base, new, base_exposure=exposures[0], new_exposure=exposures[1])
    changes = [_change(_samples(column), rates, index) for index, column in enumerate(columns)]
    return changes, rates


def _change(samples: BaseNew[int], rates: ComparedCounts, index: int) -> C2cChange:
    q = _known(rates.q[index])
    return C2cChange(
        samples=samples,
        base=_known(rates.base[index]),
        base_low=_known(rates.base_low[index]),
        base_high=_known(rates.base_high[index]),
        new=_known(rates.new[index]),
        new_low=_known(rates.new_low[index]),
        new_high=_known(rates.new_high[index]),
        ratio=_known(rates.ratio[index]),
        ratio_low=_known(rates.ratio_low[index]),
        ratio_high=_known(rates.ratio_high[index]),
        difference=_known(rates.difference[index]),
        difference_low=_known(rates.difference_low[index]),
        difference_high=_known(rates.difference_high[index]),
        p=_known(rates.p[index]),
        q=q,
        least_ratio=_known(rates.least_ratio[index]),
        changed=q is not None and q < FALSE_DISCOVERY_RATE,
    )


def _one_sided(column: _Column, pair: Pair) -> C2cChange:
    # The other side may have sampled the line, so its count is None, not 0.
    base, new = _samples(column)
    return C2cChange(
        samples=BaseNew(
            base=None if pair.base is None else base, new=None if pair.new is None else new
        )
    )


def _samples(column: _Column) -> BaseNew[int]:
    return BaseNew(base=round(sum(column[0])), new=round(sum(column[1])))


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _least_ratios(lines: Sequence[LineChange]) -> Iterator[float | None]:
    for line in lines:
        yield line.remote.least_ratio
        yield line.local.least_ratio


def _notes(sides: Sides, lines: Sequence[LineChange]) -> Iterator[str]:
    for name, runs in zip(("base", "new"), sides, strict=True):
        # Notes that differ only in their numbers are merged.
        alike: dict[str, list[str]] = {}
        for run in runs:
            for note in run.content.profile.notes:
                alike.setdefault(_NUMBER.sub("", note), []).append(note)
        for notes in alike.values():
            more = f" (similar in {len(notes) - 1} more runs)" if len(set(notes)) > 1 else ""
            yield f"{name}: {notes[0]}{more}"
        if len(runs) < FEWEST_RUNS:
            yield f"{name}: only one run, so run-to-run variance is unknown"
    unmatched = Counter(line.unmatched for line in lines if line.unmatched is not None)
    for why, count in unmatched.items():
        yield f"{count} {'line is' if count == 1 else 'lines are'} not compared: {why}"
