# SPDX-License-Identifier: GPL-2.0-or-later
"""Merge the lines of all runs of a side, and match the lines of two sides.

Runs are merged by the key of a line. The key of a per-CPU line or struct contains an offset, which
depends on the build, so lines of two kernels are matched by the names on them. A line with only an
address is comparable only within one boot.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.evidence.c2c.lines import CONTENDED
from schedperf.evidence.c2c.model import Access, Functions, Line, MemoryProfile, NodeAccesses
from schedperf.evidence.c2c.record import Sharing
from schedperf.model.run import Captured


class MemorySamples(Struct, frozen=True, kw_only=True):
    """The memory samples of one run.

    :param store_period: sampling period of stores; None if it is not fixed
    :param boot: id of the boot; addresses are comparable within a boot
    :param kernel: id of the kernel build; offsets are comparable within a build
    """

    profile: MemoryProfile
    store_period: int | None
    boot: str
    kernel: str


class SeenLine(Struct, frozen=True, kw_only=True):
    """One line of one side, merged over all runs and all objects of a struct.

    :param identity: its key, with the boot if the key is an address
    :param name: most contended variable or field; None if unknown
    :param is_address: True if only its address is known
    :param boots: boots in which it was sampled
    :param kernels: builds in which it was sampled
    :param copies: largest number of contended copies in a run; None if not recorded
    :param remote: contended loads served by another node, by index of the run
    :param local: contended loads served by the same node, by index of the run
    :param records: perf's "Total records", summed over all runs
    :param loads: perf's "Total Loads", which are part of ``records``; None if not recorded
    :param double_counted: number of records that perf counts twice; None if not recorded
    :param sharing: as in :class:`Line`; "mixed" if runs or objects differ
    :param false_share: fraction of contended samples with false sharing, 0 to 1; None if unknown
    :param accesses: by offset and name; latencies of merged accesses are None
    :param pairs: expected contended loads of each pair of functions by index of the run; None if
        the source does not record CPUs
    """

    identity: str
    key: str
    name: str | None
    is_address: bool
    boots: frozenset[str]
    kernels: frozenset[str]
    copies: int | None
    remote: Mapping[int, int]
    local: Mapping[int, int]
    records: int
    loads: int | None
    double_counted: int | None
    stores: int
    sharing: Sharing | None
    false_share: float | None
    accesses: tuple[Access, ...]
    pairs: Mapping[Functions, Mapping[int, float]] | None

    @property
    def contended(self) -> int:
        """Number of contended loads, summed over all runs."""
        return sum(self.remote.values()) + sum(self.local.values())

    @property
    def attributed(self) -> float | None:
        """Fraction of the contended loads with a sampled write by another CPU; None if unknown."""
        if self.pairs is None or not self.contended:
            return None
        return sum(sum(loads.values()) for loads in self.pairs.values()) / self.contended

    @property
    def names(self) -> Mapping[str, int]:
        """Number of sampled loads and stores of each variable or field on the line."""
        samples: Counter[str] = Counter()
        for access in self.accesses:
            if access.name is not None:
                samples[access.name] += (access.reads or 0) + access.writes
        return samples


def is_address_only(line: Line) -> bool:
    """Return whether a line is identified by its address only, or by address and process."""
    return line.name is None and line.key.startswith("0x")


def see_lines(runs: Sequence[Captured[MemorySamples]]) -> dict[str, SeenLine]:
    """Return the lines of one side's runs by identity, most contended first."""
    by_identity: dict[str, list[tuple[int, Line]]] = {}
    for index, run in enumerate(runs):
        for line in run.content.profile.lines:
            identity = f"{line.key}@{run.content.boot}" if is_address_only(line) else line.key
            by_identity.setdefault(identity, []).append((index, line))
    seen = [_together(identity, lines, runs) for identity, lines in by_identity.items()]
    return {line.identity: line for line in sorted(seen, key=lambda line: -line.contended)}


def _together(
    identity: str, lines: Sequence[tuple[int, Line]], runs: Sequence[Captured[MemorySamples]]
) -> SeenLine:
    local_name, remote_name = CONTENDED[runs[0].content.profile.observable]
    hottest = max((line for _, line in lines), key=lambda line: line.records)
    return SeenLine(
        identity=identity,
        key=hottest.key,
        name=hottest.name,
        is_address=is_address_only(hottest),
        boots=frozenset(runs[index].content.boot for index, _ in lines),
        kernels=frozenset(runs[index].content.kernel for index, _ in lines),
        copies=None if hottest.copies is None else max(line.copies or 0 for _, line in lines),
        remote=_by_run(lines, remote_name),
        local=_by_run(lines, local_name),
        records=sum(line.records for _, line in lines),
        loads=_sum_known(line.counts.get("loads") for _, line in lines),
        double_counted=_sum_known(line.counts.get("double_counted") for _, line in lines),
        stores=sum(line.counts.get("store", 0) for _, line in lines),
        sharing=_sharing({line.sharing for _, line in lines}),
        false_share=_false_share([line for _, line in lines]),
        accesses=tuple(_accesses(line for _, line in lines)),
        pairs=_pairs(lines),
    )


def _pairs(lines: Sequence[tuple[int, Line]]) -> dict[Functions, dict[int, float]] | None:
    pairs: dict[Functions, dict[int, float]] = {}
    for index, line in lines:
        if line.pairs is None:
            return None
        for functions, loads in line.pairs.items():
            by_run = pairs.setdefault(functions, {})
            by_run[index] = by_run.get(index, 0.0) + loads
    return pairs


