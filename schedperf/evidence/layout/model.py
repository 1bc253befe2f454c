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

# Entries without a size that a sentence spells out.
MOST_UNSIZED = 3


class Entry(Struct, frozen=True, kw_only=True):
    """One variable of a section or one field of a struct.

    :param name: of a field the path from the unit, as C writes it: ``avg.load_avg``
    :param offset: bytes from the unit's start
    :param size: bytes; None where the source knows no sizes
    :param bits: of a bit field its first bit, counted from the unit's start in bits, and how many
    :param type: as C writes it: ``u64``, ``struct sched_avg``; None where unknown
    :param letter: of a variable, nm's: "D" global, "d" static
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
    """Named bytes whose start is aligned to a cache line, or to ``alignment``.

    :param name: "percpu", "struct rq", "globals"
    :param size: bytes; None where unknown
    :param alignment: of the unit's start in bytes; None where it is unknown. BTF has none, so that
        of a struct is inferred from its entries, as ``is_alignment_inferred`` says
    :param entries: by offset; of a struct the leaves: fields that have no fields of their own
    :param groups: the kernel's own ``__cacheline_group_begin/end`` marks: name to first and last
        byte
    :param sources: where names and offsets come from, then where sizes come from
    :param noise: how many entries were left out as noise, by what they are
    :param notes: what weakens it, one sentence each
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

    :param label: how reports call it
    :param machine: "x86_64", "arm64" …; None where the source does not say
    :param pointer_bytes: 4 or 8; None where unknown
    :param is_big_endian: None where unknown
    :param build_id: hexadecimal; None where the source, e.g. System.map or BTF, has none
    :param units: by name
    :param unknown: what was asked for and cannot be seen, name to reason: "struct rq" to
        "struct layouts need BTF or DWARF, not a symbol table"
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


def say_unsized(names: Sequence[str]) -> str:
    """Return the entries of unknown size as text: ``the size of wake_up_klogd_work is unknown``."""
    listed = list_some(names, MOST_UNSIZED)
    return f"the sizes of {listed} are unknown" if names[1:] else f"the size of {listed} is unknown"
