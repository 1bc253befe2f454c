# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse the events of the scheduler in the lines that ``trace-cmd`` and ``perf script`` print.

>>> line = (b"  sh-7 [001] 5.000000009: sched_switch: prev_comm=sh prev_pid=7 prev_prio=120 "
...         b"prev_state=1 next_comm=swapper/1 next_pid=0 next_prio=120")
>>> reader = EventReader()
>>> reader.read([line])
>>> reader.seen["sched_switch"], reader.last_ns
(1, 5000000009)

A name of a task has at most 15 bytes, any but NUL. Numbers are matched from the right, so a name
cannot be taken for a field.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from schedperf.inputs.importers._trace_flow import RUNS_ON, Flow

# Follows an event: its time in ns, its CPU and its fields.
Follow = Callable[[int, int, re.Match[bytes]], None]

# NR_CPUS of the largest configuration.
MOST_CPUS = 8192
# Texts of states; a kernel has a dozen.
MOST_STATES = 256

# The beginning of a line: command and pid, CPU, flags, time, name of the event.
_HEAD = re.compile(
    rb"(?:[^\0]{0,40}-\d+ +(?:\([ \d-]+\) +)?)? *\[(\d{1,4})\] +(?:[^\s:]{4,8} +)?"
    rb"(\d{1,10})\.(\d{6}|\d{9}): +(?:sched:)?(\w{1,64}): *"
)
_LOST = re.compile(
    rb"CPU:(\d{1,4}) \[(\d{1,15}) EVENTS DROPPED\]"
    rb"|.{0,80}\[(\d{1,4})\] +[\d.]{1,20}: PERF_RECORD_LOST\w* lost (\d{1,15})",
    re.DOTALL,
)
_COMM, _PRIORITY = rb"([^\0]{0,16})", rb"-?\d+"
_PLAIN = re.DOTALL
# The fields of each event: raw or as the kernel prints them, then as plugins of perf do.
_SWITCH = re.compile(
    rb"prev_comm=%b prev_pid=(\d{1,8}) prev_prio=%b prev_state=(\S{1,20})(?: ==>)? "
    rb"next_comm=%b next_pid=(\d{1,8}) next_prio=%b"
    rb"|%b:(\d{1,8}) \[%b\] (\S{1,20}) ==> %b:(\d{1,8}) \[%b\]" % ((_COMM, _PRIORITY) * 4),
    _PLAIN,
)
_WAKEUP = re.compile(
    rb"comm=%b pid=(\d{1,8}) prio=%b.{0,20} target_cpu=\d+|%b:(\d{1,8}) \[%b\].{0,20} CPU:\d+"
    % ((_COMM, _PRIORITY) * 2),
    _PLAIN,
)
_MIGRATE = re.compile(
    rb"comm=%b pid=(\d{1,8}) prio=%b orig_cpu=\d+ dest_cpu=\d+" % (_COMM, _PRIORITY), _PLAIN
)
_FORK = re.compile(
    rb"(?:parent_)?comm=%b (?:parent_)?pid=(\d{1,8}) child_comm=%b child_pid=(\d{1,8})"
    % (_COMM, _COMM),
    _PLAIN,
)
_EXEC = re.compile(rb"filename=(.{0,8192}) pid=(\d{1,8}) old_pid=\d+", _PLAIN)
_EXIT = re.compile(rb"comm=[^\0]{0,16} pid=(\d{1,8}) prio=", _PLAIN)

# The bits of a raw state, the lowest first (TASK_* in include/linux/sched.h). Higher bits are not
# states in which a task sleeps: a preempted task has such a bit.
_BITS = "SDTTXZPI"


