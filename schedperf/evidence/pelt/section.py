"""PELT: how often load averages were updated, from where, and how long that took, base against new.

Calls of ``update_cfs_group`` and its kin a second, an operation and a wakeup, by node and by
context, and what a call took. They get no verdict: more calls are neither better nor worse, and a
duration holds what the probe cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from schedperf.bundle.open import Bundle, Run
from schedperf.evidence import Absent, Dicts, dict_section
from schedperf.evidence.pelt.analysis import analyse_sides
from schedperf.evidence.pelt.capture import PeltCapture, parse_bpf_pelt
from schedperf.evidence.pelt.measures import PeltRun, What
from schedperf.evidence.pelt.rows import PER
from schedperf.evidence.pelt.sight import PeltSide
from schedperf.evidence.perf_stat.capture import Counter, parse_perf_stat
from schedperf.model.errors import InputError
from schedperf.model.schema import (
    COUNT,
    FLAG,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    Schema,
    array,
    record,
)
from schedperf.runs.captured import (
    RATE_FIELDS,
    CapturedRun,
    CapturedSide,
    load_captured,
    why_nothing,
)
from schedperf.runs.host import machine_facts, nodes_of_host
from schedperf.runs.side import Side
from schedperf.stats.counted.schema import CPUS, bins

COLLECTOR = "bpf_pelt"
# 8192 CPUs with six functions, each with 96 bins and ten contexts, have 17 MB.
LARGEST_BYTES = 32 << 20
LARGEST_CSV_BYTES = 4 << 20
# Each node has rows of its own; the largest machines have 64.
MOST_NODES = 128
WAKEUP_EVENT = "sched:sched_wakeup"

_INTERVAL: Schema = {"type": ["array", "null"], "items": {"type": "number"}}
_COUNTS = array(COUNT)
_ROW = record(
    row={**TEXT, "description": "names the row for findings and evidence"},
    side=TEXT,
    workload=TEXT,
    point=TEXT,
    function={**TEXT, "description": "of the kernel, or a tracepoint"},
    what={"enum": [*get_args(What)], "description": "share: of the time that the CPUs had"},
    per={"enum": [*PER.values(), ""], "description": "what calls are divided by; else empty"},
    node={"type": ["integer", "null"], "description": "null: all CPUs"},
    context={**TEXT, "description": "what the CPU was doing; empty: all calls"},
    status={"enum": ["ok", "invalid"], "description": "invalid: values that must not be compared"},
    reason={**TEXT_OR_NULL, "description": "why it is invalid"},
    **RATE_FIELDS,
    remarks={**TEXTS, "description": "what weakens it"},
    total_base={**NUMBER_OR_NULL, "description": "calls in a run, mean over runs"},
    total_new=NUMBER_OR_NULL,
    read_base={
        **NUMBER_OR_NULL,
        "description": "of a mean or share: before the probe's own reading was taken off",
    },
    read_new=NUMBER_OR_NULL,
    resolution_base={
        **NUMBER_OR_NULL,
        "description": "of a quantile: width in s of the bin that it is in",
    },
    resolution_new=NUMBER_OR_NULL,
)
_PROBE: Schema = {
    **record(
        mechanism=TEXT,
        on=TEXT,
        empty_ns=NUMBER_OR_NULL,
        empty_ci=_INTERVAL,
        pair_ns=NUMBER_OR_NULL,
        pair_ci=_INTERVAL,
        reads_ns=NUMBER_OR_NULL,
        reads_ci=_INTERVAL,
    ),
    "type": ["object", "null"],
    "description": "what an empty pair of programs and the timing pair add to a call, and what the "
    "timing pair reads of a function that does next to nothing",
}
_SIDE = record(
    side=TEXT,
    runs=COUNT,
    seconds={"type": "number"},
    sampling={**_COUNTS, "description": "one in so many calls was timed"},
    emulated={"type": ["boolean", "null"], "description": "null: not known"},
    mechanisms={"type": "object", "additionalProperties": TEXTS},
    markers={"type": "object", "additionalProperties": TEXTS},
    missing={"type": "object", "additionalProperties": TEXT},
    probe=_PROBE,
)
_UNSEEN = record(
    side=TEXT, function=TEXT, runs=COUNT, tried=array(record(mechanism=TEXT, reason=TEXT))
)
_HISTOGRAM = record(
    side=TEXT,
    workload=TEXT,
    point=TEXT,
    function=TEXT,
    runs=COUNT,
    log2_ns={**_COUNTS, "description": "bin i: 2**i <= ns < 2**(i + 1), bin 0 also 0 ns"},
    linear_ns={
        **_COUNTS,
        "description": "bin i: i * step <= ns < (i + 1) * step; the last is open",
    },
    linear_step_ns=COUNT,
)
_CROSS_CHECK = record(
    side=TEXT, function=TEXT, runs=COUNT, calls=COUNT, breakpoint=COUNT, agrees=FLAG
)
SCHEMA = record(
    sides=array(_SIDE),
    rows=array(_ROW),
    unseen={**array(_UNSEEN), "description": "what no mechanism could see, with each reason"},
    histograms={**array(_HISTOGRAM), "description": "sums over CPUs and runs"},
    bins=bins("durations of calls in s, their shares side by side", function=TEXT),
    cpus=CPUS,
    cross_checks={**array(_CROSS_CHECK), "description": "calls counted a second time"},
    missing=array(record(side=TEXT, reason=TEXT)),
    notes=TEXTS,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Traced:
    capture: PeltCapture
    wakeups: float | None


@dict_section("pelt", version=1, schema=SCHEMA)
def pelt(sides: Sequence[Side]) -> Dicts:
    """Compare the calls and durations of the runs of one workload and point, side by side."""
    base, *others = load_captured(sides, COLLECTOR, _read_run)
    missing = [
        {"side": one.side.name, "reason": _why_nothing(one)}
        for one in (base, *others)
        if not one.runs
    ]
    found = [one for one in others if one.runs]
    if not base.runs or not found:
        raise Absent(missing[0]["reason"] if missing else "there is no new side")
    data = analyse_sides([_pelt_side(one) for one in (base, *found)])
    return {**data, "missing": missing}


def _why_nothing(captured: CapturedSide[_Traced]) -> str:
    return captured.notes[0] if captured.notes else why_nothing(captured.side, COLLECTOR)


def _read_run(bundle: Bundle, run: Run) -> _Traced:
    name = f"{run.folder}/{COLLECTOR}/pelt.json"
    capture = parse_bpf_pelt(bundle.read(name, LARGEST_BYTES), name)
    return _Traced(capture=capture, wakeups=_wakeups(bundle, run))


def _wakeups(bundle: Bundle, run: Run) -> float | None:
    # A count that perf could not make, on any node, is no count of the machine.
    name = f"{run.folder}/perf_stat/perf_stat.csv"
    if bundle.size(name) is None:
        return None
    try:
        lines = bundle.read_text(name, LARGEST_CSV_BYTES).splitlines()
    except InputError:
        # What cannot be read is said where these counters are the subject.
        return None
    found = [
        one.value
        for one in parse_perf_stat(lines, name)
        if isinstance(one, Counter) and one.event == WAKEUP_EVENT
    ]
    known = [value for value in found if value is not None]
    total = sum(known) if len(known) == len(found) else 0.0
    # Without a wakeup there is nothing to divide by, and a fraction of one is no count.
    return total if total >= 1.0 else None


def _pelt_side(captured: CapturedSide[_Traced]) -> PeltSide:
    hosts = {boot.number: boot.host for boot in captured.side.bundle.boots}
    return PeltSide(
        name=captured.side.name,
        runs=tuple(_pelt_run(one, hosts[one.run.boot]) for one in captured.runs),
        notes=captured.notes,
    )


def _pelt_run(captured: CapturedRun[_Traced], host: Mapping[str, object]) -> PeltRun:
    operations, nodes = captured.operations, nodes_of_host(host)
    return PeltRun(
        counted=captured.counted({}),
        capture=captured.content.capture,
        nodes=nodes if len(set(nodes.values())) <= MOST_NODES else {},
        operations=None if operations is None else operations.count,
        operation=None if operations is None else operations.unit,
        wakeups=captured.content.wakeups,
        emulated=machine_facts(host)[1],
    )
