# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse /proc/schedstat: counts since boot, and counts between two snapshots.

::

    version 17
    timestamp 4295019995
    cpu0 150 0 8259 2058 3469 1403 365020531334 402121000212 3585724
    domain0 MC ffff 0 0 0 … (45 numbers)

Most counters are 32 bits wide and wrap on a busy machine. A counter that is lower than before
either wrapped or was reset: the kernel creates new domains, with counters from 0, when a CPU goes
online or offline, or when a cpuset changes. If a wrap would mean that the counter advanced by more
than half of its range, the counter is assumed to be reset, and with it all counters of its line:
their counts are unknown. Wraps are counted as one wrap; further wraps cannot be detected.
"""

import re
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from schedperf.evidence.schedstat.fields import FIELDS, LAYOUTS, Column, Layout, known_versions
from schedperf.model.errors import InputError
from schedperf.model.text import list_some

Counts = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

# Limits: NR_CPUS is at most 8192; topologies have six levels (SMT, CLS, MC, PKG, two NUMA).
MOST_CPUS = 8192
MOST_DOMAINS = 16 * MOST_CPUS
# Longest line: 45 numbers of 10 digits, a name and the mask of 8192 CPUs.
LONGEST_LINE = 8192
LARGEST_COUNT = 2**64 - 1
SHOWN = 40

_NUMBERS = re.compile(r"[0-9]{1,20}(?: [0-9]{1,20})*", re.ASCII)
_CPU = re.compile(r"cpu([0-9]{1,5}) (.*)", re.ASCII)
_DOMAIN = re.compile(r"domain([0-9]{1,3}) (.*)", re.ASCII)
# Separate patterns for versions with and without names, since a mask can look like a name, and a
# number like a mask.
_WHO = {
    False: re.compile(r"()([0-9a-f,]+) (.*)", re.ASCII),
    True: re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31}) ([0-9a-f,]+) (.*)", re.ASCII),
}
_HEAD = re.compile(r"(version|timestamp) ([0-9]{1,20})\s*", re.ASCII)
_Item = TypeVar("_Item", bound=Hashable)

_RANGE = 2**32
MOST_WRAPPED = _RANGE // 2
# Number of counters that a note lists by name.
_MOST_NAMED = 3


class Domain(Struct, frozen=True, kw_only=True):
    """One scheduling domain of one CPU.

    :param number: index among the CPU's domains; 0 is the smallest domain
    :param name: of its topology level ("MC"); None if the source has no names
    :param span: mask of its CPUs, bit n for CPU n; None if not recorded
    """

    cpu: int
    number: int
    name: str | None
    span: int | None


class Snapshot(Struct, frozen=True, kw_only=True):
    """Counters at one time.

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
    """Return whether a text begins like /proc/schedstat."""
    return head.startswith("version ")


def parse_schedstat(lines: Iterable[str], label: str) -> Snapshot:
    """Parse one snapshot.

    :param lines: with line ends, so that a truncated file is detected
    :param label: name of the file in messages
    :raises InputError: invalid, unsupported version, or truncated; the message has the number of
        an invalid line
    """
    reading = _Reading(label)
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            raise reading.bad(number, "truncated last line")
        reading.take(number, line[:-1])
    return reading.finish()


