# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the perf.data of each instrumented run of a bundle, with the symbols of its kernel."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from schedperf.evidence.profile.alignment import FileNames, names_of
from schedperf.evidence.profile.attribution import attribute
from schedperf.evidence.profile.blindness import EventSight, Machine, judge_events
from schedperf.evidence.profile.others import Bystanders, find_bystanders
from schedperf.evidence.profile.samples import ProfileSamples, every_row, place_profile
from schedperf.evidence.profile.shares import PlaceWeights, weigh
from schedperf.evidence.profile.workload import StartedProcess, add_started
from schedperf.inputs.bundle.json import Count, decode
from schedperf.inputs.bundle.open import Boot, Bundle, Run
from schedperf.inputs.perf_data import Keep
from schedperf.inputs.perf_data.event import EventIdentity
from schedperf.inputs.perf_data.losses import EventLosses
from schedperf.inputs.perf_data.recorded import read_recorded, recorded_runs
from schedperf.inputs.perf_data.recording import Recording
from schedperf.inputs.side import Side
from schedperf.inputs.symbols.boot_symbols import BootSymbols
from schedperf.model.errors import InputError
from schedperf.model.run import Captured, SideOf
from schedperf.runs.captured import key_of
from schedperf.runs.printed import printed_by
from schedperf_collectors.contract import run_folder

FOLDER = "perf_profile"
LARGEST_JSON_BYTES = 1 << 20
_WITH_TASKS = frozenset((Keep.CHAIN, Keep.TASK))


def read_profiles(side: Side) -> SideOf[ProfileSamples]:
    """Read the profile of every successful instrumented run, for all sections of a comparison.

    Runs with an unreadable profile are left out, with a note.
    """
    # Keep the command and the call chain of each sample, which covers the needs of all sections.
    return read_runs(side, keep=_WITH_TASKS, compared=True)


def read_all_tasks(side: Side) -> SideOf[ProfileSamples]:
    """Read the profiles like :func:`read_profiles`, but without a division of the samples."""
    return read_runs(side, keep=_WITH_TASKS, compared=True, is_attributed=False)


def read_alike(sides: Sequence[Side]) -> Callable[[Side], SideOf[ProfileSamples]]:
    """Return the function that reads the profiles of all these sides.

    It divides the samples of all sides or of none, because samples of the workload are not
    comparable with samples of all tasks.
    """
    runs = [run for side in sides for run in side.once(read_profiles).runs]
    return read_profiles if all(run.content.is_attributed for run in runs) else read_all_tasks


def read_runs(
    side: Side,
    *,
    keep: frozenset[Keep],
    compared: bool,
    is_attributed: bool = True,
    wanted: Callable[[Run], bool] = lambda _: True,
) -> SideOf[ProfileSamples]:
    """Read the profiles of some successful instrumented runs; leave out and note unreadable ones.

    :param keep: properties by which the reader distinguishes samples
    :param compared: as in :func:`~schedperf.evidence.profile.samples.place_profile`
    :param is_attributed: whether to divide the samples, where this is possible: the workload,
        interrupts, other load
    :param wanted: returns whether to read a run [default: all runs]
    """
    reader = _ProfileReader(side, keep, compared=compared, is_attributed=is_attributed)
    chosen = (recorded for recorded in recorded_runs(side.bundle, FOLDER) if wanted(recorded[1]))
    runs = tuple(run for recorded in chosen if (run := reader.read(*recorded)) is not None)
    return SideOf(
        name=side.name,
        label=side.bundle.label,
        kind="instrumented",
        runs=runs,
        notes=tuple(dict.fromkeys(reader.notes)),
    )


