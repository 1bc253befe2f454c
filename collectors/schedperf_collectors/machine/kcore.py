"""Reading the running kernel's memory by address through /proc/kcore.

/proc/kcore is an ELF core file of 64 bits whose program headers say which
addresses lie where in it (fs/proc/kcore.c). Only a few bytes of it are read.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System, unavailable

KCORE = "/proc/kcore"
ELF_HEADER_BYTES = 64
PROGRAM_HEADER_BYTES = 56
CLASS_64 = 2
ORDERS = {1: "<", 2: ">"}
TYPE_CORE = 4
PT_LOAD = 1
# One region for each stretch of memory, of modules and of the vmemmap; some hundred on the largest
# machines. From 65535 on (PN_XNUM) the number would stand elsewhere.
REGIONS_LIMIT = 0xFFFF


@dataclass(frozen=True)
class _Region:
    address: int
    size: int
    offset: int


class Kcore:
    """The kernel's memory.

    :param system: whose /proc/kcore is read
    :raises Unavailable: the kernel has none, closes it to this user, or it is no such file
    """

    def __init__(self, system: System) -> None:
        try:
            self._file = os.open(system.path(KCORE), os.O_RDONLY)
        except OSError as error:
            raise unavailable(KCORE, error) from error
        try:
            self.order, self._regions = self._read_headers()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes of memory.

        :raises Unavailable: they are not in it
        """
        for region in self._regions:
            start = address - region.address
            if start >= 0 and start + size <= region.size:
                return self._at(region.offset + start, size)
        raise Unavailable(f"{KCORE}: address {address:#x} is in none of its regions")

    def _read_headers(self) -> tuple[str, list[_Region]]:
        header = self._at(0, ELF_HEADER_BYTES)
        order = ORDERS.get(header[5], "")
        if header[:4] != b"\x7fELF" or header[4] != CLASS_64 or not order:
            raise Unavailable(f"{KCORE}: not an ELF file of 64 bits")
        kind, _, _, _, table = struct.unpack_from(f"{order}HHIQQ", header, 16)
        entry_bytes, count = struct.unpack_from(f"{order}HH", header, 54)
        if kind != TYPE_CORE or entry_bytes != PROGRAM_HEADER_BYTES or count == REGIONS_LIMIT:
            raise Unavailable(f"{KCORE}: not an ELF core file with regions")
        entries = self._at(table, entry_bytes * count)
        regions = [
            _Region(address=address, size=size, offset=offset)
            for kind, _, offset, address, _, _, size, _ in struct.iter_unpack(
                f"{order}IIQQQQQQ", entries
            )
            if kind == PT_LOAD
        ]
        return order, regions

    def _at(self, offset: int, size: int) -> bytes:
        try:
            content = os.pread(self._file, size, offset)
        except (OSError, OverflowError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise Unavailable(f"{KCORE}: offset {offset:#x}: {reason}") from error
        if len(content) < size:
            raise Unavailable(f"{KCORE}: ends before offset {offset + size:#x}")
        return content
