# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the entries of an ELF file's procedure linkage table (PLT), which has no symbols.

An entry jumps to the address in a slot of the global offset table; a relocation of the slot names
the function. perf names the entry of the function ``read`` as ``read@plt``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

X86_64, AARCH64 = 62, 183
# Sections with entries; .plt.sec has them where .plt only has lazy stubs (IBT).
PLT_SECTIONS = (b".plt", b".plt.sec", b".plt.got")
_X86_ENTRY_BYTES = 16
# jmp *offset(%rip), with the offset in the last four bytes.
_X86_JUMP, _X86_JUMP_BYTES = b"\xff\x25", 6
# adrp x16, page; ldr x17, [x16, #offset]; bti c.
_ADRP, _ADRP_MASK = 0x90000010, 0x9F00001F
_LDR, _LDR_MASK = 0xF9400211, 0xFFC003FF
_BTI_C = 0xD503245F
_PAGE = 4096
_ADDRESS_MASK = (1 << 64) - 1


class PltEntry(NamedTuple):
    """One entry of the table.

    :param address: address of its first instruction
    :param size: size in bytes
    :param slot: address of the slot of the global offset table
    """

    address: int
    size: int
    slot: int


def plt_entries(machine: int, code: bytes, address: int, entry_bytes: int) -> Iterator[PltEntry]:
    """Yield the entries of a section, and its header if it has one.

    Callers recognise the header by its slot, which has no relocation.

    :param machine: e_machine; nothing is yielded unless it is x86-64 or arm64
    :param code: contents of the section
    :param address: address of the section
    :param entry_bytes: size of an entry as the section header has it; 0 if unknown
    """
    if machine == X86_64:
        yield from _x86_entries(code, address, entry_bytes or _X86_ENTRY_BYTES)
    elif machine == AARCH64:
        yield from _arm_entries(code, address)


def _x86_entries(code: bytes, address: int, entry_bytes: int) -> Iterator[PltEntry]:
    for start in range(0, len(code) - _X86_JUMP_BYTES + 1, entry_bytes):
        jump = code.find(_X86_JUMP, start, start + entry_bytes)
        end = jump + _X86_JUMP_BYTES
        if jump >= 0 and end <= len(code):
            (offset,) = struct.unpack_from("<i", code, end - 4)
            slot = (address + end + offset) & _ADDRESS_MASK
            yield PltEntry(address + start, entry_bytes, slot)


def _arm_entries(code: bytes, address: int) -> Iterator[PltEntry]:
    words = struct.unpack_from(f"<{len(code) // 4}I", code)
    starts = []
    for index, (first, second) in enumerate(zip(words, words[1:])):
        if first & _ADRP_MASK == _ADRP and second & _LDR_MASK == _LDR:
            pages = (first >> 5 & 0x7FFFF) << 2 | first >> 29 & 3
            pages -= (pages & 1 << 20) << 1
            page = (address + 4 * index) // _PAGE * _PAGE + pages * _PAGE
            slot = (page + 8 * (second >> 10 & 0xFFF)) & _ADDRESS_MASK
            has_bti = index > 0 and words[index - 1] == _BTI_C
            starts.append((index - has_bti, slot))
    ends = [start for start, _ in starts[1:]] + [len(words)]
    for (start, slot), end in zip(starts, ends):
        yield PltEntry(address + 4 * start, 4 * (end - start), slot)
