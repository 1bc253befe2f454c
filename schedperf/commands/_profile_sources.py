"""What ``schedperf profile`` reads: the recordings of a bundle's point, and perf.data by itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedperf.bundle.open import Bundle, Run
from schedperf.commands._profile_inputs import is_perf_data, open_source
from schedperf.evidence.profile.alignment import align
from schedperf.evidence.profile.blindness import judge_event
from schedperf.evidence.profile.loaded import LoadedRun, make_run
from schedperf.evidence.profile.order import ONE_AFTER_THE_OTHER, may_be_drift
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf.perf_data import Keep, read_perf_data
from schedperf.runs.side import BASE, Side, name_sides
from schedperf.runs.timeline import place_in_time
from schedperf.symbols.local_symbols import symbols_for_file
from schedperf.symbols.places import build_ids, place_samples


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Point:
    """A workload and its parameters."""

    workload: str
    key: str

    @classmethod
    def of(cls, run: Run) -> "Point":
        """Return where a run was made."""
        return cls(workload=run.workload, key=run.point_key)

    def __str__(self) -> str:
        return clean_line(f"{self.workload} at {self.key}" if self.key else self.workload)

    def is_called(self, name: str) -> bool:
        """Say whether a user may mean it: by the workload, by the parameters, or by both."""
        return bool(name) and name in {str(self), clean_line(self.workload), clean_line(self.key)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is looked at of the sources.

    :param keep: what the reader must keep apart
    :param compared: are there two sides? Parts and former names of a function then count as the
        function, and unresolved addresses are apart
    :param symbols: of the kernel, for perf.data by itself; None: this machine's if they fit
    :param point: of a bundle's workload; None: the first one that all bundles have
    """

    keep: frozenset[Keep]
    compared: bool
    symbols: Path | None
    point: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedSide:
    """All that is looked at of one source.

    :param point: workload and point of a bundle's runs; "" where there is no bundle
    :param notes: what could not be read or is not looked at, one sentence each
    """

    label: str
    path: Path
    point: str
    runs: tuple[LoadedRun, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """All that is looked at, made comparable.

    :param sides: one, or base and new
    :param took_turns: false where a drift of the machine may look like a change
    :param cautions: what to know before a number is read, one sentence each
    """

    sides: tuple[LoadedSide, ...]
    took_turns: bool
    cautions: tuple[str, ...]


def load_sides(paths: Sequence[Path], wanted: Wanted) -> Loaded:
    """Read each source; of bundles the same point.

    :raises InputError: one cannot be read, has no profile, or they have no point in common
    """
    bundles = {path: open_source(path) for path in paths if not is_perf_data(path)}
    if wanted.symbols is not None and all(path in bundles for path in paths):
        raise InputError("--symbols: is for perf.data, and bundles have their own; leave it out")
    point, others = _choose_point(list(bundles.values()), wanted.point) if bundles else (None, None)
    sides = []
    for path in paths:
        if point is None or path not in bundles:
            sides.append(_load_file(path, wanted))
        else:
            sides.append(_load_bundle(bundles[path], point, wanted))
    labels = [side.label for side in sides]
    if len(set(labels)) < len(labels):
        # Two files called perf.data are told apart by their folders.
        sides = [replace(side, label=str(side.path)) for side in sides]
    found = _compare(sides, [bundles.get(path) for path in paths])
    return replace(found, cautions=(*found.cautions, *([others] if others else [])))


def _compare(sides: Sequence[LoadedSide], bundles: Sequence[Bundle | None]) -> Loaded:
    if len(sides) == 1:
        return Loaded(sides=tuple(sides), took_turns=True, cautions=())
    alignment = align(*([run.names for run in side.runs] for side in sides))
    took_turns = _took_turns(sides, [bundle for bundle in bundles if bundle is not None])
    return Loaded(
        sides=tuple(
            replace(side, runs=tuple(run.align(alignment) for run in side.runs)) for side in sides
        ),
        took_turns=took_turns,
        cautions=(*([] if took_turns else [ONE_AFTER_THE_OTHER]), *alignment.notes),
    )


def _took_turns(sides: Sequence[LoadedSide], bundles: Sequence[Bundle]) -> bool:
    # Nobody knows when perf.data by itself was recorded; and one file a side has no interval.
    if len(bundles) < len(sides):
        return True
    named = name_sides(bundles)
    moments = place_in_time(named)
    orders = [
        [moments[name.name, run.folder].order for run in side.runs]
        for name, side in zip(named, sides, strict=True)
    ]
    return not may_be_drift(orders, [[run.samples.boot for run in side.runs] for side in sides])


def _load_file(path: Path, wanted: Wanted) -> LoadedSide:
    if wanted.point is not None:
        raise InputError(f"{path}: perf.data by itself has no points; leave --point out")
    recording = read_perf_data(path, str(path), keep=wanted.keep)
    notes = list(recording.notes)
    symbols = symbols_for_file(recording, wanted.symbols, notes.append)
    run = make_run(
        recording,
        place_samples(
            recording,
            symbols,
            folded=wanted.compared,
            by_offset=build_ids(recording) if wanted.compared else frozenset(),
        ),
        tuple(
            judge_event(
                event,
                machine=recording.features.arch,
                emulated=None,
                pmus=recording.features.pmus,
            )
            for event in recording.events
        ),
        node_of_cpu=recording.features.node_of_cpu,
        operations=None,
        unit=None,
        boot=0,
        folder="",
    )
    return LoadedSide(label=path.name, path=path, point="", runs=(run,), notes=tuple(notes))


def _load_bundle(bundle: Bundle, point: Point, wanted: Wanted) -> LoadedSide:
    """Read all runs at a point; one that cannot be read does not cost the others."""
    # Imported here so that one file is shown without what bundles and comparisons need.
    from schedperf.evidence.profile.sources import ProfileReader  # noqa: PLC0415

    notes: list[str] = []
    reader = ProfileReader(Side(name=BASE, bundle=bundle), notes.append)
    runs = []
    for boot, run in reader.runs():
        if Point.of(run) != point:
            continue
        try:
            found = reader.read(
                boot, run, keep=wanted.keep, folded=wanted.compared, by_offset=wanted.compared
            )
        except InputError as error:
            notes.append(str(error))
        else:
            runs.append(found.load(boot, run))
    if not runs:
        raise InputError(f"{bundle.path}: {notes[-1]}")
    return LoadedSide(
        label=bundle.label,
        path=bundle.path,
        point=str(point),
        runs=tuple(runs),
        notes=tuple(dict.fromkeys(notes)),
    )


def _choose_point(bundles: Sequence[Bundle], wanted: str | None) -> tuple[Point, str | None]:
    """Return the point that is looked at, and a sentence where there are others like it.

    :param wanted: as the user named it; None: the first that all bundles have
    :raises InputError: a bundle has no profile, or there is no such point
    """
    found = {bundle: _points_of(bundle) for bundle in bundles}
    common = [
        point for point in found[bundles[0]] if all(point in points for points in found.values())
    ]
    chosen = [point for point in common if wanted is None or point.is_called(wanted)]
    if not chosen:
        raise InputError(_why_none(found, common, wanted))
    if len(chosen) == 1:
        return chosen[0], None
    others = _list(chosen[1:])
    return chosen[0], f"{chosen[0]}: one of {len(chosen)} points; --point takes {others}"


def _points_of(bundle: Bundle) -> dict[Point, None]:
    # Imported here so that one file is shown without what bundles and comparisons need.
    from schedperf.evidence.profile.sources import FOLDER, ProfileReader  # noqa: PLC0415

    reader = ProfileReader(Side(name=BASE, bundle=bundle), lambda _: None)
    points = {Point.of(run): None for _, run in reader.runs()}
    if points:
        return points
    why = reader.why_not_recorded()
    raise InputError(f"{bundle.path}: {why}; record with --with {FOLDER}")


def _why_none(
    found: Mapping[Bundle, Iterable[Point]], common: Sequence[Point], wanted: str | None
) -> str:
    if wanted is not None and common:
        where = " and ".join(str(bundle.path) for bundle in found)
        return f"{where}: no profile at point {wanted!r}; --point takes {_list(common)}"
    each = "; ".join(f"{bundle.path} has {_list(points)}" for bundle, points in found.items())
    return f"no workload at one point that both have a profile of: {each}; record the same of both"


def _list(points: Iterable[Point]) -> str:
    return ", ".join(f"'{point}'" for point in points)
