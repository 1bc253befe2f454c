# SPDX-License-Identifier: GPL-2.0-or-later
"""Collect what the pages of a lab show, redacted."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import select

from schedperf.history.periods import Change
from schedperf.history.questions.causes import find_causes
from schedperf.history.questions.history import History
from schedperf.history.questions.listing import SeriesStep, list_steps
from schedperf.history.questions.lost import Lost, LostSeries, is_followed, read_lost
from schedperf.history.questions.open_steps import OpenStep, describe_open
from schedperf.history.questions.recent import (
    NightMark,
    Recent,
    read_changes,
    read_night_marks,
    read_recent,
    with_lost,
)
from schedperf.history.questions.records import Series, Step, StepChange
from schedperf.history.states import is_open
from schedperf.history.store.tables import INPUT, NIGHT_RUN, REQUEST, SERVICE, STEP_CHANGE
from schedperf.publish.culprit.figures import name_benchmark
from schedperf.publish.dashboard.shown import Shown
from schedperf.publish.pages.site import Entry, newest_versions

HASH_DIGITS = 12
_ADDRESS_DIGITS = 12
_TO_RETEST = ("suspected", "not reproduced")
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# The class of a machine that has a name ends with a hash.
_CLASS_DIGITS = re.compile(r"(?<=.)-[0-9a-f]{12}\Z")


class Machine(Struct, frozen=True, kw_only=True):
    """A machine class.

    :param id: part of its address
    :param name: redacted, without its hash unless several have the name
    """

    id: str
    name: str


class Missing(Struct, frozen=True, kw_only=True):
    """A machine without a result in a night.

    :param last: date of its last result before
    """

    machine: Machine
    last: str


class Outcome(Struct, frozen=True, kw_only=True):
    """How a night of ``schedperf night`` ended on a machine."""

    machine: str
    job: str
    night: str
    outcome: str
    failed: bool


class Kernel(Struct, frozen=True, kw_only=True):
    """What is known of a revision."""

    revision: str
    subject: str | None
    committed: str | None


class Lab(Struct, frozen=True, kw_only=True):
    """All that pages show; texts of nights are redacted where they are drawn.

    :param today: date of the publication
    :param steps: by key of their series, oldest first
    :param decisions: by identity of their step
    :param open_causes: the open steps of each cause, the newest cause first
    :param changes: changes of conditions by key of the series
    :param lost: by key of the series
    :param shown_series: redacted, by key
    :param shown_revisions: redacted names of the kernels of the last nights
    :param night_marks: what is known of all rows of each date, as a text
    :param missing: the machines without a result in each night
    :param requests: what is requested for each step
    :param records: the published first bad commits, the newest data first
    :param of_step: the published record of each step that has one
    """

    today: date
    series: tuple[Recent, ...]
    shown_series: Mapping[str, Series]
    shown_revisions: Mapping[str, str]
    machines: Mapping[str, Machine]
    steps: Mapping[str, Sequence[Step]]
    all_steps: tuple[SeriesStep, ...]
    decisions: Mapping[str, Sequence[StepChange]]
    open_causes: tuple[tuple[OpenStep, ...], ...]
    changes: Mapping[str, Sequence[Change]]
    lost: Mapping[str, LostSeries]
    all_lost: Lost
    outcomes: tuple[Outcome, ...]
    night_marks: Mapping[str, str]
    missing: Mapping[str, tuple[Missing, ...]]
    services: tuple[tuple[str, str, str], ...]
    kernels: Mapping[str, Kernel]
    requests: Mapping[str, str]
    records: tuple[Entry, ...]
    of_step: Mapping[str, Entry]

    @property
    def gone(self) -> set[str]:
        """Return the open steps that are not there in the last nights."""
        return {each.found.step.id for each in self.open if each.is_gone}

    @property
    def open(self) -> Iterator[OpenStep]:
        """Yield all open steps."""
        return chain.from_iterable(self.open_causes)

    def is_since_last_night(self, date: str) -> bool:
        """Return whether a date is that of the last night of the lab, or later."""
        night = self.all_lost.night.night
        return bool(night and date >= night)

    def step_of(self, series: Series) -> Step | None:
        """Return the last open step of a series; None without one."""
        return next(
            (each for each in reversed(self.steps.get(series.key, ())) if is_open(each.state)), None
        )

    def request_of(self, step: Step) -> str:
        """Return what is requested for a step: "retest"; "" if nothing is."""
        kind = self.requests.get(step.id, "")
        return "" if kind == "retest" and step.state not in _TO_RETEST else kind

    def machine(self, series: Series) -> Machine:
        """Return the machine of a series."""
        return self.machines[series.key]


def read_lab(
    history: History,
    shown: Shown,
    entries: Iterable[Entry],
    today: date,
    without_trees: Sequence[str] = (),
) -> Lab:
    """Return what pages show.

    :param entries: records that are published on the site
    :param without_trees: trees about which nothing is shown
    :raises InputError: the database cannot be read
    """
    found = [each for each in read_recent(history) if each.series.tree not in without_trees]
    keys = [each.series.key for each in found]
    known = {*keys}
    lost = _lost_of(read_lost(history, today), known)
    all_steps = [each for each in list_steps(history) if each.series.key in known]
    records = _records_of(entries)
    shown_series = {each.series.key: shown.record(each.series) for each in found}
    revisions = {night.revision for each in found for night in each.nights if night.revision}
    machines = _name_machines([each.series for each in found], shown)
    marks = read_night_marks(history)
    missing = _find_missing(marks, machines.values(), today)
    silent = _silent_nights(missing)
    shown_recent = (with_lost(each, silent.get(machines[each.series.key].id, {})) for each in found)
    return Lab(
        today=today,
        series=tuple(replace(each, series=shown_series[each.series.key]) for each in shown_recent),
        shown_series=shown_series,
        shown_revisions={each: shown.text(each) for each in revisions},
        machines=machines,
        steps=_by_series([shown.record(each.step) for each in all_steps], all_steps),
        all_steps=tuple(map(shown.record, all_steps)),
        decisions=_read_decisions(history, shown, {each.step.id for each in all_steps}),
        open_causes=_read_open(history, shown, known),
        changes={
            key: tuple(map(shown.record, changes))
            for key, changes in read_changes(history, keys).items()
        },
        lost={each.series.key: shown.record(each) for each in lost.series},
        all_lost=shown.record(lost),
        outcomes=_read_outcomes(history, shown),
        night_marks={date: mark.text for date, mark in marks.items()},
        missing=missing,
        services=_read_services(history, shown),
        kernels=_read_kernels(history, shown, without_trees),
        requests=_read_requests(history),
        records=records,
        of_step={step: each for each in records for step in each.steps},
    )


def _read_open(history: History, shown: Shown, known: set[str]) -> tuple[tuple[OpenStep, ...], ...]:
    """Return the open steps of each cause.

    :param known: keys of the series that are shown
    """
    found = {each.found.step.id: each for each in describe_open(history)}
    causes = [
        tuple(
            shown.record(found[step.id])
            for step in cause.steps
            if step.id in found and found[step.id].found.series.key in known
        )
        for cause in reversed(find_causes(history))
    ]
    return tuple(filter(None, causes))


def machine_id(machine_class: str) -> str:
    """Return the part of the address of a machine, which does not contain its name."""
    return hashlib.sha256(machine_class.encode()).hexdigest()[:_ADDRESS_DIGITS]


@cache
def describe_result(series: Series) -> str:
    """Return the name of a result: benchmark, metric and parameters."""
    benchmark = name_benchmark(series.workload)
    first = series.metric.partition(" ")[0]
    # Metrics of some benchmarks begin with the name: "sched/pipe operations".
    has_name = {*first.split("/")} <= {*benchmark.split()}
    return series.name if has_name else f"{benchmark} {series.name}"


def short(revision: str) -> str:
    """Return a commit without most of its digits; releases are whole."""
    return revision[:HASH_DIGITS] if _HASH.fullmatch(revision) else revision


def _lost_of(lost: Lost, known: set[str]) -> Lost:
    series = tuple(each for each in lost.series if each.series.key in known)
    hidden = len(lost.series) - len(series)
    return replace(lost, series=series, followed=lost.followed - hidden)


def _records_of(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    newest = [each for each in newest_versions(entries) if each.state is not None]
    return tuple(sorted(newest, key=lambda each: (each.date or "", each.address), reverse=True))


def _by_series(shown: Sequence[Step], found: Sequence[SeriesStep]) -> Mapping[str, list[Step]]:
    by_series: dict[str, list[Step]] = {}
    for step, each in zip(shown, found, strict=True):
        by_series.setdefault(each.series.key, []).append(step)
    return by_series


def _name_machines(series: Sequence[Series], shown: Shown) -> Mapping[str, Machine]:
    """Return the machine of each series, by its key."""
    classes = dict.fromkeys(each.machine_class for each in series)
    names = {each: shown.text(_CLASS_DIGITS.sub("", each)) or "imported" for each in classes}
    used = [*names.values()]
    machines = {
        each: Machine(
            id=machine_id(each),
            name=name if used.count(name) == 1 else shown.text(f"{name} ({machine_id(each)[:4]})"),
        )
        for each, name in names.items()
    }
    return {each.key: machines[each.machine_class] for each in series}


def _find_missing(
    marks: Mapping[str, NightMark], machines: Iterable[Machine], today: date
) -> Mapping[str, tuple[Missing, ...]]:
    """Return the machines without a result in each night.

    A machine is not measured any more after 90 nights without a result, or under another class. A
    night that began today may still get results.

    :param marks: of each date, the oldest first
    :param machines: those that the site shows
    """
    shown = {each.id: each for each in machines}
    last: dict[str, str] = {}
    missing: dict[str, tuple[Missing, ...]] = {}
    for night, mark in marks.items():
        measured = {machine_id(each) for each in mark.machines} & shown.keys()
        names = {_without_class(shown[each]) for each in measured}
        last |= dict.fromkeys(measured, night)
        missing[night] = tuple(
            Missing(machine=shown[each], last=before)
            for each, before in sorted(last.items(), key=lambda item: shown[item[0]].name)
            if _without_class(shown[each]) not in names
            and is_followed(before, night)
            and night < f"{today}"
        )
    return missing


def _silent_nights(
    missing: Mapping[str, Sequence[Missing]],
) -> Mapping[str, Mapping[str, str]]:
    """Return the nights of each machine without a result, by its identity, each with the reason."""
    nights: dict[str, dict[str, str]] = {}
    for night, machines in missing.items():
        for each in machines:
            nights.setdefault(each.machine.id, {})[night] = "no result of the machine"
    return nights


def _without_class(machine: Machine) -> str:
    return machine.name.partition(" (")[0]


def _read_decisions(
    history: History, shown: Shown, steps: set[str]
) -> Mapping[str, list[StepChange]]:
    columns = (STEP_CHANGE.c[name] for name in StepChange.__struct_fields__)
    query = select(*columns).order_by(STEP_CHANGE.c.step_id, STEP_CHANGE.c.number)
    found: dict[str, list[StepChange]] = {}
    with history.database.transaction() as connection:
        for row in connection.execute(query):
            if row.step_id in steps:
                change = StepChange(**dict(zip(StepChange.__struct_fields__, row, strict=True)))
                redacted = shown.record(change)
                if change.decided_by != "schedperf":
                    redacted = replace(redacted, decided_by=shown.person(change.decided_by))
                found.setdefault(row.step_id, []).append(redacted)
    return found


def _read_outcomes(history: History, shown: Shown) -> tuple[Outcome, ...]:
    query = select(NIGHT_RUN).order_by(
        NIGHT_RUN.c.night.desc(), NIGHT_RUN.c.machine, NIGHT_RUN.c.job
    )
    with history.database.transaction() as connection:
        rows = connection.execute(query).all()
    return tuple(
        shown.record(
            Outcome(
                machine=row.machine,
                job=row.job,
                night=row.night,
                outcome=row.outcome,
                failed=row.failed,
            )
        )
        for row in rows
    )


def _read_services(history: History, shown: Shown) -> tuple[tuple[str, str, str], ...]:
    query = select(SERVICE).order_by(SERVICE.c.night.desc(), SERVICE.c.machine)
    with history.database.transaction() as connection:
        rows = connection.execute(query).all()
    return tuple(
        (shown.text(row.machine), shown.text(row.night), shown.text(row.reason)) for row in rows
    )


def _read_kernels(
    history: History, shown: Shown, without_trees: Sequence[str]
) -> Mapping[str, Kernel]:
    query = (
        select(INPUT.c.commit_hash, INPUT.c.subject, INPUT.c.committed, INPUT.c.tree)
        .where(INPUT.c.commit_hash.is_not(None), INPUT.c.role == "new")
        .distinct()
    )
    with history.database.transaction() as connection:
        rows = connection.execute(query).all()
    return {
        row.commit_hash: shown.record(
            Kernel(revision=row.commit_hash, subject=row.subject, committed=row.committed)
        )
        for row in rows
        if (row.tree or "") not in without_trees
    }


def _read_requests(history: History) -> Mapping[str, str]:
    query = (
        select(REQUEST.c.step_id, REQUEST.c.kind)
        .where(REQUEST.c.state == "open", REQUEST.c.step_id.is_not(None))
        .order_by(REQUEST.c.number)
    )
    with history.database.transaction() as connection:
        return {row.step_id: row.kind for row in connection.execute(query)}
