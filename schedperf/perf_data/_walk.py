# SPDX-License-Identifier: GPL-2.0-or-later
"""Find where the records of a perf.data are: a walk over their headers and nothing else.

A record only says how long it is, so the walk is one step after the other. Over short
spans it takes as little as it can from each record in plain Python, 16 bits. What it walked over is
looked at with NumPy, a window at a time.

Over long spans it walks in *lanes*: what looks like the header of a sample and is followed by
another header is nearly always one. So every 16 KiB such a place is guessed, all of them are walked
on from together, one NumPy operation a step, and a guess counts only if the walk from the one
before ends exactly there: what is returned is never guessed.
"""

import functools
import struct
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from schedperf.perf_data._bytes import Bytes, release, words_of
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
WINDOW_BYTES = 16 << 20
# How far to walk before looking back for a record whose size is not in its header. What was
# walked without effect is at most as long as what was not, and this.
_LEAST_SPAN = 4 << 10
# From here on stepping from many places at once is faster.
_LANES_SPAN = 256 << 10
# No window spans more bytes than this that are no record, but many a few of them.
_MOST_SPANNED_BYTES = 1 << 16
# After a record that the fast walk cannot step over come more of them, as a rule.
_STEPS = 256

# PERF_RECORD_* of include/uapi/linux/perf_event.h and of tools/lib/perf/include/perf/event.h,
# up to CALLCHAIN_DEFERRED and up to SCHEDSTAT_DOMAIN.
_KNOWN = frozenset(range(1, 23)) | frozenset(range(64, 87))
# The records that are of use here beside samples: MMAP, LOST, COMM, EXIT, THROTTLE, FORK, MMAP2,
# LOST_SAMPLES, KSYMBOL, HEADER_ATTR, EVENT_UPDATE, HEADER_FEATURE and the compressed ones.
_OF_USE = frozenset(
    (1, 2, 3, 4, 5, 7, 10, 13, 17, 64, 67, 78, 80, RECORD_COMPRESSED, RECORD_COMPRESSED2)
)
_USE_TABLE = np.zeros(256, bool)
_USE_TABLE[sorted(_OF_USE)] = True
_Words = NDArray[np.uint64]
_Places = NDArray[np.int64]

# From one guess to the next. Shorter lanes are more guesses, longer ones are more steps.
_LANE_WORDS = 2048
# How far to look for a sample: most are shorter than this, so that one starts in it.
_GUESS_WORDS = 128

# Byte order to the shift of a header's size and what must be in the header of a sample: its type;
# nothing in the bits of ``misc`` that no sample has; a size that is a multiple of 8.
_SIZE_SHIFT = {"<": 48, ">": 0}
_SAMPLE_MASK = {"<": 0x0007_0FF8_FFFF_FFFF, ">": 0xFFFF_FFFF_0FF8_0007}
_SAMPLE = {"<": RECORD_SAMPLE, ">": RECORD_SAMPLE << 32}
_KIND_SHIFT = {"<": 0, ">": 32}
# Above all types of records.
_KIND_END = 1 << 8
# No lane takes more where it is as long as it should be and records have two words or more. One
# long lane of small records would otherwise cost the memory of as many steps of all lanes.
_MOST_STEPS = _LANE_WORDS // 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """Bytes that hold one record after the other.

    :param base: added to offsets, so that those of different streams are different
    :param cut: it is known that the end is missing
    :param zstd: records of type 83 are compressed ones, not those of ``perf sched stats``
    """

    data: Bytes
    start: int
    end: int
    order: str
    label: str
    base: int
    cut: bool
    zstd: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Samples that lie near each other.

    :param start: offset in the stream
    :param offsets: of the samples, from ``start``; shape (samples,)
    """

    stream: Stream
    start: int
    offsets: NDArray[np.uint32]


@dataclass(kw_only=True, slots=True)
class Walked:
    """What a walk found.

    :param others: offsets in the stream of the records of use that are no samples
    :param skipped: how many records of each unknown type
    """

    windows: list[Window] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    skipped: Counter[int] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def walk(stream: Stream) -> Walked:
    """Find all records of a stream, up to its end or to where it is damaged."""
    walker = _Walker(stream)
    walker.run()
    return walker.walked


@functools.cache
def _half_sizes(order: str) -> list[int | None]:
    # Half a record's size by its 16 bits as this machine reads them; None where the fast walk
    # must stop, which costs it nothing: sizes that cannot be, and those that break the alignment.
    sizes = np.arange(RECORD_HEADER_BYTES, 1 << 16, 8, dtype=np.uint16)
    read = sizes.astype(f"{order}u2").view(np.uint16)
    halves: list[int | None] = [None] * (1 << 16)
    for size, index in zip(sizes.tolist(), read.tolist(), strict=True):
        halves[index] = size >> 1
    return halves


