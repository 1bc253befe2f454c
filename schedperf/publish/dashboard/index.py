# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the first page: the state of the lab in one sentence, open steps, and all machines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from markupsafe import Markup
from msgspec import Struct

from schedperf.history.questions.open_steps import OpenStep
from schedperf.history.questions.recent import NightResult, Recent
from schedperf.history.questions.records import Step
from schedperf.publish.dashboard.chart import CLASSES, draw_sparkline
from schedperf.publish.dashboard.frame import Frame
from schedperf.publish.dashboard.lab import Lab, Machine, describe_result, short
from schedperf.publish.dashboard.shown import Shown
from schedperf.publish.dashboard.words import (
    MISSING,
    describe_change_of,
    describe_level,
    describe_size,
)

# Wider tables have the machines as columns.
_MOST_COLUMNS = 8
_MOST_NIGHTS = 30
# Shown of the machines that a step is not on.
_DATE = 10


class Cell(Struct, frozen=True, kw_only=True):
    """A series in the matrix.

    :param kind: class: "worse", "better", "moved", "lost" or ""
    :param value: change of the last night; "lost"
    :param note: since when, or what a night sees
    """

    key: str
    kind: str
    value: str
    note: str


class Line(Struct, frozen=True, kw_only=True):
    """A row or a column of the matrix.

    :param address: of a machine; "" for a result
    """

    id: str
    name: str
    note: str = ""
    address: str = ""
    metric: str = ""


class Matrix(Struct, frozen=True, kw_only=True):
    """The series of one tree.

    :param cells: by row and column; None where nothing is measured
    """

    tree: str
    night: str
    kernel: str
    reference: str
    rows: tuple[Line, ...]
    columns: tuple[Line, ...]
    cells: tuple[tuple[Cell | None, ...], ...]
    are_machines_rows: bool


class OpenRow(Struct, frozen=True, kw_only=True):
    """An open step, as the table shows it.

    :param machines: names of the machines by answer
    """

    key: str
    step: Step
    tree: str
    machine: Machine
    metric: str
    since: str
    nights: int
    what: str
    size: str
    interval: str
    tone: str
    machines: tuple[tuple[str, str], ...]
    kernels: str
    record: object
    state: str
    state_since: str
    request: str
    sparkline: Markup


def draw_index(lab: Lab, shown: Shown, frame: Frame) -> bytes:
    """Return the first page."""
    recent = {each.series.key: each for each in lab.series}
    open_rows = [*_open_rows(lab, recent, shown)]
    matrices = [*_matrices(lab, shown)]
    names = sorted({(each.name, each.id) for each in lab.machines.values()})
    return frame.render(
        "site/dashboard.html.j2",
        root="",
        title="Scheduler performance",
        lab=lab,
        night=shown.text(lab.all_lost.night.night or "no night"),
        sentence=[*_sentence(lab)],
        kernels=[*_kernels(lab, matrices)],
        open_rows=open_rows,
        matrices=matrices,
        machines=names,
        metrics=sorted({each.series.metric for each in lab.series}),
        trees=[each.tree for each in matrices],
        lost_machines=lab.all_lost.machines,
        lost_series=[
            (each, lab.machine(each.series), describe_result(each.series))
            for each in lab.lost.values()
        ],
        records=lab.records,
        nights=_nights(lab),
        answers=("yes", "no", "unclear", "not measured", "lost"),
    )


def _sentence(lab: Lab) -> Iterator[tuple[str, str]]:
    """Yield the parts of the sentence about the state, each with its class."""
    worse = [each for each in lab.open if each.found.step.direction == "worse"]
    confirmed = [each for each in worse if each.found.step.state != "suspected"]
    better = [each for each in lab.open if each.found.step.direction == "better"]
    suspected = len(worse) - len(confirmed)
    yield ("worse" if confirmed else "same"), _count(len(confirmed), "open regression")
    yield ("worse" if suspected and not confirmed else ""), f"{suspected} suspected"
    yield "", f"{_count(len(better), 'improvement')} not explained"
    lost = lab.all_lost
    yield ("worse" if lost.series else ""), f"{len(lost.series)} of {lost.followed} series lost"
    if lost.machines:
        yield "worse", f"{_count(len(lost.machines), 'machine')} without a result"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _kernels(lab: Lab, matrices: Iterable[Matrix]) -> Iterator[tuple[str, str, str, str]]:
    """Yield tree, new kernel, its subject, and the reference kernel."""
    for matrix in matrices:
        kernel = lab.kernels.get(matrix.kernel)
        subject = kernel.subject if kernel is not None and kernel.subject else ""
        name = short(lab.shown_revisions.get(matrix.kernel, ""))
        yield matrix.tree or "all series", name, subject, matrix.reference