class _Reading:
    """Parser of one file, fed line by line."""

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
            raise self.bad(
                number, f"line of {len(line)} characters (expected at most {LONGEST_LINE})"
            )
        if self.layout is None or self.jiffies is None:
            self._take_head(number, line)
        elif match := _CPU.fullmatch(line):
            self._take_cpu(number, int(match[1]), match[2])
        elif match := _DOMAIN.fullmatch(line):
            self._take_domain(number, int(match[1]), match[2])
        elif line.strip():
            raise self.bad(
                number, f"invalid line {line[:SHOWN]!r} (expected `cpuN …` or `domainN …`)"
            )

    def _take_head(self, number: int, line: str) -> None:
        match = _HEAD.fullmatch(line)
        expected = "version" if self.layout is None else "timestamp"
        if match is None or match[1] != expected:
            problem = f"invalid line {line[:SHOWN]!r} (expected `{expected} N`)"
            raise self.bad(number, problem, "pass a copy of /proc/schedstat")
        value = int(match[2])
        if expected == "timestamp":
            self.jiffies = value
            return
        if value not in LAYOUTS:
            raise self.bad(
                number, f"unsupported schedstat version {value}", f"supported: {known_versions()}"
            )
        self.layout = LAYOUTS[value]

    def _take_cpu(self, number: int, cpu: int, rest: str) -> None:
        assert self.layout is not None
        if cpu >= MOST_CPUS or (cpu,) in self.seen:
            limit = f"cpu{cpu} is out of range (expected at most cpu{MOST_CPUS - 1})"
            raise self.bad(number, f"duplicate cpu{cpu}" if (cpu,) in self.seen else limit)
        self.seen.add((cpu,))
        self.cpus.append(cpu)
        self.cpu_rows.append(self._numbers(number, rest, self.layout.cpu))

    def _take_domain(self, number: int, level: int, rest: str) -> None:
        assert self.layout is not None
        if not self.cpus:
            raise self.bad(number, "misplaced `domainN` line (expected after a `cpuN` line)")
        cpu, match = self.cpus[-1], _WHO[self.layout.has_names].fullmatch(rest)
        if match is None:
            expected = "a name, a CPU mask" if self.layout.has_names else "a CPU mask"
            problem = (
                f"domain{level}: invalid text {rest[:SHOWN]!r} (expected {expected} and counts)"
            )
            raise self.bad(number, problem)
        if (cpu, level) in self.seen or len(self.domains) >= MOST_DOMAINS:
            raise self.bad(number, f"duplicate domain{level} of cpu{cpu}")
        self.seen.add((cpu, level))
        span = self._span(number, match[2])
        self.domains.append(Domain(cpu=cpu, number=level, name=match[1] or None, span=span))
        self.domain_rows.append(self._numbers(number, match[3], self.layout.domain))

    def _span(self, number: int, mask: str) -> int:
        # Cache of masks, since all lines use the same few.
        if mask not in self.spans:
            digits = mask.replace(",", "")
            if not digits or int(digits, 16) >> MOST_CPUS:
                raise self.bad(
                    number, f"invalid CPU mask {mask[:SHOWN]!r} (expected at most {MOST_CPUS} bits)"
                )
            self.spans[mask] = int(digits, 16)
        return self.spans[mask]

    def _numbers(self, number: int, text: str, columns: Sequence[Column]) -> list[int]:
        text = text.rstrip()
        if not _NUMBERS.fullmatch(text):
            raise self.bad(
                number,
                f"invalid numbers {text[:SHOWN]!r} (expected unsigned integers, e.g. 12 0 7)",
            )
        values = [int(value) for value in text.split(" ")]
        if len(values) != len(columns):
            assert self.layout is not None
            version = self.layout.version
            problem = (
                f"{len(values)} counts (expected {len(columns)} in schedstat version {version})"
            )
            raise self.bad(number, problem, "capture it again on a mainline kernel")
        for value, column in zip(values, columns, strict=True):
            bits = FIELDS[column.field].bits or 64
            if value >> bits:
                raise self.bad(
                    number, f"`{column.field}` is {value} (expected at most {bits} bits)"
                )
        return values

    def finish(self) -> Snapshot:
        if self.layout is None or self.jiffies is None or not self.cpus:
            missing = "empty file" if self.layout is None else "no `cpuN` lines"
            raise InputError(f"{self.label}: {missing}; pass a copy of /proc/schedstat")
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
    """Refuse a truncated source: a CPU of a domain has no line, or no domain of its own.

    :param label: name of the source in messages
    :raises InputError: the source is truncated
    """
    owners = {domain.cpu for domain in domains} & set(cpus)
    owner_mask = sum(1 << cpu for cpu in owners)
    for span in {domain.span or 0 for domain in domains}:
        if missing := span & ~owner_mask:
            first = (missing & -missing).bit_length() - 1
            problem = (
                f"truncated (cpu{first} is in a domain, but its own counts or domains are missing)"
            )
            raise InputError(f"{label}: {problem}; capture it again")


