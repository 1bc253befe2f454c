# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the symbol table that a kernel image contains for /proc/kallsyms.

A stripped kernel has its symbols in .rodata: names compressed with 256 tokens, and 32-bit offsets.
None of the arrays has a symbol of its own, so the table of tokens is found by the ten tokens of the
digits, and the other arrays by their order:

* up to 6.4: offsets, relative base, number of symbols, names, markers, an index by name (since 6.2,
  and in 6.1 of Debian), tokens, token index
* since 6.5: number of symbols, names, markers, tokens, token index, offsets, relative base

scripts/kallsyms.c of the kernel writes them. Only little-endian 64-bit kernels with
CONFIG_KALLSYMS_BASE_RELATIVE can be read; all of Debian's for amd64 are such kernels.
"""

import struct
from array import array
from collections.abc import Iterator
from itertools import accumulate

import numpy as np

# Tokens of the digits, in the order of their codes.
_DIGITS = b"".join(bytes((digit, 0)) for digit in b"0123456789")
_TOKENS = 256
# The kernel records the start of every 256th name.
_NAMES_PER_MARKER = 256
# Bytes of 256 names, each of which has at least two: its length and one token.
_LEAST_STEP, _LARGEST_STEP = 2 * _NAMES_PER_MARKER, 64 * _NAMES_PER_MARKER
# The length of a name of 128 or more bytes takes two bytes (since 6.1).
_LONG = 0x80
_ALIGNMENT = 8
_WORD, _DOUBLE = 4, 8
_ADDRESSES = 1 << 64
# Lowest link address of 64-bit kernels.
_FIRST_ADDRESS = 0xFFFF_8000_0000_0000
_MOST_SYMBOLS = 2_000_000
# Bytes between two arrays: alignment only.
_MOST_GAP = 16


class DamagedImageError(Exception):
    """The image has no BTF, or no tables of /proc/kallsyms, or these have an unknown form."""


def read_symbols(rodata: bytes) -> list[tuple[int, str, str]]:
    """Return address, letter (type as in nm) and name of every symbol, sorted by address.

    :param rodata: the image, or its section .rodata
    :raises DamagedImageError: the tables are not found, or contradict each other
    """
    tokens_at, index_at, tokens = _find_tokens(rodata)
    count, names_at, markers_at = _find_names(rodata, tokens_at)
    names = list(_names(rodata, names_at, markers_at, count, tokens))
    behind = index_at + 2 * _TOKENS
    count_at = names_at - _DOUBLE if names_at % _ALIGNMENT == 0 else names_at - _WORD
    addresses = _addresses_behind(rodata, behind, count) or _addresses_before(
        rodata, count_at, count
    )
    if addresses is None:
        raise DamagedImageError("kallsyms: no offsets beside the names")
    return sorted(
        (address, name[0], name[1:]) for address, name in zip(addresses, names, strict=True)
    )


def _find_tokens(data: bytes) -> tuple[int, int, list[bytes]]:
    # The index behind the tokens tells where the first one starts: a token of the digits may occur
    # elsewhere, and what is in front of the first one need not end with a zero.
    digits_at = data.find(_DIGITS)
    while digits_at >= 0:
        end = digits_at
        for _ in range(_TOKENS - ord("0")):
            end = data.find(b"\0", end) + 1
        for index_at in (end + -end % _ALIGNMENT, end + -end % _WORD):
            index = array("H", data[index_at : index_at + 2 * _TOKENS])
            start = digits_at - index[ord("0")]
            tokens = data[max(start, 0) : end - 1].split(b"\0")
            starts = accumulate((len(token) + 1 for token in tokens[:-1]), initial=0)
            if list(starts) == index.tolist():
                return start, index_at, tokens
        digits_at = data.find(_DIGITS, digits_at + 1)
    raise DamagedImageError("kallsyms: no table of tokens")


def _find_names(data: bytes, tokens_at: int) -> tuple[int, int, int]:
    # The markers are the longest ascending run of words in front of the tokens that begins at 0.
    words = np.frombuffer(data[: tokens_at // _WORD * _WORD], "<u4").astype(np.int64)
    steps = np.diff(words)
    is_step = (steps >= _LEAST_STEP) & (steps <= _LARGEST_STEP)
    borders = np.flatnonzero(np.diff(np.concatenate(([False], is_step, [False]))))
    starts, ends = borders[::2], borders[1::2]
    lengths = np.where(words[starts] == 0, ends - starts, 0)
    if not lengths.any():
        raise DamagedImageError("kallsyms: no markers")
    longest = int(lengths.argmax())
    markers_at = int(starts[longest]) * _WORD
    last, most = int(words[ends[longest]]), (int(lengths[longest]) + 1) * _NAMES_PER_MARKER
    # The number of symbols precedes the names, and gives the number of markers.
    for position in range((markers_at - last) // _WORD - 1, 0, -1):
        if most - _NAMES_PER_MARKER < words[position] <= most:
            count, count_at = int(words[position]), position * _WORD
            for names_at in (count_at + _DOUBLE, count_at + _WORD):
                if _ends_at(data, names_at, markers_at, count, last):
                    return count, names_at, markers_at
        if markers_at - last - position * _WORD > _LARGEST_STEP:
            break
    raise DamagedImageError("kallsyms: no number of symbols")


def _ends_at(data: bytes, names_at: int, markers_at: int, count: int, last: int) -> bool:
    # Whether exactly ``count`` names lie between ``names_at`` and the markers.
    position, marked = names_at, count - count % _NAMES_PER_MARKER
    for number in range(count):
        if number == marked and position - names_at != last:
            return False
        length, position = _length(data, position)
        position += length
        if position > markers_at:
            return False
    return markers_at - position < _MOST_GAP


def _length(data: bytes, position: int) -> tuple[int, int]:
    length = data[position]
    if length & _LONG:
        return length & ~_LONG | data[position + 1] << 7, position + 2
    return length, position + 1


def _names(
    data: bytes, names_at: int, markers_at: int, count: int, tokens: list[bytes]
) -> Iterator[str]:
    position = names_at
    for _ in range(count):
        length, position = _length(data, position)
        codes = data[position : position + length]
        position += length
        yield b"".join([tokens[code] for code in codes]).decode("utf-8", "replace")
    if position > markers_at:
        raise DamagedImageError("kallsyms: names end after the markers")


def _addresses_behind(data: bytes, start: int, count: int) -> list[int] | None:
    # Since 6.5: offsets, then the relative base.
    base_at = start + _WORD * count
    base_at += -base_at % _DOUBLE
    return _addresses(data, start, count, base_at)


def _addresses_before(data: bytes, count_at: int, count: int) -> list[int] | None:
    # Up to 6.4: offsets, relative base, number of symbols.
    base_at = count_at - _DOUBLE
    start = base_at - _WORD * count
    return _addresses(data, start - start % _DOUBLE, count, base_at)


def _addresses(data: bytes, start: int, count: int, base_at: int) -> list[int] | None:
    if start < 0 or base_at + _DOUBLE > len(data):
        return None
    (base,) = struct.unpack_from("<Q", data, base_at)
    if not _FIRST_ADDRESS <= base < _ADDRESSES or count > _MOST_SYMBOLS:
        return None
    offsets = array("i", data[start : start + _WORD * count])
    if min(offsets) < 0:
        # CONFIG_KALLSYMS_ABSOLUTE_PERCPU: from 0 on absolute, below 0 relative to the base.
        return [offset if offset >= 0 else base - 1 - offset for offset in offsets]
    return [base + (offset & 0xFFFFFFFF) for offset in offsets]
