# SPDX-License-Identifier: GPL-2.0-or-later
"""Decide whether an event can sample the scheduler, most of which runs with interrupts off.

The decision uses the event attributes in perf.data, not the command line: perf records
``cpu-clock`` instead of ``cycles`` if there is no PMU. perf.data does not record how the PMU
interrupts; perf_profile.json, written on the recording machine, does. On x86 the core PMU always
interrupts by NMI.

An event is blind if its interrupt is delayed while interrupts are off. The sample is then
attributed to the instruction that enables them again, e.g. in ``finish_task_switch`` or
``_raw_spin_unlock_irqrestore``, so the event does not measure ``update_load_avg``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from schedperf.evidence.profile.record import Clock
from schedperf.model.perf_event import PerfEvent
from schedperf.model.units import format_number
from schedperf.perf_data.event import identify_event
from schedperf_collectors.perf_header import (
    TYPE_BREAKPOINT,
    TYPE_SOFTWARE,
    TYPE_TRACEPOINT,
    Event,
)

# enum perf_type_id of include/uapi/linux/perf_event.h; what is above them are PMUs by number.
TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_RAW = 0, 3, 4
CORE_PMU_TYPES = (TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_RAW)
# PERF_COUNT_SW_CPU_CLOCK and PERF_COUNT_SW_TASK_CLOCK.
TIMER_CONFIGS = (0, 1)
# PERF_COUNT_HW_CPU_CYCLES, and the extended type of hybrid CPUs above bit 32 of the config.
CYCLES_CONFIG = 0
CONFIG_BITS = (1 << 32) - 1

X86_MACHINES = ("x86_64", "i386", "i486", "i586", "i686", "amd64")
# PMUs of one CPU, by their names in /sys/bus/event_source/devices: of a plain and of a hybrid CPU
# of Intel, and AMD's instruction-based sampling (arch/x86/events/).
X86_NMI_PMUS = ("cpu", "cpu_core", "cpu_atom", "ibs_fetch", "ibs_op")
ARM_MACHINES = ("aarch64", "arm64")

CHARGED_ELSEWHERE = (
    "time with interrupts off is attributed to the instruction that enables them again"
)

# The functions of which that instruction is a part: kernel/sched/core.c and the kernel's locks.
CHARGED_FUNCTIONS = (
    "finish_task_switch",
    "_raw_spin_unlock_irqrestore",
    "_raw_spin_unlock_irq",
    "raw_spin_rq_unlock_irq",
)

# CPU_CYCLES of QEMU's arm64 PMU is its virtual clock at 1 GHz (cycles_get_count() in target/arm).
EMULATED_COUNTER = "an emulator's counter: virtual time at a fixed rate, not cycles of a real CPU"

_COUNT_CALLS = "or count PELT updates without sampling: schedperf record --with bpf_pelt"
_CALLS_COUNTED = 'the section "PELT updates" counts PELT updates without sampling'


@dataclass(frozen=True, kw_only=True, slots=True)
class EventSight:
    """Which code a profile of one event can sample.

    :param event: its name without modifiers: ``cycles``
    :param clock: trigger of a sample: "hrtimer" or "pmu"; None for tracepoints and other software
        events
    :param unit: unit of the periods: "ns", "cycles", or the name of the event
    :param nmi: whether the event also interrupts code with interrupts off; None if unknown
    :param blind: whether the event cannot sample code that runs with interrupts off; None if
        unknown
    :param reason: reason for ``blind``, one sentence
    :param precise: 0 (the address may be some instructions late) to 3 (it is exact)
    :param emulated: whether an emulator provides the counter; None if host.json does not record it
    :param remedy: how to measure code with interrupts off; None if the event samples it
    :param perf_event: event as requested from the kernel; ignored by ``==``
    """

    event: str
    clock: Clock | None
    unit: str
    nmi: bool | None
    blind: bool | None
    reason: str
    precise: int
    emulated: bool | None
    remedy: str | None
    perf_event: PerfEvent = field(compare=False)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Caveats of the shares, one sentence each."""
        return tuple(_caveats(self))


