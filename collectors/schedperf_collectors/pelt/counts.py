"""The counts of one capture of PELT as its ``pelt.json`` has them, by CPU."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from schedperf_collectors.bpf.probes import RAW_TRACEPOINT, Programs
from schedperf_collectors.pelt.programs import (
    CONTEXTS,
    LINEAR_STEP_NS,
    OTHER,
    SLOTS,
    Marked,
    Tried,
    mechanism_of,
)


def unseen(tried: Tried) -> dict[str, object]:
    """Return the record of a function that nothing could see."""
    return {
        "mechanism": None,
        "tried": tried,
        "calls": None,
        "contexts": None,
        "durations": None,
        "lost": {"unpaired": 0, "nested": 0},
    }


def counted_only(tried: Tried, calls: Mapping[int, int]) -> dict[str, object]:
    """Return the record of a function of which nothing but calls is known."""
    return {**unseen(tried), "mechanism": mechanism_of(tried), "calls": _by_cpu(calls)}


def seen_by_programs(
    programs: Programs, name: str, tried: Tried, marked: Marked, online: Collection[int]
) -> dict[str, object]:
    """Return the record of a function or tracepoint that BPF programs count.

    :param online: CPUs that have a count even if it is 0
    """
    values = {
        cpu: value
        for cpu, value in programs.read("calls", SLOTS.index(name)).items()
        if cpu in online or any(value.by_context)
    }
    mechanism = mechanism_of(tried)
    lost = {
        "unpaired": sum(value.unpaired for value in values.values()),
        "nested": sum(value.nested for value in values.values()),
    }
    return {
        "mechanism": mechanism,
        "tried": tried,
        "calls": _by_cpu({cpu: sum(value.by_context) for cpu, value in values.items()}),
        "contexts": None if marked.mechanism is None else _contexts(values, marked),
        "durations": None if mechanism == RAW_TRACEPOINT else _durations(values),
        "lost": lost,
    }


def _contexts(values: Mapping[int, Any], marked: Marked) -> dict[str, object]:
    seen = [name for name in CONTEXTS if name in marked.markers or name == OTHER]
    return {
        name: _by_cpu(
            {cpu: value.by_context[CONTEXTS.index(name)] for cpu, value in values.items()}
        )
        for name in seen
    }


def _durations(values: Mapping[int, Any]) -> dict[str, object]:
    return {
        "timed": _by_cpu({cpu: value.timed for cpu, value in values.items()}),
        "sum_ns": _by_cpu({cpu: value.sum_ns for cpu, value in values.items()}),
        "log2_ns": {str(cpu): list(value.log2_ns) for cpu, value in values.items()},
        "linear_ns": {str(cpu): list(value.linear_ns) for cpu, value in values.items()},
        "linear_step_ns": LINEAR_STEP_NS,
    }


def _by_cpu(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(cpu): counts[cpu] for cpu in sorted(counts)}
