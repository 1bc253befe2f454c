# SPDX-License-Identifier: GPL-2.0-or-later
"""Record tracepoints with perf around a run, where BPF cannot count them.

``perf record`` writes each occurrence to a file, which is read when the workload has ended and then
removed. That costs far more than counting in the kernel, and perf may lose events, which are
counted.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System
from schedperf_collectors.perf.running import PerfFailed, perf_running
from schedperf_collectors.perf.tracepoint_samples import (
    Sample,
    Samples,
    Tracepoint,
    read_tracepoint,
)
from schedperf_collectors.perf_header import BadPerfData, read_header
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped

FILE_NAME = "perf.data"
# Some 600,000 samples, which take 4 s to aggregate, and a minute in an emulated machine.
FILE_LIMIT = "64M"
# Printed by perf when it stops at the size limit, in any unit.
LIMIT_REACHED = "size limit reached"
# Size of each CPU's buffer, and of all buffers together.
BUFFER_BYTES = 2 << 20
BUFFERS_LIMIT_BYTES = 256 << 20

# "mechanism", "function" and "reason" of each tracepoint, by its name without the subsystem.
Programs = dict[str, "dict[str, str | None]"]


@dataclass(frozen=True)
class Traced:
    """A finished recording; its file exists until :meth:`remove` is called.

    :param start_ns: CLOCK_MONOTONIC when the workload began; earlier samples precede it
    :param end_ns: CLOCK_MONOTONIC when the workload ended
    :param programs: which tracepoints were recorded, and why others were not
    :param limit: the size at which perf stopped, e.g. "64M"; None if it recorded the whole run
    """

    path: Path
    tracepoints: Sequence[Tracepoint]
    programs: Programs
    start_ns: int
    end_ns: int
    limit: str | None

    def follow(self, see: Callable[[Sample], None]) -> int:
        """Pass all samples in chronological order to a function.

        :return: number of lost records
        :raises BadPerfData: the file is empty or damaged
        """
        return follow(self.path, self.tracepoints, see)

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


def trace(
    capture: Capture, wanted: Mapping[str, Sequence[str]], cpus: int, reason: str, remedy: str = ""
) -> Generator[str, None, Traced]:
    """Record tracepoints from before a run until after it: yield PREPARED and BEGUN.

    Options of the collector: perf (the program) and perf_limit, after which it stops ("64M").

    :param wanted: the required fields by tracepoint ("sched:sched_switch")
    :param cpus: number of online CPUs
    :param reason: why BPF cannot be used, one line
    :param remedy: what makes BPF usable; "" if unknown
    :return: the recording; the caller removes its file
    :raises Skipped: perf cannot be used either
    :raises PerfFailed: perf ended with an error
    """
    program = capture.options.get("perf", "perf")
    if shutil.which(program) is None:
        perf = "run `apt-get install linux-perf`"
        raise Skipped(f"{reason}; perf is not on PATH", remedy or perf)
    tracepoints, programs = find_tracepoints(System(), wanted)
    if not tracepoints:
        refused = next(iter(programs.values()))["reason"]
        as_root = "" if os.geteuid() == 0 else "run as root"
        raise Skipped(f"{reason}; perf cannot read tracepoints ({refused})", remedy or as_root)
    path = capture.folder / FILE_NAME
    limit = capture.options.get("perf_limit", FILE_LIMIT)
    command = [program, *record_options(tracepoints, cpus, limit), "-o", str(path)]
    with contextlib.ExitStack() as stack:
        stack.callback(path.unlink, missing_ok=True)
        with _after(reason), perf_running(command) as recording:
            yield PREPARED
            recording.begin()
            start_ns = time.monotonic_ns()
            yield BEGUN
            end_ns = time.monotonic_ns()
        stack.pop_all()
    is_cut = LIMIT_REACHED in recording.stderr
    return Traced(path, tracepoints, programs, start_ns, end_ns, limit if is_cut else None)


@contextlib.contextmanager
def _after(reason: str) -> Iterator[None]:
    # perf's own reason would hide why BPF is not used.
    try:
        yield
    except Skipped as skipped:
        raise Skipped(f"{reason}; {skipped.reason}", skipped.remedy) from skipped
    except PerfFailed as error:
        raise PerfFailed(f"{reason}; {error}") from error


def find_tracepoints(
    system: System, wanted: Mapping[str, Sequence[str]]
) -> tuple[list[Tracepoint], Programs]:
    """Return the readable tracepoints, and the row of "programs" of every wanted one.

    The row of a tracepoint that is not readable has the reason.

    :param wanted: the required fields by tracepoint ("sched:sched_switch")
    """
    tracepoints = []
    programs: Programs = {}
    for name, fields in wanted.items():
        function = name.partition(":")[2]
        try:
            tracepoints.append(read_tracepoint(system, name, fields))
            programs[function] = {"mechanism": "perf", "function": function, "reason": None}
        except Unavailable as error:
            programs[function] = {"mechanism": None, "function": None, "reason": error.say()}
    return tracepoints, programs


def record_options(tracepoints: Sequence[Tracepoint], cpus: int, limit: str) -> list[str]:
    """Return the arguments of perf, without the output file.

    :param cpus: number of CPUs, which share the memory for buffers
    :param limit: size of the file at which perf stops, in perf's syntax
    """
    # A power of two, in whole kB.
    share = min(BUFFER_BYTES, BUFFERS_LIMIT_BYTES // max(1, cpus))
    buffer = f"{1 << max(0, (share >> 10).bit_length() - 1)}K"
    names = ",".join(tracepoint.name for tracepoint in tracepoints)
    # -N: do not touch the user's build-id cache; -k: use the clock that this process reads.
    clock = ["-k", "mono"]
    return ["record", "-a", "-N", *clock, "-m", buffer, "--max-size", limit, "-e", names]


def follow(path: Path, tracepoints: Sequence[Tracepoint], see: Callable[[Sample], None]) -> int:
    """Pass all samples of a file in chronological order to a function.

    :return: number of lost records
    :raises BadPerfData: the file is empty or damaged
    """
    if not path.stat().st_size:
        raise BadPerfData(f"{path.name}: empty; record it again")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        header = read_header(data, path.name)
        if header.cut:
            raise BadPerfData(
                f"{path.name}: truncated (perf did not finish writing it); record it again"
            )
        samples = Samples(data, header, path.name, tracepoints)
        for sample in samples:
            see(sample)
        return samples.lost