def _steps(halves: memoryview, half_sizes: list[int | None]) -> list[int]:
    # Half the sizes of the records from the first on, as far as they can be walked over.
    steps: list[int] = []
    append = steps.append
    place = RECORD_HEADER_BYTES // 2 - 1
    try:
        while True:
            step = half_sizes[halves[place]]
            place += step  # type: ignore[operator] # None ends the walk.
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
            span = min(2 * span, WINDOW_BYTES)
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
        """Walk over the records of a span; return the bounds between them, from ``offset``."""
        stream = self.stream
        if stop - offset >= _LANES_SPAN:
            places = walk_lanes(words_of(stream.data, stream.order, offset, stop), stream.order)
            if places is not None:
                return places * 8
        view = memoryview(stream.data)
        halves = view[offset : stop - (stop - offset) % 2].cast("H")
        steps = _steps(halves, self.half_sizes)
        return np.cumsum(np.fromiter([0, *steps], np.int64, len(steps) + 1)) * 2

    def look_back(self, offset: int, bounds: NDArray[np.int64]) -> int:
        """Sort the records that were walked over, and return where the first other one is."""
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
        """Go over some records one by one; return where the next one is, or -1 at the end."""
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
            # The 16 bits of the header may have overflown; perf pads the data to whole words.
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
            start = int(self.pieces[0][0])
            offsets = (np.concatenate(self.pieces) - start).astype(np.uint32)
            self.walked.windows.append(Window(stream=self.stream, start=start, offsets=offsets))
            self.pieces = []
        release(self.stream.data, self.window_start, next_start)
        self.window_start = next_start

    def stop_early(self, offset: int, *, is_impossible: bool) -> None:
        """Note where the records cannot be read on."""
        stream = self.stream
        left = stream.end - offset
        if stream.cut and not is_impossible:
            self.walked.notes.append(f"the last {left} bytes are not a whole record")
        else:
            self.walked.notes.append(
                f"the record at offset {offset:#x} has an impossible size, "
                f"it and what follows is not read: {left} bytes"
            )


def walk_lanes(words: _Words, order: str) -> _Places | None:
    """Walk over the records that follow each other from the first word on.

    :param order: "<" or ">", of the words
    :return: where they start, and where the walk ended: behind the last word, at a record that
        has no size to step over or is behind a wrong guess, or after as many steps as are taken;
        None where nothing could be guessed
    """
    entries = _guess(words, order)
    if not len(entries):
        return None
    starts = np.concatenate(([0], entries))
    limits = np.concatenate((entries, [len(words)]))
    places, exits = _step(words, order, starts, limits)
    (broken,) = np.nonzero(exits[:-1] != entries)
    last = int(broken[0]) if len(broken) else len(exits) - 1
    walked = places[: last + 1]
    return np.append(walked[walked >= 0], exits[last])


def _sizes(headers: _Words, order: str) -> _Places:
    # In words; 0 where there is no size to step over.
    size = headers >> np.uint64(_SIZE_SHIFT[order]) & np.uint64(0xFFFF)
    in_words = (size >> np.uint64(3)).view(np.int64)
    in_words[size & np.uint64(7) != 0] = 0
    return in_words


def _guess(words: _Words, order: str) -> _Places:
    lanes = len(words) // _LANE_WORDS
    heads = words[: lanes * _LANE_WORDS].reshape(lanes, _LANE_WORDS)[1:, :_GUESS_WORDS]
    is_sample = heads & np.uint64(_SAMPLE_MASK[order]) == np.uint64(_SAMPLE[order])
    lane, offset = np.nonzero(is_sample)
    places = (lane + 1) * _LANE_WORDS + offset
    sizes = _sizes(words[places], order)
    following = places + sizes
    inside = (sizes > 0) & (following < len(words))
    lane, places = lane[inside], places[inside]
    headers = words[following[inside]]
    kinds = headers >> np.uint64(_KIND_SHIFT[order]) & np.uint64(0xFFFFFFFF)
    is_header = (kinds < _KIND_END) & (kinds > 0) & (_sizes(headers, order) > 0)
    _, first = np.unique(lane[is_header], return_index=True)
    guessed: _Places = places[is_header][first]
    return guessed


def _step(words: _Words, order: str, starts: _Places, limits: _Places) -> tuple[_Places, _Places]:
    # Where the records of each lane start, -1 behind the last one, shape (lanes, steps); and where
    # each lane's walk ended.
    lane, place = np.arange(len(starts)), starts
    exits = starts.copy()
    rows: list[_Places] = []
    while len(lane) and len(rows) < _MOST_STEPS:
        sizes = _sizes(words[place], order)
        row = np.full(len(starts), -1)
        row[lane] = np.where(sizes > 0, place, -1)
        rows.append(row)
        place = place + sizes
        exits[lane] = place
        goes_on = (sizes > 0) & (place < limits[lane])
        if not goes_on.all():
            lane, place = lane[goes_on], place[goes_on]
    return np.stack(rows, axis=1), exits
