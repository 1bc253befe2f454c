"""Why a kernel takes none of the ways to attach a program, in one line."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel_functions import find_functions
from schedperf_collectors.machine.system import System

NO_KPROBES = "this kernel has no kprobes; rebuild with CONFIG_KPROBES=y"
# Where perf's kprobes are, and the function that is in every kernel with kprobes.
PERF_KPROBES = "/sys/bus/event_source/devices/kprobe"
REGISTER_KPROBE = "register_kprobe"


def say_refusals(refusals: Mapping[str, str]) -> str:
    """Return why each mechanism does not work; what holds for several is said once.

    >>> say_refusals({"tp_btf": "not permitted", "raw_tp": "not permitted"})
    'tp_btf, raw_tp: not permitted'
    """
    mechanisms: dict[str, list[str]] = {}
    for mechanism, reason in refusals.items():
        mechanisms.setdefault(reason, []).append(mechanism)
    return "; ".join(
        # That there are no kprobes says itself which mechanism it is.
        reason if reason == NO_KPROBES else f"{', '.join(by)}: {reason}"
        for reason, by in mechanisms.items()
    )


@functools.lru_cache(maxsize=1)
def lacks_kprobes(system: System | None = None) -> bool:
    """Tell whether the kernel was built without kprobes: what libbpf says then names no reason."""
    system = system or System()
    if system.exists(PERF_KPROBES):
        return False
    try:
        return find_functions(system, [REGISTER_KPROBE]).first([REGISTER_KPROBE]) is None
    except Unavailable:
        return False
