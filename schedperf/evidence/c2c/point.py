# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare cache lines at one point of a workload and build the record."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec.structs import asdict

from schedperf.evidence.c2c.compare import MOST_PAIRS, LineChange, PairChange, compare_memory
from schedperf.evidence.c2c.merge import MemorySamples, SeenLine
from schedperf.evidence.c2c.model import Access
from schedperf.evidence.c2c.record import (
    C2cAccess,
    C2cCommand,
    C2cLineRow,
    C2cNode,
    C2cPairRow,
    C2cPoint,
    C2cSampledPair,
    C2cSeen,
    C2cSymbol,
    C2cTimedAccess,
    without_counter,
)
from schedperf.model.base_new import BaseNew
from schedperf.model.run import Captured

# Largest number of compared lines in the record of each point; changed lines are always listed.
MOST_LINES = 40
# Largest number of functions and of commands per range of bytes.
MOST_SYMBOLS = 5
MOST_COMMANDS = 5

Runs = Sequence[Captured[MemorySamples]]


def describe_point(
    base: Runs,
    new: Runs,
    prefix: str = "",
    most_lines: int | None = MOST_LINES,
) -> C2cPoint:
    """Compare the runs of one point.

    :param base: at least one run, as for ``new``
    :param prefix: prefix of the row ids
    :param most_lines: largest number of compared lines in the record; changed lines are always
        listed. For lines that are not compared, each side has half of this limit. None for all
        lines
    :raises ValueError: a side has no runs
    """
    sides = BaseNew(base=base, new=new)
    comparison = compare_memory(base, new)
    of_base, of_new = _unmatched(comparison.lines)
    return C2cPoint(
        workload=base[0].key.workload,
        point=base[0].key.point,
        runs=sides.map(len),
        observable=sides.map(lambda runs: runs[0].content.profile.observable),
        events=sides.map(lambda runs: runs[0].content.profile.event),
        perf_events=sides.map(lambda runs: runs[0].content.profile.perf_events),
        period=sides.map(lambda runs: runs[0].content.profile.period),
        store_period=sides.map(lambda runs: runs[0].content.store_period),
        ldlat=sides.map(lambda runs: runs[0].content.profile.ldlat),
        line_bytes=sides.map(lambda runs: runs[0].content.profile.line_bytes),
        samples=sides.map(_samples),
        reason=comparison.reason,
        unit=comparison.unit,
        per=comparison.per,
        model=comparison.model,
        phi=comparison.phi,
        replication=comparison.replication,
        least_ratio=comparison.least_ratio,
        totals=comparison.totals,
        lines=tuple(_lines(_chosen(comparison.lines, most_lines), prefix)),
        pairs=tuple(_pair(pair, prefix) for pair in comparison.unmatched_pairs),
        seen=len(comparison.lines),
        seen_unmatched=BaseNew(base=len(of_base), new=len(of_new)),
        notes=comparison.notes,
    )


def _samples(runs: Runs) -> int | None:
    return _sum_known(run.content.profile.totals.get("total_records") for run in runs)


