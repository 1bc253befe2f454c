# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the sources of ``schedperf profile`` and build its rows and flame graphs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from schedperf.commands._profile_sources import Loaded, Wanted, load_sources
from schedperf.evidence.profile.blindness import EventSight
from schedperf.evidence.profile.document import (
    ComparedRow,
    ProfileDocument,
    ProfileLosses,
    ProfileSide,
    ProfileSight,
    SampleRow,
    SideName,
    SortKey,
)
from schedperf.evidence.profile.export import EXPORTS
from schedperf.evidence.profile.flame_data import describe_stacks
from schedperf.evidence.profile.flame_record import FlameTree
from schedperf.evidence.profile.pairs import describe_targets, describe_unpaired
from schedperf.evidence.profile.samples import (
    Flags,
    Profiles,
    ProfileSamples,
    losses_of,
    operation_of,
    sampled_attributes,
    sampled_events,
)
from schedperf.evidence.profile.stacks import StackedSamples, collect_stacks
from schedperf.evidence.profile.table import (
    SIDES,
    SORT_KEYS,
    SampleTable,
    compared_rows,
    describe_event,
    rows_of_one_side,
    tabulate,
)
from schedperf.inputs.perf_data import Keep
from schedperf.inputs.perf_data.event import EventIdentity
from schedperf.inputs.perf_data.losses import loss_caveat
from schedperf.inputs.perf_data.recording import NO_CHAIN
from schedperf.model.errors import InputError
from schedperf.model.perf_event import PerfEvent
from schedperf.model.text import clean_line, join_names
from schedperf_collectors import __version__
from schedperf_collectors.contract import Unavailable, parse_cpu_list

if TYPE_CHECKING:
    from schedperf_reports.standalone import Head

# The row keys that schedperf compare tests together.
_FAMILY = {"symbol", "dso"}
_ADVICE = "; record it again"


