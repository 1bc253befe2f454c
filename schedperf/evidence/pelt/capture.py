# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse pelt.json of a run: calls and durations of the functions that update PELT averages.

BPF programs count per CPU; if the kernel refuses them, another mechanism is used::

    {"schema": "schedperf/bpf_pelt/1", "seconds": 1.234, "sampling": 1,
     "loader": {"used": "libbpf", "asked": "auto", "tried": {"libbpf": null}, "no_types": null,
                "seconds": 0.4},
     "functions": {"update_cfs_group": {
        "mechanism": "fentry/fexit", "tried": {"fentry/fexit": null},
        "calls": {"0": 120, "1": 90},
        "contexts": {"enqueue": {"0": 70, "1": 50}, "dequeue": {"0": 50, "1": 40}},
        "durations": {"timed": {"0": 120}, "sum_ns": {"0": 24000},
                      "log2_ns": {"0": [0, 3]}, "linear_ns": {"0": [3]}, "linear_step_ns": 50},
        "lost": {"unpaired": 0, "nested": 0}}},
     "contexts": {"mechanism": "fentry/fexit", "markers": {"enqueue": ["enqueue_task_fair"]},
                  "missing": {"newidle": "sched_balance_newidle is inlined"}},
     "empty_probe": null, "breakpoints": null, "lost_cpus": [], "notes": []}

``mechanism`` is null if no mechanism could observe a function; ``tried`` has the reasons. Bin i of
``log2_ns`` counts 2**i <= ns < 2**(i + 1), and bin 0 also 0 ns; bin i of ``linear_ns`` counts
i * step <= ns < (i + 1) * step. The last bin of each is open-ended.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from schedperf.inputs.bundle.json import MOST_HISTOGRAM_VALUES, Sentence, decode
from schedperf.inputs.bundle.json import Count as AnyCount

# Mechanism of the cross-check. A function counted only by breakpoints has no cross-check.
BREAKPOINT = "breakpoint"
# The largest NR_CPUS is 8192.
MOST_CPUS = 8192
# Limits on functions and contexts; the scheduler has about six such functions and a dozen contexts.
MOST_FUNCTIONS = 32
MOST_CONTEXTS = 16
# Limits on the bins: a duration has 64 bits, and the collector uses 64 linear bins.
MOST_LOG2_BINS = 64
MOST_LINEAR_BINS = 1024
LARGEST_STEP_NS = 1_000_000
# Up to 2**53, counts are exact as floating-point numbers; as nanoseconds, this is 104 days.
LARGEST_COUNT = 2**53
# Limits on the duration of counting, in s: more than 0, and less than three years.
SECONDS = (1e-6, 1e8)
# Largest cost of a probe per call that is plausible.
LARGEST_COST_NS = 1e9
# Parts and totals are counted by different programs, which may differ by one or two calls when
# counting starts. A larger relative difference is an error.
LARGEST_MISMATCH = 0.01
FEWEST_MISMATCHES = 2
MOST_NOTES = 200

Cpu = Annotated[int, Meta(ge=0, lt=MOST_CPUS)]
Count = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
# The difference of two noisy times may be negative.
Cost = Annotated[float, Meta(ge=-LARGEST_COST_NS, le=LARGEST_COST_NS)]
Function = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,127}\Z")]
Word = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_/ -]{0,31}\Z")]
Counts = Annotated[Mapping[Cpu, Count], Meta(max_length=MOST_CPUS)]
Log2Bins = Annotated[tuple[Count, ...], Meta(min_length=1, max_length=MOST_LOG2_BINS)]
LinearBins = Annotated[tuple[Count, ...], Meta(min_length=1, max_length=MOST_LINEAR_BINS)]
Tried = Annotated[Mapping[Word, Sentence | None], Meta(max_length=MOST_CONTEXTS)]
Bins = Mapping[int, tuple[int, ...]]


