"""From a bundle to profiles: each instrumented run's perf.data, given the names of its kernel."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from schedperf.bundle.json import decode
from schedperf.bundle.open import Boot, Bundle, Run
from schedperf.evidence import Absent
from schedperf.evidence.profile.alignment import RunNames, names_of
from schedperf.evidence.profile.blindness import EventSight, judge_event
from schedperf.evidence.profile.bystanders import Bystanders, find_bystanders
from schedperf.evidence.profile.compare import ProfiledRun
from schedperf.evidence.profile.loaded import LoadedRun, make_run
from schedperf.evidence.profile.shares import weigh
from schedperf.model.errors import InputError
from schedperf.model.run import Operations
from schedperf.perf_data import LARGEST_PERF_DATA_BYTES, Keep, read_perf_data
from schedperf.perf_data.recording import Recording
from schedperf.runs.printed import printed_by
from schedperf.runs.side import Side
from schedperf.symbols.boot_symbols import BootSymbols
from schedperf.symbols.places import Placed, build_ids, place_samples

FOLDER = "perf_profile"
LARGEST_JSON_BYTES = 1 << 20

# Which command a sample is of, and its call chain: what any section tells samples apart by.
_KEPT = frozenset((Keep.CHAIN, Keep.TASK))


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedRun:
    """The samples of one run and their places.

    :param sights: what each event sees, in the order of the recording's events
    :param operations: what the run did; None where that is not known
    """

    recording: Recording
    placed: Placed
    sights: tuple[EventSight, ...]
    node_of_cpu: Mapping[int, int]
    operations: Operations | None

    def load(self, boot: Boot, run: Run) -> LoadedRun:
        """Return it as one run of a side, with all of its samples."""
        return make_run(
            self.recording,
            self.placed,
            self.sights,
            node_of_cpu=self.node_of_cpu,
            operations=None if self.operations is None else self.operations.count,
            unit=None if self.operations is None else self.operations.unit,
            boot=boot.number,
            folder=run.folder,
        )


class ProfileReader:
    """The profiles of one side, read one at a time.

    :param note: takes one sentence about what could not be read
    """

    def __init__(self, side: Side, note: Callable[[str], None]) -> None:
        self._side = side
        self._bundle = bundle = side.bundle
        self._note = note
        # Another run of the same recording may have counted what the samples of this one miss.
        self._has_pelt = any(
            bundle.size(f"{run.folder}/bpf_pelt/pelt.json") is not None for run in bundle.runs
        )
        # Of the boot that was read last: runs of one boot follow each other.
        self._symbols: tuple[Boot, BootSymbols] | None = None

    def runs(self) -> Iterator[tuple[Boot, Run]]:
        """Yield the runs that count and have a profile, boot by boot."""
        for boot in self._bundle.boots:
            for run in boot.runs:
                is_counted = run.kind == "instrumented" and not run.warmup and run.succeeded
                if is_counted and self._bundle.size(_perf_data_of(run)) is not None:
                    yield boot, run

    def read(
        self, boot: Boot, run: Run, *, keep: frozenset[Keep], folded: bool, by_offset: bool
    ) -> PlacedRun:
        """Read the profile of a run.

        :param folded: are parts and former names of a function counted as the function?
        :param by_offset: has each unresolved address of a file with a build id its own place?
        :raises InputError: it cannot be read
        """
        recording = self._read_recording(run, _label_of(boot, run), keep)
        recorded = read_sight(self._bundle, run)
        placed = place_samples(
            recording,
            self._symbols_of(boot).of(recording),
            folded=folded,
            by_offset=build_ids(recording) if by_offset else frozenset(),
        )
        return PlacedRun(
            recording=recording,
            placed=placed,
            sights=tuple(
                judge_event(
                    event,
                    machine=boot.host.kernel.machine,
                    emulated=boot.host.virtualisation.emulated,
                    recorded=recorded,
                    pmus=recording.features.pmus,
                    has_pelt=self._has_pelt,
                )
                for event in recording.events
            ),
            node_of_cpu=boot.host.topology.node_of_cpu() or recording.features.node_of_cpu,
            operations=printed_by(self._side, run).ops,
        )

    def why_not_recorded(self) -> str:
        """Say why the bundle has no profile."""
        for entry in self._bundle.captures:
            if entry.collector == FOLDER and entry.reason:
                return f"{FOLDER} was {entry.status}: {entry.reason}"
        return f"no instrumented run was recorded with {FOLDER}"

    def _symbols_of(self, boot: Boot) -> BootSymbols:
        if self._symbols is None or self._symbols[0] is not boot:
            self._symbols = boot, BootSymbols(self._bundle, boot, self._note)
        return self._symbols[1]

    def _read_recording(self, run: Run, label: str, keep: frozenset[Keep]) -> Recording:
        # It may be gigabytes, so it is read from a file and not from memory.
        with tempfile.TemporaryDirectory(prefix="schedperf-") as folder:
            path = self._bundle.extract(_perf_data_of(run), Path(folder), LARGEST_PERF_DATA_BYTES)
            recording = read_perf_data(path, label, keep=keep)
        for note in recording.notes:
            self._note(f"{label}: {note}")
        return recording


def _label_of(boot: Boot, run: Run) -> str:
    return f"boot {boot.number}, run {run.folder.rpartition('/')[2]}"


def _perf_data_of(run: Run) -> str:
    return f"{run.folder}/{FOLDER}/perf.data"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadRun:
    """The profile of one run as all sections see it: functions with their parts folded.

    :param found: samples with commands and call chains; None where it cannot be read
    :param notes: what could not be read, one sentence each
    """

    boot: Boot
    run: Run
    found: PlacedRun | None
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadProfiles:
    """All profiles of one bundle.

    :param why_none: why there is no run with one, where there is none
    """

    runs: tuple[ReadRun, ...]
    why_none: str


def read_profiles(side: Side) -> ReadProfiles:
    """Read the profile of every instrumented run."""
    notes: list[str] = []
    reader = ProfileReader(side, notes.append)
    return ReadProfiles(
        runs=tuple(_read_run(reader, boot, run, notes) for boot, run in reader.runs()),
        why_none=reader.why_not_recorded(),
    )


def _read_run(reader: ProfileReader, boot: Boot, run: Run, notes: list[str]) -> ReadRun:
    notes.clear()
    try:
        found = reader.read(boot, run, keep=_KEPT, folded=True, by_offset=True)
    except InputError as error:
        return ReadRun(boot=boot, run=run, found=None, notes=(*notes, str(error)))
    return ReadRun(boot=boot, run=run, found=found, notes=tuple(notes))


@dataclass(frozen=True, kw_only=True, slots=True)
class RunProfile:
    """One event's samples in one run.

    :param folder: of the run, in its bundle
    :param run: parts of functions are folded, and unresolved addresses apart where the file has a
        build id
    :param names: what is known of the files that it was sampled in
    :param operations: what the run did; None where that is not known
    :param lost: records that the kernel could not deliver during the run, over all events
    :param throttled: how often the kernel paused an event of the run
    :param others: what is of other commands than the workload; None where that cannot be told
    """

    folder: str
    workload: str
    point: str
    sight: EventSight
    run: ProfiledRun
    names: RunNames
    operations: Operations | None
    lost: int
    throttled: int
    others: Bystanders | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SideProfiles:
    """All profiles of one side.

    :param notes: what could not be read, one sentence each
    """

    runs: tuple[RunProfile, ...]
    notes: tuple[str, ...]


def load_profiles(side: Side) -> SideProfiles:
    """Return the profile of every instrumented run; an unreadable one is a note.

    :raises Absent: there is none at all
    """
    read = side.once(read_profiles)
    runs: list[RunProfile] = []
    notes: list[str] = []
    for one in read.runs:
        notes += one.notes
        if one.found is not None:
            profiles = tuple(_profiles_of(one.boot, one.run, one.found))
            if not profiles:
                label = _label_of(one.boot, one.run)
                notes.append(f"{label}: no event counted anything; record it again")
            runs += profiles
    if not runs:
        raise Absent(f"{side.name}: {notes[0] if notes else read.why_none}")
    return SideProfiles(
        runs=tuple(runs), notes=tuple(f"{side.name}: {note}" for note in dict.fromkeys(notes))
    )


def _profiles_of(boot: Boot, run: Run, found: PlacedRun) -> Iterator[RunProfile]:
    # One for each event that has samples: two of one name, of the two kinds of CPU of a hybrid
    # machine, are one, since each by itself would pass for a run.
    recording, operations = found.recording, found.operations
    # The comparison of places has no use of call chains.
    placed = found.placed.without_stacks()
    names = names_of(recording, placed)
    sights: dict[str, EventSight] = {}
    for sight in found.sights:
        sights.setdefault(sight.event, sight)
    for sight in sights.values():
        weights = weigh(recording, placed, sight.event, found.node_of_cpu)
        if weights.total <= 0.0:
            continue  # perf's dummy event, or one that never fired: there is no share in nothing.
        yield RunProfile(
            folder=run.folder,
            workload=run.workload,
            point=run.point_key,
            sight=sight,
            run=ProfiledRun(
                weights=weights,
                operations=None if operations is None else operations.count,
                boot=boot.number,
            ),
            names=names,
            operations=operations,
            lost=recording.losses.records,
            throttled=recording.losses.throttled,
            others=find_bystanders(recording, placed, sight.event, run.command),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Facts:
    """What perf_profile.json says of the PMU; None: unknown.

    :param blind: does the event miss code that runs with interrupts off?
    """

    event: str | None = None
    blind: bool | None = None
    blind_reason: str | None = None


def read_sight(bundle: Bundle, run: Run) -> tuple[str, bool | None, str] | None:
    """Read what the machine knew of its PMU: for which event, whether that is blind, and why.

    :return: None where there is no perf_profile.json, or it does not say
    :raises InputError: it is damaged
    """
    name = f"{run.folder}/{FOLDER}/perf_profile.json"
    if bundle.size(name) is None:
        return None
    facts = decode(bundle.read(name, LARGEST_JSON_BYTES), _Facts, name)
    if facts.event is None or facts.blind_reason is None:
        return None
    return facts.event, facts.blind, facts.blind_reason
