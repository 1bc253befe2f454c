# SPDX-License-Identifier: GPL-2.0-or-later
"""Locate the records of a perf.data by a walk over their headers.

Only its header gives the size of a record, so the scan is sequential. Over short spans it reads
only the 16-bit sizes, in plain Python; NumPy then sorts the records of each window by type.

Over long spans it walks in parallel *lanes* of 16 KiB. A word that looks like the header of a
sample and is followed by another header nearly always is one, so each lane starts at such a word,
and all lanes advance together, with one NumPy operation per step. The records of a lane are used
only if the previous lane ends exactly at its start, so a wrong guess cannot change the result.
"""

import functools
import struct
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from schedperf.inputs.perf_data._bytes import Bytes, release, words_of
from schedperf_collectors.perf_header import (
    RECORD_AUXTRACE,
    RECORD_HEADER_BYTES,
    RECORD_SAMPLE,
    RECORD_TRACING_DATA,
    Cursor,
    payload_bytes,
)

RECORD_COMPRESSED, RECORD_COMPRESSED2 = 81, 83

# Samples are counted a window at a time, so that memory stays bounded.
WINDOW_BYTES = 8 << 20
# Bytes to walk before checking for records whose size is not in the header. Doubled after each
# span without them.
_LEAST_SPAN = 4 << 10
# For longer spans, walking in lanes is faster.
_LANES_SPAN = 256 << 10
# Windows that are walked over at once: the records of a longer span need fewer steps each.
_WINDOWS_OF_SPAN = 2
# A record with a longer payload ends the window.
_MOST_SPANNED_BYTES = 1 << 16
# Records to step over one by one after a record that the fast walk cannot step over.
_STEPS = 256

# PERF_RECORD_* of include/uapi/linux/perf_event.h and of tools/lib/perf/include/perf/event.h,
# up to CALLCHAIN_DEFERRED and up to SCHEDSTAT_DOMAIN.
_KNOWN = frozenset(range(1, 23)) | frozenset(range(64, 87))
# The records that are read, in addition to samples: MMAP, LOST, COMM, EXIT, THROTTLE, FORK, MMAP2,
# LOST_SAMPLES, KSYMBOL, HEADER_ATTR, EVENT_UPDATE, HEADER_FEATURE and the compressed ones.
_OF_USE = frozenset(
    (1, 2, 3, 4, 5, 7, 10, 13, 17, 64, 67, 78, 80, RECORD_COMPRESSED, RECORD_COMPRESSED2)
)
_USE_TABLE = np.zeros(256, bool)
_USE_TABLE[sorted(_OF_USE)] = True
_Words = NDArray[np.uint64]
_Indices = NDArray[np.int64]

# Words per lane. Shorter lanes need more guesses, longer lanes more steps.
_LANE_WORDS = 2048
# Words to search for a sample: most samples are shorter.
_GUESS_WORDS = 128

# By byte order: the shift of a header's size, and the mask and value of a sample's header (its
# type, 0 in the bits of ``misc`` that samples do not use, and a size that is a multiple of 8).
_SIZE_SHIFT = {"<": 48, ">": 0}
_SAMPLE_MASK = {"<": 0x0007_0FF8_FFFF_FFFF, ">": 0xFFFF_FFFF_0FF8_0007}
_SAMPLE = {"<": RECORD_SAMPLE, ">": RECORD_SAMPLE << 32}
_KIND_SHIFT = {"<": 0, ">": 32}
# Larger than all record types.
_KIND_END = 1 << 8
# Enough for a lane of normal length, because records have two words or more. Without the limit a
# long lane of small records would allocate that many steps for all lanes.
_MOST_STEPS = _LANE_WORDS // 2


