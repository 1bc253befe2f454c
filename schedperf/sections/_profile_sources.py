"""From a bundle to profiles: each instrumented run's perf.data, given the names of its kernel."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schedperf._json import JsonObject, parse_object
from schedperf.bundle import Run
from schedperf.captures.perf_data import TYPE_SOFTWARE, Event, read_perf_data
from schedperf.errors import InputError
from schedperf.profile import Profile, fold_parts, profile_event
from schedperf.sections import Absent
from schedperf.sections._profile_symbols import BootSymbols
from schedperf.sides import Side

FOLDER = "perf_profile"
# A minute of 200 CPUs at 1 kHz with call chains of 15 addresses; it is held in memory whole.
LARGEST_PERF_DATA_BYTES = 2 << 30
LARGEST_JSON_BYTES = 1 << 20

# PERF_COUNT_SW_CPU_CLOCK and PERF_COUNT_SW_TASK_CLOCK.
_TIMER_CONFIGS = (0, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class EventFacts:
    """What a profile rests on.

    :param event: its name without modifiers: ``cycles``
    :param clock: what makes a sample due: "hrtimer", "pmu"; None where it is no time or unknown
    :param blind: whether code that runs with interrupts off is invisible; None where unknown
    :param blind_reason: why, one sentence
    """

    event: str
    clock: str | None
    blind: bool | None
    blind_reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunProfile:
    """One event's samples in one run.

    :param profile: parts of functions are folded
    :param lost: records that the kernel could not deliver during the run, over all events
    """

    workload: str
    point: str
    facts: EventFacts
    profile: Profile
    lost: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SideProfiles:
    """All profiles of one side.

    :param notes: what could not be read, one sentence each
    """

    runs: tuple[RunProfile, ...]
    notes: tuple[str, ...]


def load_profiles(side: Side) -> SideProfiles:
    """Read the profile of every instrumented run; an unreadable one is a note.

    :raises Absent: there is none at all
    """
    loader = _Loader(side)
    runs = tuple(loader.load())
    if not runs:
        raise Absent(f"{side.name}: {loader.why_nothing()}")
    return SideProfiles(runs=runs, notes=tuple(dict.fromkeys(loader.notes)))


class _Loader:
    # One side's bundle, and what could not be read of it so far.

    def __init__(self, side: Side) -> None:
        self.side = side
        self.bundle = side.bundle
        self.notes: list[str] = []

    def load(self) -> Iterator[RunProfile]:
        """Yield the profiles of each boot in turn: its symbols are needed no longer than that."""
        for boot in self.bundle.boots:
            symbols = BootSymbols(self.bundle, boot, self.note)
            node_of_cpu = _nodes_of_host(boot.host)
            for run in boot.runs:
                if run.kind != "instrumented" or run.warmup or not run.succeeded:
                    continue
                try:
                    yield from self.load_run(run, symbols, node_of_cpu)
                except InputError as error:
                    self.note(str(error))

    def load_run(
        self, run: Run, symbols: BootSymbols, node_of_cpu: Mapping[int, int]
    ) -> Iterator[RunProfile]:
        """Yield one run's profiles, one for each event that has samples."""
        name = f"{run.folder}/{FOLDER}/perf.data"
        if self.bundle.size(name) is None:
            return
        data = self.bundle.read(name, LARGEST_PERF_DATA_BYTES)
        recording = read_perf_data(data, name)
        facts = self.read_facts(run)
        for note in recording.notes:
            self.note(f"{name}: {note}")
        nodes = node_of_cpu or recording.features.node_of_cpu
        for counted in recording.events:
            if not counted.samples:
                continue  # perf's dummy event, or one that never fired.
            profile = profile_event(recording, counted, symbols.of(recording), nodes)
            yield RunProfile(
                workload=run.workload,
                point=run.point_key,
                facts=_facts_of(counted.event, facts),
                profile=fold_parts(profile),
                lost=recording.lost,
            )

    def read_facts(self, run: Run) -> JsonObject:
        """Read perf_profile.json; an empty object where there is none."""
        name = f"{run.folder}/{FOLDER}/perf_profile.json"
        if self.bundle.size(name) is None:
            return JsonObject({}, name)
        return parse_object(self.bundle.read(name, LARGEST_JSON_BYTES), name)

    def note(self, text: str) -> None:
        """Keep one sentence about what could not be read."""
        self.notes.append(f"{self.side.name}: {text}")

    def why_nothing(self) -> str:
        """Say why there is no profile: what went wrong, else why none was recorded."""
        if self.notes:
            return self.notes[0].removeprefix(f"{self.side.name}: ")
        for entry in self.bundle.captures:
            if entry.collector == FOLDER and entry.reason:
                return f"{FOLDER} was {entry.status}: {entry.reason}"
        return f"no instrumented run was recorded with {FOLDER}"


def _facts_of(event: Event, facts: JsonObject) -> EventFacts:
    # What the event is comes from perf.data alone; perf_profile.json adds how the PMU interrupts.
    name = event.plain_name
    if event.type == TYPE_SOFTWARE:
        is_timer = event.config in _TIMER_CONFIGS
        return EventFacts(
            event=name,
            clock="hrtimer" if is_timer else None,
            blind=True if is_timer else None,
            blind_reason=(
                f"{name} is driven by an hrtimer: code that runs with interrupts off is charged "
                "to the instruction that turns them on again"
                if is_timer
                else f"{name} samples occurrences of an event, not time"
            ),
        )
    return EventFacts(
        event=name,
        clock=facts.optional(facts.text, "clock"),
        blind=facts.optional(facts.flag, "blind"),
        blind_reason=facts.optional(facts.text, "blind_reason")
        or "it is not recorded how the PMU interrupts",
    )


def _nodes_of_host(host: Mapping[str, object]) -> dict[int, int]:
    topology = host.get("topology")
    cpus = topology.get("cpus") if isinstance(topology, dict) else None
    pairs = [
        (entry.get("cpu"), entry.get("node"))
        for entry in (cpus if isinstance(cpus, list) else [])
        if isinstance(entry, dict)
    ]
    return {cpu: node for cpu, node in pairs if isinstance(cpu, int) and isinstance(node, int)}
