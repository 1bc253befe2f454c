# SPDX-License-Identifier: GPL-2.0-or-later
"""Select the samples of tables and flame graphs, and compare the runs of two sides.

Shares are of the periods of all samples of the event in a run, including samples that are not
shown. The unit of replication is a run, or a boot if a side has several; the runs of a boot are
averaged.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from schedperf.evidence.profile.alignment import align, align_places, names_of
from schedperf.evidence.profile.blindness import EventSight
from schedperf.evidence.profile.family import is_hot, is_silent
from schedperf.evidence.profile.independent import (
    average_runs,
    column_means,
    counts_of,
    independent_of,
)
from schedperf.evidence.profile.record import Independent, Measure
from schedperf.inputs.perf_data.event import EventIdentity
from schedperf.inputs.perf_data.losses import NO_LOSSES, EventLosses
from schedperf.inputs.perf_data.recording import Integers, Recording
from schedperf.inputs.symbols.functions import SharedNames
from schedperf.inputs.symbols.places import Placed, Symbols, build_ids, place_samples
from schedperf.model.place import Place
from schedperf.model.run import Captured, SideOf
from schedperf_collectors.perf_header import Event

if TYPE_CHECKING:
    from schedperf.stats import Columns

# Labels of two sides; a single side is base.
BASE, NEW = 0, 1
PER_CENT = 100.0
# Events whose periods are times; periods of other events count the event.
NANOSECOND_EVENTS = frozenset(("cpu-clock", "task-clock"))

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class ProfileSamples(Struct, frozen=True, kw_only=True):
    """The samples of one recording and their places.

    :param rows: True for selected rows of ``recording.samples``, shape (rows,)
    :param sights: the code that each event can sample, in the order of the recording's events
    :param node_of_cpu: CPU number to NUMA node
    :param is_attributed: whether ``placed`` divides the samples: the workload, interrupts, other
        load (:mod:`schedperf.evidence.profile.attribution`)
    """

    recording: Recording
    placed: Placed
    rows: Flags
    sights: tuple[EventSight, ...]
    node_of_cpu: Mapping[int, int]
    is_attributed: bool = False

    def sees_kernel(self, event: EventIdentity) -> bool:
        """Return whether an event samples code that runs with interrupts off; False if unknown."""
        return any(sight.identity == event and sight.blind is False for sight in self.sights)

    def rows_of(self, event: EventIdentity) -> Flags:
        """Return a mask of the recording's rows of an event, shape (rows,)."""
        numbers = [n for n, sight in enumerate(self.sights) if sight.identity == event]
        return np.isin(self.recording.samples.event, numbers)

    def rows_at(self, is_one: Callable[[Place], bool]) -> Flags:
        """Return a mask of the recording's rows whose place ``is_one`` accepts, shape (rows,)."""
        flags = np.array([is_one(location) for location in self.placed.places], dtype=np.bool_)
        return flags[self.placed.of_row]

    def total(self, event: EventIdentity) -> float:
        """Return the sum of all periods of an event, including rows that are not selected."""
        periods = self.recording.samples.period[self.rows_of(event)]
        return float(periods.sum(dtype=np.float64))


Profiles = SideOf[ProfileSamples]


def every_row(recording: Recording) -> Flags:
    """Return a mask that selects all samples of a recording, shape (rows,)."""
    return np.ones(len(recording.samples), dtype=np.bool_)


def place_profile(recording: Recording, symbols: Symbols, *, compared: bool) -> Placed:
    """Resolve every sample and every address of a call chain to its place.

    :param compared: True to keep unresolved addresses of files with a build id separate; False to
        merge the unresolved addresses of each file into one place
    """
    by_offset = build_ids(recording) if compared else frozenset[str]()
    return place_samples(recording, symbols, by_offset=by_offset)


def places_of(side: Profiles) -> frozenset[Place]:
    """Return the places of all samples and call chains of a side."""
    return frozenset(place for run in side.runs for place in run.content.placed.places)


def align_samples(
    base: Profiles, new: Profiles, names: SharedNames | None = None
) -> tuple[Profiles, Profiles, tuple[str, ...]]:
    """Return both sides with common names for the same code, and notes on incomparable code.

    :param names: names under which functions are compared; None for those in these runs
    """
    names = names or SharedNames(places_of(base), places_of(new))
    files = [
        [names_of(run.content.recording, run.content.placed) for run in side.runs]
        for side in (base, new)
    ]
    alignment = align(files[0], files[1], names)

    def aligned(run: Captured[ProfileSamples]) -> ProfileSamples:
        placed = align_places(run.content.placed, alignment)
        return replace(run.content, placed=placed)

    return base.having(aligned), new.having(aligned), alignment.notes


def operation_of(runs: Iterable[Captured[object]]) -> str | None:
    """Return the unit of operations of all runs, e.g. "message"; None if unknown or different."""
    units = {None if run.ops is None else run.ops.unit for run in runs}
    return units.pop() if len(units) == 1 else None


