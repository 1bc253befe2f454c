"""What the system counted of each CPU: how its time was spent, and what interrupted it."""

from collections.abc import Iterator, Mapping

from schedperf.evidence.system.capture import CpuKey, SystemCounts
from schedperf.evidence.system.words import about
from schedperf.model.counted import CpuRow
from schedperf.model.run import Captured, SideOf
from schedperf.stats.counted.per_cpu import CpuMeasure, CpuValues, compare_cpus

# Kinds of a CPU's time in which it did nothing.
NOT_BUSY = ("idle", "iowait")
# The guests' time is part of the user's.
COUNTED_TWICE = ("guest", "guest_nice")
OWN_SHARE = "share of the CPU's own time"
_BUSY = CpuMeasure("cpu busy", "", "share of its time in which the CPU was not idle")


def compare_loaded(base: SideOf[SystemCounts], new: SideOf[SystemCounts]) -> Iterator[CpuRow]:
    """Compare each CPU of two sides: shares of its time, and interrupts a second."""
    yield from compare_cpus(base.having(_cpu_values), new.having(_cpu_values))


def _cpu_values(run: Captured[SystemCounts]) -> CpuValues:
    seconds = run.content.seconds or run.wall_s
    return _values(run.content.cpus, seconds) if seconds else {}


def _values(
    counted: Mapping[CpuKey, Mapping[int, float]], seconds: float
) -> dict[CpuMeasure, Mapping[int, float]]:
    busy: dict[int, float] = {}
    found: dict[CpuMeasure, Mapping[int, float]] = {_BUSY: busy}
    for key, counts in counted.items():
        found[_measure(key)] = {cpu: value / seconds for cpu, value in counts.items()}
        if key.group == "cpu" and key.subject not in (*NOT_BUSY, *COUNTED_TWICE):
            for cpu, value in counts.items():
                busy[cpu] = busy.get(cpu, 0.0) + value / seconds
    return found


def _measure(key: CpuKey) -> CpuMeasure:
    if key.unit == "s":
        # What is said of the sum is of all CPUs.
        is_time = key.group == "cpu"
        meaning = OWN_SHARE if is_time else about(key.group, key.subject, "share").meaning
        return CpuMeasure(f"{key.group} {key.subject}", "", meaning)
    if key.group == "interrupts":
        return CpuMeasure("interrupts", "1/s", "interrupts of all kinds")
    meaning = about(key.group, key.subject, "count").meaning
    return CpuMeasure(f"{key.group} {key.subject}", "1/s", meaning)
