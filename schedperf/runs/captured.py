"""What a collector captured around each run, read from all sides alike; rates of it as rows."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from schedperf.bundle.open import Bundle, Run
from schedperf.model.errors import InputError
from schedperf.runs.ops import Operations, operations_of
from schedperf.runs.side import Side
from schedperf.runs.timeline import Moment, place_in_time
from schedperf.stats.counted.rates import CountedRun, Key, Measures

Content = TypeVar("Content")


@dataclass(frozen=True, kw_only=True, slots=True)
class CapturedRun(Generic[Content]):
    """A run and what was captured around it.

    :param operations: what its benchmark did; None where that is unknown
    :param content: of the capture, as its parser returns it
    """

    run: Run
    moment: Moment
    operations: Operations | None
    content: Content

    def counted(self, measures: Measures[Key]) -> CountedRun[Key]:
        """Return the run with what was made of its capture, to be compared."""
        return CountedRun(
            workload=self.run.workload,
            point=self.run.point_key,
            boot=self.run.boot,
            run=self.run.run,
            order=self.moment.order,
            round=self.moment.round,
            measures=measures,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CapturedSide(Generic[Content]):
    """The runs of one side that have the capture.

    :param notes: what could not be read
    """

    side: Side
    runs: tuple[CapturedRun[Content], ...]
    notes: tuple[str, ...]


def load_captured(
    sides: Sequence[Side], collector: str, read: Callable[[Bundle, Run], Content]
) -> list[CapturedSide[Content]]:
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
    loaded: list[CapturedSide[Content]] = []
    for side, runs in zip(sides, found, strict=True):
        chosen = [run for run in runs if run.kind == kind]
        one = _load_side(side, chosen, read, moments)
        if runs and not chosen:
            note = f"{side.name}: {collector} was recorded in {runs[0].kind} runs alone, and "
            one = replace(one, notes=(f"{note}{kind} runs are compared",))
        elif kind == "instrumented" and loaded:
            one = replace(one, notes=(*one.notes, *_other_instruments(loaded[0], one)))
        loaded.append(one)
    return loaded


def _common_kind(sides: Sequence[Sequence[Run]]) -> str:
    """Return the kind of run that all sides have, clean if possible, else one of base's."""
    kinds = [{run.kind for run in runs} for runs in sides if runs]
    for kind in ("clean", "instrumented"):
        if all(kind in one for one in kinds):
            return kind
    return "clean" if "clean" in kinds[0] else "instrumented"


def _other_instruments(base: CapturedSide[Content], new: CapturedSide[Content]) -> Iterator[str]:
    """Say which collectors a different part of the runs had: what they cost is a difference."""
    if not base.runs or not new.runs:
        return
    of_base, of_new = _instruments(base), _instruments(new)
    for collector in sorted({*of_base, *of_new}):
        n_base, n_new = of_base[collector], of_new[collector]
        if n_base * len(new.runs) != n_new * len(base.runs):
            yield (
                f"{new.side.name}: {collector} recorded in {n_new} of {len(new.runs)} runs, and in "
                f"{n_base} of {len(base.runs)} of {base.side.name}: what it costs differs, too"
            )


def _instruments(side: CapturedSide[Content]) -> Counter[str]:
    # By the folders of the runs, each of which is a collector's.
    found = Counter[str]()
    for captured in side.runs:
        folder = f"{captured.run.folder}/"
        inside = (name.removeprefix(folder) for name in side.side.bundle.names(folder))
        found.update({name.partition("/")[0] for name in inside if "/" in name})
    return found


def _load_side(
    side: Side,
    chosen: Sequence[Run],
    read: Callable[[Bundle, Run], Content],
    moments: Mapping[tuple[str, str], Moment],
) -> CapturedSide[Content]:
    runs: list[CapturedRun[Content]] = []
    notes: list[str] = []
    for run in chosen:
        try:
            captured = CapturedRun(
                run=run,
                moment=moments[side.name, run.folder],
                operations=operations_of(side.bundle, run),
                content=read(side.bundle, run),
            )
        except InputError as error:
            notes.append(f"{side.name}: {error}")
            continue
        runs.append(captured)
    return CapturedSide(side=side, runs=tuple(runs), notes=tuple(notes))


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