def make_snapshot(
    layout: Layout,
    jiffies: int,
    *,
    cpus: Sequence[int],
    cpu_rows: Sequence[Sequence[int]],
    domains: Sequence[Domain],
    domain_rows: Sequence[Sequence[int]],
) -> Snapshot:
    """Return a snapshot of rows of numbers; the layout gives the number of columns."""
    shape = (len(domains), len(layout.domain))
    return Snapshot(
        version=layout.version,
        jiffies=jiffies,
        cpus=tuple(cpus),
        cpu_counts=np.array(cpu_rows, dtype=np.uint64),
        domains=tuple(domains),
        domain_counts=np.array(domain_rows, dtype=np.uint64).reshape(shape),
    )


class Change(Struct, frozen=True, kw_only=True):
    """Counts between two snapshots.

    :param jiffies: length of the interval in ticks; None if unknown
    :param cpu_counts: shape (cpus, fields) as in :class:`Snapshot`; NaN if unknown
    :param domain_counts: shape (domains, fields)
    :param notes: one sentence for each ambiguity or anomaly
    """

    version: int
    jiffies: int | None
    cpus: tuple[int, ...]
    cpu_counts: Floats
    domains: tuple[Domain, ...]
    domain_counts: Floats
    notes: tuple[str, ...]


def change_between(before: Snapshot, after: Snapshot, label: str) -> Change:
    """Return the counts between two snapshots of one boot.

    CPUs and domains that only one snapshot contains are left out, with a note.

    :param label: name of the interval in messages
    :raises InputError: the versions differ, or the second snapshot is older
    """
    if before.version != after.version:
        versions = f"schedstat version changed from {before.version} to {after.version}"
        raise InputError(f"{label}: {versions}; pass two snapshots of the same boot")
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
    # The jiffies of a 32-bit kernel wrap, first five minutes after boot.
    elapsed = after - before
    if elapsed < 0 and before < _RANGE:
        elapsed %= _RANGE
    if not 0 <= elapsed < MOST_WRAPPED:
        raise InputError(
            f"{label}: invalid timestamps {before} and {after} (expected ascending timestamps); "
            "pass two snapshots of the same boot, the earlier one first"
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
            f"{what} were added, removed or changed during the run; {lost} lines "
            "that only one snapshot contains are left out"
        )
    return common


def _rows(keys: Sequence[_Item], counts: Counts, kept: Sequence[_Item]) -> Counts:
    indices = {key: index for index, key in enumerate(keys)}
    return counts[[indices[key] for key in kept]]


def _subtract(
    before: Counts, after: Counts, columns: Sequence[Column], wrapped: set[str]
) -> Floats:
    is_lower = after < before
    # Unsigned difference: if the value is lower, this is the distance modulo 2**64.
    distance = after - before
    around = distance % np.uint64(_RANGE)
    fits = np.maximum(after, before) < _RANGE
    bits = np.array([FIELDS[column.field].bits or 0 for column in columns])
    is_wrap = is_lower & fits & (bits != 64) & (around < MOST_WRAPPED)  # noqa: PLR2004 # a width
    counts = np.where(is_wrap, around, distance).astype(np.float64)
    is_restarted = (is_lower & ~is_wrap).any(axis=1)
    counts[is_restarted] = np.nan
    has_wrapped = (is_wrap & ~is_restarted[:, None]).any(axis=0)
    wrapped.update(
        _describe_column(columns[index]) for index in np.flatnonzero(has_wrapped).tolist()
    )
    return counts


def _describe_column(column: Column) -> str:
    return f"{column.idle} {column.field}".strip()


def _describe_wraps(wrapped: set[str]) -> list[str]:
    if not wrapped:
        return []
    what = list_some(sorted(wrapped), _MOST_NAMED)
    return [f"counters that wrapped at 2**32: {what} (one wrap is assumed, more are possible)"]


def describe_restarts(what: str, counts: Floats) -> list[str]:
    """Return one note with the number of lines that were reset; an empty list if none was.

    :param what: "CPUs" or "domains"
    :param counts: shape (lines, fields); NaN in lines that were reset
    """
    restarted = int(np.isnan(counts).any(axis=1).sum())
    if not restarted:
        return []
    cause = "so they were reset (CPU hotplug or a cpuset change) and their counts are unknown"
    return [f"the counters of {restarted} of {len(counts)} {what} decreased, {cause}"]
