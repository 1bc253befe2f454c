# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the interface for attaching probes to kernel functions and tracepoints.

Both loaders, libbpf and bcc, implement it. A program that the kernel rejects does not affect the
others; the reason is one line.
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel_files import find_functions
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import Skipped

PAIRS = ("fentry/fexit", "kprobe/kretprobe")
FENTRY, KPROBE = PAIRS
RAW_TRACEPOINT = "raw_tracepoint"
NO_KPROBES = "this kernel has no kprobes; rebuild with CONFIG_KPROBES=y"
# The file of perf's kprobes, and a function that exists in every kernel with kprobes.
_PERF_KPROBES = "/sys/bus/event_source/devices/kprobe"
_REGISTER_KPROBE = "register_kprobe"


class Programs(ABC):
    """Programs that can be attached one by one, and their maps."""

    @abstractmethod
    def attach_pair(self, mechanism: str, name: str) -> None:
        """Attach the programs of a function to its entry and exit.

        :param mechanism: one of PAIRS
        :raises Unavailable: one of the two cannot be attached; the other is detached then
        """

    @abstractmethod
    def attach_raw_tracepoint(self, name: str) -> None:
        """Attach the program of a tracepoint, even one that tracefs does not list.

        :raises Unavailable: the tracepoint does not exist, or the kernel rejects the program
        """

    @abstractmethod
    def write(self, table: str, index: int, value: int) -> None:
        """Write an element of an array of 64-bit numbers.

        :param table: name of the map
        """

    @abstractmethod
    def read(self, table: str, index: int) -> dict[int, Any]:
        """Return an element of a per-CPU array: the struct of each possible CPU, by CPU.

        :param table: name of the map
        """

    @abstractmethod
    def close(self) -> None:
        """Detach everything."""


class NoPrograms(Programs):
    """Replacement used if no program can be loaded; every attach fails.

    :param why: the error of the loader
    """

    def __init__(self, why: Skipped) -> None:
        self.why = why

    def attach_pair(self, mechanism: str, name: str) -> None:  # noqa: ARG002 # as Programs has it
        """Raise, with the reason why no program was loaded.

        :raises Unavailable: always
        """
        raise Unavailable(self.why.reason)

    def attach_raw_tracepoint(self, name: str) -> None:  # noqa: ARG002 # as Programs has it
        """Raise, with the reason why no program was loaded.

        :raises Unavailable: always
        """
        raise Unavailable(self.why.reason)

    def write(self, table: str, index: int, value: int) -> None:
        """Ignore the write: no program reads it."""

    def read(self, table: str, index: int) -> dict[int, Any]:  # noqa: ARG002 # as Programs has it
        """Return an empty dict: no program is attached that could count."""
        return {}

    def close(self) -> None:
        """Do nothing: nothing is attached."""


def as_root() -> str:
    """Return the remedy for an error that only affects ordinary users; "" for root."""
    return "" if os.geteuid() == 0 else "run as root"


def group_refusals(refusals: Mapping[str, str]) -> str:
    """Return why each mechanism failed; mechanisms with the same reason are grouped.

    The reason :data:`NO_KPROBES` stands alone, without mechanisms.

    :param refusals: reason by mechanism

    >>> group_refusals({"tp_btf": "not permitted", "raw_tp": "not permitted"})
    'tp_btf, raw_tp: not permitted'
    """
    mechanisms: dict[str, list[str]] = {}
    for mechanism, reason in refusals.items():
        mechanisms.setdefault(reason, []).append(mechanism)
    return "; ".join(
        # For a kernel without kprobes, the mechanisms add nothing to the reason.
        reason if reason == NO_KPROBES else f"{', '.join(by)}: {reason}"
        for reason, by in mechanisms.items()
    )


@functools.lru_cache(maxsize=1)
def lacks_kprobes(system: System | None = None) -> bool:
    """Return whether the kernel was built without kprobes; False if unknown.

    libbpf gives no reason if a kprobe fails on such a kernel.

    :param system: None for this machine
    """
    system = system or System()
    if system.exists(_PERF_KPROBES):
        return False
    try:
        return find_functions(system, [_REGISTER_KPROBE]).first([_REGISTER_KPROBE]) is None
    except Unavailable:
        return False
