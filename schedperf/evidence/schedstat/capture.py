# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse /proc/schedstat: what the scheduler counted since the boot, and between two snapshots.

::

    version 17
    timestamp 4295019995
    cpu0 150 0 8259 2058 3469 1403 365020531334 402121000212 3585724
    domain0 MC ffff 0 0 0 … (45 numbers)

Most counters are 32 bits wide, so a busy machine's wrap. A counter that is lower than before
wrapped, or started again: the kernel makes new domains, with counters from 0, when a CPU goes or
comes, or when a cpuset changes. A counter that would have had to count more than half of its range
to wrap is taken to have started again, and with it all counters of its line: their counts are
unknown. A wrap is counted as one; that there were more of them cannot be seen.
"""

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from schedperf.evidence.schedstat.fields import FIELDS, LAYOUTS, Column, Layout, known_versions
from schedperf.model.errors import InputError

Counts = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

# Linux is built for at most 8192 CPUs; topologies have six levels (SMT, CLS, MC, PKG, two NUMA).
MOST_CPUS = 8192
MOST_DOMAINS = 16 * MOST_CPUS
# 45 numbers of 10 digits, a name and the mask of 8192 CPUs.
LONGEST_LINE = 8192
LARGEST_COUNT = 2**64 - 1
SHOWN = 40

_NUMBERS = re.compile(r"[0-9]{1,20}(?: [0-9]{1,20})*", re.ASCII)
_CPU = re.compile(r"cpu([0-9]{1,5}) (.*)", re.ASCII)
_DOMAIN = re.compile(r"domain([0-9]{1,3}) (.*)", re.ASCII)
# By whether the version has names: a mask may look like a name, and a number like a mask.
_WHO = {
    False: re.compile(r"()([0-9a-f,]+) (.*)", re.ASCII),
    True: re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31}) ([0-9a-f,]+) (.*)", re.ASCII),
}
_HEAD = re.compile(r"(version|timestamp) ([0-9]{1,20})\s*", re.ASCII)
_Item = TypeVar("_Item", bound=Hashable)

_RANGE = 2**32
MOST_WRAPPED = _RANGE // 2
# A note names so many; the others are counted.
_MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Domain:
    """One scheduling domain as one CPU sees it.

    :param number: from the smallest domain on, counted by each CPU for itself
    :param name: of its topology level ("MC"); None where the source has none
    :param span: its CPUs, bit n for CPU n; None where the source does not say
    """

    cpu: int
    number: int
    name: str | None
    span: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What had been counted at one moment.

    :param jiffies: the kernel's clock, in ticks
    :param cpu_counts: shape (cpus, fields), columns as ``LAYOUTS[version].cpu``
    :param domain_counts: shape (domains, fields), columns as ``LAYOUTS[version].domain``
    """

    version: int
    jiffies: int
    cpus: tuple[int, ...]
    cpu_counts: Counts
    domains: tuple[Domain, ...]
    domain_counts: Counts


def is_schedstat(head: str) -> bool:
    """Say whether a text begins as /proc/schedstat does."""
    return head.startswith("version ")


def parse_schedstat(lines: Iterable[str], label: str) -> Snapshot:
    """Read one snapshot.

    :param lines: with their ends, by which a file that is cut off is told
    :param label: of the file, for messages
    :raises InputError: it is none, of another version, cut off or damaged; the line is named
    """
    reading = _Reading(label)
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            raise reading.bad(number, "truncated last line")
        reading.take(number, line[:-1])
    return reading.finish()


