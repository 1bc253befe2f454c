# SPDX-License-Identifier: GPL-2.0-or-later
"""Read files of /proc and /sys, the kernel log and programs' output.

A missing value raises :class:`Unavailable` with a reason that a bundle can store:
``/sys/kernel/debug/sched/features: permission denied``.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Callable, TypeVar

from schedperf_collectors.contract import Unavailable

# Files of /proc and /sys are a few kB; kallsyms and BTF are read with larger limits.
TEXT_LIMIT_BYTES = 4 << 20
# /proc/sys refuses to read more than KMALLOC_MAX_SIZE (4 MB) at once.
CHUNK_BYTES = 1 << 16
# One record of /dev/kmsg is at most CONSOLE_EXT_LOG_MAX (kernel/printk/internal.h, 8 kB).
KMSG_RECORD_BYTES = 8192
# The largest log buffer is 2^25 bytes (LOG_BUF_SHIFT, init/Kconfig); its records are fewer.
KMSG_RECORDS = 1 << 20
# Programs that only print their version answer in 20 ms, in 1 s under emulation.
COMMAND_TIMEOUT_S = 5.0

X86_MACHINES = ("x86_64", "i686", "i386")

Value = TypeVar("Value")
# Functions that return the values of one group of host.json, or raise Unavailable.
Finders = dict[str, Callable[[], object]]


def unavailable(where: str, error: OSError) -> Unavailable:
    """Return an exception for the operating system's error; the caller raises it.

    Its reason is ``WHERE: ERROR``, e.g. ``/proc/config.gz: no such file or directory``.
    """
    return Unavailable(f"{where}: {(error.strerror or str(error)).lower()}")


class System:
    """The machine below one root directory.

    :param root: "/" on a real machine; another directory shows the files of another machine
    :param machine: its ``uname -m``; "" for that of this machine
    """

    def __init__(self, root: Path = Path("/"), machine: str = "") -> None:
        self.root = root
        self.machine = machine or os.uname().machine
        self._log: str | None = None

    def path(self, name: str) -> Path:
        """Return the local path of a file of that machine ("/proc/version")."""
        return self.root / name.lstrip("/")

    def exists(self, name: str) -> bool:
        """Return whether a file or directory exists; False if this user may not search for it."""
        try:
            return self.path(name).exists()
        except OSError:
            return False

    def bytes(self, name: str, limit: int = TEXT_LIMIT_BYTES) -> bytes:
        """Read a whole file.

        :raises Unavailable: it is not there, not readable, or larger than ``limit`` bytes
        """
        content = bytearray()
        try:
            with self.path(name).open("rb", buffering=0) as file:
                while len(content) <= limit:
                    chunk = file.read(CHUNK_BYTES)
                    if not chunk:
                        return bytes(content)
                    content += chunk
        except OSError as error:
            raise unavailable(name, error) from error
        raise Unavailable(f"{name}: larger than {limit} bytes")

    def text(self, name: str) -> str:
        """Read a small text file, without the white space around it.

        :raises Unavailable: it is not there, not readable, empty, or larger than
            :data:`TEXT_LIMIT_BYTES`
        """
        content = self.bytes(name).decode("utf-8", "replace").strip("\0 \t\r\n")
        if not content:
            raise Unavailable(f"{name}: empty")
        return content

    def first_text(self, *names: str) -> str:
        """Read the first readable one of several files, because kernels move files.

        :raises Unavailable: none can be read; the reason is the first one's
        """
        tried = [attempt(self.text, name) for name in names]
        content = next((text for text, _ in tried if text is not None), None)
        if content is None:
            raise Unavailable(tried[0][1])
        return content

    def integer(self, *names: str) -> int:
        """Read a whole number from the first of several files that can be read.

        :raises Unavailable: none can be read, or that file has no number or a too large one
        """
        return to_integer(self.first_text(*names), names[0])

    def names(self, folder: str, pattern: str) -> list[str]:
        """List the entries of a directory whose whole name matches, as ``FOLDER/ENTRY``.

        They are in natural order: ``cpu9`` before ``cpu10``.

        :param pattern: regular expression
        :raises Unavailable: the directory cannot be listed
        """
        try:
            entries = [entry.name for entry in self.path(folder).iterdir()]
        except OSError as error:
            raise unavailable(folder, error) from error
        matching = sorted(filter(re.compile(pattern).fullmatch, entries), key=_natural)
        return [f"{folder}/{name}" for name in matching]

    def kernel_log(self) -> str:
        """Return the kernel log of this boot, one message per line; its start may be overwritten.

        The log is read once, at the first call.

        :raises Unavailable: there is no /dev/kmsg, or this user may not read it
        """
        if self._log is None:
            self._log = _read_kmsg(self.path("/dev/kmsg"))
        return self._log


def to_integer(text: str, where: str) -> int:
    """Convert text to an integer.

    :param where: source of the text, for the message
    :raises Unavailable: it is not a whole number, or does not fit into a signed 64-bit number
    """
    try:
        number = int(text)
    except ValueError:
        raise Unavailable(f"{where}: not a number: {text[:40]!r}") from None
    if abs(number) >= 1 << 63:
        raise Unavailable(f"{where}: number exceeds 64 bits: {text[:40]!r}")
    return number


def to_float(text: str, where: str) -> float:
    """Convert text to a finite number.

    :param where: source of the text, for the message
    :raises Unavailable: it is not a number, or not finite
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Unavailable(f"{where}: not a number: {text[:40]!r}")
    return number


