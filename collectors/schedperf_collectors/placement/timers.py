# SPDX-License-Identifier: GPL-2.0-or-later
"""Record when bandwidth timers of groups expire, with the program of ``timers.bpf.c``.

A group with a limit of CPU time (``cpu.max``, ``cpu.cfs_quota_us``) has a timer that refills its
quota every period. Whether the timers of several groups expire together or one after
another is seen in their phases: the time of expiry modulo the period.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schedperf_collectors.bpf.libbpf import BpfObject, Candidate, load_what_works
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel_files import find_functions
from schedperf_collectors.machine.system import System
from schedperf_collectors.placement.machine import Machine, set_gate

# struct timer_key and struct timer_value of timers.bpf.c.
KEY = struct.Struct("=2Q")
PHASE_BINS, FOLDERS, NAME_BYTES = 64, 8, 64
VALUE = struct.Struct(f"=3Q{PHASE_BINS}Q{FOLDERS * NAME_BYTES}s")
FIRST_KEY = struct.pack("=I", 0)

SLOT = "bandwidth_timers"
TRACEPOINT = "hrtimer_expire_entry"
FUNCTION = "sched_cfs_period_timer"
CANDIDATES = tuple(
    Candidate(SLOT, f"expiry_{mechanism}", mechanism, TRACEPOINT)
    for mechanism in ("tp_btf", "raw_tp")
)


@dataclass(frozen=True)
class Expiries:
    """What was counted of the timer of one group.

    :param group: path of the group in its hierarchy
    :param first_ns: the first time for which the timer was set (CLOCK_MONOTONIC)
    :param overruns: periods that went by without an expiry of their own
    :param phases: expiries by phase, shape (PHASE_BINS,)
    """

    group: str
    period_ns: int
    expiries: int
    first_ns: int
    overruns: int
    phases: tuple[int, ...]

    def and_then(self, other: Expiries) -> Expiries:
        """Add a group of the same path and period: it was removed and made again."""
        return Expiries(
            self.group,
            self.period_ns,
            self.expiries + other.expiries,
            min(self.first_ns, other.first_ns),
            self.overruns + other.overruns,
            tuple(map(sum, zip(self.phases, other.phases))),
        )


class Timers:
    """The program while it is attached.

    :ivar programs: its mechanism, function and reason, as placement.json has it
    :ivar invisible: what cannot be seen here, likewise
    :ivar lost: what could not be counted; complete once :meth:`read` was called
    """

    def __init__(self, loaded: BpfObject | None, reason: str | None) -> None:
        self.programs: dict[str, dict[str, str | None]] = {
            SLOT: {"mechanism": None, "function": None, "reason": reason}
        }
        self.invisible: list[dict[str, str]] = []
        if reason is not None:
            self.invisible.append({"what": FUNCTION, "reason": reason})
        self.lost: dict[str, int] = {}
        self._loaded = loaded

    def open_gate(self) -> None:
        """Begin to count."""
        if self._loaded:
            set_gate(self._loaded, is_open=True)

    def close_gate(self) -> None:
        """Count no more."""
        if self._loaded:
            set_gate(self._loaded, is_open=False)

    def read(self) -> list[dict[str, object]]:
        """Return what placement.json has under "timers".

        :raises Unavailable: the kernel refuses to say what was counted
        """
        if self._loaded is None:
            return []
        full = self._loaded.map("timer_lost").read(FIRST_KEY) or b""
        lost = {
            "expiries of groups beyond the map's size": sum(
                struct.unpack(f"={len(full) // 8}Q", full)
            ),
            **{f"calls of {name}": count for name, count in self._loaded.misses().items()},
        }
        self.lost = {name: count for name, count in lost.items() if count}
        return describe_timers(read_expiries(self._loaded.map("timer_counts").items()))

    def close(self) -> None:
        """Detach the program."""
        if self._loaded:
            self._loaded.close()


def start(machine: Machine, system: System | None = None) -> Timers:
    """Attach the program; the gate is still closed.

    What the kernel refuses is told by the result, not raised.
    """
    try:
        # The loader looks for the function by which a bandwidth timer is known, too, but does not
        # see that addresses are hidden.
        address, reason = find_functions(system or System(), [FUNCTION]).address(FUNCTION)
        if address is None:
            return Timers(None, reason)
        loaded = load_what_works(read_object("timers"), "timers", CANDIDATES, machine.prepare)
    except Unavailable as error:
        return Timers(None, error.reason)
    timers = Timers(loaded.object, None)
    timers.programs = loaded.programs
    return timers


def read_expiries(items: Iterator[tuple[bytes, bytes]]) -> Iterator[Expiries]:
    """Yield what the map holds."""
    for key, value in items:
        _, period_ns = KEY.unpack(key)
        expiries, first_ns, overruns, *phases, folders = VALUE.unpack(value)
        names = [folders[at : at + NAME_BYTES] for at in range(0, len(folders), NAME_BYTES)]
        yield Expiries(group_path(names), period_ns, expiries, first_ns, overruns, tuple(phases))


def group_path(names: Sequence[bytes]) -> str:
    """Join the names of folders, the innermost first: ``[b"b\\0", b"a\\0", b"\\0"]`` is ``/a/b``.

    A path that does not begin at the hierarchy's root begins with an ellipsis.
    """
    texts = [name.partition(b"\0")[0].decode("utf-8", "replace") for name in names]
    known = texts[: texts.index("")] if "" in texts else texts
    start = "" if "" in texts else "…"
    return f"{start}/{'/'.join(reversed(known))}"


def describe_timers(counted: Iterator[Expiries]) -> list[dict[str, object]]:
    """Return counts as placement.json has them, a row for each group and period."""
    rows: dict[tuple[str, int], Expiries] = {}
    for each in counted:
        place = each.group, each.period_ns
        rows[place] = rows[place].and_then(each) if place in rows else each
    return [
        {
            "group": each.group,
            "period_ns": each.period_ns,
            "expiries": each.expiries,
            "phases": list(each.phases),
            "first_ns": each.first_ns,
            "overruns": each.overruns,
        }
        for _, each in sorted(rows.items())
    ]
