# SPDX-License-Identifier: GPL-2.0-or-later
"""Encode the common elements of perf.data: numbers, strings, record headers, bit-fields."""

import struct

# struct perf_event_header: type, misc, size.
HEADER_BYTES = 8
# perf pads the strings of feature sections to this (NAME_ALIGN of tools/perf/util/header.c).
NAME_ALIGN = 64


def pack(order: str, layout: str, *values: float) -> bytes:
    """Pack numbers without padding between them.

    :param order: byte order, "<" or ">"
    :param layout: format of the module ``struct``, without a byte order
    """
    return struct.pack(order + layout, *values)


def padded(raw: bytes, align: int) -> bytes:
    """Pad with NULs to a multiple of ``align``."""
    return raw + b"\0" * (-len(raw) % align)


def name_bytes(name: str) -> bytes:
    """Return a file or task name as in records: NUL-terminated, padded to 8 bytes."""
    return padded(name.encode() + b"\0", 8)


def text_bytes(order: str, text: str) -> bytes:
    """Return a string as in feature sections: its padded length, then its bytes."""
    raw = padded(text.encode() + b"\0", NAME_ALIGN)
    return pack(order, "I", len(raw)) + raw


def record_bytes(order: str, kind: int, misc: int, body: bytes) -> bytes:
    """Return one record: its header, and its body padded to a multiple of 8 bytes."""
    body = padded(body, 8)
    return pack(order, "IHH", kind, misc, HEADER_BYTES + len(body)) + body


def mirrored(flags: int, *, bits: int = 64) -> int:
    """Reverse the bits of a word: big-endian machines lay out C bit-fields from the highest bit.

    :param bits: size of the word
    """
    return int(f"{flags:0{bits}b}"[::-1], 2)
