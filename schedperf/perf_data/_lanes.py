"""Steps over many records at once, from many places of the file.

A record only says how long it is, so where the next one starts is known from the one
before. But what looks like the header of a sample and is followed by another header is
nearly always one. So every 16 KiB such a place is guessed, all of them are walked on
from together, one NumPy operation a step, and a guess counts only if the walk from the
one before ends exactly there: what is returned is never guessed.
"""

import numpy as np
from numpy.typing import NDArray

from schedperf_collectors.perf_header import RECORD_SAMPLE

Words = NDArray[np.uint64]
Places = NDArray[np.int64]

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


def walk_lanes(words: Words, order: str) -> Places | None:
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


def _sizes(headers: Words, order: str) -> Places:
    # In words; 0 where there is no size to step over.
    size = headers >> np.uint64(_SIZE_SHIFT[order]) & np.uint64(0xFFFF)
    in_words = (size >> np.uint64(3)).view(np.int64)
    in_words[size & np.uint64(7) != 0] = 0
    return in_words


def _guess(words: Words, order: str) -> Places:
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
    guessed: Places = places[is_header][first]
    return guessed


def _step(words: Words, order: str, starts: Places, limits: Places) -> tuple[Places, Places]:
    # Where the records of each lane start, -1 behind the last one, shape (lanes, steps); and where
    # each lane's walk ended.
    lane, place = np.arange(len(starts)), starts
    exits = starts.copy()
    rows: list[Places] = []
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