class Stream(Struct, frozen=True, kw_only=True):
    """A sequence of records.

    :param start: offset of the first record in ``data``
    :param end: offset after the last record in ``data``
    :param order: byte order, "<" or ">"
    :param base: added to offsets in ``data``, so that offsets in different streams differ
    :param cut: whether the end may be missing, so that the last record may be truncated
    :param zstd: whether records of type 83 are compressed data, not of ``perf sched stats``
    """

    data: Bytes
    start: int
    end: int
    order: str
    label: str
    base: int
    cut: bool
    zstd: bool


class Window(Struct, frozen=True, kw_only=True):
    """Samples of a contiguous part of a stream.

    :param start: offset in the stream
    :param offsets: offsets of the samples from ``start``; shape (samples,)
    """

    stream: Stream
    start: int
    offsets: NDArray[np.uint32]


@dataclass(kw_only=True, slots=True)
class Walked:
    """The records of a stream.

    :param windows: the samples
    :param others: offsets in the stream of the other records that are read
    :param skipped: number of records of each unknown type
    :param notes: where and why reading stopped before the end
    """

    windows: list[Window] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    skipped: Counter[int] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def walk(stream: Stream) -> Walked:
    """Locate all records of a stream, up to its end or the first damage."""
    walker = _Walker(stream)
    walker.run()
    return walker.walked


@functools.cache
def _half_sizes(order: str) -> list[int | None]:
    # Half a record's size, by its 16 bits in this machine's byte order; None for sizes where the
    # fast walk must stop: impossible ones, and those that break the alignment.
    sizes = np.arange(RECORD_HEADER_BYTES, 1 << 16, 8, dtype=np.uint16)
    read = sizes.astype(f"{order}u2").view(np.uint16)
    halves: list[int | None] = [None] * (1 << 16)
    for size, index in zip(sizes.tolist(), read.tolist(), strict=True):
        halves[index] = size >> 1
    return halves


def _steps(halves: memoryview, half_sizes: list[int | None]) -> list[int]:
    # Half the sizes of the records, up to the first one that the fast walk cannot step over.
    steps: list[int] = []
    append = steps.append
    index = RECORD_HEADER_BYTES // 2 - 1
    try:
        while True:
            step = half_sizes[halves[index]]
            index += step  # type: ignore[operator] # None ends the scan.
            append(step)  # type: ignore[arg-type] # It is not None here.
    except (IndexError, TypeError):
        return steps


