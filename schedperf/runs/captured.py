# SPDX-License-Identifier: GPL-2.0-or-later
"""Read what a collector captured around each run, the same way for all sides."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from schedperf.bundle.open import Bundle, Run
from schedperf.model.errors import InputError
from schedperf.model.run import Captured, Kind, RunKey, SideOf
from schedperf.runs.printed import printed_by
from schedperf.runs.side import Side
from schedperf.runs.timeline import Moment, place_in_time
from schedperf_collectors.contract import run_folder

Content = TypeVar("Content")


def load_captured(
    sides: Sequence[Side], collector: str, read: Callable[[Bundle, Run], Content]
) -> list[SideOf[Content]]:
    """Read what a collector captured around the runs of all sides.

    Clean runs are preferred, since instruments disturb what is counted, and the two kinds are
    never mixed, neither in a side nor between sides. A run whose capture cannot be read is left
    out, and its side has a note; so has a side that has runs of the other kind alone, and one
    whose instrumented runs were not recorded with what those of the first side were.

    :param collector: whose folder is below each run's
    :param read: parses one capture; may raise InputError
    """
    moments = place_in_time(sides)
    found = [_captured_runs(side.bundle, collector) for side in sides]
    kind = _common_kind(found)
    loaded: list[SideOf[Content]] = []
    for side, runs in zip(sides, found, strict=True):
        chosen = [run for run in runs if run.kind == kind]
        one = _load_side(side, kind, chosen, read, moments)
        if runs and not chosen:
            note = f"{side.name}: {collector} was recorded in {runs[0].kind} runs alone, and "
            one = replace(one, notes=(f"{note}{kind} runs are compared",))
        elif kind == "instrumented" and loaded:
            others = _other_instruments((sides[0], loaded[0]), (side, one))
            one = replace(one, notes=(*one.notes, *others))
        loaded.append(one)
    return loaded


def _common_kind(sides: Sequence[Sequence[Run]]) -> Kind:
    """Return the kind of run that all sides have, clean if possible, else one of base's."""
    kinds = [{run.kind for run in runs} for runs in sides if runs]
    both: tuple[Kind, Kind] = ("clean", "instrumented")
    for kind in both:
        if all(kind in one for one in kinds):
            return kind
    return "clean" if "clean" in kinds[0] else "instrumented"


def _other_instruments(
    base: tuple[Side, SideOf[Content]], new: tuple[Side, SideOf[Content]]
) -> Iterator[str]:
    """Say which collectors a different part of the runs had: what they cost is a difference."""
    runs_base, runs_new = len(base[1].runs), len(new[1].runs)
    if not runs_base or not runs_new:
        return
    of_base, of_new = _instruments(*base), _instruments(*new)
    for collector in sorted({*of_base, *of_new}):
        n_base, n_new = of_base[collector], of_new[collector]
        if n_base * runs_new != n_new * runs_base:
            yield (
                f"{new[1].name}: {collector} recorded in {n_new} of {runs_new} runs, and in "
                f"{n_base} of {runs_base} of {base[1].name}: what it costs differs, too"
            )


def _instruments(side: Side, loaded: SideOf[Content]) -> Counter[str]:
    # By the folders of the runs, each of which is a collector's.
    found = Counter[str]()
    for run in loaded.runs:
        folder = f"{run_folder(run.key.boot, run.key.run)}/"
        inside = (name.removeprefix(folder) for name in side.bundle.names(folder))
        found.update({name.partition("/")[0] for name in inside if "/" in name})
    return found


def _load_side(
    side: Side,
    kind: Kind,
    chosen: Sequence[Run],
    read: Callable[[Bundle, Run], Content],
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
                content=read(side.bundle, run),
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

    :param moment: None: its place in time among the runs of all sides is not looked at
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


def _captured_runs(bundle: Bundle, collector: str) -> list[Run]:
    return [
        run
        for run in bundle.runs
        if not run.warmup and run.succeeded and bundle.names(f"{run.folder}/{collector}/")
    ]


def why_nothing(side: Side, collector: str) -> str:
    """Say why a bundle has no run with this capture."""
    for entry in side.bundle.captures:
        if entry.collector == collector and entry.reason:
            return f"{collector} of {side.name}: {entry.reason}"
    return f"no run of {side.name} was recorded with {collector}"