def attempt(find: Callable[..., Value], *arguments: object) -> tuple[Value | None, str]:
    """Call a function; return its value and "", or None and why the value is unavailable."""
    try:
        return find(*arguments), ""
    except Unavailable as error:
        return None, error.say()


def or_none(find: Callable[[], Value]) -> Value | None:
    """Call a function; return None if it raises Unavailable."""
    return attempt(find)[0]


def bracketed(text: str, brackets: str = "[]") -> str:
    """Return the selected word of a kernel's list of words: ``always [madvise] never``.

    :param brackets: the opening and the closing bracket around the selected word
    :raises Unavailable: no word is selected
    """
    opening, closing = map(re.escape, brackets)
    match = re.search(f"{opening}([^{closing}\\s]+){closing}", text)
    if not match:
        raise Unavailable(
            f"no value is selected in {text[:40]!r} (expected one value between {brackets[0]} and "
            f"{brackets[1]})"
        )
    return match.group(1)


def _natural(name: str) -> list[tuple[int, str]]:
    # cpu10 comes after cpu9.
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|\D+", name)
    ]


def _read_kmsg(path: Path) -> str:
    # Each read of /dev/kmsg returns one record, "6,339,5140900,-;text\n key=value\n". EPIPE means
    # that records were overwritten; the next read returns the oldest one that is left.
    lines: list[str] = []
    try:
        source = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            for _ in range(KMSG_RECORDS):
                try:
                    record = os.read(source, KMSG_RECORD_BYTES)
                except BrokenPipeError:
                    continue
                except BlockingIOError:
                    break
                if not record:
                    break
                lines.append(record.decode("utf-8", "replace"))
        finally:
            os.close(source)
    except OSError as error:
        raise unavailable("/dev/kmsg", error) from error
    messages = (line.partition(";") for line in "".join(lines).splitlines() if line[:1] != " ")
    return "\n".join(text if separator else head for head, separator, text in messages)


def run(command: Sequence[str], timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    """Run a program and return what it prints on either stream, in the C locale.

    :raises Unavailable: it is not there, cannot be executed, does not end in time, or fails
    """
    done = execute(command, timeout_s, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode != 0:
        raise Unavailable(f"{command[0]}: exit status {done.returncode}: {last_line(output)}")
    return output


def execute(
    command: Sequence[str], timeout_s: float, *, stdout: int, stderr: int
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, whatever its exit status, in the C locale and without input.

    :param stdout: where its output goes, as for :mod:`subprocess`
    :param stderr: where its error output goes, as for :mod:`subprocess`
    :raises Unavailable: it is not there, cannot be executed, or does not end in time
    """
    try:
        return subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=c_locale(),
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise Unavailable(f"{command[0]} is not on PATH") from None
    except OSError as error:
        raise unavailable(command[0], error) from error
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} did not finish within {timeout_s:g} s") from None


def getconf(name: str) -> int:
    """Return a parameter of the hardware that the C library reports, with getconf(1).

    :param name: its name, e.g. "LEVEL1_DCACHE_LINESIZE"
    :raises Unavailable: the library does not report it, or getconf is not installed
    """
    number = to_integer(run(["getconf", name]), f"getconf {name}")
    if number <= 0:
        raise Unavailable(f"getconf {name}: unknown")
    return number


def last_line(text: str) -> str:
    """Return the last line that is not blank, without white space around it; "" if none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def c_locale() -> dict[str, str]:
    """Return an environment in which tools print English text and decimal points."""
    return {**os.environ, "LC_ALL": "C", "LANGUAGE": ""}
