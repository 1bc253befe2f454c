# SPDX-License-Identifier: GPL-2.0-or-later
"""What an event can see of the scheduler, most of which runs with interrupts off.

Decided from the attributes that the kernel was given and perf.data repeats, not from the
command line: perf records ``cpu-clock`` where it was asked for ``cycles`` and there is no
PMU. What perf.data does not hold, how the PMU interrupts, is added by perf_profile.json,
written on the machine itself; on x86 a PMU always interrupts by NMI.

Blind is an event whose interrupt waits while interrupts are off. The sample is then
charged to the instruction that turns them on again: ``finish_task_switch``,
``_raw_spin_unlock_irqrestore``. Nothing is known of ``update_load_avg`` from such an
event, be it listed or not.
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

_COUNT_CALLS = "or count calls instead of sampling them: schedperf record --with bpf_pelt"
_CALLS_COUNTED = 'PELT updates are counted in the section "PELT updates"'


@dataclass(frozen=True, kw_only=True, slots=True)
class EventSight:
    """What a profile of one event rests on.

    :param event: its name without modifiers: ``cycles``
    :param clock: what triggers a sample: "hrtimer", "pmu"; None: not a time, or unknown
    :param unit: what periods count: "ns", "cycles", or the event by its name
    :param nmi: does it interrupt where interrupts are off? None where unknown
    :param blind: is code that runs with interrupts off invisible? None where unknown
    :param reason: why, one sentence
    :param precise: 0 (the address may be some instructions late) to 3 (it is exact)
    :param emulated: are the counters those of an emulator, which counts no cycles of a real CPU?
        None where host.json does not say
    :param remedy: what to record instead; None where the event sees
    :param perf_event: as the kernel was asked for it; two sights of different ones may be equal
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
        """What else to know before one reads the shares, one sentence each."""
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
    """Decide what an event sees.

    :param machine: as ``uname -m`` says; None where it is not known
    :param recorded: what the machine that recorded knew of its PMU: for which event, by its plain
        name, whether that is blind, and why; it counts for no other event
    :param pmus: names of the machine's PMUs by the number that is an event's type; None: unknown
    :param has_pelt: were calls counted by bpf_pelt in the same recording?
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
        return None, f"{event.plain_name} samples count events, not CPU time"
    if recorded is not None and recorded[0] == event.plain_name:
        return recorded[1:]
    if machine in X86_MACHINES and (event.type in CORE_PMU_TYPES or pmu in X86_NMI_PMUS):
        return False, "the PMU interrupts by NMI on x86"
    if pmu is not None and event.type not in CORE_PMU_TYPES:
        return None, f"how the PMU {pmu} interrupts is not recorded"
    return None, "how the PMU interrupts is not recorded"


def _remedy(clock: str | None, machine: str | None, *, has_pelt: bool) -> str:
    if clock == "pmu" and machine in ARM_MACHINES:
        first = (
            "boot with irqchip.gicv3_pseudo_nmi=1 (a kernel with CONFIG_ARM64_PSEUDO_NMI), so that "
            "the PMU interrupts there too"
        )
    elif clock == "pmu":
        first = (
            "record with schedperf record --with perf_profile, which records whether the PMU "
            "interrupts by NMI"
        )
    else:
        first = (
            "record cycles on a machine with a PMU: bare metal, or a guest that is given one; on "
            "arm64 with irqchip.gicv3_pseudo_nmi=1"
        )
    return f"{first}; {_CALLS_COUNTED if has_pelt else _COUNT_CALLS}"


def _caveats(sight: EventSight) -> Iterator[str]:
    if sight.emulated and sight.clock == "pmu":
        yield (
            f"{sight.event}: {EMULATED_COUNTER}; it shows which code runs more, not how much "
            "slower a real machine is"
        )
    if sight.clock == "pmu" and not sight.precise:
        yield (
            f"{sight.event} was recorded without a precise level, so samples may be some "
            "instructions late (rarely matters for whole functions)"
        )


def loss_caveat(samples: int, lost: int, throttled: int) -> str | None:
    """Say what a recording does not hold; None where it lacks nothing.

    :param lost: records of any kind that the kernel could not deliver
    :param throttled: how often the kernel paused the event because the event fires too often
    """
    parts = []
    if lost:
        share = 100.0 * lost / (samples + lost)
        records = "record was" if lost == 1 else "records were"
        percent = format_number(float(f"{share:.2g}"))
        parts.append(f"{lost} {records} lost, {percent}% of the expected samples")
    if throttled:
        times = "time" if throttled == 1 else "times"
        parts.append(f"the kernel paused the event {throttled} {times}: the event fires too often")
    return "; ".join(parts) or None
