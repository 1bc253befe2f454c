# SPDX-License-Identifier: GPL-2.0-or-later
"""Record the kernel's data layout: symbols, types, configuration, cache line sizes.

==============  ==========================================================
System.map      of the running kernel, if one is found
kallsyms        the running kernel's symbols with their addresses
btf             types of the running kernel, with its per-CPU section
config          the kernel's configuration
percpu.txt      the kernel log's lines about the per-CPU areas
layout.json     cache line sizes, and the reason for each missing file
==============  ==========================================================

The line size that the kernel was compiled for determines the layout; the line size of the hardware
determines which accesses contend. They can differ (arm64: 64 and 128)::

    {"cacheline": {"compile_time_bytes": 64, "hardware_bytes": 64,
                   "sources": {"compile_time": "CONFIG_X86_L1_CACHE_SHIFT=6",
                               "hardware": "/sys/devices/system/cpu/cpu0/cache/…"}},
     "notes": {"System.map": "/boot/System.map-6.1.0: no such file or directory"}}
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Callable

from schedperf_collectors.contract import (
    BTF_LIMIT_BYTES,
    CONSTANT_LINE_BYTES,
    SHIFT_OPTION,
    Unavailable,
)
from schedperf_collectors.machine.kernel_files import (
    find_config,
    find_system_map,
    read_kallsyms,
)
from schedperf_collectors.machine.system import System, attempt, getconf
from schedperf_collectors.plugin import Capture, collector

PERCPU_LINE = re.compile(r"^(?:setup_percpu|percpu|pcpu-alloc): .*$", re.MULTILINE)


@collector(scope="boot", cost="10 to 30 MB before compression, 0.5 s", options=("kernel_files",))
def layout(capture: Capture) -> None:
    """Record symbols, BTF, configuration and cache line sizes."""
    capture_layout(System(), capture)


def capture_layout(system: System, capture: Capture) -> None:
    """Implement :func:`layout` for any system."""
    notes: dict[str, str] = {}

    def keep(name: str, content: Callable[[], bytes]) -> bytes:
        kept, reason = attempt(content)
        if kept is None:
            notes[name] = reason
            return b""
        (capture.folder / name).write_bytes(kept)
        return kept

    kallsyms = keep("kallsyms", partial(read_kallsyms, system))
    keep("System.map", lambda: find_system_map(system, capture.options, kallsyms))
    keep("btf", partial(system.bytes, "/sys/kernel/btf/vmlinux", BTF_LIMIT_BYTES))
    config = keep("config", lambda: bytes(find_config(system, capture.options)[0], "utf-8"))
    keep("percpu.txt", partial(percpu_lines, system))
    facts = {"cacheline": cacheline(system, config.decode()), "notes": notes}
    (capture.folder / "layout.json").write_text(json.dumps(facts, indent=1) + "\n")


def percpu_lines(system: System) -> bytes:
    """Return the kernel log's lines about the size and grouping of the per-CPU areas.

    :raises Unavailable: the log is not readable, or no longer contains the boot
    """
    lines = PERCPU_LINE.findall(system.kernel_log())
    if not lines:
        raise Unavailable("the kernel log has no percpu line; it may have been overwritten")
    return "".join(f"{line}\n" for line in lines).encode()


def cacheline(system: System, config: str) -> dict[str, object]:
    """Return both cache line sizes in bytes (None: unknown) and their sources.

    :param config: the kernel's configuration, "" if unknown
    """
    sizes: dict[str, object] = {}
    sources: dict[str, str] = {}
    finders: dict[str, Callable[[], tuple[int, str]]] = {
        "compile_time": lambda: compile_time_line(system, config),
        "hardware": lambda: hardware_line(system),
    }
    for name, find in finders.items():
        size, reason = attempt(find)
        sizes[f"{name}_bytes"], sources[name] = size or (None, reason)
    return {**sizes, "sources": sources}


def compile_time_line(system: System, config: str) -> tuple[int, str]:
    """Return L1_CACHE_BYTES of the running kernel and its source.

    :raises Unavailable: neither the configuration nor the architecture determines it
    """
    match = SHIFT_OPTION.search(config)
    if match:
        return 1 << int(match.group(2)), match.group(0)
    if system.machine in CONSTANT_LINE_BYTES:
        return CONSTANT_LINE_BYTES[system.machine], f"arch constant of {system.machine}"
    raise Unavailable("the kernel configuration has no L1_CACHE_SHIFT or cannot be read")


def hardware_line(system: System) -> tuple[int, str]:
    """Return the largest cache line of any CPU in bytes and its source.

    :raises Unavailable: neither sysfs nor the C library reports it
    """
    cpus = "/sys/devices/system/cpu"
    sizes = [
        (system.integer(name), name)
        for cpu in system.names(cpus, r"cpu\d+")
        if system.exists(f"{cpu}/cache")
        for index in system.names(f"{cpu}/cache", r"index\d+")
        for name in [f"{index}/coherency_line_size"]
        if system.exists(name)
    ]
    if sizes:
        # The first of the largest: its path is the same on every machine of this kind.
        return max(sizes, key=lambda size: size[0])
    return getconf("LEVEL1_DCACHE_LINESIZE"), "getconf LEVEL1_DCACHE_LINESIZE"
