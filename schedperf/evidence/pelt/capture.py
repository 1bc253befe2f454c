"""pelt.json of a run: calls and durations of the functions that keep load averages.

Counted per CPU by BPF programs, or by whatever the kernel allowed instead::

    {"schema": "schedperf/bpf_pelt/1", "seconds": 1.234, "sampling": 1,
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

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schedperf.bundle.json import JsonObject, parse_object
from schedperf.model.errors import InputError

SCHEMA = "schedperf/bpf_pelt/1"
# What counts a second time where programs count the first; alone, it is no check of itself.
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
# Of a probe's own cost; a second is no cost of a call.
LARGEST_COST_NS = 1e9
# Parts are counted by other programs than the whole, which may see a call more or less while the
# gate opens; beyond this part of the whole they are not of the same calls.
LARGEST_MISMATCH = 0.01
FEWEST_MISMATCHES = 2
# A reason is a sentence; notes tell what happened to single CPUs and probes.
MOST_CHARACTERS = 300
MOST_NOTES = 200

# One spelling each, so that no CPU has two counts.
_CPU = re.compile(r"0|[1-9][0-9]{0,3}")
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}", re.ASCII)
_WORD = re.compile(r"[a-z][a-z0-9_/ -]{0,31}", re.ASCII)

Counts = Mapping[int, int]
Bins = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Durations:
    """How long calls took, by CPU.

    :param timed: calls whose duration was read
    :param sum_ns: of all of these
    """

    timed: Counts
    sum_ns: Counts
    log2_ns: Bins
    linear_ns: Bins
    linear_step_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionCalls:
    """What was seen of one function or tracepoint.

    :param mechanism: None: it could not be seen, and ``calls`` is None as well
    :param tried: in that order, each with the reason why it does not work; None: it does
    :param calls: by CPU
    :param contexts: the same calls split by what the CPU was doing; None: not known
    :param unpaired: exits without an entry; None: not known
    :param nested: entries beyond the deepest nesting; None: not known
    """

    mechanism: str | None
    tried: Mapping[str, str | None]
    calls: Counts | None
    contexts: Mapping[str, Counts] | None
    durations: Durations | None
    unpaired: int | None
    nested: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Contexts:
    """How contexts were told apart.

    :param markers: by context, the functions around which it is set
    :param missing: contexts that could not be marked, with the reason
    """

    mechanism: str | None
    markers: Mapping[str, tuple[str, ...]]
    missing: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class EmptyProbe:
    """What probes cost a call, in ns, as measured in the same session; None is not known.

    :param on: the function that it was measured on
    :param empty_ns: an entry and an exit program that do nothing, with its 95 % interval
    :param pair_ns: the programs that take the time, with its 95 % interval
    :param reads_ns: what those read on a function that does next to nothing, the median with its
        95 % interval: it is in every duration
    """

    mechanism: str | None
    on: str | None
    calls: int | None
    empty_ns: float | None
    empty_ci: tuple[float, float] | None
    pair_ns: float | None
    pair_ci: tuple[float, float] | None
    reads_ns: float | None
    reads_ci: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PeltCapture:
    """What one run's pelt.json holds.

    :param seconds: for which it was counted
    :param sampling: the duration of one in so many calls was taken
    :param breakpoints: calls on all CPUs by function, counted a second time by breakpoints
    :param lost_cpus: CPUs that came or went meanwhile
    """

    seconds: float
    sampling: int
    functions: Mapping[str, FunctionCalls]
    contexts: Contexts
    empty_probe: EmptyProbe | None
    breakpoints: Mapping[str, int]
    lost_cpus: tuple[int, ...]
    notes: tuple[str, ...]


def parse_bpf_pelt(content: bytes, label: str) -> PeltCapture:
    """Read pelt.json.

    :param label: names it in messages
    :raises InputError: it is damaged, of another version, or its parts contradict each other
    """
    record = parse_object(content, label)
    if record.text("schema") != SCHEMA:
        raise record.wrong("schema", f'"{SCHEMA}", the version that this schedperf reads')
    seconds, sampling = record.quantity("seconds"), record.count("sampling")
    if not SECONDS[0] <= seconds <= SECONDS[1]:
        raise record.wrong("seconds", "the length of a run")
    if not 1 <= sampling <= LARGEST_COUNT:
        raise record.wrong("sampling", "1 or more")
    functions = record.child("functions")
    _limit(functions, MOST_FUNCTIONS, "functions")
    has_breakpoints = record.values.get("breakpoints") is not None
    has_probe = record.values.get("empty_probe") is not None
    return PeltCapture(
        seconds=seconds,
        sampling=sampling,
        functions={
            _name(functions, name, _FUNCTION): _function(functions.child(name))
            for name in functions.values
        },
        contexts=_contexts(record.child("contexts")),
        empty_probe=_empty_probe(record.child("empty_probe")) if has_probe else None,
        breakpoints=_breakpoints(record.child("breakpoints")) if has_breakpoints else {},
        lost_cpus=_lost_cpus(record),
        notes=tuple(note[:MOST_CHARACTERS] for note in record.texts("notes")[:MOST_NOTES]),
    )


def _limit(record: JsonObject, most: int, what: str) -> None:
    if len(record.values) > most:
        raise InputError(f"{record.where}: more than {most} {what}; use an undamaged file")


def _name(record: JsonObject, name: str, pattern: re.Pattern[str]) -> str:
    if not pattern.fullmatch(name):
        raise InputError(f"{record.where}: {name[:40]!r} is no name; use an undamaged file")
    return name


def _function(record: JsonObject) -> FunctionCalls:
    mechanism = _mechanism(record)
    if mechanism is None:
        return FunctionCalls(
            mechanism=None, tried=_tried(record), calls=None, contexts=None, durations=None,
            unpaired=None, nested=None,
        )  # fmt: skip
    calls = _counts(record, "calls")
    contexts, durations = _calls_by_context(record, calls), None
    if record.values.get("durations") is not None:
        durations = _durations(record.child("durations"), sum(calls.values()))
    has_lost = record.values.get("lost") is not None
    lost = record.child("lost") if has_lost else JsonObject({}, record.where)
    return FunctionCalls(
        mechanism=mechanism,
        tried=_tried(record),
        calls=calls,
        contexts=contexts,
        durations=durations,
        unpaired=lost.optional(lost.count, "unpaired"),
        nested=lost.optional(lost.count, "nested"),
    )


def _mechanism(record: JsonObject) -> str | None:
    found = record.optional(record.text, "mechanism")
    return None if found is None else _name(record, found, _WORD)


def _tried(record: JsonObject) -> dict[str, str | None]:
    tried = record.child("tried")
    _limit(tried, MOST_CONTEXTS, "mechanisms")
    reasons = {_name(tried, name, _WORD): tried.optional(tried.text, name) for name in tried.values}
    return {name: None if why is None else why[:MOST_CHARACTERS] for name, why in reasons.items()}


def _cpus(record: JsonObject) -> Iterator[tuple[str, int]]:
    _limit(record, MOST_CPUS, "CPUs")
    for name in record.values:
        if not _CPU.fullmatch(name) or int(name) >= MOST_CPUS:
            raise InputError(f"{record.where}: {name[:20]!r} is no CPU; use an undamaged file")
        yield name, int(name)


def _counts(record: JsonObject, key: str) -> Counts:
    by_cpu = record.child(key)
    return {cpu: _count(by_cpu, name) for name, cpu in _cpus(by_cpu)}


def _count(record: JsonObject, key: str) -> int:
    value = record.count(key)
    if value > LARGEST_COUNT:
        raise record.wrong(key, f"at most {LARGEST_COUNT}")
    return value


def _calls_by_context(record: JsonObject, calls: Counts) -> dict[str, Counts] | None:
    if record.values.get("contexts") is None:
        return None
    by_context = record.child("contexts")
    _limit(by_context, MOST_CONTEXTS, "contexts")
    found = {
        _name(by_context, name, _WORD): _counts(by_context, name) for name in by_context.values
    }
    parts = sum(sum(counts.values()) for counts in found.values())
    _check_parts(by_context, parts, sum(calls.values()), "calls")
    return found


def _check_parts(record: JsonObject, parts: int, whole: int, what: str) -> None:
    if abs(parts - whole) > max(LARGEST_MISMATCH * whole, FEWEST_MISMATCHES):
        raise InputError(
            f"{record.where}: adds up to {parts} of {whole} {what}; use an undamaged file"
        )


def _durations(record: JsonObject, calls: int) -> Durations:
    timed, sum_ns = _counts(record, "timed"), _counts(record, "sum_ns")
    # Which calls are timed is left to chance, so there is no number that it must be.
    if sum(timed.values()) > calls * (1.0 + LARGEST_MISMATCH) + FEWEST_MISMATCHES:
        raise record.wrong("timed", f"of no more than {calls} calls")
    if timed.keys() != sum_ns.keys():
        raise record.wrong("sum_ns", "of the same CPUs as timed")
    step = record.count("linear_step_ns")
    if not 1 <= step <= LARGEST_STEP_NS:
        raise record.wrong("linear_step_ns", f"from 1 to {LARGEST_STEP_NS}")
    bins = [
        _bins(record.child(key), most, sum(timed.values()))
        for key, most in (("log2_ns", MOST_LOG2_BINS), ("linear_ns", MOST_LINEAR_BINS))
    ]
    return Durations(
        timed=timed, sum_ns=sum_ns, log2_ns=bins[0], linear_ns=bins[1], linear_step_ns=step
    )


def _bins(record: JsonObject, most: int, timed: int) -> Bins:
    found: dict[int, tuple[int, ...]] = {}
    for name, cpu in _cpus(record):
        counts = record.counts(name)
        if not 1 <= len(counts) <= most or max(counts) > LARGEST_COUNT:
            raise record.wrong(name, f"1 to {most} bins of at most {LARGEST_COUNT}")
        found[cpu] = counts
    if len(set(map(len, found.values()))) > 1:
        raise InputError(f"{record.where}: CPUs differ in the bins; use an undamaged file")
    _check_parts(record, sum(map(sum, found.values())), timed, "durations")
    return found


def _contexts(record: JsonObject) -> Contexts:
    markers, missing = record.child("markers"), record.child("missing")
    for named in (markers, missing):
        _limit(named, MOST_CONTEXTS, "contexts")
    return Contexts(
        mechanism=_mechanism(record),
        markers={_name(markers, name, _WORD): _functions(markers, name) for name in markers.values},
        missing={
            _name(missing, name, _WORD): missing.text(name)[:MOST_CHARACTERS]
            for name in missing.values
        },
    )


def _functions(record: JsonObject, key: str) -> tuple[str, ...]:
    functions = record.texts(key)
    if len(functions) > MOST_FUNCTIONS:
        raise record.wrong(key, f"at most {MOST_FUNCTIONS} functions")
    return tuple(_name(record, name, _FUNCTION) for name in functions)


def _empty_probe(record: JsonObject) -> EmptyProbe:
    on = record.optional(record.text, "on")
    return EmptyProbe(
        mechanism=_mechanism(record),
        on=None if on is None else _name(record, on, _FUNCTION),
        calls=record.optional(record.count, "calls"),
        empty_ns=_cost(record, "empty_ns"),
        empty_ci=_interval(record, "empty_ci"),
        pair_ns=_cost(record, "pair_ns"),
        pair_ci=_interval(record, "pair_ci"),
        reads_ns=_cost(record, "reads_ns"),
        reads_ci=_interval(record, "reads_ci"),
    )


def _to_cost(value: object) -> float | None:
    # A difference of two noisy times may be below 0. None is no cost.
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) <= LARGEST_COST_NS else None


def _cost(record: JsonObject, key: str) -> float | None:
    value = record.values.get(key)
    cost = _to_cost(value)
    if value is not None and cost is None:
        raise record.wrong(key, "nanoseconds that a probe may take")
    return cost


def _interval(record: JsonObject, key: str) -> tuple[float, float] | None:
    value = record.values.get(key)
    if value is None:
        return None
    ends = [_to_cost(end) for end in value] if isinstance(value, list) else []
    known = [end for end in ends if end is not None]
    if len(ends) != 2 or len(known) != 2:  # noqa: PLR2004 # two ends
        raise record.wrong(key, "the two ends of an interval in nanoseconds")
    return min(known), max(known)


def _breakpoints(record: JsonObject) -> dict[str, int]:
    functions = record.child("functions")
    _limit(functions, MOST_FUNCTIONS, "functions")
    return {
        _name(functions, name, _FUNCTION): count
        for name in functions.values
        # One that did not count is no 0.
        if (count := functions.optional(lambda key: _count(functions, key), name)) is not None
    }


def _lost_cpus(record: JsonObject) -> tuple[int, ...]:
    cpus = record.counts("lost_cpus")
    if len(cpus) > MOST_CPUS or any(cpu >= MOST_CPUS for cpu in cpus):
        raise record.wrong("lost_cpus", f"CPUs below {MOST_CPUS}")
    return cpus