class Request(Struct, frozen=True, kw_only=True):
    """What to show of one or two sides.

    :param loaded: the sources
    :param sides: the samples of each source that are counted, base first
    :param events: events to show, each with samples on a side
    :param keys: the keys of a row
    :param operation: unit of work of all runs, e.g. "message"; None if unknown, or not the same
    """

    loaded: Loaded
    sides: tuple[Profiles, ...]
    events: tuple[EventIdentity, ...]
    keys: tuple[SortKey, ...]
    operation: str | None

    def describe(self) -> ProfileDocument:
        """Return the record: sources, events and rows."""
        tables = [tabulate(self.sides, event, self.keys) for event in self.events]
        return ProfileDocument(
            tool_version=__version__,
            sort=self.keys,
            operation=self.operation,
            took_turns=self.loaded.took_turns,
            cautions=(*self.loaded.cautions, *self._family(), *self._describe_unpaired()),
            sides=tuple(self._describe_side(number) for number in range(len(self.sides))),
            events=tuple(
                describe_event(
                    table,
                    list(self._describe_sights(event)),
                    self._perf_events(event),
                    self._lost_samples(event),
                )
                for event, table in zip(self.events, tables, strict=True)
            ),
            rows=self._rows(tables),
        )

    def _rows(
        self, tables: Sequence[SampleTable]
    ) -> tuple[SampleRow, ...] | tuple[ComparedRow, ...]:
        if len(self.sides) == 1:
            return tuple(row for table in tables for row in rows_of_one_side(table, self.keys))
        has_costs = self.operation is not None
        return tuple(
            row for table in tables for row in compared_rows(table, self.keys, has_costs=has_costs)
        )

    def describe_flames(self) -> tuple[FlameTree, ...]:
        """Return the flame graphs, one per event."""
        return tuple(
            describe_stacks(
                stacked.stacks,
                self.operation,
                took_turns=self.loaded.took_turns,
                samples=stacked,
            )
            for stacked in self._collect_stacks()
        )

    def export(self, name: str) -> Iterable[str]:
        """Return the pieces of the text of a file for another viewer.

        :param name: "folded" or "speedscope"
        :raises InputError: a side has no samples of an event, and the format is "folded", which has
            a column per side
        """
        stacks = [source.stacks for source in self._collect_stacks()]
        for of_event in stacks if name == "folded" else ():
            for side, weights in enumerate(of_event.mean_weights()):
                if not weights.any():
                    raise InputError(
                        f"{self.sides[side].label}: no samples of {of_event.runs.event} (expected "
                        "samples on both sides for folded stacks); export each side alone, or "
                        "choose another event with --event"
                    )
        return EXPORTS[name](stacks)

    def head(self, data: ProfileDocument) -> "Head":
        """Return the head of the page of flame graphs."""
        # Imported here so that a table does not load what pages need.
        from schedperf_reports.standalone import Head, PageSource  # noqa: PLC0415

        sources = self.loaded.sources
        labels = [source.side.label for source in sources]
        return Head(
            title=f"profile: {' vs '.join(reversed(labels))}",
            sides=tuple(
                PageSource(name=name, label=source.side.label, path=str(source.path))
                for name, source in zip(SIDES, sources, strict=False)
            ),
            tool_version=data.tool_version,
            schema=data.schema,
        )

    def _family(self) -> Iterator[str]:
        # The rows tested together determine q, so other rows give other values.
        is_whole = all(bool(run.content.rows.all()) for side in self.sides for run in side.runs)
        if len(self.sides) > 1 and not (is_whole and set(self.keys) - {"event"} == _FAMILY):
            yield (
                "q is corrected for the number of rows in this table; `schedperf compare` "
                "corrects for the number of functions in all samples"
            )

    def _collect_stacks(self) -> list[StackedSamples]:
        return [collect_stacks(self.sides, event) for event in self.events]

    def _name(self, number: int) -> SideName | None:
        return SIDES[number] if len(self.sides) > 1 else None

    def _describe_side(self, number: int) -> ProfileSide:
        source = self.loaded.sources[number]
        recordings = [run.content.recording for run in source.side.runs]
        losses = [recording.losses for recording in recordings]
        lost = ProfileLosses(
            records=sum(loss.records for loss in losses),
            samples=sum(loss.samples for loss in losses),
            throttled=sum(loss.throttled for loss in losses),
            unknown_ids=sum(loss.unknown_ids for loss in losses),
        )
        return ProfileSide(
            side=self._name(number),
            label=source.side.label,
            path=str(source.path),
            point=source.point,
            runs=len(recordings),
            lost=lost,
            loss="; ".join(self._describe_losses(number)) or None,
            notes=source.side.notes,
        )

    def _describe_losses(self, number: int) -> Iterator[str]:
        for event in self.events:
            samples, lost = losses_of(self.sides[number], event)
            if caveat := loss_caveat(samples, lost):
                yield caveat if len(self.events) == 1 else f"{event.label}: {caveat}"

    def _lost_samples(self, event: EventIdentity) -> Mapping[SideName, int | None]:
        named_sides = zip(SIDES, self.sides, strict=False)
        return {name: losses_of(side, event)[1].samples for name, side in named_sides}

    def _describe_unpaired(self) -> Iterator[str]:
        if len(self.sides) > 1:
            shown = [sampled_events([side]) for side in self.sides]
            of_base, of_new = ([e for e in events if e in self.events] for events in shown)
            yield from describe_unpaired(SIDES[1], of_base, of_new)
            yield from describe_targets(SIDES[1], *map(sampled_attributes, self.sides))

    def _perf_events(self, event: EventIdentity) -> Mapping[SideName, PerfEvent]:
        named_sides = zip(SIDES, self.sides, strict=False)
        sights = {name: _sight_of(side, event) for name, side in named_sides}
        return {name: sight.perf_event for name, sight in sights.items() if sight is not None}

    def _describe_sights(self, event: EventIdentity) -> Iterator[ProfileSight]:
        # A sentence that applies to both sides appears once.
        all_sights = [_sight_of(side, event) for side in self.sides]
        sights = [sight for sight in all_sights if sight is not None]
        if all(sight == sights[0] for sight in sights):
            yield _describe_sight(sights[0], None)
            return
        for number, sight in enumerate(all_sights):
            if sight is not None:
                yield _describe_sight(sight, self._name(number))


def _sight_of(side: Profiles, event: EventIdentity) -> EventSight | None:
    sights = (sight for run in side.runs for sight in run.content.sights)
    return next((sight for sight in sights if sight.identity == event), None)


def _describe_sight(sight: EventSight, side: SideName | None) -> ProfileSight:
    return ProfileSight(
        side=side,
        clock=sight.clock,
        unit=sight.unit,
        nmi=sight.nmi,
        blind=sight.blind,
        reason=sight.reason,
        precise=sight.precise,
        emulated=sight.emulated,
        remedy=sight.remedy,
        excluded=sight.excluded,
        caveats=sight.caveats,
    )


