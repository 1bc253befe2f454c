# SPDX-License-Identifier: GPL-2.0-or-later
"""Decide whether an event can sample the scheduler, most of which runs with interrupts off.

The decision uses the event attributes in perf.data, not the command line: perf records
``cpu-clock`` instead of ``cycles`` if there is no PMU. perf.data does not record how the PMU
interrupts; perf_profile.json, written on the recording machine, does. On x86 the core PMU always
interrupts by NMI.

An event is blind if its interrupt is delayed while interrupts are off. The sample is then
attributed to the instruction that re-enables them, e.g. in ``finish_task_switch`` or
``_raw_spin_unlock_irqrestore``, so the event does not measure ``update_load_avg``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from msgspec import Struct

from schedperf.evidence.profile.record import Clock, Level
from schedperf.inputs.perf_data.event import EventIdentity, identify_event, identify_events
from schedperf.model.perf_event import PerfEvent
from schedperf.model.text import join_names
from schedperf_collectors.perf_header import (
    TYPE_BREAKPOINT,
    TYPE_SOFTWARE,
    TYPE_TRACEPOINT,
    Event,
)

# enum perf_type_id of include/uapi/linux/perf_event.h; larger numbers are dynamic PMUs.
TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_RAW = 0, 3, 4
CORE_PMU_TYPES = (TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_RAW)
# PERF_COUNT_SW_CPU_CLOCK and PERF_COUNT_SW_TASK_CLOCK.
TIMER_CONFIGS = (0, 1)
# PERF_COUNT_HW_CPU_CYCLES, and the extended type of hybrid CPUs above bit 32 of the config.
CYCLES_CONFIG = 0
CONFIG_BITS = (1 << 32) - 1

X86_MACHINES = ("x86_64", "i386", "i486", "i586", "i686", "amd64")
# CPU PMUs by their names in /sys/bus/event_source/devices: of Intel CPUs, hybrid Intel CPUs, and
# AMD's instruction-based sampling (arch/x86/events/).
X86_NMI_PMUS = ("cpu", "cpu_core", "cpu_atom", "ibs_fetch", "ibs_op")
# Code that an event may exclude; perf excludes guests and the hypervisor by default.
_EXCLUDABLE: tuple[Level, ...] = get_args(Level)
_LEVELS: Mapping[Level, str] = {
    "user": "user space",
    "kernel": "the kernel",
    "idle": "the idle task",
    "host": "the host",
}
ARM_MACHINES = ("aarch64", "arm64")

CHARGED_ELSEWHERE = "time with interrupts off is attributed to the instruction that re-enables them"

# CPU_CYCLES of QEMU's arm64 PMU is its virtual clock at 1 GHz (cycles_get_count() in target/arm).
EMULATED_COUNTER = (
    "an emulator's counter, which counts virtual time at a fixed rate instead of CPU cycles"
)

_WITH_KERNEL = (
    "record the kernel as well (as root, or with kernel.perf_event_paranoid at 1 or less, and "
    "without the modifier u)"
)
_COUNT_CALLS = "or count PELT updates without sampling, with schedperf record --with bpf_pelt"
_CALLS_COUNTED = 'the section "PELT updates" lists calls that were counted without sampling'


@dataclass(frozen=True, kw_only=True, slots=True)
class EventSight:
    """Which code a profile of one event can sample.

    :param identity: the event, with its modifiers
    :param clock: trigger of a sample: "hrtimer" or "pmu"; None for tracepoints, breakpoints and
        other software events
    :param unit: unit of the periods: "ns", "cycles", or the name of the event
    :param nmi: whether the event also interrupts code with interrupts off; None if unknown, or if
        the event does not count the kernel
    :param blind: whether the event cannot sample code that runs with interrupts off; None if
        unknown
    :param reason: reason for ``blind``, one sentence
    :param precise: 0 (the address may be some instructions late) to 3 (it is exact)
    :param emulated: whether an emulator provides the counter; None if unknown
    :param remedy: how to measure code with interrupts off; None if the event samples it
    :param excluded: what the event does not count: "user", "kernel", "hv", "idle", "host", "guest"
    :param perf_event: event as requested from the kernel; ignored by ``==``
    """

    identity: EventIdentity
    clock: Clock | None
    unit: str
    nmi: bool | None
    blind: bool | None
    reason: str
    precise: int
    emulated: bool | None
    remedy: str | None
    excluded: tuple[Level, ...]
    perf_event: PerfEvent = field(compare=False)

    @property
    def event(self) -> str:
        """The event as perf prints it."""
        return self.identity.label

    @property
    def caveats(self) -> tuple[str, ...]:
        """Caveats of the shares, one sentence each."""
        return tuple(_caveats(self))


class Machine(Struct, frozen=True, kw_only=True):
    """What is known about the machine of a recording.

    :param name: output of ``uname -m``; None if unknown
    :param emulated: whether an emulator provides the counters; None if unknown
    :param recorded: what the recording machine reported about its PMU: the plain name of an event,
        whether that event is blind, and the reason; ignored for other events
    :param has_pelt: whether bpf_pelt counted calls in the same recording
    """

    name: str | None
    emulated: bool | None
    recorded: tuple[str, bool | None, str] | None = None
    has_pelt: bool = False


def judge_events(
    events: Sequence[Event], machine: Machine, pmus: Mapping[int, str] | None
) -> tuple[EventSight, ...]:
    """Return which code each event of a recording can sample.

    :param pmus: names of the machine's PMUs by event type number; None if unknown
    """
    identities = identify_events(events, pmus)
    return tuple(
        _judge_event(event, identity, machine, pmus)
        for event, identity in zip(events, identities, strict=True)
    )


def _judge_event(
    event: Event, identity: EventIdentity, machine: Machine, pmus: Mapping[int, str] | None
) -> EventSight:
    clock = _clock_of(event)
    blind, reason = _judge(event, clock, machine, (pmus or {}).get(event.type))
    is_kernel_excluded = "kernel" in event.excluded
    if is_kernel_excluded:
        remedy: str | None = _WITH_KERNEL
    else:
        remedy = None if blind is False else _remedy(clock, machine)
    return EventSight(
        identity=identity,
        clock=clock,
        unit=_unit_of(event, clock),
        nmi=None if blind is None or is_kernel_excluded else not blind,
        blind=blind,
        reason=reason,
        precise=event.precise_ip,
        emulated=machine.emulated,
        remedy=remedy,
        excluded=tuple(level for level in _EXCLUDABLE if level in event.excluded),
        perf_event=identify_event(event, pmus),
    )


def _clock_of(event: Event) -> Clock | None:
    if event.type == TYPE_SOFTWARE:
        return "hrtimer" if event.config in TIMER_CONFIGS else None
    return None if event.type in (TYPE_TRACEPOINT, TYPE_BREAKPOINT) else "pmu"


def _unit_of(event: Event, clock: str | None) -> str:
    if clock == "hrtimer":
        return "ns"
    is_cycles = event.type == TYPE_HARDWARE and event.config & CONFIG_BITS == CYCLES_CONFIG
    return "cycles" if is_cycles else event.plain_name


def _judge(
    event: Event,
    clock: str | None,
    machine: Machine,
    pmu: str | None,
) -> tuple[bool | None, str]:
    if "kernel" in event.excluded:
        return True, f"{event.plain_name} does not count the kernel (exclude_kernel)"
    if clock == "hrtimer":
        return True, f"{event.plain_name} is driven by an hrtimer: {CHARGED_ELSEWHERE}"
    if clock is None:
        return None, f"{event.plain_name} counts events, not CPU time"
    if machine.recorded is not None and machine.recorded[0] == event.plain_name:
        return machine.recorded[1:]
    return _judge_pmu(event, machine, pmu)


def _judge_pmu(event: Event, machine: Machine, pmu: str | None) -> tuple[bool | None, str]:
    if machine.name in X86_MACHINES and (event.type in CORE_PMU_TYPES or pmu in X86_NMI_PMUS):
        return False, "the PMU interrupt is an NMI on x86"
    if pmu is not None and event.type not in CORE_PMU_TYPES:
        return None, f"the recording does not state whether the interrupt of PMU {pmu} is an NMI"
    return None, "the recording does not state whether the PMU interrupt is an NMI"


def _remedy(clock: str | None, machine: Machine) -> str:
    if clock == "pmu" and machine.name in ARM_MACHINES:
        first = (
            "boot with irqchip.gicv3_pseudo_nmi=1 (requires CONFIG_ARM64_PSEUDO_NMI), so that the "
            "PMU interrupt is an NMI"
        )
    elif clock == "pmu":
        first = (
            "record with schedperf record --with perf_profile, which records whether the PMU "
            "interrupt is an NMI"
        )
    else:
        first = (
            "record cycles on a machine with a PMU (bare metal, or a guest with a virtual PMU; "
            "boot arm64 with irqchip.gicv3_pseudo_nmi=1)"
        )
    return f"{first}; {_CALLS_COUNTED if machine.has_pelt else _COUNT_CALLS}"


def _caveats(sight: EventSight) -> Iterator[str]:
    if left_out := [_LEVELS[level] for level in sight.excluded if level in _LEVELS]:
        yield (
            f"{sight.event} does not count {join_names(left_out)}, so shares refer to the "
            "remaining code"
        )
    if sight.emulated and sight.clock == "pmu":
        yield (
            f"{sight.event} is {EMULATED_COUNTER}; shares show which code runs more often, but "
            "not how much time it takes on real hardware"
        )
    if sight.clock == "pmu" and not sight.precise:
        yield (
            f"{sight.event} was sampled without a precise level, so sampled addresses may skid by "
            "a few instructions, which rarely matters for whole functions"
        )
