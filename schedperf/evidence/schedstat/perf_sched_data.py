"""The records of ``perf sched stats record``: two snapshots of /proc/schedstat in a perf.data file.

Two forms exist. Upstream writes records 85 and 86, and the domains' names and CPUs in a header
section. The patches that went around before write 83 and 84, which upstream gave to others
meanwhile: 83 is compressed data where the header says that anything is compressed.
Structures: tools/lib/perf/include/perf/event.h of both.
"""

import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedperf.evidence.schedstat.capture import (
    MOST_CPUS,
    MOST_DOMAINS,
    Domain,
    Snapshot,
    make_snapshot,
    refuse_missing_cpus,
)
from schedperf.evidence.schedstat.fields import FIELDS, LAYOUTS, Column, known_versions
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

CPU_DOMAIN_INFO = 32
# A record has at most 64 kB, and a machine at most so many of them.
LARGEST_BYTES = 1 << 30
ADVICE = "record it again with perf sched stats record"
NAME_BYTES = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class _Form:
    # Numbers of the records, and offsets in them. Counts of a union of all versions are followed
    # by the number of CPUs and their mask where the record has one.
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


UPSTREAM = _Form(
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
PATCHES = _Form(
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


def is_perf_data(head: bytes) -> bool:
    """Say whether bytes begin as a perf.data file does."""
    return head.startswith((MAGIC, BIG_ENDIAN_MAGIC))


def read_sched_stats(path: Path, label: str) -> tuple[Snapshot, Snapshot]:
    """Return the first and the last snapshot of a file.

    :param label: of the file, for messages
    :raises InputError: it has no two snapshots, is cut off or damaged
    :raises OSError: it cannot be read
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        if not HEADER_BYTES <= size <= LARGEST_BYTES:
            raise InputError(f"{label}: {size} bytes are no recording of schedstat; {ADVICE}")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _Reading(data, label).snapshots()
            except BadPerfData as error:
                raise InputError(str(error)) from None


class _Moment:
    """The rows of one snapshot."""

    def __init__(self) -> None:
        self.version: int | None = None
        self.cpus: dict[int, Sequence[int]] = {}
        self.domains: dict[Domain, Sequence[int]] = {}


class _Reading:
    """One file: its header's places, then its records."""

    def __init__(self, data: Buffer, label: str) -> None:
        self.data = data
        self.label = label
        self.header = read_header(data, label, fewest_events=0)
        self.order = self.header.order
        if self.header.cut:
            raise InputError(f"{label}: cut off: perf did not end properly; {ADVICE}")
        self.moments: dict[int, _Moment] = {}

    def snapshots(self) -> tuple[Snapshot, Snapshot]:
        upstream = self._domains_of_header()
        for kind, _, start, end in records(self.data, self.header, self.label):
            form = UPSTREAM if kind in (UPSTREAM.cpu_type, UPSTREAM.domain_type) else PATCHES
            if form is PATCHES and self.header.compressed:
                continue
            if kind == form.cpu_type:
                self._take_cpu(form, start, end)
            elif kind == form.domain_type:
                self._take_domain(form, start, end, upstream)
        if len(self.moments) < 2:  # noqa: PLR2004 # before and after
            raise InputError(
                f"{self.label}: has {len(self.moments)} snapshots of schedstat, not two; {ADVICE}"
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
            raise InputError(f"{self.label}: a second cpu{cpu}, or of too many; {ADVICE}")
        columns = LAYOUTS[moment.version or 0].cpu
        moment.cpus[cpu] = self._counts(start + form.cpu_counts, end, columns)

    def _take_domain(
        self, form: _Form, start: int, end: int, known: Mapping[tuple[int, int], Domain]
    ) -> None:
        moment = self._moment(start, end, form.domain_time, form.domain_version)
        cpu = self._number(start, end, form.domain_cpu, "I")
        number = self._number(start, end, form.domain_number, "H")
        domain = known.get((cpu, number), Domain(cpu=cpu, number=number, name=None, span=None))
        if form.domain_name is not None and form.domain_mask is not None:
            name = text_until_nul(self._bytes(start + form.domain_name, end, NAME_BYTES))
            span = self._span(start, end, form.domain_mask)
            domain = Domain(cpu=cpu, number=number, name=name or None, span=span)
        if domain in moment.domains or len(moment.domains) >= MOST_DOMAINS:
            raise InputError(f"{self.label}: domain{number} of cpu{cpu} twice; {ADVICE}")
        columns = LAYOUTS[moment.version or 0].domain
        moment.domains[domain] = self._counts(start + form.domain_counts, end, columns)

    def _moment(self, start: int, end: int, time: int, version: int) -> _Moment:
        moment = self.moments.setdefault(self._number(start, end, time, "Q"), _Moment())
        found = self._number(start, end, version, "H")
        if found not in LAYOUTS:
            raise InputError(f"{self.label}: is version {found}; {known_versions()} can be read")
        if moment.version not in (None, found):
            raise InputError(f"{self.label}: versions {moment.version} and {found}; {ADVICE}")
        moment.version = found
        return moment

    def _bytes(self, start: int, end: int, count: int) -> bytes:
        at = Cursor(self.data, self.order, start, end, self.label).skip(count)
        return bytes(self.data[at : at + count])

    def _span(self, start: int, end: int, offset: int) -> int:
        # Bit n of the mask's byte m is CPU 8 m + n, in either byte order.
        count = self._number(start, end, offset, "H")
        if count > MOST_CPUS:
            raise InputError(f"{self.label}: a domain of {count} CPUs; {ADVICE}")
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
            raise InputError(f"{self.label}: a snapshot without CPUs; {ADVICE}")
        return make_snapshot(
            LAYOUTS[moment.version or 0],
            time,
            cpus=list(moment.cpus),
            cpu_rows=list(moment.cpus.values()),
            domains=list(moment.domains),
            domain_rows=list(moment.domains.values()),
        )

    def _domains_of_header(self) -> dict[tuple[int, int], Domain]:
        if CPU_DOMAIN_INFO not in self.header.features:
            return {}
        place = self.header.features.index(CPU_DOMAIN_INFO)
        cursor = open_section(self.data, self.order, self.header.end, place, self.label)
        version, _ = cursor.u32(), cursor.u32()
        known: dict[tuple[int, int], Domain] = {}
        while cursor.offset < cursor.end:
            cpu, domains = cursor.u32(), cursor.u32()
            for _ in range(domains):
                number = cursor.u32()
                name = cursor.text() if version >= 17 else None  # noqa: PLR2004 # a version
                span = self._mask(cursor.text())
                cursor.text()  # The same CPUs as a list.
                known[cpu, number] = Domain(cpu=cpu, number=number, name=name or None, span=span)
        return known

    def _mask(self, text: str) -> int:
        digits = text.replace(",", "")
        if len(digits) > MOST_CPUS // 4 or not all(one in "0123456789abcdef" for one in digits):
            raise InputError(f"{self.label}: a damaged mask of CPUs; {ADVICE}")
        return int(digits or "0", 16)
