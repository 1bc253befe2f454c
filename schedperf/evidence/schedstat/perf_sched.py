# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the output of ``perf sched stats``: perf.data of ``record`` and the text of ``report``.

The perf.data contains two snapshots of /proc/schedstat, in one of two formats. Upstream writes
records 85 and 86, and the names and CPUs of the domains in a header section. Earlier patches write
records 83 and 84, which upstream has since assigned to other records: 83 is compressed data if the
header declares compression. Structures: tools/lib/perf/include/perf/event.h of both.

The report lists the counts of each CPU between the snapshots::

    Time elapsed (in jiffies)                                        :      150000
    CPU 0
    schedule() called                                                :     6249493
    schedule() left the processor idle                               :     1347960  (    21.57% )
    CPU 0, DOMAIN MC CPUS <0-15, >
    ----------------------------------------- <Category busy> ----------------------------------
    load_balance() count on cpu busy                                 :           0  $     0.00 $

It describes fields by sentences and does not contain the version, which follows from the sentences
and the order of the categories. Its summary is a mean over CPUs and is ignored, as are derived
values (lines with a star). "in jiffies" is wrong for times: the kernel counts ns.
"""

import mmap
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from schedperf.evidence.schedstat.capture import (
    MOST_CPUS,
    MOST_DOMAINS,
    MOST_WRAPPED,
    SHOWN,
    Change,
    Domain,
    Floats,
    Snapshot,
    change_between,
    describe_restarts,
    make_snapshot,
    refuse_missing_cpus,
)
from schedperf.evidence.schedstat.fields import FIELDS, LAYOUTS, Column, Layout, known_versions
from schedperf.evidence.schedstat.record import Idle
from schedperf.inputs.bundle.lines import stream_lines
from schedperf.model.errors import InputError
from schedperf_collectors.perf_header import (
    BIG_ENDIAN_MAGIC,
    HEADER_BYTES,
    MAGIC,
    BadPerfData,
    Buffer,
    Cursor,
    open_section,
    read_header,
    records,
    text_until_nul,
)

_FIRST_LINE = "Columns description"
_LONGEST_LINE = 8192
_ADVICE_OF_REPORT = "run `perf sched stats report` again"

_BLOCK = re.compile(
    r"CPU (?:(?P<cpu>\d{1,5})|<ALL CPUS SUMMARY>)"
    r"(?:, DOMAIN (?P<name>[\w-]{1,32})(?: CPUS <(?P<cpus>[\d, -]*)>)?)?",
    re.ASCII,
)
_VALUE = re.compile(r"([^:]{1,100}?) *: *(\d{1,20})(,?)(?: .*)?", re.ASCII)
_IDLE = re.compile(r"(.*) on cpu (busy|idle|newly idle)", re.ASCII)
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_ELAPSED = "Time elapsed (in jiffies)"

_FIELDS: Mapping[str, str] = {
    "sched_yield() count": "yld_count",
    "Legacy counter can be ignored": "array_exp",
    "schedule() called": "sched_count",
    "schedule() left the processor idle": "sched_goidle",
    "try_to_wake_up() was called": "ttwu_count",
    "try_to_wake_up() was called to wake up the local cpu": "ttwu_local",
    "total runtime by tasks on this processor (in jiffies)": "rq_cpu_time",
    "total waittime by tasks on this processor (in jiffies)": "run_delay",
    "total timeslices run on this cpu": "pcount",
    "load_balance() count": "lb_count",
    "load_balance() found balanced": "lb_balanced",
    "load_balance() move task failed": "lb_failed",
    "imbalance sum": "lb_imbalance",
    "imbalance in load": "lb_imbalance_load",
    "imbalance in utilization": "lb_imbalance_util",
    "imbalance in number of tasks": "lb_imbalance_task",
    "imbalance in misfit tasks": "lb_imbalance_misfit",
    "pull_task() count": "lb_gained",
    "pull_task() when target task was cache-hot": "lb_hot_gained",
    "load_balance() failed to find busier queue": "lb_nobusyq",
    "load_balance() failed to find busier group": "lb_nobusyg",
    "active_load_balance() count": "alb_count",
    "active_load_balance() move task failed": "alb_failed",
    "active_load_balance() successfully moved a task": "alb_pushed",
    **{
        f"{name}_{what} is not used": f"{name}_{what}"
        for name in ("sbe", "sbf")
        for what in ("count", "balanced", "pushed")
    },
    # perf's text is wrong: the kernel compares with the waker's CPU, not with the task's last CPU.
    "try_to_wake_up() awoke a task that last ran on a diff cpu": "ttwu_wake_remote",
    "try_to_wake_up() moved task because cache-cold on own cpu": "ttwu_move_affine",
    "try_to_wake_up() started passive balancing": "ttwu_move_balance",
}
_IDLE_TYPES: Mapping[str, Idle] = {"busy": "busy", "idle": "idle", "newly idle": "newidle"}
_CPU_DOMAIN_INFO = 32
# A record has at most 64 kB; this limits the number of records.
_LARGEST_BYTES = 1 << 30
_ADVICE = "record it again with `perf sched stats record`"
_NAME_BYTES = 16


class _Block(Struct, frozen=True, kw_only=True):
    # A block of one CPU, or of one of its domains. Columns are in the order of the lines.
    cpu: int
    domain: Domain | None
    counts: dict[Column, int] = field(default_factory=dict)


def is_sched_stats_report(head: str) -> bool:
    """Return whether a text begins like the output of ``report`` or ``diff``."""
    return head.startswith(_FIRST_LINE)


def parse_sched_stats_report(lines: Iterable[str], label: str) -> Change:
    """Parse a report.

    :param label: name of the file in messages
    :raises InputError: invalid, truncated, or the output of ``perf sched stats diff``
    """
    reading = _ReportReading(label)
    for number, line in enumerate(lines, 1):
        # perf deletes its last comma on a terminal; a file contains the comma and backspaces.
        reading.take(number, line.replace("\b", "").rstrip())
    return reading.finish()


def _bad_cpu(cpu: int) -> str:
    limit = f"CPU {cpu} is out of range (expected at most {MOST_CPUS - 1})"
    return limit if cpu >= MOST_CPUS else f"duplicate CPU {cpu}"


class _ReportReading:
    """Parser of one report, fed line by line."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.jiffies: int | None = None
        self.cpus: list[_Block] = []
        self.domains: list[_Block] = []
        self.seen: set[int] = set()
        # Number of domains of the last CPU so far.
        self.levels = 0
        # None in the summary, or before the first block.
        self.block: _Block | None = None
        # All lines of dashes have the same length; 0 before the first one.
        self.dashes = 0
        self.is_cut = False
        # Whether the summary of all CPUs has domains.
        self.sums_domains = False

    def bad(self, number: int, problem: str, advice: str = _ADVICE_OF_REPORT) -> InputError:
        return InputError(f"{self.label}:{number}: {problem}; {advice}")

    def take(self, number: int, line: str) -> None:
        if len(line) > _LONGEST_LINE:
            raise self.bad(
                number, f"line of {len(line)} characters (expected at most {_LONGEST_LINE})"
            )
        is_separator = set(line) == {"-"}
        self.is_cut = is_separator and len(line) < self.dashes
        if is_separator:
            self.dashes = max(self.dashes, len(line))
        if line.startswith("CPU "):
            self._begin(number, line)
        elif ":" in line and not line.startswith(("*", "-")):
            self._take_value(number, line)

    def _begin(self, number: int, line: str) -> None:
        match = _BLOCK.fullmatch(line)
        if match is None:
            raise self.bad(
                number, f"invalid line {line[:SHOWN]!r} (expected `CPU N` or `CPU N, DOMAIN NAME`)"
            )
        self.block = None
        if match["cpu"] is None:
            self.sums_domains |= match["name"] is not None
            return
        cpu = int(match["cpu"])
        if match["name"] is None:
            if cpu >= MOST_CPUS or cpu in self.seen:
                raise self.bad(number, _bad_cpu(cpu))
            self.seen.add(cpu)
            self.levels = 0
            self.block = _Block(cpu=cpu, domain=None)
            self.cpus.append(self.block)
            return
        self._begin_domain(number, cpu, match)

    def _begin_domain(self, number: int, cpu: int, match: re.Match[str]) -> None:
        if not self.cpus or self.cpus[-1].cpu != cpu or len(self.domains) >= MOST_DOMAINS:
            raise self.bad(
                number, f"misplaced domain of CPU {cpu} (expected after the counters of CPU {cpu})"
            )
        name = match["name"]
        domain = Domain(
            cpu=cpu,
            number=int(name) if name.isdigit() else self.levels,
            name=None if name.isdigit() else name,
            span=None if match["cpus"] is None else self._span(number, match["cpus"]),
        )
        self.levels += 1
        self.block = _Block(cpu=cpu, domain=domain)
        self.domains.append(self.block)

    def _span(self, number: int, cpus: str) -> int:
        span = 0
        for part in cpus.replace(",", " ").split():
            match = _RANGE.fullmatch(part)
            low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if not low <= high < MOST_CPUS:
                raise self.bad(
                    number,
                    f"invalid CPU list {cpus[:SHOWN]!r} (expected CPUs or ranges, e.g. 0-3,8)",
                )
            span |= (1 << high + 1) - (1 << low)
        return span

    def _take_value(self, number: int, line: str) -> None:
        match = _VALUE.fullmatch(line)
        if match is None:
            raise self.bad(number, f"invalid line {line[:SHOWN]!r} (expected `NAME : COUNT`)")
        if match[3]:
            problem = "output of `perf sched stats diff` (expected `perf sched stats report`)"
            raise self.bad(
                number, problem, "pass one perf sched stats report for base and one for new"
            )
        if match[1] == _ELAPSED:
            self.jiffies = int(match[2])
        elif self.block is not None:
            self._add(number, match[1], int(match[2]))

    def _add(self, number: int, text: str, value: int) -> None:
        assert self.block is not None
        of_idle = _IDLE.fullmatch(text)
        name = _FIELDS.get(of_idle[1] if of_idle else text)
        if name is None:
            raise self.bad(
                number, f"unknown field {text[:SHOWN]!r}", "pass the perf.data file instead"
            )
        column = Column(_IDLE_TYPES[of_idle[2]] if of_idle else "", name)
        if column in self.block.counts:
            raise self.bad(number, f"duplicate counter `{name}`")
        bits = FIELDS[name].bits or 64
        if value >> bits:
            raise self.bad(number, f"`{name}` is {value} (expected at most {bits} bits)")
        self.block.counts[column] = value

    def finish(self) -> Change:
        if not self.cpus:
            advice = "pass the complete output of `perf sched stats report`"
            raise InputError(f"{self.label}: no CPU counters; {advice}")
        if self.is_cut:
            raise InputError(
                f"{self.label}: truncated (the last line of dashes is shorter than the others); "
                f"{_ADVICE_OF_REPORT}"
            )
        if self.sums_domains and not self.domains:
            raise InputError(
                f"{self.label}: truncated (the summary has domains, but no domain follows); "
                f"{_ADVICE_OF_REPORT}"
            )
        domains = [block.domain for block in self.domains if block.domain is not None]
        refuse_missing_cpus([block.cpu for block in self.cpus], domains, self.label)
        layout = self._layout()
        cpu_counts = self._table(self.cpus, layout.cpu)
        domain_counts = self._table(self.domains, layout.domain)
        notes = [
            *describe_restarts("CPUs", cpu_counts),
            *describe_restarts("domains", domain_counts),
        ]
        return Change(
            version=layout.version,
            jiffies=self.jiffies or None,
            cpus=tuple(block.cpu for block in self.cpus),
            cpu_counts=cpu_counts,
            domains=tuple(domains),
            domain_counts=domain_counts,
            notes=tuple(notes),
        )

    def _layout(self) -> Layout:
        # The versions differ only in the domains.
        columns = tuple(self.domains[0].counts) if self.domains else LAYOUTS[17].domain
        for layout in LAYOUTS.values():
            if layout.domain == columns:
                return layout
        first = next((column.field for column in columns), "none")
        problem = f"unsupported or truncated counters of the first domain (first counter: {first})"
        raise InputError(f"{self.label}: {problem}; {_ADVICE_OF_REPORT}")

    def _table(self, blocks: list[_Block], columns: tuple[Column, ...]) -> Floats:
        for block in blocks:
            if tuple(block.counts) != columns:
                where = f"{'' if block.domain is None else 'domain of '}CPU {block.cpu}"
                raise InputError(
                    f"{self.label}: truncated, {where} has {len(block.counts)} counts "
                    f"(expected {len(columns)}); {_ADVICE_OF_REPORT}"
                )
        rows = [list(block.counts.values()) for block in blocks]
        counts = np.array(rows, dtype=np.float64).reshape(len(blocks), len(columns))
        # perf subtracts unsigned, so the count of a reset counter is close to 2**32.
        is_narrow = np.array([FIELDS[column.field].bits == 32 for column in columns])  # noqa: PLR2004 # a width
        counts[(is_narrow & (counts >= MOST_WRAPPED)).any(axis=1)] = np.nan
        return counts


