# SPDX-License-Identifier: GPL-2.0-or-later
"""View bytes of a perf.data as numbers, at any offset and in either byte order."""

import mmap

import numpy as np
from numpy.typing import NDArray

Bytes = bytes | mmap.mmap


def words_of(data: Bytes, order: str, start: int, end: int) -> NDArray[np.uint64]:
    """Return the complete 64-bit words between two offsets in bytes, without copying.

    :param order: byte order of the data, "<" or ">"
    """
    count = max(0, min(end, len(data)) - start) // 8
    if not count:
        return np.zeros(0, np.uint64)
    return np.frombuffer(data, f"{order}u8", count, start)


def low_half(words: NDArray[np.uint64], order: str) -> NDArray[np.uint64]:
    """Return the first 32-bit number of each word, in file order."""
    return words & np.uint64(0xFFFFFFFF) if order == "<" else words >> np.uint64(32)


def high_half(words: NDArray[np.uint64], order: str) -> NDArray[np.uint64]:
    """Return the second 32-bit number of each word, in file order."""
    return words >> np.uint64(32) if order == "<" else words & np.uint64(0xFFFFFFFF)


def release(data: Bytes, start: int, end: int) -> None:
    """Release the pages of a mapped file between two offsets; do nothing for other data.

    The kernel reads the pages again on the next access.
    """
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        last = min(end, len(data))
        if last > first:
            data.madvise(mmap.MADV_DONTNEED, first, last - first)
