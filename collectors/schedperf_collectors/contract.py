# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the names, limits and texts that the recorder and the analysis share.

These are names of bundle members, size limits of captures, and texts that the recorder writes and
the analysis parses.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

BUNDLE_FORMAT = "schedperf-bundle"
# Readers reject a newer major version and warn about a newer minor one.
BUNDLE_VERSION = (1, 0)

MANIFEST = "manifest.json"
# The group of host.json that explains why fields are null; it is not a field itself.
REASONS_GROUP = "missing"

# Suffixes of a bundle's file name.
BUNDLE_SUFFIXES = (".tar", ".tar.gz", ".tar.xz")

# The collector that runs a second workload beside the first (--with-load).
LOAD = "load"

# The collector that accounts for the time of the workload's tasks (--workload-pid).
ACCOUNT = "account"

# Prefix of temporary directories.
TEMPORARY = "schedperf-"

# The largest number of runs for which the comparison can correct for repeated looks.
MOST_BUDGETED = 100

# A System.map has 5 to 10 MB; kallsyms with all data symbols and allocation profiling 40 MB.
SYMBOLS_LIMIT_BYTES = 256 << 20
# 5 MB for a distribution's kernel.
BTF_LIMIT_BYTES = 128 << 20

# x86, arm, mips and loongarch compute L1_CACHE_BYTES from an option of the configuration.
SHIFT_OPTION = re.compile(r"^(CONFIG_(?:[A-Z0-9]+_)?L1_CACHE_SHIFT)=(\d{1,2})$", re.MULTILINE)
# L1_CACHE_BYTES of architectures where asm/cache.h has a constant. arm64: 64 again since "arm64:
# Revert L1_CACHE_SHIFT back to 6 (64-byte cache line size)", v4.17.
CONSTANT_LINE_BYTES = {
    "aarch64": 64,
    "ppc64": 128,
    "ppc64le": 128,
    "riscv64": 64,
    "s390x": 256,
}

# The files of the collector ``symbols``: the first line of each, how their names end, and their
# largest size. A browser's own file has 30 MB of such lines, a C library 60 kB.
SYMBOLS_FORMAT = "schedperf-symbols/1"
SYMBOLS_SUFFIX = ".sym"
MOST_SYMBOLS_BYTES = 64 << 20
# The kernel maps a small ELF file into every process; it has no path in a file system.
VDSO = "[vdso]"

# By implementer and part of MIDR_EL1: arch/arm64/include/asm/cputype.h.
ARM_CORES = {
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD04): "Cortex-A35",
    (0x41, 0xD05): "Cortex-A55",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD09): "Cortex-A73",
    (0x41, 0xD0A): "Cortex-A75",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD0D): "Cortex-A77",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD41): "Cortex-A78",
    (0x41, 0xD44): "Cortex-X1",
    (0x41, 0xD46): "Cortex-A510",
    (0x41, 0xD47): "Cortex-A710",
    (0x41, 0xD48): "Cortex-X2",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x41, 0xD4B): "Cortex-A78C",
    (0x41, 0xD4D): "Cortex-A715",
    (0x41, 0xD4E): "Cortex-X3",
    (0x41, 0xD80): "Cortex-A520",
    (0x41, 0xD81): "Cortex-A720",
    (0x41, 0xD82): "Cortex-X4",
    (0x41, 0xD84): "Neoverse-V3",
    (0x41, 0xD8E): "Neoverse-N3",
    (0x42, 0x516): "ThunderX2",
    (0x43, 0x0AF): "ThunderX2",
    (0x46, 0x001): "A64FX",
    # TSV110 in that file.
    (0x48, 0xD01): "Kunpeng-920",
    (0x6D, 0xD49): "Azure-Cobalt-100",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1A",
}

# The longest CPU list that a kernel prints; NR_CPUS of all distributions is far smaller.
CPUS_LIMIT = 1 << 16

# Placeholders of parameters in a workload's command; doubled braces are literal braces.
PLACEHOLDER = re.compile(r"\{\{(?P<literal>[A-Za-z_]\w*)\}\}|\{(?P<name>[A-Za-z_]\w*)\}", re.ASCII)