class Durations(Struct, frozen=True, kw_only=True):
    """Durations of calls, by CPU.

    :param timed: number of timed calls
    :param sum_ns: total duration of the timed calls
    :param log2_ns: number of timed calls by bin; the module's docstring defines the bins
    :param linear_ns: the same for bins of ``linear_step_ns``
    """

    timed: Counts
    sum_ns: Counts
    log2_ns: Annotated[Mapping[Cpu, Log2Bins], Meta(max_length=MOST_CPUS)]
    linear_ns: Annotated[Mapping[Cpu, LinearBins], Meta(max_length=MOST_CPUS)]
    linear_step_ns: Annotated[int, Meta(ge=1, le=LARGEST_STEP_NS)]

    def __post_init__(self) -> None:
        """Refuse parts that contradict each other.

        :raises ValueError: CPUs or numbers of bins differ, or a histogram does not sum to the
            number of timed calls
        """
        if self.timed.keys() != self.sum_ns.keys():
            raise ValueError("`timed` and `sum_ns` list different CPUs (expected the same CPUs)")
        for name, bins in (("log2_ns", self.log2_ns), ("linear_ns", self.linear_ns)):
            if len(set(map(len, bins.values()))) > 1:
                raise ValueError(
                    f"{name}: the number of bins differs between CPUs (expected the same number)"
                )
            _check_parts(name, sum(map(sum, bins.values())), sum(self.timed.values()), "timed")


class Lost(Struct, frozen=True, kw_only=True):
    """Calls that are missing from the durations; None if unknown.

    :param unpaired: exits without an entry
    :param nested: entries beyond the deepest nesting
    """

    unpaired: AnyCount | None = None
    nested: AnyCount | None = None


class FunctionCalls(Struct, frozen=True, kw_only=True):
    """The calls of one function or tracepoint that were counted.

    :param mechanism: None if not measured; ``calls`` is None as well
    :param tried: mechanisms in the order of trial, with the reason of failure; None for the one
        that works
    :param calls: number of calls by CPU
    :param contexts: the same calls by context (what the CPU was doing) and CPU; None if not
        recorded
    :param durations: None if the mechanism does not time calls
    :param lost: None if not recorded
    """

    mechanism: Word | None = None
    tried: Tried
    calls: Counts | None = None
    contexts: Annotated[Mapping[Word, Counts], Meta(max_length=MOST_CONTEXTS)] | None = None
    durations: Durations | None = None
    lost: Lost | None = None

    def __post_init__(self) -> None:
        """Refuse parts that contradict each other.

        :raises ValueError: only one of ``mechanism`` and ``calls`` is None, the contexts do not sum
            to the calls, or more calls were timed than counted
        """
        if (self.mechanism is None) != (self.calls is None):
            raise ValueError(
                "only one of `mechanism` and `calls` is null (expected both or neither)"
            )
        calls = sum((self.calls or {}).values())
        if self.contexts is not None:
            parts = sum(sum(counts.values()) for counts in self.contexts.values())
            _check_parts("contexts", parts, calls, "calls")
        # Calls are timed at random, so no exact number is required.
        timed = 0 if self.durations is None else sum(self.durations.timed.values())
        if timed > calls * (1.0 + LARGEST_MISMATCH) + FEWEST_MISMATCHES:
            raise ValueError(
                f"{timed} timed calls (expected at most {calls}, the number of counted calls)"
            )


class Contexts(Struct, frozen=True, kw_only=True):
    """How contexts were distinguished.

    :param mechanism: mechanism of the probes that set a context; None if contexts are not recorded
    :param markers: by context, the kernel functions that mark it while they run
    :param missing: contexts that could not be marked, with the reason
    """

    mechanism: Word | None = None
    markers: Annotated[
        Mapping[Word, Annotated[tuple[Function, ...], Meta(max_length=MOST_FUNCTIONS)]],
        Meta(max_length=MOST_CONTEXTS),
    ]
    missing: Annotated[Mapping[Word, Sentence], Meta(max_length=MOST_CONTEXTS)]


