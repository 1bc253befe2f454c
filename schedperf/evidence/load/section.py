# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the results of the load that ran beside the workload.

The load's output is parsed like that of a workload. Its results are informational, because the
verdict is about the workload.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence import Absent, section
from schedperf.evidence.load.capture import LARGEST_BYTES, LoadRun, parse_load
from schedperf.evidence.load.record import Load, LoadRow
from schedperf.inputs.benchmarks import Metric
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.counted import Basis
from schedperf.model.run import SideOf
from schedperf.runs.captured import load_captured, why_nothing
from schedperf.runs.printed import Printed, printed_by
from schedperf.stats.counted.rates import Measure, Measures, compare_rates
from schedperf_collectors.contract import LOAD, format_template

# A result is one value per run, without a divisor.
PER_RUN: Basis = "share"


class _Beside(Struct, frozen=True, kw_only=True):
    # The load of one run, and its parsed output.
    load: LoadRun
    printed: Printed


def has_load(side: Side) -> bool:
    """Return whether a side was recorded with a load."""
    return side.bundle.load is not None


@section(Load, applies=has_load)
def load(sides: Sequence[Side]) -> Load:
    """Compare each metric of the load, for each workload and point.

    :raises Absent: a side has no run with a readable load, or the loads of the sides differ
    """
    loaded = load_captured(sides, LOAD, _read)
    for side, beside in zip(sides, loaded, strict=True):
        if not beside.runs:
            raise Absent(beside.notes[0] if beside.notes else why_nothing(side, LOAD))
    commands = {
        side.bundle.load or format_template(of.runs[0].content.load.command)
        for side, of in zip(sides, loaded, strict=True)
    }
    if len(commands) > 1:
        raise Absent("the loads of base and new differ, so their results are not compared")
    base, *others = loaded
    return Load(
        command=commands.pop(),
        rows=tuple(row for new in others for row in _compare(base, new)),
        notes=tuple(note for beside in loaded for note in (*beside.notes, *_notes(beside))),
    )


def _read(side: Side, run: Run) -> _Beside:
    folder = f"{run.folder}/{LOAD}"
    name = f"{folder}/load.json"
    load_run = parse_load(side.bundle.read(name, LARGEST_BYTES), f"{side.bundle.path}: {name}")
    # Rules of --metric apply to the output of the workload only.
    as_run = replace(run, command=load_run.command, wall_s=load_run.wall_s, metric=None)
    return _Beside(load=load_run, printed=printed_by(side, as_run, folder))


def _compare(base: SideOf[_Beside], new: SideOf[_Beside]) -> Iterator[LoadRow]:
    metrics = {metric.name: metric for side in (base, new) for metric in _metrics(side)}
    rates = compare_rates(_measures(base), _measures(new))
    for index, (question, rate) in enumerate(rates.items()):
        metric = metrics[question.key]
        yield LoadRow(
            row=f"{new.name}-{index}",
            side=new.name,
            workload=question.workload,
            point=question.point,
            basis=question.basis,
            metric=metric.name,
            better=metric.better,
            definition=metric.definition,
            **rate.as_fields(),
        )


def _metrics(side: SideOf[_Beside]) -> Iterator[Metric]:
    return (metric for run in side.runs for metric in run.content.printed.numbers)


def _measures(side: SideOf[_Beside]) -> SideOf[Measures[str]]:
    return side.having(
        lambda run: {
            (metric.name, PER_RUN): Measure(value.value, metric.unit, is_maximum=metric.is_maximum)
            for metric, value in run.content.printed.numbers.items()
        }
    )


def _notes(side: SideOf[_Beside]) -> Iterator[str]:
    killed = sum(run.content.load.was_killed for run in side.runs)
    if killed:
        yield (
            f"{side.name}: the load did not end when it was interrupted and had to be killed in "
            f"{killed} of {len(side.runs)} runs, so it may not have printed its results"
        )
    left_out = sum(run.content.load.left_out_bytes for run in side.runs)
    if left_out:
        yield f"{side.name}: {left_out} bytes of the output of the load were not kept"
    silent = sum(not run.content.printed.numbers for run in side.runs)
    if silent:
        yield (
            f"{side.name}: no result found in the output of the load in {silent} of "
            f"{len(side.runs)} runs"
        )
    for run in side.runs:
        yield from (f"{side.name}: {problem}" for problem in run.content.printed.problems)
