# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the events of a trace as lines: ``trace-cmd report`` and ``perf script`` print them.

Both programs know all versions of their formats, sort the events of all CPUs by time, and print one
event per line, so a trace of any size is read with little memory.
"""

import os
import re
import select
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Literal

from msgspec import Struct

from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf_collectors.contract import temporary_prefix
from schedperf_collectors.perf_header import BIG_ENDIAN_MAGIC, MAGIC

Kind = Literal["trace-cmd", "perf"]

TRACE_CMD_MAGIC = b"\x17\x08\x44tracing"
HEAD_BYTES = len(TRACE_CMD_MAGIC)
# A program that prints nothing for this long hangs, e.g. because the file is damaged.
SILENT_LIMIT_S = 300.0
LONGEST_COMPLAINT = 200
# No line of an event that is read is longer: a path has 4096 bytes.
LONGEST_LINE = 1 << 14
# The options of a file, as text: a few kB for each CPU.
MOST_OPTIONS = 1 << 24
CHUNK_BYTES = 1 << 18

# The clocks that count nanoseconds.
CLOCKS = frozenset(("local", "global", "perf", "mono", "mono_raw", "boot", "tai"))
_CLOCK = re.compile(rb"\[Option TRACECLOCK, [^\]]*\]\n[^\n]*?\[([\w-]{1,20})\]")
_UNAME = re.compile(rb"\[Option UNAME, [^\]]*\]\nLinux (\S{1,64}) (\S{1,200}) (\S{1,40})\n")
_STATISTIC = re.compile(
    rb"^(overrun|commit overrun|dropped events|read events): (\d{1,18})$", re.MULTILINE
)


class Facts(Struct, frozen=True, kw_only=True):
    """What a file of trace-cmd says of its recording.

    :param lost: events that the kernel overwrote or dropped; None if not recorded
    :param read: events that trace-cmd read from the kernel, at least; None if not recorded
    """

    host: dict[str, dict[str, object]]
    clock: str | None
    lost: int | None
    read: int | None


def recognise(path: Path) -> Kind | None:
    """Return which program wrote a file; None for other files.

    :raises InputError: the file cannot be read
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    if head == TRACE_CMD_MAGIC:
        return "trace-cmd"
    return "perf" if head.startswith((MAGIC, BIG_ENDIAN_MAGIC)) else None


def event_lines(path: Path, kind: Kind) -> Iterator[bytes]:
    """Yield the lines of all events, ordered by time, and lines about lost events.

    :raises InputError: the program is not installed, fails, or prints nothing for minutes
    """
    where = str(path.resolve())
    if kind == "trace-cmd":
        # Without plugins, which print events in ways of their own.
        return _run(("trace-cmd", "report", "-R", "-t", "-N", "-i", where), path)
    fields = "trace:cpu,time,event,trace"
    return _run(("perf", "script", "--ns", "--show-lost-events", "-F", fields, "-i", where), path)


def read_facts(path: Path) -> Facts:
    """Return what a file of trace-cmd says of its recording.

    :raises InputError: as :func:`event_lines`
    """
    size, lines = 0, []
    for line in _run(("trace-cmd", "dump", "--options", "-i", str(path.resolve())), path):
        size += len(line) + 1
        if size > MOST_OPTIONS:
            break
        lines.append(line)
    text = b"\n".join(lines) + b"\n"
    clock, uname = _CLOCK.search(text), _UNAME.search(text)
    counts = [(name, int(count)) for name, count in _STATISTIC.findall(text)]
    lost = [count for name, count in counts if name != b"read events"]
    read = [count for name, count in counts if name == b"read events"]
    host: dict[str, dict[str, object]] = {}
    if uname is not None:
        hostname, release, machine = (clean_line(each.decode(errors="replace"))
                                      for each in uname.groups())  # fmt: skip
        host = {
            "kernel": {"release": release, "machine": machine},
            "system": {"hostname": hostname},
        }
    return Facts(
        host=host,
        clock=None if clock is None else clock[1].decode(),
        lost=sum(lost) if lost else None,
        read=sum(read) if read else None,
    )


def _run(command: Sequence[str], path: Path) -> Iterator[bytes]:
    """Yield the lines that a program prints.

    :param path: the file that it reads, for messages
    :raises InputError: the program is not installed, fails, or prints nothing for minutes
    """
    # Files of the user must not change what is printed.
    environment = {
        **os.environ, "LC_ALL": "C", "PERF_CONFIG": os.devnull, "PAGER": "cat", "TZ": "UTC",
    }  # fmt: skip
    with tempfile.TemporaryFile(prefix=temporary_prefix()) as complaints:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints,
                env=environment,
            )  # fmt: skip
        except FileNotFoundError:
            package = "trace-cmd" if command[0] == "trace-cmd" else "linux-perf"
            raise InputError(
                f"{path}: {command[0]} is not installed, which reads this file; apt-get install "
                f"{package}"
            ) from None
        except OSError as error:
            raise InputError(f"{path}: cannot start {command[0]} ({error.strerror})") from None
        try:
            yield from _lines_of(process, path, command[0])
            process.wait()
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            raise InputError(
                f"{path}: {command[0]} cannot read this file{_last_line(complaints)}; record it "
                "again"
            )


def _lines_of(process: "subprocess.Popen[bytes]", path: Path, program: str) -> Iterator[bytes]:
    assert process.stdout is not None
    descriptor, rest = process.stdout.fileno(), b""
    with process.stdout:
        while True:
            if not select.select([descriptor], [], [], SILENT_LIMIT_S)[0]:
                raise InputError(
                    f"{path}: {program} printed nothing for {SILENT_LIMIT_S:.0f} s; record the "
                    "file again"
                )
            chunk = os.read(descriptor, CHUNK_BYTES)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            # No program prints such a line for an event that is read.
            rest = rest if len(rest) <= LONGEST_LINE else b""
            yield from lines
    if rest:
        yield rest


def _last_line(complaints: IO[bytes]) -> str:
    complaints.seek(0, os.SEEK_END)
    complaints.seek(max(0, complaints.tell() - CHUNK_BYTES))
    lines = complaints.read().decode(errors="replace").splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f" ({clean_line(last)[:LONGEST_COMPLAINT]})" if last else ""