class EmptyProbe(Struct, frozen=True, kw_only=True):
    """Probe overhead per call, in ns, measured before the run; None if not measured.

    Each time is a median; the field ``…_ci`` has its 95% CI.

    :param mechanism: mechanism of the measured probes
    :param on: function to which the timing programs were attached
    :param calls: number of measured calls
    :param empty_ns: time that empty entry and exit programs add to a call
    :param pair_ns: time that the timing programs add to a timed call
    :param reads_ns: duration that the timing programs measure for an almost empty function; every
        duration includes it
    """

    mechanism: Word | None = None
    on: Function | None = None
    calls: AnyCount | None = None
    empty_ns: Cost | None = None
    empty_ci: tuple[Cost, Cost] | None = None
    pair_ns: Cost | None = None
    pair_ci: tuple[Cost, Cost] | None = None
    reads_ns: Cost | None = None
    reads_ci: tuple[Cost, Cost] | None = None


class Breakpoints(Struct, frozen=True, kw_only=True):
    """Calls that execution breakpoints counted in the same run, for the cross-check.

    :param functions: number of calls on all CPUs, by function; None if its breakpoint failed
    """

    functions: Annotated[Mapping[Function, Count | None], Meta(max_length=MOST_FUNCTIONS)]


class Loader(Struct, frozen=True, kw_only=True):
    """The library that loaded the programs.

    :param used: "libbpf" or "bcc"; None if no program could be loaded
    :param asked: "auto", or the loader that the user asked for
    :param tried: loaders in the order of trial, with the reason of failure; None for the one that
        works
    :param no_types: features that are unavailable because the kernel has no BTF; None if it has BTF
    :param seconds: time until all programs were attached
    """

    used: Word | None = None
    asked: Word
    tried: Tried
    no_types: Sentence | None = None
    seconds: Annotated[float, Meta(ge=0.0, le=SECONDS[1])]


class PeltCapture(Struct, frozen=True, kw_only=True):
    """Contents of one run's pelt.json.

    :param seconds: duration of counting
    :param sampling: N if 1 in N calls is timed
    :param loader: None in files of older recorders, which used only bcc
    :param functions: by name
    :param empty_probe: None if probe overhead was not measured
    :param breakpoints: None without a cross-check
    :param lost_cpus: CPUs that went offline during the run
    :param notes: limitations of the capture, one sentence each
    """

    schema: Literal["schedperf/bpf_pelt/1"]
    seconds: Annotated[float, Meta(ge=SECONDS[0], le=SECONDS[1])]
    sampling: Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
    loader: Loader | None = None
    functions: Annotated[Mapping[Function, FunctionCalls], Meta(max_length=MOST_FUNCTIONS)]
    contexts: Contexts
    empty_probe: EmptyProbe | None = None
    breakpoints: Breakpoints | None = None
    lost_cpus: Annotated[tuple[Cpu, ...], Meta(max_length=MOST_CPUS)]
    notes: tuple[Sentence, ...]

    def calls_by_breakpoint(self, function: str) -> int | None:
        """Return a function's calls on all CPUs as counted by breakpoints; None if not counted."""
        return None if self.breakpoints is None else self.breakpoints.functions.get(function)


def parse_bpf_pelt(content: bytes, label: str) -> PeltCapture:
    """Parse pelt.json.

    :param label: name of the file in messages
    :raises BundleError: the file is damaged, has another version or too many values, or its parts
        contradict each other
    """
    return decode(content, PeltCapture, label, MOST_HISTOGRAM_VALUES)


def _check_parts(name: str, parts: int, whole: int, whole_name: str) -> None:
    if abs(parts - whole) > max(LARGEST_MISMATCH * whole, FEWEST_MISMATCHES):
        raise ValueError(f"{name} sums to {parts} (expected {whole}, the sum of {whole_name})")
