# SPDX-License-Identifier: GPL-2.0-or-later
"""Count calls exactly with execution breakpoints: ``perf stat -a -A -e mem:ADDRESS:x``.

A debug register of each CPU counts how often it executes the first instruction of a function.
This works for functions that ftrace and kprobes cannot probe, such as ``update_load_avg``, whose
``inline`` implies ``notrace``. A CPU has few such registers (four on x86), and perf exits with 0
if none is free, so the events are tried for a short time first::

    CPU0,226455,,mem:0xffffffff810dafc0:x,9953921,100.00,,
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from schedperf_collectors.contract import Unavailable, temporary_prefix
from schedperf_collectors.machine.system import System
from schedperf_collectors.perf.running import PerfFailed, Recording, perf_output, perf_running
from schedperf_collectors.plugin import Skipped

BREAKPOINT = "breakpoint"
# Long enough for each event to be scheduled once on each CPU.
TRIAL = ("sleep", "0.01")
# A line for each CPU and event; 8192 CPUs with four events stay far below.
LIMIT_BYTES = 16 << 20

_LINE = re.compile(r"^CPU(\d{1,6}),([^,]*),[^,]*,mem:0x([0-9a-f]+):x,", re.MULTILINE)


@dataclass
class BreakpointCounts:
    """Calls of functions, counted by perf with execution breakpoints.

    They are there after the ``with`` block of :func:`breakpoints_counting`.

    :param calls: calls by function and CPU, without CPUs that perf reports no number for or that
        went offline
    :param reason: why there are no counts; "" if there are
    :param recording: the running perf; None if there is nothing to count, or it could not start
    """

    calls: dict[str, dict[int, int]] = field(default_factory=dict)
    reason: str = ""
    recording: Recording | None = None

    def begin(self) -> None:
        """Start counting; on an error of perf, set :attr:`reason`."""
        if self.recording is not None:
            try:
                self.recording.begin()
            except PerfFailed as error:
                self.reason = str(error)


def try_breakpoints(program: str, addresses: Mapping[str, int]) -> None:
    """Try to count calls of some functions, all at once.

    :param program: the perf program
    :param addresses: address of each function, by name
    :raises Unavailable: the machine or kernel does not support it, or the user is not permitted
    """
    try:
        output = perf_output([*_command(program, addresses), *TRIAL])
    except (PerfFailed, Skipped) as error:
        raise Unavailable(str(error)) from error
    if "<not supported>" in output:
        raise Unavailable("perf does not support execution breakpoints on this machine")
    if not _LINE.search(output):
        raise Unavailable("perf reported no counts")


@contextmanager
def breakpoints_counting(program: str, addresses: Mapping[str, int]) -> Iterator[BreakpointCounts]:
    """Count calls of functions in a ``with`` block, from :meth:`BreakpointCounts.begin` on.

    A perf that fails or is killed raises no error; the counts contain the reason.

    :param program: the perf program
    :param addresses: address of each function, by name; perf is not started if it is empty
    """
    counts = BreakpointCounts()
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder, ExitStack() as stack:
        path = Path(folder) / "counts.csv"
        try:
            if addresses:
                command = [*_command(program, addresses), "-o", str(path)]
                counts.recording = stack.enter_context(perf_running(command))
        except (PerfFailed, Skipped) as error:
            counts.reason = str(error)
        yield counts
        try:
            stack.close()
            if addresses and not counts.reason:
                text = System(Path(folder)).bytes(path.name, LIMIT_BYTES).decode("ascii", "replace")
                read_counts(text, addresses, counts)
        except (PerfFailed, Unavailable) as error:
            counts.reason = str(error)


def read_counts(text: str, addresses: Mapping[str, int], counts: BreakpointCounts) -> None:
    """Parse the output of perf into ``counts``.

    :param addresses: address of each function, by name
    :raises Unavailable: a function has no count on any CPU
    """
    names = {address: name for name, address in addresses.items()}
    for match in _LINE.finditer(text):
        cpu, value, name = int(match[1]), match[2], names.get(int(match[3], 16))
        if name is not None and value.isdigit():
            counts.calls.setdefault(name, {})[cpu] = int(value)
    if counts.calls.keys() != addresses.keys():
        raise Unavailable("perf reported no counts")


def _command(program: str, addresses: Mapping[str, int]) -> Sequence[str]:
    events = [f"mem:{address:#x}:x" for address in addresses.values()]
    return [program, "stat", "-a", "-A", "-x,", "-e", ",".join(events)]
