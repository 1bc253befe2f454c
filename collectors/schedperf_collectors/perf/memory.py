# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the memory-access events of this machine and sample them around a workload.

Each vendor has its own events, which measure different observables of a contended line. Different
observables are never compared with each other:

========  =====================================================================
hitm      Intel's mem-loads and mem-stores (PEBS), and POWER's of the same name: a load that
          hit a line which another core had modified
ibs       AMD's ibs_op (instruction-based sampling): as hitm, as far as the CPU reports it
peer      Arm's arm_spe: a load that another core's cache answered, modified or not
========  =====================================================================

The forms of the events are those of perf's own tables
(tools/perf/arch/*/util/mem-events.c) with one difference: the period is fixed.
perf would adapt it, and counts of two runs would then not be comparable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from schedperf_collectors.machine.cpu import cpuinfo_field
from schedperf_collectors.machine.system import System, attempt, or_none, to_integer
from schedperf_collectors.machine.virtualisation import detect_virtualisation
from schedperf_collectors.perf.running import Recording, describe_perf, perf_output, perf_running
from schedperf_collectors.perf_header import BadPerfData, Summary, summarise_perf_data
from schedperf_collectors.plugin import Capture, Skipped

DEVICES = "/sys/bus/event_source/devices"
# Least latency of a sampled load in cycles: perf_mem_events__loads_ldlat of perf.
DEFAULT_LDLAT = 30
# Sampling period in tagged loads, prime like Intel's own sampling periods (SampleAfterValue of
# MEM_TRANS_RETIRED.LOAD_LATENCY_GT_16 is 20011, of GT_32 100007).
LOADS_PERIOD = 20011
# Stores are not filtered by latency: SampleAfterValue of MEM_INST_RETIRED.ALL_STORES.
STORES_PERIOD = 1000003
# Cycles; ibs_op ignores the lowest four bits. Some 4000 to 6000 samples per second and busy CPU;
# perf's default rate is 4000.
IBS_PERIOD = 1 << 19
# Operations, each 64 bytes of trace. perf's default of 4096 (arm_spe_pmu_default_config() of
# tools/perf/arch/arm64/util/arm-spe.c) would make four times the trace.
SPE_PERIOD = 1 << 14

SAMPLE_ADDR = 1 << 3
SAMPLE_DATA_SRC = 1 << 15
NEEDED = {SAMPLE_ADDR: "data addresses", SAMPLE_DATA_SRC: "data sources"}

# Families and models that perf_ibs_cache_hit_st_valid() of arch/x86/events/amd/ibs.c excepts.
ZEN3 = ((0x19, range(0x10)), (0x19, range(0x20, 0x60)))
# MIDR_EL1 part numbers whose data sources perf's common table decodes, and since which perf:
# tools/perf/util/arm-spe.c; a perf without them shows no peer at all.
SPE_DECODED_SINCE = {
    "0xd0c": ("Neoverse N1", (6, 0)),
    "0xd40": ("Neoverse V1", (6, 0)),
    "0xd49": ("Neoverse N2", (6, 0)),
    "0xd4f": ("Neoverse V2", (6, 13)),
}
_TRACE = "trace.data"


@dataclass(frozen=True)
class MemoryEvents:
    """The events that perf samples.

    :param vendor: "Intel", "AMD", "Arm" or "POWER"; None if the user named the event
    :param observable: "hitm", "ibs" or "peer"
    :param events: arguments of ``perf record -e``
    :param period: loads (Intel, POWER), cycles (AMD) or operations (Arm) from sample to sample; of
        an event that the user named, its own unit
    :param store_period: stores from sample to sample; None if stores are not sampled, or not with a
        period of their own
    :param ldlat: least latency of a sampled access, in cycles; None without this filter
    :param common_period: the period is an option of perf and not part of the event
    :param is_trace: perf records a trace that it must decode into samples
    :param blind: accesses or properties that these events do not measure, one phrase each
    """

    vendor: str | None
    observable: str
    events: tuple[str, ...]
    period: int
    store_period: int | None
    ldlat: int | None
    common_period: bool
    is_trace: bool
    blind: tuple[str, ...]

    def record_command(self, program: str, path: str) -> list[str]:
        """Return the command that records on all CPUs to ``path``, its last word.

        It has the options of ``perf c2c record``, so that ``perf c2c report`` can read the file.
        """
        period = ["-c", str(self.period)] if self.common_period else []
        events = [word for event in self.events for word in ("-e", event)]
        sampled = ["-d", "-W", "--phys-data", "--sample-cpu"]
        return [program, "record", "-a", "-N", *sampled, *period, *events, "-o", path]


@dataclass(frozen=True)
class Wanted:
    """The collector's options; None for each one that the user did not set.

    :param stores: whether stores are sampled, too
    :param period: sampling period; its unit depends on the vendor, see :class:`MemoryEvents`
    :param store_period: stores from sample to sample
    :param ldlat: least latency of a sampled access, in cycles
    :param event: event in perf's syntax, instead of those of the machine
    """

    stores: bool
    period: int | None
    store_period: int | None
    ldlat: int | None
    event: str | None


def read_wanted(collector: str, options: Mapping[str, str], *, stores: bool) -> Wanted:
    """Read a collector's options: period, store_period, ldlat, event.

    :param collector: name of the collector, for the message
    :param stores: whether the collector samples stores, too
    :raises Skipped: a number is invalid
    """

    def number(name: str) -> int | None:
        if name not in options:
            return None
        value, reason = attempt(to_integer, options[name], name)
        if value is None or value < 1:
            raise Skipped(
                reason or f"invalid {name}: {value} (expected a positive number)",
                f"use --set {collector}.{name}=NUMBER",
            )
        return value

    return Wanted(
        stores=stores,
        period=number("period"),
        store_period=number("store_period"),
        ldlat=number("ldlat"),
        event=options.get("event"),
    )


def choose_memory_events(system: System, request: Wanted) -> MemoryEvents:
    """Return the events of this machine, or the event that the user named.

    :raises Skipped: the machine has no such events, or they do not support the options
    """
    if request.event is not None:
        return _named_event(request.event, request)
    cores = [
        pmu for pmu in _devices(system, r"cpu(_core|_atom)?") if _offers(system, pmu, "mem-loads")
    ]
    if cores:
        return _load_store_events(system, cores, request)
    if _devices(system, "ibs_op"):
        return _ibs_events(system, request)
    spe = _devices(system, r"arm_spe_\d+")
    if spe:
        return _spe_events(system, spe, request)
    raise _no_events(system)


def _devices(system: System, pattern: str) -> list[str]:
    names = attempt(system.names, DEVICES, pattern)[0] or []
    return [name.rpartition("/")[2] for name in names]


def _offers(system: System, pmu: str, event: str) -> bool:
    return system.exists(f"{DEVICES}/{pmu}/events/{event}")


def _knows(system: System, pmu: str, term: str) -> bool:
    return system.exists(f"{DEVICES}/{pmu}/format/{term}")


def _load_store_events(system: System, pmus: Sequence[str], request: Wanted) -> MemoryEvents:
    has_latency = any(_knows(system, pmu, "ldlat") for pmu in pmus)
    if request.ldlat is not None and not has_latency:
        raise Skipped("`mem-loads` has no latency filter on this CPU", "do not set ldlat")
    ldlat = (request.ldlat or DEFAULT_LDLAT) if has_latency else None
    period = request.period or LOADS_PERIOD
    store_period = (request.store_period or STORES_PERIOD) if request.stores else None
    # POWER has neither a latency filter nor a precise level.
    filters, precise = (f"ldlat={ldlat},", "P") if has_latency else ("", "")
    events = []
    for pmu in pmus:
        loads = f"{pmu}/mem-loads,{filters}period={period}/"
        if _offers(system, pmu, "mem-loads-aux"):
            # On these CPUs the kernel opens mem-loads only in a group with this leader.
            loads = f"{{{pmu}/mem-loads-aux,period={period}/,{loads}}}:"
        events.append(loads + precise)
        if store_period is not None and _offers(system, pmu, "mem-stores"):
            events.append(f"{pmu}/mem-stores,period={store_period}/{precise}")
    return MemoryEvents(
        vendor="Intel" if has_latency else "POWER",
        observable="hitm",
        events=tuple(events),
        period=period,
        store_period=store_period,
        ldlat=ldlat,
        common_period=False,
        is_trace=False,
        blind=() if ldlat is None else (f"loads faster than {ldlat} cycles",),
    )


def _ibs_events(system: System, request: Wanted) -> MemoryEvents:
    if request.ldlat is not None and not _knows(system, "ibs_op", "ldlat"):
        raise Skipped("`ibs_op` has no latency filter on this CPU or kernel", "do not set ldlat")
    blind = []
    if not system.exists(f"{DEVICES}/ibs_op/caps/zen4_ibs_extensions"):
        blind.append(_before_zen4(system))
    if request.ldlat is not None:
        blind.append(f"stores, and loads faster than {request.ldlat} cycles")
    return MemoryEvents(
        vendor="AMD",
        observable="ibs",
        events=("ibs_op//" if request.ldlat is None else f"ibs_op/ldlat={request.ldlat}/",),
        period=request.period or IBS_PERIOD,
        store_period=None,
        ldlat=request.ldlat,
        common_period=True,
        is_trace=False,
        blind=tuple(blind),
    )


def _before_zen4(system: System) -> str:
    if any(
        _number_of_cpu(system, "cpu family") == family and _number_of_cpu(system, "model") in models
        for family, models in ZEN3
    ):
        return "modified lines of other cores: Zen 3 does not report whether a line was modified"
    return "modified lines of other nodes: before Zen 4, IBS reports only those of the local node"


def _number_of_cpu(system: System, field: str) -> int | None:
    return or_none(lambda: to_integer(cpuinfo_field(system, field), field))


def _spe_events(system: System, pmus: Sequence[str], request: Wanted) -> MemoryEvents:
    ldlat = request.ldlat or DEFAULT_LDLAT
    stores = int(request.stores)
    events = []
    for pmu in pmus:
        physical = "pa_enable=1," if _knows(system, pmu, "pa_enable") else ""
        filters = f"load_filter=1,store_filter={stores},min_latency={ldlat}"
        events.append(f"{pmu}/ts_enable=1,{physical}{filters}/")
    return MemoryEvents(
        vendor="Arm",
        observable="peer",
        events=tuple(events),
        period=request.period or SPE_PERIOD,
        store_period=None,
        ldlat=ldlat,
        common_period=True,
        is_trace=True,
        blind=(
            "whether a line was modified: Arm SPE only reports that another cache had it",
            "which cache level a store hit",
            f"accesses faster than {ldlat} cycles",
        ),
    )


def _named_event(event: str, request: Wanted) -> MemoryEvents:
    # A user-defined event contains its own filters.
    is_ibs, is_spe = event.startswith("ibs_op"), event.startswith("arm_spe")
    observable, period = "hitm", LOADS_PERIOD
    if is_ibs:
        observable, period = "ibs", IBS_PERIOD
    elif is_spe:
        observable, period = "peer", SPE_PERIOD
    return MemoryEvents(
        vendor=None,
        observable=observable,
        events=(event,),
        period=request.period or period,
        store_period=None,
        ldlat=None,
        common_period=True,
        is_trace=is_spe,
        blind=("accesses that the user-defined event does not sample",),
    )


def _no_events(system: System) -> Skipped:
    kind = detect_virtualisation(system).kind
    is_guest = kind not in (None, "none")
    where = f"in this guest ({kind})" if is_guest else "on this machine"
    what, missing, remedy = _missing_event(system)
    if is_guest:
        remedy = "record on the host; few hypervisors expose memory sampling to guests"
    return Skipped(f"{what} is not available {where}, because {DEVICES} has no {missing}", remedy)


def _missing_event(system: System) -> tuple[str, str, str]:
    # Feature, its file below DEVICES, and the fix on hardware.
    if system.machine == "aarch64":
        return "Arm SPE", "arm_spe_0", "run `modprobe arm_spe_pmu`, and boot with kpti=off"
    vendor = or_none(lambda: cpuinfo_field(system, "vendor_id")) or ""
    if vendor in ("AuthenticAMD", "HygonGenuine"):
        return "IBS", "ibs_op", "enable IBS in the firmware settings"
    if vendor == "GenuineIntel":
        return "PEBS", "cpu/events/mem-loads", ""
    return "memory access sampling", "cpu/events/mem-loads", ""


def cannot_decode(system: System, perf_version: str) -> str | None:
    """Return why this perf reports no peers on this Arm CPU; None if it does, or if unknown.

    In the file, an undecoded data source looks like a missing one, so versions are compared.

    :param perf_version: output of ``perf --version``
    """
    parts = (or_none(lambda: cpuinfo_field(system, "CPU part")) or "").split(" + ")
    version = re.search(r"\b(\d+)\.(\d+)", perf_version)
    if version is None:
        return None
    for name, since in (SPE_DECODED_SINCE[part] for part in parts if part in SPE_DECODED_SINCE):
        if (int(version[1]), int(version[2])) < since:
            return (
                f"accesses served by other caches: perf before {since[0]}.{since[1]} does not "
                f"decode these accesses on {name}"
            )
    return None


def check_samples(events: MemoryEvents, summary: Summary) -> tuple[str, ...]:
    """Check the written file; return what it does not measure, in addition to ``events.blind``.

    :raises BadPerfData: it has no sampling event, its samples have no address or data source, or
        perf chose the period
    """
    sampling = [event for event in summary.events if event.plain_name != "dummy"]
    if events.is_trace:
        # The list contains the event of the trace and the event that was decoded from it.
        sampling = [event for event in sampling if not event.name.startswith("arm_spe")]
    if not sampling:
        raise BadPerfData(
            "perf.data: no sampling event; record another event, e.g. with "
            "--set perf_c2c.event=NAME"
        )
    for event in sampling:
        lacking = [what for bit, what in NEEDED.items() if not event.sample_type & bit]
        if lacking:
            raise BadPerfData(
                f"perf.data: samples of '{event.name}' have no {lacking[0]}; use a newer perf"
            )
        if event.by_frequency and not events.is_trace:
            raise BadPerfData(
                f"perf.data: no fixed sampling period for '{event.name}'; add period=N to the event"
            )
    imprecise = [event.name for event in sampling if not event.precise_ip]
    if events.vendor == "Intel" and imprecise:
        return (f"exact data addresses: no precise sampling for {', '.join(imprecise)}",)
    return ()


@contextmanager
def memory_sampled(
    system: System, capture: Capture, events: MemoryEvents, collector: str
) -> Iterator[Recording]:
    """Sample memory accesses in a ``with`` block; write perf.data and COLLECTOR.json.

    Sampling starts when the caller calls ``begin`` of the yielded recording.

    :param collector: name of the collector and of the JSON file
    :raises Skipped: this user may not use perf
    :raises PerfFailed: perf failed, or could not decode its recording
    :raises BadPerfData: the recording is damaged, or :func:`check_samples` rejects it
    """
    program = capture.options.get("perf", "perf")
    samples = capture.folder / "perf.data"
    recorded = capture.folder / _TRACE if events.is_trace else samples
    command = events.record_command(program, str(recorded))
    with perf_running(command) as recording:
        yield recording
    if events.is_trace:
        # Only perf can decode a trace, and only on the machine that it was recorded on.
        perf_output([program, "inject", "--itrace=M", "-i", str(recorded), "-o", str(samples)])
        recorded.unlink()
    summary = summarise_perf_data(samples)
    facts = {
        **_describe_samples(system, events, summary),
        **describe_perf(command, capture.folder, recording),
    }
    undecoded = cannot_decode(system, str(facts["perf_version"])) if events.is_trace else None
    facts["blind"] = [*events.blind, *check_samples(events, summary), *filter(None, [undecoded])]
    (capture.folder / f"{collector}.json").write_text(json.dumps(facts, indent=1) + "\n")


def _describe_samples(system: System, events: MemoryEvents, summary: Summary) -> dict[str, object]:
    """Return the description of memory samples: the events requested, and those in the file."""
    return {
        "vendor": events.vendor,
        "observable": events.observable,
        "cpu": or_none(lambda: cpuinfo_field(system, "model name", "CPU part", "cpu")),
        "requested": list(events.events),
        "events": [
            {
                "name": event.name,
                "period": None if event.by_frequency else event.rate,
                "precise_ip": event.precise_ip,
            }
            for event in summary.events
            if event.plain_name != "dummy"
        ],
        "period": events.period,
        "store_period": events.store_period,
        "ldlat": events.ldlat,
        "samples": summary.samples,
        "lost": summary.lost,
    }
