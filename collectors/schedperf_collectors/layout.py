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

``--shareable`` leaves out System.map, kallsyms and the addresses in percpu.txt.

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

_LEFT_OUT = "kernel addresses are left out (--shareable)"
# Of Linux before 5.0: `Embedded 36 pages/cpu @ffff88023fc00000 s107800`.
_ADDRESS = re.compile(r" @[0-9a-f]{8,16}\b")
PERCPU_LINE = re.compile(r"^(?:setup_percpu|percpu|pcpu-alloc): .*$", re.MULTILINE)


@collector(
    scope="boot",
    cost="10 to 30 MB before compression, 0.5 s",
    options=("kernel_files", "addresses"),
)
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

    has_addresses = capture.options.get("addresses") != "no"
    if has_addresses:
        kallsyms = keep("kallsyms", partial(read_kallsyms, system))
        keep("System.map", lambda: find_system_map(system, capture.options, kallsyms))
    else:
        notes.update(dict.fromkeys(("kallsyms", "System.map"), _LEFT_OUT))
    keep("btf", partial(system.bytes, "/sys/kernel/btf/vmlinux", BTF_LIMIT_BYTES))
    config = keep("config", lambda: bytes(find_config(system, capture.options)[0], "utf-8"))
    keep("percpu.txt", partial(percpu_lines, system, has_addresses=has_addresses))
    facts = {"cacheline": cacheline(system, config.decode()), "notes": notes}
    (capture.folder / "layout.json").write_text(json.dumps(facts, indent=1) + "\n")


def percpu_lines(system: System, *, has_addresses: bool = True) -> bytes:
    """Return the kernel log's lines about the size and grouping of the per-CPU areas.

    :param has_addresses: keep kernel addresses in them
    :raises Unavailable: the log is not readable, or has no such line (any more)
    """
    lines = PERCPU_LINE.findall(system.kernel_log())
    if not lines:
        raise Unavailable("the kernel log has no percpu line; it may have been overwritten")
    text = "".join(f"{line}\n" for line in lines)
    return (text if has_addresses else _ADDRESS.sub("", text)).encode()


def cacheline(system: System, config: str) -> dict[str, object]:
    """Return the value of "cacheline" in layout.json: both cache line sizes and their sources.

    A size is in bytes; None if unknown, and the source is then the reason.

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

    :param config: the kernel's configuration, "" if unknown
    :raises Unavailable: neither the configuration nor the architecture determines it
    """
    match = SHIFT_OPTION.search(config)
    if match:
        return 1 << int(match.group(2)), match.group(0)
    if system.machine in CONSTANT_LINE_BYTES:
        return CONSTANT_LINE_BYTES[system.machine], f"arch constant of {system.machine}"
    raise Unavailable("the kernel configuration has no L1_CACHE_SHIFT or cannot be read")


def hardware_line(system: System) -> tuple[int, str]:
    """Return the largest cache line size of any CPU in bytes and its source.

    :raises Unavailable: neither sysfs nor the C library reports it, or sysfs cannot be read
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
