# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe what a recording of memory samples did not measure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from schedperf.evidence.c2c.record import Observable
from schedperf.inputs.perf_data.event import samples_memory
from schedperf.inputs.perf_data.losses import NO_LOSSES, EventLosses, loss_caveat
from schedperf.inputs.perf_data.recording import NO_CPU, MemorySamples, Recording
from schedperf.model.perf_event import kernel_not_counted

# Family and models of AMD's cores whose IBS reports only one kind of "another core's cache": Zen 1
# and 2 are family 23, Zen 3 these models of family 25. Linux commit 8bfc20baa935.
_ZEN_FAMILY, _ZEN3_FAMILY = 23, 25
_ZEN3_MODELS = frozenset((*range(0x10), *range(0x20, 0x60)))
_AMD = re.compile(r"AuthenticAMD,(\d{1,4}),(\d{1,4})")
# Neoverse V2: perf decodes its data sources from 6.13 on.
_NEOVERSE_V2, _FIRST_PERF = 0x410FD4F0, (6, 13)
_PART = 0xFF0FFFF0
_LATENCY = re.compile(r"\b(?:ldlat|min_latency)=(0x[0-9a-f]{1,8}|\d{1,10})\b")
# Fraction of samples without a usable data source that is reported.
MANY = 0.01


def least_latency(names: Iterable[str]) -> int | None:
    """Return the minimum latency of sampled loads (ldlat) in cycles; None if not set.

    :param names: event names as perf wrote them
    """
    matches = (_LATENCY.search(name) for name in names)
    return next((int(match[1], 0) for match in matches if match), None)


def period_of(recording: Recording, memory: MemorySamples) -> int | None:
    """Return the fixed period of the memory events: memory operations per sample.

    If loads and stores have different periods, return that of the first event in the file.

    :return: None if perf adapted the period of an event, or if there are no samples
    """
    events = [recording.events[index] for index in np.unique(memory.event)]
    if not events or any(event.by_frequency for event in events):
        return None
    period: int = events[0].rate
    return period


def notes_of_recording(
    recording: Recording,
    memory: MemorySamples,
    counts: Mapping[str, int],
    observable: Observable,
) -> tuple[str, ...]:
    """Return what was not measured, one sentence each.

    :param counts: by counter, over all samples
    """
    return (
        *_notes_of_samples(memory, counts, observable),
        *_notes_of_machine(recording, observable),
        *_notes_of_event(recording, memory),
        *recording.notes,
    )


def _notes_of_samples(
    memory: MemorySamples, counts: Mapping[str, int], observable: Observable
) -> Iterator[str]:
    levels = ("load_fb_hit", "load_l1_hit", "load_l2_hit", "load_llc_hit", "lcl_hitm", "rmt_hitm",
              "rmt_hit", "lcl_dram", "rmt_dram", "load_miss")  # fmt: skip
    if counts["load"] and not any(counts[name] for name in levels):
        yield "samples do not record which cache served a load, so contention is not measured"
    if not counts["store"]:
        yield "no stores were sampled, so the writers of a cache line are unknown"
    elif observable == "peer" and counts["store_na"]:
        yield "samples of stores do not record which cache the store hit (Arm SPE)"
    if counts["no_parse"] > MANY * len(memory):
        ordinary = (
            ", which is usual with IBS, because IBS samples micro-ops of every type"
            if observable == "ibs"
            else ""
        )
        yield (
            f"{counts['no_parse']} of {len(memory)} samples are not classified as load or "
            f"store{ordinary}"
        )
    without = counts["load_no_address"] + counts["store_no_address"]
    if without > MANY * len(memory):
        yield f"{without} of {len(memory)} samples do not record a data address"
    if (memory.cpu == NO_CPU).any():
        yield "samples do not record their CPU, so sharing between CPUs is unknown"
    if counts["double_counted"]:
        yield (
            f"{counts['double_counted']} loads are counted as both remote HITM and remote DRAM "
            "accesses (as in `perf c2c`), so they appear twice in the records and loads of a "
            "cache line"
        )


def _notes_of_machine(recording: Recording, observable: Observable) -> Iterator[str]:
    features = recording.features
    amd = _AMD.match(features.cpuid or "")
    if amd and observable == "ibs":
        family, model = int(amd[1]), int(amd[2])
        if family == _ZEN_FAMILY or (family == _ZEN3_FAMILY and model in _ZEN3_MODELS):
            yield (
                "before Zen 4, IBS does not report whether a line that another core supplied was "
                "modified, so some contended loads may not be counted"
            )
    if _is_neoverse_v2(features.cpuid) and _release(features.perf_version) < _FIRST_PERF:
        yield (
            "perf before 6.13 cannot decode the data sources of Neoverse V2, so peer snoops may be "
            "missing"
        )


def _is_neoverse_v2(cpuid: str | None) -> bool:
    if not re.fullmatch(r"0x[0-9a-f]{1,16}", cpuid or ""):
        return False
    # Variant and revision depend on the stepping.
    return int(cpuid or "", 16) & _PART == _NEOVERSE_V2 & _PART


def _release(version: str | None) -> tuple[int, int]:
    # An unknown version is assumed to be recent enough.
    release = re.match(r"(\d{1,3})\.(\d{1,3})", version or "")
    return (int(release[1]), int(release[2])) if release else _FIRST_PERF


def _notes_of_event(recording: Recording, memory: MemorySamples) -> Iterator[str]:
    events = _memory_events(recording, memory)
    names = [
        recording.events[index].name
        for index in events
        if "kernel" in recording.events[index].excluded
    ]
    if names:
        yield kernel_not_measured(names)
    if period_of(recording, memory) is None:
        yield (
            "perf adapted the sampling period, so sample counts of two runs are not comparable; "
            "record with a fixed period (`-c`)"
        )
    lost = _losses_of(recording, events)
    if caveat := loss_caveat(len(memory), replace(lost, throttled=0)):
        yield caveat
    if lost.throttled:
        yield (
            f"the kernel throttled sampling {lost.throttled} times, because the sampling rate "
            "was too high"
        )


def _memory_events(recording: Recording, memory: MemorySamples) -> list[int]:
    # Indices of the events that sampled or can sample memory accesses.
    sampled = {*map(int, np.unique(memory.event))}
    return [
        index
        for index, event in enumerate(recording.events)
        if index in sampled or samples_memory(event)
    ]


def _losses_of(recording: Recording, events: Iterable[int]) -> EventLosses:
    # Lost records are counted for the whole file, so they are reported once.
    of_event = [EventLosses.of(recording.losses, index) for index in events]
    return replace(sum(of_event, NO_LOSSES), records=recording.losses.records)


def kernel_not_measured(names: Collection[str]) -> str:
    """Return a note for memory events that exclude the kernel."""
    return f"{kernel_not_counted(names)}, so contention in the kernel is not measured"