def _chosen(lines: Sequence[LineChange], most: int | None) -> list[LineChange]:
    # Changed lines first; each group stays in order of contention.
    changed = [line for line in lines if line.is_changed]
    others = [line for line in lines if not line.is_changed and line.unmatched is None]
    of_base, of_new = _unmatched(lines)
    if most is not None:
        # The limit on unmatched lines is split between both sides.
        others = others[: max(0, most - len(changed))]
        of_base, of_new = of_base[: most // 2], of_new[: most // 2]
    return [*changed, *others, *of_base, *of_new]


def _unmatched(lines: Iterable[LineChange]) -> tuple[list[LineChange], list[LineChange]]:
    # Lines without a counterpart: of base, and of new.
    alone = [line for line in lines if line.unmatched is not None]
    of_base = [line for line in alone if line.base is not None]
    return of_base, [line for line in alone if line.base is None]


def _sum_known(values: Iterable[int | None]) -> int | None:
    parts = list(values)
    recorded = [value for value in parts if value is not None]
    return sum(recorded) if len(recorded) == len(parts) else None


def _lines(lines: Sequence[LineChange], prefix: str) -> Iterator[C2cLineRow]:
    taken: Counter[str] = Counter()
    for line in lines:
        seen = [side_line for side_line in (line.base, line.new) if side_line is not None]
        name = next((side_line.name for side_line in seen if side_line.name is not None), None)
        name = None if name is None else without_counter(name)
        row = name or seen[0].key
        taken[row] += 1
        number = "" if taken[row] == 1 else f"#{taken[row]}"
        yield C2cLineRow(
            row=f"{prefix}{row}{number}",
            name=name,
            names=_names(seen),
            unmatched=line.unmatched,
            remote=line.remote,
            local=line.local,
            base=_seen(line.base),
            new=_seen(line.new),
            pairs=tuple(_pair(pair, f"{prefix}{row}{number}/") for pair in line.pairs),
        )


def _pair(pair: PairChange, prefix: str) -> C2cPairRow:
    reader, writer = pair.functions
    return C2cPairRow(
        row=f"{prefix}{reader}/{writer}",
        reader=reader,
        writer=writer,
        share=pair.share,
        loads=pair.loads,
    )


def _names(seen: Iterable[SeenLine]) -> tuple[str, ...]:
    weight: Counter[str] = Counter()
    for line in seen:
        for access in line.accesses:
            if access.name is not None:
                weight[access.name] += access.local + access.remote
    return tuple(sorted(weight, key=lambda name: (-weight[name], name)))


def _seen(line: SeenLine | None) -> C2cSeen | None:
    if line is None:
        return None
    return C2cSeen(
        key=line.key,
        copies=line.copies,
        stores=line.stores,
        records=line.records,
        loads=line.loads,
        double_counted=line.double_counted,
        sharing=line.sharing,
        false_share=line.false_share,
        accesses=tuple(describe_access(access) for access in line.accesses),
        attributed=line.attributed,
    )


def describe_access(access: Access) -> C2cAccess:
    """Convert accesses to their record, without the latency.

    Sets of CPUs become CPU lists ("0-3,8"). Of functions and of commands, those with most samples
    are kept: :data:`MOST_SYMBOLS` and :data:`MOST_COMMANDS`.
    """
    return C2cAccess(
        offset=access.offset,
        size=access.size,
        name=access.name,
        grade=access.grade,
        reads=access.reads,
        writes=access.writes,
        local=access.local,
        remote=access.remote,
        readers=_cpus(access.readers),
        writers=_cpus(access.writers),
        nodes=_nodes(access),
        symbols=_symbols(access),
        commands=_commands(access),
    )


def describe_timed_access(access: Access) -> C2cTimedAccess:
    """Convert accesses to their record like :func:`describe_access`, with the mean latency."""
    return C2cTimedAccess(**asdict(describe_access(access)), mean_weight=access.mean_weight)


def describe_pairs(line: SeenLine) -> tuple[C2cSampledPair, ...]:
    """Return the pairs of functions of a line of a single source, most contended first."""
    counts = {functions: sum(loads.values()) for functions, loads in (line.pairs or {}).items()}
    ranked = sorted(counts, key=lambda functions: (-counts[functions], functions))
    return tuple(
        C2cSampledPair(
            reader=functions.reader,
            writer=functions.writer,
            share=counts[functions] / line.contended,
            samples=counts[functions],
        )
        for functions in ranked
        if functions.are_named
    )[:MOST_PAIRS]


def _cpus(cpus: Iterable[int] | None) -> str | None:
    return None if cpus is None else format_cpus(cpus)


def _nodes(access: Access) -> tuple[C2cNode, ...] | None:
    if access.nodes is None:
        return None
    return tuple(
        C2cNode(
            node=node, reads=done.reads, writes=done.writes, local=done.local, remote=done.remote
        )
        for node, done in sorted(access.nodes.items())
    )


def _symbols(access: Access) -> tuple[C2cSymbol, ...]:
    return tuple(
        C2cSymbol(symbol=symbol, samples=count, writes=access.writing_symbols.get(symbol, 0))
        for symbol, count in _most(access.symbols)[:MOST_SYMBOLS]
    )


def _commands(access: Access) -> tuple[C2cCommand, ...] | None:
    if access.commands is None:
        return None
    return tuple(
        C2cCommand(command=command, samples=count)
        for command, count in _most(access.commands)[:MOST_COMMANDS]
    )


def _most(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def format_cpus(cpus: Iterable[int]) -> str:
    """Format CPU numbers as a CPU list, like the kernel.

    >>> format_cpus([8, 0, 1, 2])
    '0-2,8'
    """
    runs = (
        [cpu for _, cpu in members]
        for _, members in groupby(enumerate(sorted(cpus)), key=lambda placed: placed[1] - placed[0])
    )
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
