"""PELT: how often load averages were updated, from where, and how long that took, base against new.

Calls of ``update_cfs_group`` and its kin a second, an operation and a wakeup, by node and by
context, and what a call took. They get no verdict: more calls are neither better nor worse, and a
duration holds what the probe cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedperf.bundle.open import Bundle, Run
from schedperf.evidence import Absent, section
from schedperf.evidence.pelt.analysis import analyse_sides
from schedperf.evidence.pelt.capture import PeltCapture, parse_bpf_pelt
from schedperf.evidence.pelt.measures import PeltRun
from schedperf.evidence.pelt.record import Pelt
from schedperf.evidence.pelt.sight import TracedSide
from schedperf.evidence.perf_stat.capture import Counter, parse_perf_stat
from schedperf.model.counted import MissingSide
from schedperf.model.errors import InputError
from schedperf.runs.captured import (
    CapturedRun,
    CapturedSide,
    load_captured,
    why_nothing,
)
from schedperf.runs.host import machine_facts, nodes_of_host
from schedperf.runs.side import Side

COLLECTOR = "bpf_pelt"
# 8192 CPUs with six functions, each with 96 bins and ten contexts, have 17 MB.
LARGEST_BYTES = 32 << 20
LARGEST_CSV_BYTES = 4 << 20
# Each node has rows of its own; the largest machines have 64.
MOST_NODES = 128
WAKEUP_EVENT = "sched:sched_wakeup"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Traced:
    capture: PeltCapture
    wakeups: float | None


@section(Pelt)
def pelt(sides: Sequence[Side]) -> Pelt:
    """Compare the calls and durations of the runs of one workload and point, side by side."""
    base, *others = load_captured(sides, COLLECTOR, _read_run)
    missing = [
        MissingSide(side=one.side.name, reason=_why_nothing(one))
        for one in (base, *others)
        if not one.runs
    ]
    found = [one for one in others if one.runs]
    if not base.runs or not found:
        raise Absent(missing[0].reason if missing else "there is no new side")
    return analyse_sides([_traced_side(one) for one in (base, *found)], missing)


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


def _traced_side(captured: CapturedSide[_Traced]) -> TracedSide:
    hosts = {boot.number: boot.host for boot in captured.side.bundle.boots}
    return TracedSide(
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