class _Form(Struct, frozen=True, kw_only=True):
    # Types of the records, and offsets in them. If the record has a CPU mask, it follows the union
    # of the counts of all versions.
    cpu_type: int
    domain_type: int
    cpu_number: int
    cpu_version: int
    cpu_counts: int
    domain_time: int
    domain_cpu: int
    domain_version: int
    domain_number: int
    domain_counts: int
    domain_name: int | None
    domain_mask: int | None


_UPSTREAM = _Form(
    cpu_type=85,
    domain_type=86,
    cpu_number=16,
    cpu_version=20,
    cpu_counts=24,
    domain_time=8,
    domain_cpu=16,
    domain_version=20,
    domain_number=22,
    domain_counts=24,
    domain_name=None,
    domain_mask=None,
)
_PATCHES = _Form(
    cpu_type=83,
    domain_type=84,
    cpu_number=64,
    cpu_version=68,
    cpu_counts=16,
    domain_time=16,
    domain_cpu=24,
    domain_version=8,
    domain_number=28,
    domain_counts=48,
    domain_name=30,
    domain_mask=48 + 4 * 45,
)


def parse_sched_stats(content: bytes, label: str) -> Change:
    """Parse a recording or a report that is in memory.

    :param label: name of the file in messages
    :raises InputError: the data are neither, are truncated or damaged, or have fewer than two
        snapshots
    """
    if is_perf_data(content):
        return change_between(*_read_data(content, label), label)
    if not is_sched_stats_report(content[: len(_FIRST_LINE)].decode(errors="replace")):
        raise InputError(
            f"{label}: neither a recording nor a report of perf sched stats; {_ADVICE}"
        )
    return parse_sched_stats_report((line.rstrip("\r\n") for line in stream_lines(content)), label)