class _Reading:
    """The lines of one file, taken one after the other."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.layout: Layout | None = None
        self.jiffies: int | None = None
        self.cpus: list[int] = []
        self.cpu_rows: list[list[int]] = []
        self.domains: list[Domain] = []
        self.domain_rows: list[list[int]] = []
        self.seen: set[tuple[int, ...]] = set()
        self.spans: dict[str, int] = {}

    def bad(self, number: int, problem: str, advice: str = "capture it again") -> InputError:
        return InputError(f"{self.label}:{number}: {problem}; {advice}")

    def take(self, number: int, line: str) -> None:
        if len(line) > LONGEST_LINE:
            raise self.bad(number, f"the line has {len(line)} characters, the kernel writes fewer")
        if self.layout is None or self.jiffies is None:
            self._take_head(number, line)
        elif found := _CPU.fullmatch(line):
            self._take_cpu(number, int(found[1]), found[2])
        elif found := _DOMAIN.fullmatch(line):
            self._take_domain(number, int(found[1]), found[2])
        elif line.strip():
            raise self.bad(number, f"neither a CPU nor a domain: {line[:SHOWN]!r}")

    def _take_head(self, number: int, line: str) -> None:
        found = _HEAD.fullmatch(line)
        wanted = "version" if self.layout is None else "timestamp"
        if found is None or found[1] != wanted:
            problem = f"invalid line {line[:SHOWN]!r} (expected `{wanted} N`)"
            raise self.bad(number, problem, "give a copy of /proc/schedstat")
        value = int(found[2])
        if wanted == "timestamp":
            self.jiffies = value
            return
        if value not in LAYOUTS:
            raise self.bad(number, f"unsupported version {value}", f"supported: {known_versions()}")
        self.layout = LAYOUTS[value]

    def _take_cpu(self, number: int, cpu: int, rest: str) -> None:
        assert self.layout is not None
        if cpu >= MOST_CPUS or (cpu,) in self.seen:
            what = "a second time" if (cpu,) in self.seen else f"of at most {MOST_CPUS}"
            raise self.bad(number, f"cpu{cpu} {what}")
        self.seen.add((cpu,))
        self.cpus.append(cpu)
        self.cpu_rows.append(self._numbers(number, rest, self.layout.cpu))

    def _take_domain(self, number: int, level: int, rest: str) -> None:
        assert self.layout is not None
        if not self.cpus:
            raise self.bad(number, "a domain before its CPU")
        cpu, found = self.cpus[-1], _WHO[self.layout.has_names].fullmatch(rest)
        if found is None:
            which = "a name and its CPUs" if self.layout.has_names else "its CPUs"
            raise self.bad(number, f"domain{level} without {which} first: {rest[:SHOWN]!r}")
        if (cpu, level) in self.seen or len(self.domains) >= MOST_DOMAINS:
            raise self.bad(number, f"duplicate domain{level} of cpu{cpu}")
        self.seen.add((cpu, level))
        span = self._span(number, found[2])
        self.domains.append(Domain(cpu=cpu, number=level, name=found[1] or None, span=span))
        self.domain_rows.append(self._numbers(number, found[3], self.layout.domain))

    def _span(self, number: int, mask: str) -> int:
        # The same few masks stand on all lines.
        if mask not in self.spans:
            digits = mask.replace(",", "")
            if not digits or int(digits, 16) >> MOST_CPUS:
                raise self.bad(number, f"invalid CPU mask {mask[:SHOWN]!r}")
            self.spans[mask] = int(digits, 16)
        return self.spans[mask]

    def _numbers(self, number: int, text: str, columns: Sequence[Column]) -> list[int]:
        text = text.rstrip()
        if not _NUMBERS.fullmatch(text):
            raise self.bad(number, f"not numbers: {text[:SHOWN]!r}")
        values = [int(value) for value in text.split(" ")]
        if len(values) != len(columns):
            assert self.layout is not None
            version = self.layout.version
            problem = f"{len(values)} numbers, version {version} has {len(columns)}"
            raise self.bad(number, problem, "truncated, or from a patched kernel")
        for value, column in zip(values, columns, strict=True):
            if value >> (FIELDS[column.field].bits or 64):
                raise self.bad(number, f"{column.field} is {value}, more than its counter can hold")
        return values

    def finish(self) -> Snapshot:
        if self.layout is None or self.jiffies is None or not self.cpus:
            missing = "empty" if self.layout is None else "ends before the first CPU"
            raise InputError(f"{self.label}: {missing}; give a copy of /proc/schedstat")
        refuse_missing_cpus(self.cpus, self.domains, self.label)
        return make_snapshot(
            self.layout,
            self.jiffies,
            cpus=self.cpus,
            cpu_rows=self.cpu_rows,
            domains=self.domains,
            domain_rows=self.domain_rows,
        )


def refuse_missing_cpus(cpus: Sequence[int], domains: Iterable[Domain], label: str) -> None:
    """Refuse a source that ends too early: a CPU of a domain has no line, or no domain itself.

    :param label: of the source, for messages
    """
    owners = {domain.cpu for domain in domains} & set(cpus)
    known = sum(1 << cpu for cpu in owners)
    for span in {domain.span or 0 for domain in domains}:
        if missing := span & ~known:
            first = (missing & -missing).bit_length() - 1
            problem = f"cpu{first} is in a domain of others and has no lines, or none of a domain"
            raise InputError(f"{label}: {problem}; truncated; capture it again")


def make_snapshot(
    layout: Layout,
    jiffies: int,
    *,
    cpus: Sequence[int],
    cpu_rows: Sequence[Sequence[int]],
    domains: Sequence[Domain],
    domain_rows: Sequence[Sequence[int]],
) -> Snapshot:
    """Return a snapshot of rows of numbers, each as long as the layout says."""
    shape = (len(domains), len(layout.domain))
    return Snapshot(
        version=layout.version,
        jiffies=jiffies,
        cpus=tuple(cpus),
        cpu_counts=np.array(cpu_rows, dtype=np.uint64),
        domains=tuple(domains),
        domain_counts=np.array(domain_rows, dtype=np.uint64).reshape(shape),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What was counted in an interval.

    :param jiffies: how long it was, in ticks; None where that is unknown
    :param cpu_counts: shape (cpus, fields) as in :class:`Snapshot`; NaN: cannot be known
    :param domain_counts: shape (domains, fields)
    :param notes: one sentence for each thing that could not be decided, or that looks wrong
    """

    version: int
    jiffies: int | None
    cpus: tuple[int, ...]
    cpu_counts: Floats
    domains: tuple[Domain, ...]
    domain_counts: Floats
    notes: tuple[str, ...]


