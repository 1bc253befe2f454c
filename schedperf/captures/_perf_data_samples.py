"""Where the fields of a sample record are, for each combination that an event may ask for."""

import struct
from collections.abc import Callable, Sequence
from operator import itemgetter

from schedperf_collectors._perf_data import RECORD_HEADER_BYTES, Event

# Fields of a sample that the recording did not ask for.
ANY_TASK = -1
NO_CPU = -1

# PERF_SAMPLE_* of include/uapi/linux/perf_event.h.
_IDENTIFIER, _IP, _TID, _TIME, _ADDR, _ID, _STREAM_ID, _CPU, _PERIOD, _READ, _CALLCHAIN = (
    1 << bit for bit in (16, 0, 1, 2, 3, 6, 9, 7, 8, 4, 5)
)
# In the order in which the kernel writes them; each takes 8 bytes. What lies behind is not read.
_IN_ORDER = (_IDENTIFIER, _IP, _TID, _TIME, _ADDR, _ID, _STREAM_ID, _CPU, _PERIOD)
# The CPU and the process are the first 4 bytes of their 8.
_FORMATS = {_IP: "Q", _TID: "I4x", _CPU: "I4x", _PERIOD: "Q"}

# PERF_FORMAT_*: what the READ field holds; LOST is the newest.
_FORMAT_GROUP = 1 << 3
_FORMAT_EXTRAS = (1 << 0, 1 << 1, 1 << 2, 1 << 4)

# Address, process, CPU, period, length of the call chain.
Fields = tuple[int, int, int, int, int]


class Layout:
    """How to take the fields of one event's samples out of the file.

    :ivar take: ``take(data, offset of the record)``, which reads the first ``size`` bytes of it
    :ivar size: also the offset of the call chain's first address in a record
    :ivar id_offset: offset of the event's id in a record; None where samples have none
    :ivar misses_chain: whether there is a call chain that cannot be found
    """

    def __init__(self, event: Event, order: str) -> None:
        asked = event.sample_type
        fields = [field for field in _IN_ORDER if asked & field]
        id_field = _IDENTIFIER if asked & _IDENTIFIER else _ID
        self.id_offset = (
            RECORD_HEADER_BYTES + 8 * fields.index(id_field) if id_field in fields else None
        )
        is_group = bool(asked & _READ and event.read_format & _FORMAT_GROUP)
        self.misses_chain = bool(asked & _CALLCHAIN) and is_group
        text = f"{order}{RECORD_HEADER_BYTES}x" + "".join(_FORMATS.get(f, "8x") for f in fields)
        present = [field for field in fields if field in _FORMATS]
        if asked & _CALLCHAIN and not is_group:
            text += f"{_read_bytes(event)}xQ"
            present.append(_CALLCHAIN)
        layout = struct.Struct(text)
        self.size = layout.size
        self.take = _take(layout, present, event.rate)


def _read_bytes(event: Event) -> int:
    # The count itself, and what read_format adds to it.
    if not event.sample_type & _READ:
        return 0
    return 8 + 8 * sum(bool(event.read_format & extra) for extra in _FORMAT_EXTRAS)


def _take(
    layout: struct.Struct, present: Sequence[int], rate: int
) -> Callable[[bytes, int], Fields]:
    # A missing period is the one that was asked for, as in perf report.
    defaults = {_IP: 0, _TID: ANY_TASK, _CPU: NO_CPU, _PERIOD: rate, _CALLCHAIN: 0}
    unpack = layout.unpack_from
    if len(present) == len(defaults):
        return unpack
    values = tuple(defaults.values())
    pick = itemgetter(
        *(
            present.index(field) if field in present else len(present) + place
            for place, field in enumerate(defaults)
        )
    )
    return lambda data, offset: pick(unpack(data, offset) + values)