class Unavailable(Exception):
    """A value is not available on this machine.

    :param reason: why, one line, lower case, no full stop
    :param remedy: a command or setting that fixes it; "" if none is known
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy

    def say(self) -> str:
        """Return ``REASON; REMEDY``, or only the reason if no remedy is known."""
        return "; ".join(filter(None, (self.reason, self.remedy)))


class Function(NamedTuple):
    """A function of an ELF file.

    :param offset: offset of its first byte in the file
    :param size: size in bytes; 0 if the file does not record it
    """

    offset: int
    size: int
    name: str


def read_boot_id() -> str:
    """Return the id of the running boot, a UUID that the kernel generates.

    :raises OSError: /proc is not mounted
    """
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def temporary_prefix(pid: int | None = None) -> str:
    """Return the prefix of a process's temporary directories.

    The prefix identifies the process by pid, PID namespace and boot, so that other processes can
    determine whether it is dead. The boot is necessary because the initial PID namespace has the
    same inode number on all machines.

    :param pid: process id in this PID namespace; None for this process
    :raises OSError: /proc is not mounted
    """
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    return f"{TEMPORARY}{pid or os.getpid()}-{namespace}-{read_boot_id()[:8]}-"


def boot_folder(boot: int) -> str:
    """Return the directory of a boot's captures inside the bundle: ``boots/0``."""
    return f"boots/{boot}"


def run_folder(boot: int, run: int) -> str:
    """Return the directory of a run's captures inside the bundle: ``boots/0/runs/007``."""
    return f"{boot_folder(boot)}/runs/{run:03d}"


def point_key(point: dict[str, str]) -> str:
    """Return the canonical text of a point, ``fds=20,groups=4``; "" without parameters.

    :param point: values of the workload's parameters, by name
    """
    return ",".join(f"{name}={point[name]}" for name in sorted(point))


def format_template(template: Sequence[str]) -> str:
    """Return a command in shell syntax, its placeholders unquoted.

    An argument that needs quotes for another reason is quoted with its placeholders.

    >>> format_template(["hackbench", "-g", "{groups}", "--name", "a b"])
    "hackbench -g {groups} --name 'a b'"
    """
    return " ".join(
        argument if _is_plain(PLACEHOLDER.sub("x", argument)) else shlex.quote(argument)
        for argument in template
    )


def cut(text: str, most: int) -> str:
    """Return a text, shortened with … at its end if it is too long.

    The publishing code recognises shortened texts by that mark, because they may end with a part of
    a private name.

    :param most: maximum number of characters, including the mark
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _is_plain(argument: str) -> bool:
    return shlex.quote(argument) == argument


def parse_cpu_list(text: str) -> list[int]:
    """Parse a CPU list as the kernel prints it: ``0-2,8``; an empty text is an empty list.

    :raises Unavailable: the text is not a CPU list, or the list is too long
    """
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not first <= last < CPUS_LIMIT or len(cpus) > CPUS_LIMIT:
            raise Unavailable(
                f"invalid CPU list {text[:40]!r} (expected CPUs and ranges, e.g. 0-3,8)"
            )
        cpus.extend(range(first, last + 1))
    return cpus


def format_cpu_list(cpus: Sequence[int]) -> str:
    """Format ascending numbers as the kernel prints a list of CPUs.

    >>> format_cpu_list([0, 1, 2, 8])
    '0-2,8'
    """
    # Consecutive numbers have a constant distance from their index.
    runs: dict[int, list[int]] = {}
    for index, cpu in enumerate(cpus):
        runs.setdefault(cpu - index, []).append(cpu)
    return ",".join(
        str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs.values()
    )


def fields_of(host: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield dotted path and value of each field of a host.json.

    An empty group is a field with the value {}. The group ``missing``, which holds the reasons of
    null fields, is left out.
    """
    yield from _flatten("", {key: value for key, value in host.items() if key != REASONS_GROUP})


def _flatten(prefix: str, group: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in group.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flatten(f"{path}.", value)
        else:
            yield path, value