class _Walker:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.walked = Walked()
        self.half_sizes = _half_sizes(stream.order)
        self.header = struct.Struct(f"{stream.order}IHH")
        self.special = {RECORD_TRACING_DATA, RECORD_AUXTRACE}
        if stream.zstd:
            self.special.add(RECORD_COMPRESSED2)
        self.window_start = stream.start
        self.pieces: list[NDArray[np.int64]] = []

    def run(self) -> None:
        stream = self.stream
        offset, span = stream.start, _LEAST_SPAN
        while offset + RECORD_HEADER_BYTES <= stream.end:
            stop = min(offset + span, stream.end)
            reached = self.look_back(offset, self.bounds(offset, stop))
            span = min(2 * span, _WINDOWS_OF_SPAN * WINDOW_BYTES)
            if reached + RECORD_HEADER_BYTES <= stop:
                span = _LEAST_SPAN
                reached = self.step(reached, _STEPS if reached - offset < _LEAST_SPAN else 1)
                if reached < 0:
                    break
            offset = reached
            if offset - self.window_start >= WINDOW_BYTES:
                self.close_window(offset)
        else:
            if offset < stream.end:
                self.stop_early(offset, is_impossible=False)
        self.close_window(stream.end)

    def bounds(self, offset: int, stop: int) -> NDArray[np.int64]:
        """Walk over the records of a span; return their bounds, relative to ``offset``."""
        stream = self.stream
        if stop - offset >= _LANES_SPAN:
            indices = walk_lanes(words_of(stream.data, stream.order, offset, stop), stream.order)
            if indices is not None:
                return indices * 8
        view = memoryview(stream.data)
        halves = view[offset : stop - (stop - offset) % 2].cast("H")
        steps = _steps(halves, self.half_sizes)
        return np.cumsum(np.fromiter([0, *steps], np.int64, len(steps) + 1)) * 2

    def look_back(self, offset: int, bounds: NDArray[np.int64]) -> int:
        """Classify the records between bounds; return the offset of the first record after them.

        It stops before a record whose header does not give its whole size.
        """
        stream = self.stream
        if offset + bounds[-1] > stream.end:
            bounds = bounds[:-1]
        starts, ends = bounds[:-1], bounds[1:]
        if not len(ends):
            return offset
        headers = words_of(stream.data, stream.order, offset, stream.end)[starts >> 3]
        kinds = headers & 0xFFFFFFFF if stream.order == "<" else headers >> np.uint64(32)
        is_other = kinds != RECORD_SAMPLE
        if is_other.any():
            others = np.flatnonzero(is_other)
            special = others[np.isin(kinds[others], list(self.special))]
            if len(special):
                first = int(special[0])
                others, is_other = others[others < first], is_other[:first]
                starts, ends = starts[: first + 1], ends[:first]
            self.take_others(kinds[others], starts[others] + offset)
        samples = starts[: len(ends)][~is_other]
        if len(samples):
            self.pieces.append(samples + offset)
        return offset + (int(ends[-1]) if len(ends) else 0)

    def take_others(self, kinds: NDArray[np.uint64], offsets: NDArray[np.int64]) -> None:
        of_use = _USE_TABLE[np.minimum(kinds, 255)]
        self.walked.others += offsets[of_use].tolist()
        unknown, counts = np.unique(kinds[~of_use], return_counts=True)
        for kind, count in zip(unknown.tolist(), counts.tolist(), strict=True):
            if kind not in _KNOWN:
                self.walked.skipped[kind] += count

    def step(self, offset: int, steps: int) -> int:
        """Step over up to ``steps`` records one by one; return the offset of the next one.

        Return -1 if the next record is truncated or has an invalid size, so that reading must stop.
        """
        stream = self.stream
        samples = []
        for _ in range(steps):
            if offset + RECORD_HEADER_BYTES > stream.end:
                break
            kind, _, size = self.header.unpack_from(stream.data, offset)
            stop = self.end_of_record(kind, offset, size)
            if stop > stream.end or stop < offset + RECORD_HEADER_BYTES:
                self.stop_early(offset, is_impossible=stop <= stream.end)
                offset = -1
                break
            if kind == RECORD_SAMPLE:
                samples.append(offset)
            elif stop - offset > _MOST_SPANNED_BYTES:
                self.keep(samples)
                samples = []
                self.close_window(stop)
            if kind in _OF_USE:
                self.walked.others.append(offset)
            elif kind not in _KNOWN:
                self.walked.skipped[kind] += 1
            offset = stop
        self.keep(samples)
        return offset

    def keep(self, samples: list[int]) -> None:
        if samples:
            self.pieces.append(np.array(samples))

    def end_of_record(self, kind: int, offset: int, size: int) -> int:
        stream, body = self.stream, offset + RECORD_HEADER_BYTES
        if kind == RECORD_COMPRESSED2 and stream.zstd:
            # The header's 16-bit size may have overflowed; perf pads the data to 8 bytes.
            if body + 8 > stream.end:
                return body + 8
            (data_size,) = struct.unpack_from(f"{stream.order}Q", stream.data, body)
            return int(body + 8 + -(-data_size // 8) * 8)
        stop = offset + size
        least = body + (4 if kind == RECORD_TRACING_DATA else 8)
        if kind in self.special and least <= stop <= stream.end:
            stop += payload_bytes(kind, Cursor(stream.data, stream.order, body, stop, stream.label))
        return stop

    def close_window(self, next_start: int) -> None:
        if self.pieces:
            offsets = np.concatenate(self.pieces)
            ends = np.arange(offsets[0] + WINDOW_BYTES, offsets[-1] + 1, WINDOW_BYTES)
            for part in np.split(offsets, np.searchsorted(offsets, ends)):
                if len(part):
                    start = int(part[0])
                    in_window = (part - start).astype(np.uint32)
                    window = Window(stream=self.stream, start=start, offsets=in_window)
                    self.walked.windows.append(window)
            self.pieces = []
        release(self.stream.data, self.window_start, next_start)
        self.window_start = next_start

    def stop_early(self, offset: int, *, is_impossible: bool) -> None:
        """Add a note that reading stops at a record, and why."""
        stream = self.stream
        left = stream.end - offset
        if stream.cut and not is_impossible:
            self.walked.notes.append(f"the last record is truncated to its first {left} bytes")
        else:
            self.walked.notes.append(
                f"the record at offset {offset:#x} has an invalid size; "
                f"the last {left} bytes were skipped"
            )


def walk_lanes(words: _Words, order: str) -> _Indices | None:
    """Walk over consecutive records, in lanes.

    :param words: words of the stream; a record starts at the first
    :param order: byte order of the words, "<" or ">"
    :return: indices of the first words of the records, and of the word where the scan ended: after
        the last word, at a record without a valid size, after a wrong guess, or at the limit of
        steps; None if no lane could be guessed
    """
    entries = _guess(words, order)
    if not len(entries):
        return None
    starts = np.concatenate(([0], entries))
    limits = np.concatenate((entries, [len(words)]))
    indices, exits = _step(words, order, starts, limits)
    (broken,) = np.nonzero(exits[:-1] != entries)
    last = int(broken[0]) if len(broken) else len(exits) - 1
    walked = indices[: last + 1]
    return np.append(walked[walked >= 0], exits[last])


def _sizes(headers: _Words, order: str) -> _Indices:
    # In words; 0 if the size is invalid.
    size = headers >> np.uint64(_SIZE_SHIFT[order]) & np.uint64(0xFFFF)
    in_words = (size >> np.uint64(3)).view(np.int64)
    in_words[size & np.uint64(7) != 0] = 0
    return in_words


def _guess(words: _Words, order: str) -> _Indices:
    lanes = len(words) // _LANE_WORDS
    heads = words[: lanes * _LANE_WORDS].reshape(lanes, _LANE_WORDS)[1:, :_GUESS_WORDS]
    is_sample = heads & np.uint64(_SAMPLE_MASK[order]) == np.uint64(_SAMPLE[order])
    lane, offset = np.nonzero(is_sample)
    indices = (lane + 1) * _LANE_WORDS + offset
    sizes = _sizes(words[indices], order)
    following = indices + sizes
    inside = (sizes > 0) & (following < len(words))
    lane, indices = lane[inside], indices[inside]
    headers = words[following[inside]]
    kinds = headers >> np.uint64(_KIND_SHIFT[order]) & np.uint64(0xFFFFFFFF)
    is_header = (kinds < _KIND_END) & (kinds > 0) & (_sizes(headers, order) > 0)
    _, first = np.unique(lane[is_header], return_index=True)
    guessed: _Indices = indices[is_header][first]
    return guessed


def _step(
    words: _Words, order: str, starts: _Indices, limits: _Indices
) -> tuple[_Indices, _Indices]:
    # First words of the records of each lane, -1 after the last one, shape (lanes, steps); and the
    # end of each lane's walk.
    lane, index = np.arange(len(starts)), starts
    exits = starts.copy()
    rows: list[_Indices] = []
    while len(lane) and len(rows) < _MOST_STEPS:
        sizes = _sizes(words[index], order)
        row = np.full(len(starts), -1)
        row[lane] = np.where(sizes > 0, index, -1)
        rows.append(row)
        index = index + sizes
        exits[lane] = index
        goes_on = (sizes > 0) & (index < limits[lane])
        if not goes_on.all():
            lane, index = lane[goes_on], index[goes_on]
    return np.stack(rows, axis=1), exits
