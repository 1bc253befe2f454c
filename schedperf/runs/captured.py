# SPDX-License-Identifier: GPL-2.0-or-later
"""Read what a collector captured around each run, the same way for all sides."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from schedperf.inputs.bundle.open import Bundle, Run
from schedperf.inputs.side import Side
from schedperf.model.errors import InputError
from schedperf.model.run import Captured, Kind, RunKey, SideOf
from schedperf.runs.printed import printed_by
from schedperf.runs.timeline import Moment, place_in_time
from schedperf_collectors.contract import run_folder

Content = TypeVar("Content")


def load_captured(
    sides: Sequence[Side],
    collector: str,
    read: Callable[[Side, Run], Content],
    has: Callable[[Run], bool] | None = None,
) -> list[SideOf[Content]]:
    """Read what a collector captured around the runs of all sides.

    Clean runs are preferred, because collectors slow down instrumented runs; the two kinds are
    never mixed. Warm-ups, failed runs and runs without a readable capture are left out. A side gets
    a note if a capture or the output of its run cannot be read, if it has only runs of the other
    kind, or if its instrumented runs were recorded with other collectors than those of the first
    side.

    :param collector: name of the collector, which is also its directory below that of each run
    :param read: parses one capture; an InputError that it raises becomes a note
    :param has: returns whether a run has a capture [default: whether the collector wrote files in
        the run's directory]
    """
    moments = place_in_time(sides)
    runs_of_sides = [_captured_runs(side.bundle, collector, has) for side in sides]
    kind = _common_kind(runs_of_sides)
    loaded: list[SideOf[Content]] = []
    for side, runs in zip(sides, runs_of_sides, strict=True):
        chosen = [run for run in runs if run.kind == kind]
        captured = _load_side(side, kind, chosen, read, moments)
        if runs and not chosen:
            note = (
                f"{side.name}: {collector} was recorded in {runs[0].kind} runs only, but "
                f"{kind} runs are compared"
            )
            captured = replace(captured, notes=(note,))
        elif kind == "instrumented" and loaded:
            others = _other_instruments((sides[0], loaded[0]), (side, captured))
            captured = replace(captured, notes=(*captured.notes, *others))
        loaded.append(captured)
    return loaded


def _common_kind(sides: Sequence[Sequence[Run]]) -> Kind:
    """Return the kind of run that all sides have, preferably clean; ignore sides without runs.

    If they have no common kind, return that of the first side with runs, preferably clean.
    """
    kinds = [{run.kind for run in runs} for runs in sides if runs]
    both: tuple[Kind, Kind] = ("clean", "instrumented")
    for kind in both:
        if all(kind in kinds_of_side for kinds_of_side in kinds):
            return kind
    return "clean" if "clean" in kinds[0] else "instrumented"


def _other_instruments(
    base: tuple[Side, SideOf[Content]], new: tuple[Side, SideOf[Content]]
) -> Iterator[str]:
    """Yield a note for each collector whose share of the runs differs between the sides."""
    runs_base, runs_new = len(base[1].runs), len(new[1].runs)
    if not runs_base or not runs_new:
        return
    of_base, of_new = _instruments(*base), _instruments(*new)
    for collector in sorted({*of_base, *of_new}):
        n_base, n_new = of_base[collector], of_new[collector]
        if n_base * runs_new != n_new * runs_base:
            yield (
                f"{new[1].name}: {collector} was recorded in {n_new} of {runs_new} runs, but in "
                f"{n_base} of {runs_base} runs of {base[1].name}, so collector overhead differs"
            )


def _instruments(side: Side, loaded: SideOf[Content]) -> Counter[str]:
    # Each directory of a run belongs to one collector.
    collectors = Counter[str]()
    for run in loaded.runs:
        folder = f"{run_folder(run.key.boot, run.key.run)}/"
        inside = (name.removeprefix(folder) for name in side.bundle.names(folder))
        collectors.update({name.partition("/")[0] for name in inside if "/" in name})
    return collectors


def _load_side(
    side: Side,
    kind: Kind,
    chosen: Sequence[Run],
    read: Callable[[Side, Run], Content],
    moments: Mapping[tuple[str, str], Moment],
) -> SideOf[Content]:
    runs: list[Captured[Content]] = []
    notes: list[str] = []
    for run in chosen:
        try:
            captured = Captured(
                key=key_of(side, run, moments[side.name, run.folder]),
                ops=printed_by(side, run).ops,
                wall_s=run.wall_s,
                period_s=run.period_s,
                content=read(side, run),
            )
        except InputError as error:
            notes.append(f"{side.name}: {error}")
            continue
        runs.append(captured)
    return SideOf(
        name=side.name,
        label=side.bundle.label,
        kind=kind,
        runs=tuple(runs),
        notes=tuple(notes),
    )


def key_of(side: Side, run: Run, moment: Moment | None = None) -> RunKey:
    """Return the identity of a run of a bundle.

    :param moment: the run's position in time among the runs of all sides; None to leave ``order``
        and ``round`` None
    """
    return RunKey(
        side=side.name,
        workload=run.workload,
        point=run.point_key,
        boot=run.boot,
        run=run.run,
        order=None if moment is None else moment.order,
        round=None if moment is None else moment.round,
    )


def _captured_runs(bundle: Bundle, collector: str, has: Callable[[Run], bool] | None) -> list[Run]:
    def has_files(run: Run) -> bool:
        return bool(bundle.names(f"{run.folder}/{collector}/"))

    has = has or has_files
    return [run for run in bundle.runs_by_point if run.succeeded and has(run)]


def why_nothing(side: Side, collector: str) -> str:
    """Return the reason why no run of a side has a capture of the collector."""
    for entry in side.bundle.captures:
        if entry.collector == collector and entry.reason:
            return f"{collector} of {side.name}: {entry.reason}"
    return f"no run of {side.name} was recorded with {collector}"


def count_notes(side: str, notes: Iterable[str]) -> Iterator[str]:
    """Yield each note once, with the name of the side and the number of runs that have it."""
    for note, runs in Counter(notes).items():
        yield f"{side}: {note}{f' ({runs} runs)' if runs > 1 else ''}"