def is_perf_data(head: bytes) -> bool:
    """Return whether bytes begin like a perf.data file."""
    return head.startswith((MAGIC, BIG_ENDIAN_MAGIC))


def read_sched_stats(path: Path, label: str) -> tuple[Snapshot, Snapshot]:
    """Return the first and the last snapshot of a file.

    :param label: name of the file in messages
    :raises InputError: the file has fewer than two snapshots, is truncated, damaged or too large
    :raises OSError: the file cannot be read
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        if not HEADER_BYTES <= size <= _LARGEST_BYTES:
            raise InputError(
                f"{label}: invalid size of {size} bytes (expected {HEADER_BYTES} to "
                f"{_LARGEST_BYTES}); {_ADVICE}"
            )
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read_data(data, label)


def _read_data(data: Buffer, label: str) -> tuple[Snapshot, Snapshot]:
    try:
        return _DataReading(data, label).snapshots()
    except BadPerfData as error:
        raise InputError(str(error)) from None


class _Moment:
    """The rows of one snapshot."""

    def __init__(self) -> None:
        self.version: int | None = None
        self.cpus: dict[int, Sequence[int]] = {}
        self.domains: dict[Domain, Sequence[int]] = {}


class _DataReading:
    """Parser of one perf.data file."""

    def __init__(self, data: Buffer, label: str) -> None:
        self.data = data
        self.label = label
        self.header = read_header(data, label, fewest_events=0)
        self.order = self.header.order
        if self.header.cut:
            raise InputError(f"{label}: truncated (perf did not exit properly); {_ADVICE}")
        self.moments: dict[int, _Moment] = {}

    def snapshots(self) -> tuple[Snapshot, Snapshot]:
        upstream = self._domains_of_header()
        for kind, _, start, end in records(self.data, self.header, self.label):
            form = _UPSTREAM if kind in (_UPSTREAM.cpu_type, _UPSTREAM.domain_type) else _PATCHES
            if form is _PATCHES and self.header.compressed:
                continue
            if kind == form.cpu_type:
                self._take_cpu(form, start, end)
            elif kind == form.domain_type:
                self._take_domain(form, start, end, upstream)
        if (count := len(self.moments)) < 2:  # noqa: PLR2004 # before and after
            raise InputError(
                f"{self.label}: {'1 schedstat snapshot' if count else 'no schedstat snapshots'} "
                f"(expected 2); {_ADVICE}"
            )
        times = list(self.moments)
        return self._snapshot(times[0]), self._snapshot(times[-1])

    def _number(self, start: int, end: int, offset: int, code: str) -> int:
        what = struct.Struct(self.order + code)
        cursor = Cursor(self.data, self.order, start + offset, end, self.label)
        return int(what.unpack_from(self.data, cursor.skip(what.size))[0])

    def _take_cpu(self, form: _Form, start: int, end: int) -> None:
        moment = self._moment(start, end, 8, form.cpu_version)
        cpu = self._number(start, end, form.cpu_number, "I")
        if cpu >= MOST_CPUS or cpu in moment.cpus:
            raise InputError(f"{self.label}: {_bad_cpu(cpu)}; {_ADVICE}")
        columns = LAYOUTS[moment.version or 0].cpu
        moment.cpus[cpu] = self._counts(start + form.cpu_counts, end, columns)

    def _take_domain(
        self, form: _Form, start: int, end: int, described: Mapping[tuple[int, int], Domain]
    ) -> None:
        moment = self._moment(start, end, form.domain_time, form.domain_version)
        cpu = self._number(start, end, form.domain_cpu, "I")
        number = self._number(start, end, form.domain_number, "H")
        domain = described.get((cpu, number), Domain(cpu=cpu, number=number, name=None, span=None))
        if form.domain_name is not None and form.domain_mask is not None:
            name = text_until_nul(self._bytes(start + form.domain_name, end, _NAME_BYTES))
            span = self._span(start, end, form.domain_mask)
            domain = Domain(cpu=cpu, number=number, name=name or None, span=span)
        if domain in moment.domains or len(moment.domains) >= MOST_DOMAINS:
            raise InputError(f"{self.label}: duplicate domain{number} of cpu{cpu}; {_ADVICE}")
        columns = LAYOUTS[moment.version or 0].domain
        moment.domains[domain] = self._counts(start + form.domain_counts, end, columns)

    def _moment(self, start: int, end: int, time: int, version: int) -> _Moment:
        moment = self.moments.setdefault(self._number(start, end, time, "Q"), _Moment())
        layout_version = self._number(start, end, version, "H")
        if layout_version not in LAYOUTS:
            raise InputError(
                f"{self.label}: unsupported schedstat version {layout_version} (supported: "
                f"{known_versions()}); use a newer schedperf or another kernel"
            )
        if moment.version not in (None, layout_version):
            raise InputError(
                f"{self.label}: snapshot contains schedstat versions {moment.version} and "
                f"{layout_version} (expected one version); {_ADVICE}"
            )
        moment.version = layout_version
        return moment

    def _bytes(self, start: int, end: int, count: int) -> bytes:
        at = Cursor(self.data, self.order, start, end, self.label).skip(count)
        return bytes(self.data[at : at + count])

    def _span(self, start: int, end: int, offset: int) -> int:
        # Bit n of the mask's byte m is CPU 8 m + n, in either byte order.
        count = self._number(start, end, offset, "H")
        if count > MOST_CPUS:
            raise InputError(
                f"{self.label}: domain with {count} CPUs (expected at most {MOST_CPUS}); {_ADVICE}"
            )
        mask = self._bytes(start + offset + 2, end, -(-count // 8))
        return int.from_bytes(mask, "little")

    def _counts(self, start: int, end: int, columns: Sequence[Column]) -> Sequence[int]:
        # Fields of unsigned long are widened to 64 bits.
        codes = "".join("I" if FIELDS[column.field].bits == 32 else "Q" for column in columns)  # noqa: PLR2004 # a width
        what = struct.Struct(self.order + codes)
        cursor = Cursor(self.data, self.order, start, end, self.label)
        return what.unpack_from(self.data, cursor.skip(what.size))

    def _snapshot(self, time: int) -> Snapshot:
        moment = self.moments[time]
        refuse_missing_cpus(list(moment.cpus), moment.domains, self.label)
        if not moment.cpus:
            raise InputError(f"{self.label}: snapshot without CPU counters; {_ADVICE}")
        return make_snapshot(
            LAYOUTS[moment.version or 0],
            time,
            cpus=list(moment.cpus),
            cpu_rows=list(moment.cpus.values()),
            domains=list(moment.domains),
            domain_rows=list(moment.domains.values()),
        )

    def _domains_of_header(self) -> dict[tuple[int, int], Domain]:
        if _CPU_DOMAIN_INFO not in self.header.features:
            return {}
        index = self.header.features.index(_CPU_DOMAIN_INFO)
        cursor = open_section(self.data, self.order, self.header.end, index, self.label)
        version, _ = cursor.u32(), cursor.u32()
        described: dict[tuple[int, int], Domain] = {}
        while cursor.offset < cursor.end:
            cpu, domains = cursor.u32(), cursor.u32()
            for _ in range(domains):
                number = cursor.u32()
                name = cursor.text() if version >= 17 else None  # noqa: PLR2004 # a version
                span = self._mask(cursor.text())
                cursor.text()  # The same CPUs as a list.
                described[cpu, number] = Domain(
                    cpu=cpu, number=number, name=name or None, span=span
                )
        return described

    def _mask(self, text: str) -> int:
        digits = text.replace(",", "")
        if len(digits) > MOST_CPUS // 4 or not all(digit in "0123456789abcdef" for digit in digits):
            raise InputError(
                f"{self.label}: invalid CPU mask {text[:SHOWN]!r} "
                f"(expected at most {MOST_CPUS // 4} hexadecimal digits, e.g. 0f); {_ADVICE}"
            )
        return int(digits or "0", 16)
