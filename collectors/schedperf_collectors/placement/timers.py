# SPDX-License-Identifier: GPL-2.0-or-later
"""Record the expiries of the bandwidth timers of task groups with ``timers.bpf.c``.

A group with a CPU bandwidth limit (``cpu.max``, ``cpu.cfs_quota_us``) has a timer that refills its
quota every period. The phases of the timers (time of expiry modulo the period) show whether the
timers of several groups expire together or at different times.
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
from schedperf_collectors.placement.machine import Machine

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
    """The counts of one task group's timer.

    :param group: path of the group in its hierarchy
    :param expiries: number of expiries
    :param first_ns: the time for which the timer was set at the first expiry (CLOCK_MONOTONIC)
    :param overruns: periods without a separate expiry
    :param phases: expiries by phase, shape (PHASE_BINS,): a bin is 1 / PHASE_BINS of the period
    """

    group: str
    period_ns: int
    expiries: int
    first_ns: int
    overruns: int
    phases: tuple[int, ...]

    def and_then(self, following: Expiries) -> Expiries:
        """Return the sums with the counts of a group that was created again.

        :param following: counts of the group with the same path and period
        """
        return Expiries(
            self.group,
            self.period_ns,
            self.expiries + following.expiries,
            min(self.first_ns, following.first_ns),
            self.overruns + following.overruns,
            tuple(map(sum, zip(self.phases, following.phases))),
        )


class Timers:
    """The attached program, or the reason why none is attached.

    :param loaded: object with the program; None if it is not attached
    :param reason: why it is not attached; None if it is
    :ivar programs: "programs" of placement.json: mechanism, function and reason
    :ivar invisible: "invisible" of placement.json: what is not measured, and why
    :ivar lost: number of lost events by kind, without zeros; empty before :meth:`read`
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
        """Start counting.

        :raises Unavailable: the kernel refuses
        """
        if self._loaded:
            self._loaded.set_gate(is_open=True)

    def close_gate(self) -> None:
        """Stop counting.

        :raises Unavailable: the kernel refuses
        """
        if self._loaded:
            self._loaded.set_gate(is_open=False)

    def read(self) -> list[dict[str, object]]:
        """Return the "timers" of placement.json; [] if the program is not attached.

        :raises Unavailable: the kernel refuses to read the map
        """
        if self._loaded is None:
            return []
        full = self._loaded.map("timer_lost").read(FIRST_KEY) or b""
        lost = {
            "period timer expiries that did not fit into the BPF map": sum(
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
    """Attach the program; it counts from :meth:`Timers.open_gate` on.

    An error is not raised; the result contains it.

    :param system: None for this machine
    """
    try:
        # The loader also looks up the function that identifies a bandwidth timer, but does not
        # detect hidden addresses.
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
    """Parse the entries of the map ``timer_counts``.

    :param items: keys and values of the map
    """
    for key, value in items:
        _, period_ns = KEY.unpack(key)
        expiries, first_ns, overruns, *phases, folders = VALUE.unpack(value)
        names = [folders[at : at + NAME_BYTES] for at in range(0, len(folders), NAME_BYTES)]
        yield Expiries(group_path(names), period_ns, expiries, first_ns, overruns, tuple(phases))


def group_path(names: Sequence[bytes]) -> str:
    """Join directory names, the innermost first: ``[b"b\\0", b"a\\0", b"\\0"]`` is ``/a/b``.

    A path that was cut off before the root of the hierarchy starts with an ellipsis.
    """
    texts = [name.partition(b"\0")[0].decode("utf-8", "replace") for name in names]
    segments = texts[: texts.index("")] if "" in texts else texts
    start = "" if "" in texts else "…"
    return f"{start}/{'/'.join(reversed(segments))}"


def describe_timers(counted: Iterator[Expiries]) -> list[dict[str, object]]:
    """Return the "timers" of placement.json, one row per group and period."""
    rows: dict[tuple[str, int], Expiries] = {}
    for each in counted:
        group_period = each.group, each.period_ns
        rows[group_period] = rows[group_period].and_then(each) if group_period in rows else each
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