def _by_run(lines: Sequence[tuple[int, Line]], name: str) -> dict[int, int]:
    # A run has several lines with the same key if it has several objects of one struct.
    counts: dict[int, int] = {}
    for index, line in lines:
        counts[index] = counts.get(index, 0) + line.counts.get(name, 0)
    return counts


def _sharing(kinds: set[Sharing | None]) -> Sharing | None:
    classified = [kind for kind in kinds if kind is not None]
    return "mixed" if len(classified) > 1 else next(iter(classified), None)


def _false_share(lines: Iterable[Line]) -> float | None:
    # Runs are weighted by their contended samples.
    classified = [
        (sum(access.local + access.remote for access in line.accesses), line.false_share)
        for line in lines
        if line.false_share is not None
    ]
    weight = sum(samples for samples, _ in classified)
    return sum(samples * share for samples, share in classified) / weight if weight else None


def _accesses(lines: Iterable[Line]) -> Iterator[Access]:
    same: dict[tuple[int, str], list[Access]] = {}
    for line in lines:
        for access in line.accesses:
            same.setdefault((access.offset, access.name or ""), []).append(access)
    for _, parts in sorted(same.items()):
        yield parts[0] if len(parts) == 1 else _access(parts)


def _access(parts: Sequence[Access]) -> Access:
    grades = {part.grade for part in parts}
    return Access(
        offset=parts[0].offset,
        size=parts[0].size if len({part.size for part in parts}) == 1 else None,
        name=parts[0].name,
        grade="A" if "A" in grades else parts[0].grade,
        reads=_sum_known(part.reads for part in parts),
        writes=sum(part.writes for part in parts),
        local=sum(part.local for part in parts),
        remote=sum(part.remote for part in parts),
        readers=_union_known([part.readers for part in parts]),
        writers=_union_known([part.writers for part in parts]),
        nodes=_nodes(parts),
        symbols=_add(part.symbols for part in parts),
        writing_symbols=_add(part.writing_symbols for part in parts),
        commands=_add_known([part.commands for part in parts]),
        mean_weight=None,
    )


def _add(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part)
    return counts


def _add_known(parts: Sequence[Mapping[str, int] | None]) -> dict[str, int] | None:
    recorded = [part for part in parts if part is not None]
    return _add(recorded) if len(recorded) == len(parts) else None


def _sum_known(values: Iterable[int | None]) -> int | None:
    # The sum is unknown if one term is unknown.
    parts = list(values)
    recorded = [value for value in parts if value is not None]
    return sum(recorded) if len(recorded) == len(parts) else None


def _union_known(parts: Sequence[frozenset[int] | None]) -> frozenset[int] | None:
    recorded = [part for part in parts if part is not None]
    return frozenset[int]().union(*recorded) if len(recorded) == len(parts) else None


def _nodes(parts: Sequence[Access]) -> dict[int, NodeAccesses] | None:
    nodes: dict[int, NodeAccesses] = {}
    for part in parts:
        if part.nodes is None:
            return None
        for node, accesses in part.nodes.items():
            before = nodes.get(node, NodeAccesses(0, 0, 0, 0))
            nodes[node] = NodeAccesses(*map(sum, zip(before, accesses, strict=True)))
    return nodes


class Pair(Struct, frozen=True, kw_only=True):
    """One line on each side; None if a side did not sample it."""

    base: SeenLine | None
    new: SeenLine | None

    @property
    def lines(self) -> tuple[SeenLine, ...]:
        """The line on the sides that sampled it, base first."""
        return tuple(line for line in (self.base, self.new) if line is not None)


def pair_lines(base: Mapping[str, SeenLine], new: Mapping[str, SeenLine]) -> list[Pair]:
    """Match the lines of both sides; return each line once, most contended first.

    Lines match if a name is on both. Unnamed lines match by identity: lines with only an address in
    one boot, others in one build. If the fields of a line moved to several lines, it is matched
    with the one with most samples.

    :param base: lines of base by identity, from :func:`see_lines`
    :param new: the same of new
    """
    candidates = sorted(_candidates(base, new), reverse=True)
    partner: dict[str, str] = {}
    taken: set[str] = set()
    for _, base_identity, new_identity in candidates:
        if base_identity not in partner and new_identity not in taken:
            partner[base_identity] = new_identity
            taken.add(new_identity)
    pairs = [
        Pair(base=line, new=new[partner[name]] if name in partner else None)
        for name, line in base.items()
    ]
    pairs += [Pair(base=None, new=line) for name, line in new.items() if name not in taken]
    return sorted(pairs, key=lambda pair: -sum(line.contended for line in pair.lines))


def _candidates(
    base: Mapping[str, SeenLine], new: Mapping[str, SeenLine]
) -> Iterator[tuple[int, str, str]]:
    # Pairs of identities with the number of samples that support them.
    with_name: dict[str, list[SeenLine]] = {}
    for line in new.values():
        for name in line.names:
            with_name.setdefault(name, []).append(line)
    votes: Counter[tuple[str, str]] = Counter()
    for line in base.values():
        for name, samples in line.names.items():
            for candidate in with_name.get(name, ()):
                votes[line.identity, candidate.identity] += samples + candidate.names[name]
    yield from ((count, *pair) for pair, count in votes.items())
    for identity in base.keys() & new.keys():
        base_line, new_line = base[identity], new[identity]
        is_same_build = base_line.kernels == new_line.kernels
        if not (base_line.names or new_line.names) and (base_line.is_address or is_same_build):
            yield base_line.contended + new_line.contended, identity, identity
