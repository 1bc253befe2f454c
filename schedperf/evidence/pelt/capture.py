# SPDX-License-Identifier: GPL-2.0-or-later
"""pelt.json of a run: calls and durations of the functions that keep load averages.

Counted per CPU by BPF programs, or by whatever the kernel allowed instead::

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

``mechanism`` is null where nothing could see a function; ``tried`` then says why. Bin i of
``log2_ns`` holds 2**i <= ns < 2**(i + 1), and bin 0 also 0 ns; bin i of ``linear_ns`` holds
i * step <= ns < (i + 1) * step. The last bin of each is open.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from schedperf.bundle.json import Count as AnyCount
from schedperf.bundle.json import Sentence, decode

# The second counter of a cross-check; a function that it alone counted has no cross-check.
BREAKPOINT = "breakpoint"
# NR_CPUS is 8192 where it is largest.
MOST_CPUS = 8192
# The scheduler has half a dozen such functions, and a dozen ways into them.
MOST_FUNCTIONS = 32
MOST_CONTEXTS = 16
# A duration has 64 bits; the linear bins are 64, and more of them would be no finer in the text.
MOST_LOG2_BINS = 64
MOST_LINEAR_BINS = 1024
LARGEST_STEP_NS = 1_000_000
# Up to here counts are exact as floating-point numbers, and nanoseconds are 104 days.
LARGEST_COUNT = 2**53
# A gate is open for as long as a workload runs: more than nothing, and less than three years.
SECONDS = (1e-6, 1e8)
# Largest cost of a probe per call that is plausible.
LARGEST_COST_NS = 1e9
# Parts are counted by other programs than the whole, which may see a call more or less while the
# gate opens; beyond this part of the whole they are not of the same calls.
LARGEST_MISMATCH = 0.01
FEWEST_MISMATCHES = 2
# Notes tell what happened to single CPUs and probes.
MOST_NOTES = 200

Cpu = Annotated[int, Meta(ge=0, lt=MOST_CPUS)]
Count = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
# A difference of two noisy times may be below 0.
Cost = Annotated[float, Meta(ge=-LARGEST_COST_NS, le=LARGEST_COST_NS)]
Function = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,127}\Z")]
Word = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_/ -]{0,31}\Z")]
Counts = Annotated[Mapping[Cpu, Count], Meta(max_length=MOST_CPUS)]
Log2Bins = Annotated[tuple[Count, ...], Meta(min_length=1, max_length=MOST_LOG2_BINS)]
LinearBins = Annotated[tuple[Count, ...], Meta(min_length=1, max_length=MOST_LINEAR_BINS)]
Tried = Annotated[Mapping[Word, Sentence | None], Meta(max_length=MOST_CONTEXTS)]
Bins = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Durations:
    """How long calls took, by CPU.

    :param timed: calls whose duration was read
    :param sum_ns: of all of these
    """

    timed: Counts
    sum_ns: Counts
    log2_ns: Annotated[Mapping[Cpu, Log2Bins], Meta(max_length=MOST_CPUS)]
    linear_ns: Annotated[Mapping[Cpu, LinearBins], Meta(max_length=MOST_CPUS)]
    linear_step_ns: Annotated[int, Meta(ge=1, le=LARGEST_STEP_NS)]

    def __post_init__(self) -> None:
        """Refuse parts that are not of the same calls."""
        if self.timed.keys() != self.sum_ns.keys():
            raise ValueError("timed and sum_ns have different CPUs")
        for name, bins in (("log2_ns", self.log2_ns), ("linear_ns", self.linear_ns)):
            if len(set(map(len, bins.values()))) > 1:
                raise ValueError(f"CPUs differ in the bins of {name}")
            _check_parts(name, sum(map(sum, bins.values())), sum(self.timed.values()), "durations")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """What is not in the durations; None: not known.

    :param unpaired: exits without an entry
    :param nested: entries beyond the deepest nesting
    """

    unpaired: AnyCount | None = None
    nested: AnyCount | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionCalls:
    """The calls of one function or tracepoint that were counted.

    :param mechanism: None: not measured, and ``calls`` is None as well
    :param tried: in that order, each with the reason why it does not work; None: it does
    :param calls: by CPU
    :param contexts: the same calls split by what the CPU was doing; None: not known
    """

    mechanism: Word | None = None
    tried: Tried
    calls: Counts | None = None
    contexts: Annotated[Mapping[Word, Counts], Meta(max_length=MOST_CONTEXTS)] | None = None
    durations: Durations | None = None
    lost: Lost | None = None

    def __post_init__(self) -> None:
        """Refuse parts that contradict each other."""
        if (self.mechanism is None) != (self.calls is None):
            raise ValueError("mechanism and calls contradict each other (expected both or neither)")
        calls = sum((self.calls or {}).values())
        if self.contexts is not None:
            parts = sum(sum(counts.values()) for counts in self.contexts.values())
            _check_parts("contexts", parts, calls, "calls")
        # Which calls are timed is random, so no number is expected exactly.
        timed = 0 if self.durations is None else sum(self.durations.timed.values())
        if timed > calls * (1.0 + LARGEST_MISMATCH) + FEWEST_MISMATCHES:
            raise ValueError(f"{timed} timed calls (expected no more than {calls})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Contexts:
    """How contexts were distinguished.

    :param markers: by context, the functions around which it is set
    :param missing: contexts that could not be marked, with the reason
    """

    mechanism: Word | None = None
    markers: Annotated[
        Mapping[Word, Annotated[tuple[Function, ...], Meta(max_length=MOST_FUNCTIONS)]],
        Meta(max_length=MOST_CONTEXTS),
    ]
    missing: Annotated[Mapping[Word, Sentence], Meta(max_length=MOST_CONTEXTS)]


@dataclass(frozen=True, kw_only=True, slots=True)
class EmptyProbe:
    """What probes cost a call, in ns, as measured in the same session; None is not known.

    :param on: the function that it was measured on
    :param empty_ns: an entry and an exit program that do nothing, with its 95% CI
    :param pair_ns: the programs that take the time, with its 95% CI
    :param reads_ns: what those read on a function that does next to nothing, the median with its
        95% CI: it is in every duration
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Breakpoints:
    """Calls on all CPUs, counted a second time by breakpoints; None: this one did not count."""

    functions: Annotated[Mapping[Function, Count | None], Meta(max_length=MOST_FUNCTIONS)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loader:
    """What loaded the programs.

    :param used: "libbpf" or "bcc"; None: no program could be loaded
    :param asked: "auto", or the loader that the user asked for
    :param tried: in that order, each with the reason why it does not work; None: it does
    :param no_types: what cannot be had because the kernel has no types (BTF); None: it has them
    :param seconds: until all programs were attached
    """

    used: Word | None = None
    asked: Word
    tried: Tried
    no_types: Sentence | None = None
    seconds: Annotated[float, Meta(ge=0.0, le=SECONDS[1])]


@dataclass(frozen=True, kw_only=True, slots=True)
class PeltCapture:
    """What one run's pelt.json holds.

    :param seconds: for which it was counted
    :param sampling: the duration of one in so many calls was taken
    :param loader: None: not recorded; older recorders had bcc alone
    :param lost_cpus: CPUs that came or went meanwhile
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
        """Return the second count of a function's calls on all CPUs; None: there is none."""
        return None if self.breakpoints is None else self.breakpoints.functions.get(function)


def parse_bpf_pelt(content: bytes, label: str) -> PeltCapture:
    """Read pelt.json.

    :param label: names it in messages
    :raises InputError: it is damaged, of another version, or its parts contradict each other
    """
    return decode(content, PeltCapture, label)


def _check_parts(name: str, parts: int, whole: int, what: str) -> None:
    if abs(parts - whole) > max(LARGEST_MISMATCH * whole, FEWEST_MISMATCHES):
        raise ValueError(f"{name} adds up to {parts} of {whole} {what}")