class Runs(Struct, frozen=True, kw_only=True):
    """The runs of one or two sides, base first; arrays of shape (runs,).

    A run without samples of the event has no shares and no costs; they are not 0.

    :param event: as perf prints it, with its modifiers
    :param unit: unit of the periods
    :param labels: labels of the sides
    :param sides: side of each run: 0 (base) or 1 (new)
    :param boots: boot of each run, numbered within its side
    :param totals: sum of all periods, in the unit of the event; 0 without samples
    :param operations: operations of the benchmark; NaN if unknown
    :param sees_kernel: True if the event samples code that runs with interrupts off, in all runs
    """

    event: str
    unit: str
    labels: tuple[str, ...]
    sides: Integers
    boots: Integers
    totals: Floats
    operations: Floats
    sees_kernel: bool

    def __len__(self) -> int:
        return len(self.sides)

    @property
    def independent(self) -> Independent:
        """The unit of replication."""
        return independent_of([self._boots_of(side) for side in self.numbers])

    @property
    def numbers(self) -> range:
        """The numbers of the sides."""
        return range(len(self.labels))

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of units of replication with samples, per side."""
        boots = [self.boots[self.is_sampled & (self.sides == side)] for side in self.numbers]
        return counts_of([of_side.tolist() for of_side in boots], self.independent)

    @property
    def is_sampled(self) -> Flags:
        """Which runs have samples of the event, shape (runs,)."""
        return np.asarray(self.totals > 0.0)

    @property
    def has_operations(self) -> bool:
        """Whether every side has a run with samples whose operations are known."""
        is_known = self.is_sampled & (self.operations > 0.0)
        return all(np.any(is_known[self.sides == side]) for side in self.numbers)

    @property
    def sampled_runs(self) -> Integers:
        """Number of runs with samples per side, shape (sides,)."""
        return np.bincount(self.sides[self.is_sampled], minlength=len(self.labels))

    def scale(self, weights: Floats, measure: Measure) -> list[Floats]:
        """Return the values of each side, one array of shape (units of replication, columns) each.

        The values are percent of all periods, or units of the event per operation. NaN if the
        runs have no samples of the event, or their number of operations is unknown.

        :param weights: sums of periods, shape (runs, columns)
        """
        divisors = self.totals if measure == "share" else self.operations
        is_known = self.is_sampled & (divisors > 0.0)
        scaled = weights / np.where(is_known, divisors, np.nan)[:, None]
        # Multiply last, so that the whole is exactly 100% in every run.
        scaled *= PER_CENT if measure == "share" else 1.0
        return [
            average_runs(scaled[self.sides == side], self._boots_of(side), self.independent)
            for side in self.numbers
        ]

    def compare(
        self, weights: Floats, measure: Measure, *, is_idle: Flags, is_hidden: Flags
    ) -> "Columns":
        """Compare the two sides, column by column, with :func:`schedperf.stats.compare_columns`.

        :mod:`schedperf.evidence.profile.family` selects the tested columns.

        :param weights: sums of periods, shape (runs, columns)
        :param is_idle: True for columns with idle time only, shape (columns,)
        :param is_hidden: True for columns of functions to which time with interrupts off is
            attributed, shape (columns,)
        """
        hot = is_hot(*map(column_means, self.scale(weights, "share")))
        silent = is_silent(is_idle, is_hidden, sees_kernel=self.sees_kernel)
        base, new = self.scale(weights, measure)
        # Imported here so that a single side needs no SciPy.
        from schedperf.stats import compare_columns  # noqa: PLC0415

        return compare_columns(base, new, tested=hot & ~silent, alike=hot)

    def _boots_of(self, side: int) -> list[int]:
        boots: list[int] = self.boots[self.sides == side].tolist()
        return boots


def collect_runs(sides: Sequence[Profiles], event: EventIdentity) -> Runs:
    """Collect the totals of one event and the operations of all runs of one or two sides."""
    runs = [(number, run) for number, side in enumerate(sides) for run in side.runs]
    return Runs(
        event=event.label,
        unit=unit_of_event(event),
        labels=tuple(side.label for side in sides),
        sides=np.array([number for number, _ in runs], dtype=np.int64),
        boots=np.array([run.key.boot for _, run in runs], dtype=np.int64),
        totals=np.array([run.content.total(event) for _, run in runs]),
        operations=np.array([np.nan if run.ops is None else run.ops.count for _, run in runs]),
        sees_kernel=all(run.content.sees_kernel(event) for _, run in runs),
    )


def sampled_events(sides: Iterable[Profiles]) -> tuple[EventIdentity, ...]:
    """Return the identities of all events with selected samples, each once, over all sides."""
    events: dict[EventIdentity, None] = {}
    for samples in (run.content for side in sides for run in side.runs):
        for number in np.unique(samples.recording.samples.event[samples.rows]):
            events.setdefault(samples.sights[number].identity)
    return tuple(events)


def sampled_attributes(side: Profiles) -> Iterator[Event]:
    """Yield, run by run, the attributes (perf_event_attr) of each event with selected samples."""
    for samples in (run.content for run in side.runs):
        for number in np.unique(samples.recording.samples.event[samples.rows]).tolist():
            yield samples.recording.events[number]


def losses_of(side: Profiles, event: EventIdentity) -> tuple[int, EventLosses]:
    """Return the number of samples of an event in all runs, and its losses."""
    samples, lost = 0, NO_LOSSES
    for run in (run.content for run in side.runs):
        samples += int(run.recording.samples.count[run.rows_of(event)].sum())
        for number, sight in enumerate(run.sights):
            if sight.identity == event:
                lost += EventLosses.of(run.recording.losses, number)
    return samples, lost


def unit_of_event(event: EventIdentity) -> str:
    """Return the unit of an event's periods: "ns" for cpu-clock and task-clock, else its name."""
    return "ns" if event.name in NANOSECOND_EVENTS else event.name
