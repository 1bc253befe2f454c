# SPDX-License-Identifier: GPL-2.0-or-later
"""Load the recordings of ``schedperf profile``: one point of a bundle, or perf.data files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from schedperf.commands._examples import lacks
from schedperf.commands._sources import (
    Source,
    is_perf_data,
    open_source,
    source_of_file,
    tell_apart,
)
from schedperf.evidence.profile.attribution import ALL_TASKS, attribute
from schedperf.evidence.profile.blindness import Machine, judge_events
from schedperf.evidence.profile.independent import ONE_AFTER_THE_OTHER, took_turns
from schedperf.evidence.profile.samples import (
    ProfileSamples,
    align_samples,
    every_row,
    place_profile,
)
from schedperf.inputs.bundle.open import Bundle, Run
from schedperf.inputs.perf_data import Keep, read_perf_data
from schedperf.inputs.side import Side, side_name
from schedperf.inputs.symbols.local_symbols import symbols_for_file
from schedperf.inputs.symbols.recorded_kernel import refuse_for_two_kernels
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, join_names
from schedperf.runs.timeline import place_in_time


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Point:
    """A workload and its parameters.

    :param key: the parameters: "groups=4"; "" without any
    """

    workload: str
    key: str

    @classmethod
    def of(cls, run: Run) -> "Point":
        """Return the point at which a run was made."""
        return cls(workload=run.workload, key=run.point_key)

    def __str__(self) -> str:
        return clean_line(f"{self.workload} at {self.key}" if self.key else self.workload)

    def is_called(self, name: str) -> bool:
        """Return whether the user's text matches this point: workload, parameters, or both."""
        return bool(name) and name in {str(self), clean_line(self.workload), clean_line(self.key)}


class Wanted(Struct, frozen=True, kw_only=True):
    """What to load from the sources.

    :param keep: attributes of samples that the reader keeps
    :param compared: whether two sides are compared; parts and former names of a function then count
        as that function, and unresolved addresses stay separate
    :param symbols: symbols of the kernel, for perf.data alone; None for this machine's symbols, if
        they match
    :param point: point of a bundle's workload; None for the first one that all bundles have
    """

    keep: frozenset[Keep]
    compared: bool
    symbols: Path | None
    point: str | None


class Loaded(Struct, frozen=True, kw_only=True):
    """All loaded sources, with names and points that are comparable.

    :param sources: one source, or base and new
    :param took_turns: false if the sides were recorded one after the other, so that drift may look
        like a change; true for a single source, and for perf.data, which does not record its time
    :param cautions: caveats, one sentence each
    """

    sources: tuple[Source[ProfileSamples], ...]
    took_turns: bool
    cautions: tuple[str, ...]


def load_sources(paths: Sequence[Path], options: Wanted) -> Loaded:
    """Load each source; bundles are loaded at the same point.

    :raises InputError: a source cannot be read, or has no profile; the bundles have no point in
        common; or ``symbols`` or ``point`` does not fit the sources
    """
    bundles = {path: open_source(path) for path in paths if not is_perf_data(path)}
    if options.symbols is not None and all(path in bundles for path in paths):
        raise InputError(
            "--symbols: bundles contain their own symbols (expected perf.data); leave this "
            "option out"
        )
    point, others = (
        _choose_point(list(bundles.values()), options.point) if bundles else (None, None)
    )
    sides = {
        index: Side(name=side_name(index), bundle=bundles[path])
        for index, path in enumerate(paths)
        if path in bundles
    }

    def load(*, is_attributed: bool) -> list[Source[ProfileSamples]]:
        return [
            _load_file(path, options, is_attributed=is_attributed)
            if point is None or index not in sides
            else _load_bundle(sides[index], point, options, is_attributed=is_attributed)
            for index, path in enumerate(paths)
        ]

    sources = load(is_attributed=options.compared)
    are_attributed = [run.content.is_attributed for each in sources for run in each.side.runs]
    if any(are_attributed) and not all(are_attributed):
        sources = load(is_attributed=False)
    if options.symbols is not None:
        files = [source for source in sources if source.path not in bundles]
        recordings = [run.content.recording for source in files for run in source.side.runs]
        refuse_for_two_kernels("--symbols", [each.kernel_build_id for each in recordings])
    comparison = _compare(tell_apart(sources), list(sides.values()))
    return replace(comparison, cautions=(*comparison.cautions, *([others] if others else [])))


