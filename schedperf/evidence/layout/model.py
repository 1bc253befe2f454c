# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the data layout of a kernel, independent of its source.

The per-CPU section, a struct and the kernel's global variables are each a :class:`Unit`: bytes with
named entries, so that the same comparison applies to all of them.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from schedperf.evidence.layout.record import LineBytes, UnitKind
from schedperf.model.text import list_some

# Line sizes that exist: 16 bytes (early Arm) to 4096 (X86_INTERNODE_CACHE_SHIFT=12 of vSMP).
SMALLEST_LINE_BYTES = 16
LARGEST_LINE_BYTES = 4096

# Largest number of entries without a size that a sentence names.
MOST_UNSIZED = 3


class Entry(Struct, frozen=True, kw_only=True):
    """One variable of a section or one field of a struct.

    :param name: for a field, the path from the unit in C notation: ``avg.load_avg``
    :param offset: bytes from the unit's start
    :param size: bytes; None if unknown
    :param bits: for a bit field, its first bit, counted from the unit's start, and number of bits;
        None for other entries
    :param type: in C notation: ``u64``, ``struct sched_avg``; None if unknown
    :param letter: for a variable, nm's letter, e.g. "D" global, "d" static; "" for a field
    :param aliases: other names of the same bytes
    """

    name: str
    offset: int
    size: int | None
    bits: tuple[int, int] | None = None
    type: str | None = None
    letter: str = ""
    aliases: tuple[str, ...] = ()


class Unit(Struct, frozen=True, kw_only=True):
    """The per-CPU section, the global variables, or a struct or union.

    :param name: "percpu", "globals", "struct rq", "union NAME", or a typedef of a struct
    :param size: bytes; None if unknown
    :param alignment: alignment of the unit's start in bytes; None if unknown. BTF has no
        alignments, so that of a struct is inferred from its entries (``is_alignment_inferred``)
    :param entries: by offset; for a struct only the leaf fields, which have no members
    :param groups: first and last byte of each ``__cacheline_group_begin/end`` of a struct, or of
        the hot part of the per-CPU section, by name
    :param sources: the source of names and offsets; a second element is the source of sizes
    :param noise: number of entries left out as noise, by kind
    :param notes: limitations, one sentence each
    """

    name: str
    kind: UnitKind
    size: int | None
    alignment: int | None
    is_alignment_inferred: bool
    entries: tuple[Entry, ...]
    groups: Mapping[str, tuple[int, int]]
    sources: tuple[str, ...]
    noise: Mapping[str, int]
    notes: tuple[str, ...]


class Kernel(Struct, frozen=True, kw_only=True):
    """The layout of one kernel.

    :param label: name in reports
    :param machine: "x86_64", "arm64" …; None if unknown
    :param pointer_bytes: 4 or 8; None if unknown
    :param is_big_endian: None if unknown
    :param build_id: hexadecimal; None if the source has none, e.g. System.map or BTF
    :param units: by name
    :param unknown: reasons for requested but unknown units, by name: "struct rq" to "struct layouts
        need BTF or DWARF, not a symbol table"
    """

    label: str
    machine: str | None
    pointer_bytes: int | None
    is_big_endian: bool | None
    line_bytes: LineBytes
    units: Mapping[str, Unit]
    unknown: Mapping[str, str]
    notes: tuple[str, ...]
    build_id: str | None = None


def describe_unsized(names: Sequence[str]) -> str:
    """Return a clause about entries of unknown size.

    >>> describe_unsized(["wake_up_klogd_work"])
    'the size of wake_up_klogd_work is unknown'
    """
    listed = list_some(names, MOST_UNSIZED)
    return f"the sizes of {listed} are unknown" if names[1:] else f"the size of {listed} is unknown"