def _open_rows(lab: Lab, recent: Mapping[str, Recent], shown: Shown) -> Iterator[OpenRow]:
    for each in lab.open:
        step, series = each.found.step, each.found.series
        size, interval = describe_level(each.now)
        decisions = lab.decisions.get(step.id, ())
        yield OpenRow(
            key=series.key,
            step=step,
            tree=series.tree,
            machine=lab.machine(series),
            metric=series.metric,
            since=step.night[:_DATE],
            nights=each.nights,
            what=describe_result(series),
            size=size,
            interval=interval,
            tone=CLASSES.get(step.direction, "moved") if step.state != "suspected" else "suspected",
            machines=tuple(_answers(each, lab)),
            kernels=f"{shown.text(short(each.before))}..{shown.text(short(each.first))}"
            if each.before and each.first
            else "",
            record=lab.of_step.get(step.id),
            state=step.state,
            state_since=decisions[-1].at[:_DATE] if decisions else "",
            request=lab.request_of(step),
            sparkline=draw_sparkline(recent[series.key]),
        )


def _answers(opened: OpenStep, lab: Lab) -> Iterator[tuple[str, str]]:
    """Yield each answer with the names of its machines."""
    names: dict[str, list[str]] = {}
    for each in opened.machines:
        if each.series.key not in lab.machines:
            continue
        answer = "lost" if each.series.key in lab.lost else each.answer
        names.setdefault(answer, []).append(lab.machine(each.series).name)
    for answer in ("yes", "no", "unclear", "not measured", "lost"):
        if answer in names:
            yield answer, ", ".join(names[answer])


def _matrices(lab: Lab, shown: Shown) -> Iterator[Matrix]:
    by_tree: dict[str, list[Recent]] = {}
    for each in lab.series:
        by_tree.setdefault(each.series.tree, []).append(each)
    for tree, of_tree in by_tree.items():
        last = max(of_tree, key=lambda each: each.last.night)
        yield _matrix(lab, tree, of_tree, last, shown)


def _matrix(lab: Lab, tree: str, of_tree: Sequence[Recent], last: Recent, shown: Shown) -> Matrix:
    machines = {
        machine.id: Line(id=machine.id, name=machine.name, address=f"m/{machine.id}.html")
        for machine in sorted(
            (lab.machine(each.series) for each in of_tree), key=lambda each: each.name
        )
    }
    results: dict[str, Line] = {}
    cells: dict[tuple[str, str], Cell] = {}
    for each in of_tree:
        series = each.series
        name = f"{series.workload}\n{series.point}\n{series.metric}\n{series.unit}"
        results.setdefault(
            name,
            Line(
                id=name, name=describe_result(series), note=_direction(each), metric=series.metric
            ),
        )
        cells[lab.machine(series).id, name] = _cell(lab, each)
    are_machines_rows = len(results) <= _MOST_COLUMNS
    rows, columns = (machines, results) if are_machines_rows else (results, machines)
    return Matrix(
        tree=tree,
        night=shown.text(last.last.night),
        kernel=last.last.revision,
        reference=shown.text(short(last.reference or "")),
        rows=tuple(rows.values()),
        columns=tuple(columns.values()),
        cells=tuple(
            tuple(
                cells.get((row, column) if are_machines_rows else (column, row))
                for column in columns
            )
            for row in rows
        ),
        are_machines_rows=are_machines_rows,
    )


def _direction(recent: Recent) -> str:
    series = recent.series
    better = f"{series.better} is better" if series.better in {"higher", "lower"} else ""
    return ", ".join(filter(None, (series.unit, better)))


def _cell(lab: Lab, recent: Recent) -> Cell:
    series = recent.series
    if (lost := lab.lost.get(series.key)) is not None:
        note = f"{lost.nights} night{'' if lost.nights == 1 else 's'}"
        return Cell(key=series.key, kind="lost", value="lost", note=note)
    measured = [each for each in recent.nights if each.change is not None]
    step = lab.step_of(series)
    if step is not None and not _went_back(step, measured):
        kind = CLASSES.get(step.direction, "moved")
        if step.state == "suspected":
            kind = f"{kind} suspected"
        note = f"since {step.night[5:_DATE]}" if step.day is not None else f"since {step.night}"
    else:
        kind = ""
        sees = recent.seen_in_one_night
        note = "" if sees is None else f"sees {describe_size(sees, recent)}"
    value = describe_change_of(recent, measured[-1]) if measured else MISSING
    return Cell(key=series.key, kind=kind, value=value, note=note)


def _went_back(step: Step, measured: Sequence[NightResult]) -> bool:
    """Return whether the last night is on the other side of the reference than the step."""
    now = measured[-1].change if measured else None
    return now is not None and step.change is not None and now * step.change < 0.0


def _nights(lab: Lab) -> list[str]:
    nights = {
        each.night[:_DATE] for recent in lab.series for each in recent.nights if "-" in each.night
    }
    return sorted(nights, reverse=True)[:_MOST_NIGHTS]