def _compare(sources: Sequence[Source[ProfileSamples]], sides: Sequence[Side]) -> Loaded:
    if len(sources) == 1:
        return Loaded(sources=tuple(sources), took_turns=True, cautions=())
    base, new = sources
    side_base, side_new, notes = align_samples(base.side, new.side)
    # perf.data does not record when it was made relative to others; one file per side gives no
    # interval.
    has_turns = len(sides) < len(sources) or took_turns(
        place_in_time(sides), base.side.runs, new.side.runs
    )
    is_attributed = all(run.content.is_attributed for run in (*base.side.runs, *new.side.runs))
    return Loaded(
        sources=(replace(base, side=side_base), replace(new, side=side_new)),
        took_turns=has_turns,
        cautions=(
            *([] if has_turns else [ONE_AFTER_THE_OTHER]),
            *([] if is_attributed else [ALL_TASKS]),
            *notes,
        ),
    )


def _load_file(path: Path, options: Wanted, *, is_attributed: bool) -> Source[ProfileSamples]:
    if options.point is not None:
        raise InputError(f"{path}: perf.data does not record parameters; leave --point out")
    recording = read_perf_data(path, str(path), keep=options.keep)
    notes = list(recording.notes)
    symbols = symbols_for_file(recording, options.symbols, notes.append)
    placed = place_profile(recording, symbols, compared=options.compared)
    divided = attribute(recording, placed, (), None) if is_attributed else None
    samples = ProfileSamples(
        recording=recording,
        placed=placed if divided is None else divided,
        rows=every_row(recording),
        sights=judge_events(
            recording.events,
            Machine(name=recording.features.arch, emulated=None),
            recording.features.pmus,
        ),
        node_of_cpu=recording.features.node_of_cpu,
        is_attributed=divided is not None,
    )
    return source_of_file(path, "perf.data", samples, notes)


def _load_bundle(
    side: Side, point: Point, options: Wanted, *, is_attributed: bool
) -> Source[ProfileSamples]:
    """Load all runs at a point; skip and note those that cannot be read.

    :raises InputError: no run can be read
    """
    # Imported here so that showing one file does not load what bundles and comparisons need.
    from schedperf.evidence.profile.sources import read_runs  # noqa: PLC0415

    runs = read_runs(
        side,
        keep=options.keep,
        compared=options.compared,
        is_attributed=is_attributed,
        wanted=lambda run: Point.of(run) == point,
    )
    path = side.bundle.path
    if not runs.runs:
        raise InputError(f"{path}: {runs.notes[-1]}")
    return Source(path=path, kind="a bundle", point=str(point), side=runs)


def _choose_point(bundles: Sequence[Bundle], requested: str | None) -> tuple[Point, str | None]:
    """Return the point to show, and a note if there are others.

    :param requested: as the user wrote it; None for the first one common to all bundles
    :raises InputError: a bundle has no profile, or there is no such point
    """
    points_of = {bundle: _points_of(bundle) for bundle in bundles}
    common = [
        point
        for point in points_of[bundles[0]]
        if all(point in points for points in points_of.values())
    ]
    chosen = [point for point in common if requested is None or point.is_called(requested)]
    if not chosen:
        raise InputError(_why_none(points_of, common, requested))
    if len(chosen) == 1:
        return chosen[0], None
    others = _list(chosen[1:])
    note = f"only {chosen[0]} is shown; select another one with --point ({others})"
    return chosen[0], note


def _points_of(bundle: Bundle) -> dict[Point, None]:
    # Imported here so that showing one file does not load what bundles and comparisons need.
    from schedperf.evidence.profile.sources import FOLDER  # noqa: PLC0415
    from schedperf.inputs.perf_data.recorded import recorded_runs, why_not_recorded  # noqa: PLC0415

    points = {Point.of(run): None for _, run, _ in recorded_runs(bundle, FOLDER)}
    if points:
        return points
    raise lacks(bundle.path, why_not_recorded(bundle, FOLDER), FOLDER)


def _why_none(
    points_of: Mapping[Bundle, Iterable[Point]], common: Sequence[Point], point: str | None
) -> str:
    if point is not None and common:
        where = join_names(str(bundle.path) for bundle in points_of)
        return (
            f"{where}: no profile with parameters {point!r} (expected one of {_list(common)}); "
            "choose another --point"
        )
    each = "; ".join(f"{bundle.path} has {_list(points)}" for bundle, points in points_of.items())
    return (
        f"no workload was profiled with the same parameters on both sides ({each}); record the "
        "same command on both sides"
    )


def _list(points: Iterable[Point]) -> str:
    return ", ".join(f"'{point}'" for point in points)