def make_request(
    paths: Sequence[Path],
    sort: str,
    *,
    symbols: Path | None,
    event: str | None,
    point: str | None,
    comm: str | None,
    cpu: str | None,
    node: str | None,
    has_stacks: bool,
) -> Request:
    """Read the sources and select what was asked for.

    A parameter that is None selects all, or the default.

    :param sort: comma-separated keys of a row
    :param symbols: symbols of the kernel, for perf.data
    :param event: show only this event
    :param point: point of a bundle's workload
    :param comm: count only tasks of this name
    :param cpu: count only samples on these CPUs: "0-3,8"
    :param node: count only samples on these NUMA nodes: "0,1"
    :param has_stacks: keep call stacks
    :raises InputError: a source cannot be read, or lacks what was asked for; or a list or a key is
        invalid
    """
    keys = _parse_keys(sort)
    chosen = {"--cpu": cpu, "--node": node}
    cpus, nodes = (_parse_numbers(option, text) for option, text in chosen.items())
    is_compared = len(paths) > 1
    # Stacks of different commands are kept apart by the commands' names. A comparison is of the
    # workload's tasks.
    needs = {
        Keep.CHAIN: has_stacks or is_compared,
        Keep.TASK: has_stacks or is_compared or "comm" in keys or comm is not None,
    }
    options = Wanted(
        keep=frozenset(keep for keep, is_needed in needs.items() if is_needed),
        compared=is_compared,
        symbols=symbols,
        point=point,
    )
    loaded = load_sources(paths, options)
    every = [run for source in loaded.sources for run in source.side.runs]
    _check_samples([run.content for run in every], paths, has_stacks=has_stacks)
    sides = tuple(
        replace(
            source.side.having(lambda run: _select(run.content, comm, cpus, nodes)),
            label=clean_line(source.side.label),
        )
        for source in loaded.sources
    )
    events = _choose_events(sampled_events(sides), event, paths)
    if len(events) > 1 and "event" not in keys:
        keys = ("event", *keys)
    return Request(
        loaded=loaded, sides=sides, events=events, keys=keys, operation=operation_of(every)
    )


def _parse_keys(sort: str) -> tuple[SortKey, ...]:
    asked = dict.fromkeys(key.strip() for key in sort.split(",") if key.strip())
    keys_by_name = {str(key): key for key in SORT_KEYS}
    unknown = [key for key in asked if key not in keys_by_name]
    if unknown or not asked:
        problem = f"unknown key {unknown[0]!r}" if unknown else "empty list"
        raise InputError(
            f"--sort: {problem} (expected one or more of {','.join(SORT_KEYS)}); write e.g. --sort "
            "symbol,dso"
        )
    return tuple(keys_by_name[key] for key in asked)


def _parse_numbers(option: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        numbers = parse_cpu_list(text)
    except Unavailable:
        numbers = []
    if not numbers:
        raise InputError(
            f"{option}: invalid list {text[:40]!r} (expected numbers and ranges, e.g. 0-3,8); "
            "correct the list"
        )
    return numbers


def _check_samples(
    runs: Sequence[ProfileSamples], paths: Sequence[Path], *, has_stacks: bool
) -> None:
    # What could not be read is the best explanation for an empty result.
    if not any(len(run.recording.samples) for run in runs):
        notes = [note for run in runs for note in run.recording.notes]
        # A damaged feature costs names; a damaged record costs the samples after it.
        costly = [note for note in notes if "record" in note] or notes
        why = f"no readable samples: {costly[0]}" if costly else "no samples"
        advice = "" if why.endswith(_ADVICE) else _ADVICE
        raise InputError(f"{join_names(map(str, paths))}: {why}{advice}")
    if has_stacks and all(_has_no_chains(run) for run in runs):
        raise InputError(f"{paths[0]}: no call chains; record with perf record -g")


def _has_no_chains(run: ProfileSamples) -> bool:
    return bool(np.all(run.recording.samples.chain == NO_CHAIN))


def _select(
    loaded: ProfileSamples,
    comm: str | None,
    cpus: Sequence[int] | None,
    nodes: Sequence[int] | None,
) -> ProfileSamples:
    samples = loaded.recording.samples
    rows: Flags = loaded.rows
    if comm is not None:
        tasks = [n for n, task in enumerate(loaded.recording.tasks) if task.comm == comm]
        rows = rows & np.isin(samples.task, tasks)
    if cpus is not None:
        rows = rows & np.isin(samples.cpu, cpus)
    if nodes is not None:
        of_nodes = [cpu for cpu, node in loaded.node_of_cpu.items() if node in nodes]
        rows = rows & np.isin(samples.cpu, of_nodes)
    return replace(loaded, rows=rows)


def _choose_events(
    sampled: Sequence[EventIdentity], requested: str | None, paths: Sequence[Path]
) -> tuple[EventIdentity, ...]:
    where = join_names(map(str, paths))
    if not sampled:
        raise InputError(
            f"{where}: no samples match --comm, --cpu and --node; leave these options out to show "
            "all samples"
        )
    if requested is None:
        return tuple(sampled)
    labels = ", ".join(event.label for event in sampled)
    # As perf prints the event; as perf list writes it; and without PMU and modifiers if only one
    # event has this name.
    for spelling in ("label", "printed", "spelled", "name"):
        chosen = tuple(event for event in sampled if getattr(event, spelling) == requested)
        if len(chosen) == 1:
            return chosen
        if chosen:
            candidates = ", ".join(event.label for event in chosen)
            raise InputError(
                f"{where}: --event {requested!r} matches several events (expected one of "
                f"{candidates}); choose one of them"
            )
    raise InputError(
        f"{where}: no samples of {requested!r} (expected one of {labels}); choose another --event"
    )