class _ProfileReader:
    # Reads the profiles of one side one by one, and collects notes on unreadable parts.

    def __init__(
        self, side: Side, keep: frozenset[Keep], *, compared: bool, is_attributed: bool
    ) -> None:
        self.notes: list[str] = []
        self._side = side
        self._bundle = side.bundle
        self._keep = keep
        self._compared = compared
        self._is_attributed = is_attributed
        # Another run of the same recording may have counted the calls that this one cannot sample.
        self._has_pelt = any(
            side.bundle.size(f"{run.folder}/bpf_pelt/pelt.json") is not None
            for run in side.bundle.runs
        )
        # Cache for the last boot, since runs of a boot are read consecutively.
        self._symbols: tuple[Boot, BootSymbols] | None = None

    def read(self, boot: Boot, run: Run, member: str) -> Captured[ProfileSamples] | None:
        """Return the profile of a run; None if it is unreadable, with a note."""
        label = _label_of(run.boot, run.run)
        try:
            recording = read_recorded(self._bundle, member, label, self._keep)
            self.notes += (f"{label}: {note}" for note in recording.notes)
            return Captured(
                key=key_of(self._side, run),
                content=self._place(boot, run, recording),
                ops=printed_by(self._side, run).ops,
                wall_s=run.wall_s,
            )
        except InputError as error:
            self.notes.append(str(error))
            return None

    def _place(self, boot: Boot, run: Run, recording: Recording) -> ProfileSamples:
        facts = read_facts(self._bundle, run)
        recording = add_started(recording, facts.setup_processes)
        machine = Machine(
            name=boot.host.kernel.machine,
            emulated=boot.host.virtualisation.emulated,
            recorded=facts.sight,
            has_pelt=self._has_pelt,
        )
        placed = place_profile(
            recording, self._symbols_of(boot).of(recording), compared=self._compared
        )
        divided = (
            attribute(recording, placed, run.command, facts.recorder_pid)
            if self._is_attributed
            else None
        )
        return ProfileSamples(
            recording=recording,
            placed=placed if divided is None else divided,
            rows=every_row(recording),
            sights=judge_events(recording.events, machine, recording.features.pmus),
            node_of_cpu=boot.host.topology.node_of_cpu() or recording.features.node_of_cpu,
            is_attributed=divided is not None,
        )

    def _symbols_of(self, boot: Boot) -> BootSymbols:
        if self._symbols is None or self._symbols[0] is not boot:
            self._symbols = boot, BootSymbols(self._side, boot, self.notes.append)
        return self._symbols[1]


def _label_of(boot: int, run: int) -> str:
    return f"boot {boot}, run {run_folder(boot, run).rpartition('/')[2]}"


class EventProfile(Struct, frozen=True, kw_only=True):
    """One event's samples of one run, by function.

    :param names: the sampled files
    :param others: other load; None if unknown, or if all samples are idle
    :param is_attributed: whether the places divide the samples: the workload, interrupts, other
        load
    """

    sight: EventSight
    weights: PlaceWeights
    names: FileNames
    lost: EventLosses
    others: Bystanders | None
    is_attributed: bool = False


def profiles_by_event(side: SideOf[ProfileSamples]) -> dict[EventIdentity, SideOf[EventProfile]]:
    """Return for each event the runs with samples, without call chains."""
    runs_per_event: dict[EventIdentity, list[Captured[EventProfile]]] = {}
    for run in side.runs:
        for profile in _profiles_of(run.content):
            runs_per_event.setdefault(profile.sight.identity, []).append(run.having(profile))
    return {event: side.with_runs(runs) for event, runs in runs_per_event.items()}


def notes_of_silent_runs(
    side: SideOf[ProfileSamples], profiles: Iterable[SideOf[EventProfile]]
) -> Iterator[str]:
    """Yield a note for each run without samples of any event."""
    sampled = {run.key for of_event in profiles for run in of_event.runs}
    for run in side.runs:
        if run.key not in sampled:
            label = _label_of(run.key.boot, run.key.run)
            yield f"{label}: no samples of any event; record it again"


def _profiles_of(samples: ProfileSamples) -> Iterator[EventProfile]:
    recording = samples.recording
    # The comparison of places does not use call chains.
    placed = samples.placed.without_stacks()
    names = names_of(recording, placed)
    for number, sight in enumerate(samples.sights):
        weights = weigh(recording, placed, number, samples.node_of_cpu)
        if weights.total <= 0.0:
            continue  # perf's dummy event, or one that never fired: the total is 0.
        yield EventProfile(
            sight=sight,
            weights=weights,
            names=names,
            lost=EventLosses.of(recording.losses, number),
            others=find_bystanders(recording, placed, number) if samples.is_attributed else None,
            is_attributed=samples.is_attributed,
        )


class ProfileFacts(Struct, frozen=True, kw_only=True):
    """Facts in perf_profile.json; None if unknown.

    :param blind: whether the event cannot sample code that runs with interrupts off
    :param recorder_pid: pid of the recorder, whose child the command was
    :param setup_processes: processes of the setup that perf did not record
    """

    event: str | None = None
    blind: bool | None = None
    blind_reason: str | None = None
    recorder_pid: Count | None = None
    setup_processes: tuple[StartedProcess, ...] = ()

    @property
    def sight(self) -> tuple[str, bool | None, str] | None:
        """The event, whether it is blind, and the reason; None without event or reason."""
        if self.event is None or self.blind_reason is None:
            return None
        return self.event, self.blind, self.blind_reason


def read_facts(bundle: Bundle, run: Run) -> ProfileFacts:
    """Read perf_profile.json of a run; all facts are unknown if it does not exist.

    :raises InputError: the file is damaged or too large
    """
    name = f"{run.folder}/{FOLDER}/perf_profile.json"
    if bundle.size(name) is None:
        return ProfileFacts()
    return decode(bundle.read(name, LARGEST_JSON_BYTES), ProfileFacts, name)
