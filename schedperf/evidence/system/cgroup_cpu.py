# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse cpu.stat of cgroups, with their bandwidth limit, as the collector writes it.

::

    === /bench/one
    nr_periods 41
    nr_throttled 40
    throttled_usec 2817402
    populated 0
    --- 25000 100000 0
    +++ 1234 8361123456789 new

The name is followed by cpu.stat as the kernel prints it, then by ``populated`` of cgroup.events,
read before cpu.stat (version 2 only, missing in older bundles), then quota, period and burst in
microseconds, then the group's inode, the monotonic time of the snapshot in ns, and whether the
group was created during the run. Version 1 counts ``throttled_time`` and ``burst_time`` in
nanoseconds, version 2 ``throttled_usec`` and ``burst_usec``
(Documentation/scheduler/sched-bwc.rst).
"""

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from schedperf.evidence.system._counters import ABSENT, SHOWN, parse_count
from schedperf.model.errors import InputError

NO_LIMIT = "max"
# Limits: the collector keeps 256 groups, each with about ten counts.
MOST_GROUPS = 1024
MOST_COUNTS = 64
LONGEST_PATH = 4096
# Suffixes of counts that are times, with the factor to seconds.
_UNITS = (("_usec", 1e-6), ("_time", 1e-9))
_POPULATED = "populated"

_STAT = re.compile(r"([a-z][a-z0-9_.]{0,63}) ([0-9]{1,20})", re.ASCII)
_SEEN = re.compile(r"\+\+\+ ([0-9]{1,20}) ([0-9]{1,20}) (new|old)", re.ASCII)


class GroupCount(Struct, frozen=True, kw_only=True):
    """One count; ``value * scale`` is in ``unit``, "1" or "s"."""

    value: int
    unit: str
    scale: float


class CpuGroup(Struct, frozen=True, kw_only=True):
    """Counters of one group in one snapshot.

    :param path: path in its hierarchy; "/" for the root
    :param inode: distinguishes it from a later group with the same path
    :param seen_ns: time of the snapshot, CLOCK_MONOTONIC
    :param is_new: True if the group was created during the run
    :param is_empty: True if no task was left in it or below it, so its counters are final; False if
        this is not recorded
    :param quota_s: CPU time per period; None without a limit
    :param period_s: None if the group cannot have a limit
    :param counts: by name: "nr_periods", "throttled", "usage"
    """

    path: str
    inode: int
    seen_ns: int
    is_new: bool
    is_empty: bool
    quota_s: float | None
    period_s: float | None
    counts: Mapping[str, GroupCount]


def parse_cgroup_cpu(lines: Iterable[str], label: str) -> tuple[CpuGroup, ...]:
    """Parse all groups; the text may be empty.

    :raises InputError: the text is damaged
    """
    sections: list[list[str]] = []
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if text.startswith("=== "):
            sections.append([text])
        elif text and not sections:
            raise InputError(
                f"{label}:{number}: invalid line {text[:SHOWN]!r} before the first cgroup "
                "(expected `=== PATH`); record again"
            )
        elif text:
            sections[-1].append(text)
        if len(sections) > MOST_GROUPS or (sections and len(sections[-1]) > MOST_COUNTS):
            limit = f"expected at most {MOST_GROUPS} cgroups of up to {MOST_COUNTS} lines"
            raise InputError(f"{label}:{number}: file is too large ({limit}); record again")
    groups = [_parse_group(section, label) for section in sections]
    if len({(group.path, group.inode) for group in groups}) < len(groups):
        raise InputError(f"{label}: duplicate cgroup; record again")
    return tuple(groups)


def _parse_group(lines: list[str], label: str) -> CpuGroup:
    path = lines[0][4:]
    where = f"{label}: {path[:SHOWN]}"
    seen = _SEEN.fullmatch(lines[-1])
    if seen is None or not lines[-2].startswith("--- ") or len(path) > LONGEST_PATH:
        raise InputError(f"{where}: truncated cgroup section; record again")
    limit = lines[-2][4:].split(" ")
    quota, period = (_seconds(text, where) for text in [*limit, ABSENT, ABSENT][:2])
    counts = dict(_parse_count(line, where) for line in lines[1:-2])
    populated = counts.pop(_POPULATED, None)
    return CpuGroup(
        path=path,
        inode=parse_count(seen[1], where),
        seen_ns=parse_count(seen[2], where),
        is_new=seen[3] == "new",
        is_empty=populated is not None and populated.value == 0,
        quota_s=quota,
        period_s=period,
        counts=counts,
    )


def _parse_count(line: str, where: str) -> tuple[str, GroupCount]:
    match = _STAT.fullmatch(line.strip())
    if match is None:
        raise InputError(
            f"{where}: invalid line {line[:SHOWN]!r} (expected `NAME COUNT`); record again"
        )
    name, value = match[1], parse_count(match[2], where)
    for suffix, scale in _UNITS:
        if name.endswith(suffix):
            return name.removesuffix(suffix), GroupCount(value=value, unit="s", scale=scale)
    return name, GroupCount(value=value, unit="1", scale=1.0)


def _seconds(text: str, where: str) -> float | None:
    return None if text in {NO_LIMIT, ABSENT} else parse_count(text, where) / 1e6