class EventReader:
    """Reads the lines of a trace, and follows its tasks.

    :ivar lines: number of events, including those that are not read
    :ivar seen: number of read events by name
    :ivar lost: events that were lost, by the lines about them
    :ivar unreadable: number of events whose fields cannot be read
    """

    def __init__(self) -> None:
        self.flow = Flow()
        self.seen: Counter[str] = Counter()
        self.lines = self.lost = self.unreadable = 0
        self.first_ns: int | None = None
        self.last_ns = 0
        self._states: dict[bytes, str] = {}
        # Pattern of the fields of each event that is read, and what follows the event.
        self._events: Mapping[bytes, tuple[re.Pattern[bytes], Follow]] = {
            b"sched_switch": (_SWITCH, self._switch),
            b"sched_waking": (_WAKEUP, self._waking),
            b"sched_wakeup": (_WAKEUP, self._wakeup),
            b"sched_wakeup_new": (_WAKEUP, self._wakeup),
            b"sched_migrate_task": (_MIGRATE, self._migrate),
            b"sched_process_fork": (_FORK, self._fork),
            b"sched_process_exec": (_EXEC, self._execute),
            b"sched_process_exit": (_EXIT, self._exit),
        }

    @property
    def seconds(self) -> float:
        """Time from the first event to the last, in s."""
        return max(0, self.last_ns - (self.first_ns or 0)) / 1e9

    def read(self, lines: Iterable[bytes]) -> None:
        """Read lines, which are ordered by time."""
        seen = Counter[bytes]()
        for line in lines:
            head = _HEAD.match(line)
            if head is None:
                self._read_other(line)
                continue
            self.lines += 1
            cpu, seconds, fraction, name = head.groups()
            event = self._events.get(name)
            if event is None:
                continue
            pattern, follow = event
            fields = pattern.match(line, head.end())
            if fields is None or int(cpu) >= MOST_CPUS:
                self.unreadable += 1
                continue
            seen[name] += 1
            ns = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, b"0"))
            if self.first_ns is None:
                self.first_ns = ns
            self.last_ns = ns
            follow(ns, int(cpu), fields)
        self.seen.update({name.decode(): count for name, count in seen.items()})

    def _read_other(self, line: bytes) -> None:
        lost = _LOST.match(line)
        if lost is not None:
            self.lost += int(lost[2] or lost[4])
            self.flow.forget_cpu(int(lost[1] or lost[3]))

    def _switch(self, ns: int, cpu: int, fields: re.Match[bytes]) -> None:
        first = 1 if fields[1] is not None else 6
        prev_comm, prev, state, comm, coming = fields.group(*range(first, first + 5))
        leaving = int(prev), prev_comm
        self.flow.switch(ns, cpu, leaving, self._state(state), (int(coming), comm))

    def _state(self, text: bytes) -> str:
        """Return the letter of a state: "R" for "R+" and 0x100, "S" for 1, "D" for "D|K"."""
        if text not in self._states:
            if len(self._states) >= MOST_STATES:
                self._states.clear()
            self._states[text] = _letter_of(text.decode("ascii", "replace"))
        return self._states[text]

    def _waking(self, ns: int, cpu: int, fields: re.Match[bytes]) -> None:
        self.flow.waking(ns, cpu, int(fields[2] or fields[4]), _either(fields, 1, 3))

    def _wakeup(self, ns: int, _: int, fields: re.Match[bytes]) -> None:
        self.flow.wakeup(ns, int(fields[2] or fields[4]), _either(fields, 1, 3))

    def _migrate(self, _ns: int, _cpu: int, fields: re.Match[bytes]) -> None:
        self.flow.migrate(int(fields[2]), fields[1])

    def _fork(self, ns: int, _: int, fields: re.Match[bytes]) -> None:
        self.flow.fork(ns, (int(fields[2]), fields[1]), int(fields[4]), fields[3])

    def _execute(self, ns: int, _: int, fields: re.Match[bytes]) -> None:
        self.flow.execute(ns, int(fields[2]), fields[1])

    def _exit(self, ns: int, _: int, fields: re.Match[bytes]) -> None:
        self.flow.end(ns, int(fields[1]))


def _either(fields: re.Match[bytes], first: int, second: int) -> bytes:
    """Return the group of the alternative that matched; it may be empty."""
    return fields[second] if fields[first] is None else fields[first]


def _letter_of(text: str) -> str:
    if text.isdigit():
        bits = int(text)
        return next((letter for i, letter in enumerate(_BITS) if bits >> i & 1), RUNS_ON)
    # Older versions have small letters for two states, "x" and "t".
    return text[0].upper() if text[0].isascii() and text[0].isalpha() else RUNS_ON