def judge_event(
    event: Event,
    *,
    machine: str | None,
    emulated: bool | None,
    recorded: tuple[str, bool | None, str] | None = None,
    pmus: Mapping[int, str] | None = None,
    has_pelt: bool = False,
) -> EventSight:
    """Return which code an event can sample.

    :param machine: output of ``uname -m``; None if unknown
    :param recorded: what the recording machine reported about its PMU: the plain name of an event,
        whether that event is blind, and the reason; ignored for other events
    :param pmus: names of the machine's PMUs by event type number; None if unknown
    :param has_pelt: whether bpf_pelt counted calls in the same recording
    """
    clock = _clock_of(event)
    blind, reason = _judge(event, clock, machine, recorded, (pmus or {}).get(event.type))
    return EventSight(
        event=event.plain_name,
        clock=clock,
        unit=_unit_of(event, clock),
        nmi=None if blind is None else not blind,
        blind=blind,
        reason=reason,
        precise=event.precise_ip,
        emulated=emulated,
        remedy=None if blind is False else _remedy(clock, machine, has_pelt=has_pelt),
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
    machine: str | None,
    recorded: tuple[str, bool | None, str] | None,
    pmu: str | None,
) -> tuple[bool | None, str]:
    if clock == "hrtimer":
        return True, f"{event.plain_name} is driven by an hrtimer: {CHARGED_ELSEWHERE}"
    if clock is None:
        return None, f"{event.plain_name} counts events, not CPU time"
    if recorded is not None and recorded[0] == event.plain_name:
        return recorded[1:]
    if machine in X86_MACHINES and (event.type in CORE_PMU_TYPES or pmu in X86_NMI_PMUS):
        return False, "the PMU interrupts by NMI on x86"
    if pmu is not None and event.type not in CORE_PMU_TYPES:
        return None, f"unknown whether the PMU {pmu} interrupts by NMI (not recorded)"
    return None, "unknown whether the PMU interrupts by NMI (not recorded)"


def _remedy(clock: str | None, machine: str | None, *, has_pelt: bool) -> str:
    if clock == "pmu" and machine in ARM_MACHINES:
        first = (
            "boot with irqchip.gicv3_pseudo_nmi=1 (a kernel with CONFIG_ARM64_PSEUDO_NMI), so that "
            "the PMU interrupts by NMI"
        )
    elif clock == "pmu":
        first = (
            "record with schedperf record --with perf_profile, which records whether the PMU "
            "interrupts by NMI"
        )
    else:
        first = (
            "record cycles on a machine with a PMU: bare metal, or a guest with a virtual PMU; on "
            "arm64 with irqchip.gicv3_pseudo_nmi=1"
        )
    return f"{first}; {_CALLS_COUNTED if has_pelt else _COUNT_CALLS}"


def _caveats(sight: EventSight) -> Iterator[str]:
    if sight.emulated and sight.clock == "pmu":
        yield (
            f"{sight.event}: {EMULATED_COUNTER}; shares show which code runs more, not how much "
            "slower a real machine is"
        )
    if sight.clock == "pmu" and not sight.precise:
        yield (
            f"{sight.event} was sampled without a precise level, so sampled addresses may be a few "
            "instructions late (rarely matters for whole functions)"
        )


def loss_caveat(samples: int, lost: int, throttled: int) -> str | None:
    """Describe lost records and throttling of a recording; None if there are none.

    :param lost: number of records of any type lost by the kernel
    :param throttled: number of times that the kernel throttled the event
    """
    parts = []
    if lost:
        share = 100.0 * lost / (samples + lost)
        records = "record was" if lost == 1 else "records were"
        percent = format_number(float(f"{share:.2g}"))
        parts.append(f"{lost} {records} lost, {percent}% of the expected samples")
    if throttled:
        times = "time" if throttled == 1 else "times"
        parts.append(f"the kernel throttled the event {throttled} {times} (sampling rate too high)")
    return "; ".join(parts) or None