def change_between(before: Snapshot, after: Snapshot, label: str) -> Change:
    """Return what was counted between two snapshots of one boot.

    CPUs and domains that are not in both of them are left out, with a note.

    :param label: of the interval, for messages
    :raises InputError: they are of two versions, or the second is the older one
    """
    if before.version != after.version:
        versions = f"version {before.version} before, {after.version} after"
        raise InputError(f"{label}: {versions}; give two snapshots of one boot")
    layout = LAYOUTS[before.version]
    notes: list[str] = []
    cpus = _common(before.cpus, after.cpus, "CPUs", notes)
    domains = _common(before.domains, after.domains, "domains", notes)
    wrapped: set[str] = set()
    cpu_counts = _subtract(
        _rows(before.cpus, before.cpu_counts, cpus),
        _rows(after.cpus, after.cpu_counts, cpus),
        layout.cpu,
        wrapped,
    )
    domain_counts = _subtract(
        _rows(before.domains, before.domain_counts, domains),
        _rows(after.domains, after.domain_counts, domains),
        layout.domain,
        wrapped,
    )
    notes += _describe_wraps(wrapped)
    notes += describe_restarts("CPUs", cpu_counts) + describe_restarts("domains", domain_counts)
    return Change(
        version=before.version,
        jiffies=_elapsed(before.jiffies, after.jiffies, label),
        cpus=tuple(cpus),
        cpu_counts=cpu_counts,
        domains=tuple(domains),
        domain_counts=domain_counts,
        notes=tuple(notes),
    )


def _elapsed(before: int, after: int, label: str) -> int | None:
    # The clock of a 32-bit kernel wraps, for the first time five minutes after the boot.
    elapsed = after - before
    if elapsed < 0 and before < _RANGE:
        elapsed %= _RANGE
    if not 0 <= elapsed < MOST_WRAPPED:
        raise InputError(
            f"{label}: the time stamp is {before} before and {after} after; "
            "give the earlier snapshot first, both of one boot"
        )
    return elapsed or None


def _common(
    before: Sequence[_Item], after: Sequence[_Item], what: str, notes: list[str]
) -> list[_Item]:
    is_after = set(after)
    common = [key for key in before if key in is_after]
    lost = len(before) + len(after) - 2 * len(common)
    if lost:
        notes.append(
            f"{what} came, went or changed in between: {lost} lines without a counterpart "
            "are left out"
        )
    return common


def _rows(keys: Sequence[_Item], counts: Counts, wanted: Sequence[_Item]) -> Counts:
    places = {key: place for place, key in enumerate(keys)}
    return counts[[places[key] for key in wanted]]


def _subtract(
    before: Counts, after: Counts, columns: Sequence[Column], wrapped: set[str]
) -> Floats:
    is_lower = after < before
    # Unsigned: where it is lower, this is the distance around the range of 64 bits.
    distance = after - before
    around = distance % np.uint64(_RANGE)
    fits = np.maximum(after, before) < _RANGE
    bits = np.array([FIELDS[column.field].bits or 0 for column in columns])
    is_wrap = is_lower & fits & (bits != 64) & (around < MOST_WRAPPED)  # noqa: PLR2004 # a width
    counts = np.where(is_wrap, around, distance).astype(np.float64)
    is_restarted = (is_lower & ~is_wrap).any(axis=1)
    counts[is_restarted] = np.nan
    told = (is_wrap & ~is_restarted[:, None]).any(axis=0)
    wrapped.update(_describe_column(columns[place]) for place in np.flatnonzero(told).tolist())
    return counts


def _describe_column(column: Column) -> str:
    return f"{column.idle} {column.field}".strip()


def _describe_wraps(wrapped: set[str]) -> list[str]:
    if not wrapped:
        return []
    named = sorted(wrapped)
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    what = f"{', '.join(named[:_MOST_NAMED])}{more}"
    return [f"wrapped at 2**32, and counted as once, though it may have been more often: {what}"]


def describe_restarts(what: str, counts: Floats) -> list[str]:
    """Say how many lines have counts that cannot be known.

    :param counts: shape (lines, fields); a line that started again is NaN
    """
    restarted = int(np.isnan(counts).any(axis=1).sum())
    if not restarted:
        return []
    cause = "so they were reset (a CPU or a cpuset changed): their counts are unknown"
    return [f"the counters of {restarted} of {len(counts)} {what} fell, {cause}"]
