# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the first page: the state of the lab in one sentence, open steps, and all machines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from schedperf.history.questions.recent import NightResult, Recent
from schedperf.history.questions.records import Step
from schedperf.history.states import STATES, is_open
from schedperf.publish.dashboard.chart import CLASSES
from schedperf.publish.dashboard.conditions import list_conditions
from schedperf.publish.dashboard.frame import Frame
from schedperf.publish.dashboard.lab import Lab, describe_result, short
from schedperf.publish.dashboard.open_rows import OpenRow, list_open_rows
from schedperf.publish.dashboard.shown import Shown
from schedperf.publish.dashboard.words import (
    MISSING,
    describe_change_of,
    describe_size,
)

# Wider tables have the machines as columns.
_MOST_COLUMNS = 8
_MOST_NIGHTS = 30
# A step with less than this part of its change in the last night went back.
_PART = 0.5
_DATE = 10


class Cell(Struct, frozen=True, kw_only=True):
    """A series in the matrix.

    :param kind: classes: "worse", "better", "moved", "lost" or ""; with "suspected", or "tonight"
        for a change of the last night without a step
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
    kernel: str
    reference: str
    rows: tuple[Line, ...]
    columns: tuple[Line, ...]
    cells: tuple[tuple[Cell | None, ...], ...]
    are_machines_rows: bool


def draw_index(lab: Lab, shown: Shown, frame: Frame) -> bytes:
    """Return the first page."""
    recent = {each.series.key: each for each in lab.series}
    open_rows = [*list_open_rows(lab, recent, shown)]
    matrices = [*_matrices(lab, shown)]
    names = sorted({(each.name, each.id) for each in lab.machines.values()})
    lost_machines = {each.machine for each in lab.all_lost.machines}
    return frame.render(
        "site/dashboard.html.j2",
        root="",
        title="Scheduler performance",
        lab=lab,
        night=shown.text(lab.all_lost.night.night or "no night"),
        sentence=[*_sentence(lab, open_rows)],
        news=_describe_news(lab, open_rows),
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
            if each.series.machine_class not in lost_machines
        ],
        records=lab.records,
        conditions=[*list_conditions(lab)],
        nights=sorted(lab.night_marks, reverse=True)[:_MOST_NIGHTS],
        answers=("yes", "no", "unclear", "not measured", "lost"),
    )


def _sentence(lab: Lab, rows: Sequence[OpenRow]) -> Iterator[tuple[str, str]]:
    """Yield the parts of the sentence about the state, each with its class."""
    worse = [row for row in rows if row.direction == "worse"]
    confirmed = [row for row in worse if row.state != "suspected" and not row.is_gone]
    gone = [row for row in worse if row.state != "suspected" and row.is_gone]
    better = [row for row in rows if row.direction == "better"]
    suspected = len(worse) - len(confirmed) - len(gone)
    yield ("worse" if confirmed else "same"), _count(len(confirmed), "open regression").capitalize()
    yield ("worse" if suspected and not confirmed else ""), f"{suspected} suspected"
    if gone:
        yield "", f"{len(gone)} went away"
    if better:
        yield "", f"{_count(len(better), 'improvement')} not explained"
    lost = lab.all_lost
    yield ("worse" if lost.series else ""), f"{len(lost.series)} of {lost.followed} series lost"
    if lost.machines:
        yield "worse", f"{_count(len(lost.machines), 'machine')} without a result"


def _describe_news(lab: Lab, rows: Iterable[OpenRow]) -> str:
    """Return what was decided since the last night, of open causes and of closed steps."""
    causes = Counter(row.state for row in rows if row.is_new)
    closed = Counter(
        each.step.state
        for each in lab.all_steps
        if not is_open(each.step.state)
        and any(lab.is_since_last_night(one.at) for one in lab.decisions.get(each.step.id, ())[-1:])
    )
    counts = (("cause", causes), ("step", closed))
    parts = [
        f"{_count(number, noun)} ({state})"
        for noun, states in counts
        for state, number in sorted(states.items(), key=lambda each: STATES.index(each[0]))
    ]
    return ", ".join(parts) or "nothing"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _kernels(lab: Lab, matrices: Iterable[Matrix]) -> Iterator[tuple[str, str, str, str]]:
    """Yield tree, new kernel, its subject, and the reference kernel."""
    for matrix in matrices:
        kernel = lab.kernels.get(matrix.kernel)
        subject = kernel.subject if kernel is not None and kernel.subject else ""
        name = short(lab.shown_revisions.get(matrix.kernel, ""))
        yield matrix.tree or "all series", name, subject, matrix.reference


def _matrices(lab: Lab, shown: Shown) -> Iterator[Matrix]:
    by_tree: dict[str, list[Recent]] = {}
    for each in lab.series:
        by_tree.setdefault(each.series.tree, []).append(each)
    for tree, of_tree in by_tree.items():
        last = max(of_tree, key=lambda each: each.last_result.night if each.last_result else "")
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
        kernel=last.last_result.revision if last.last_result is not None else "",
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
    last = recent.last_result
    step = lab.step_of(series)
    if step is not None and not _went_back(step, last):
        kind = CLASSES.get(step.direction, "moved")
        if step.state == "suspected":
            kind = f"{kind} suspected"
        note = f"since {step.night[5:_DATE]}" if step.day is not None else f"since {step.night}"
    else:
        kind, note = _describe_night(lab, recent, last)
    value = MISSING if last is None else describe_change_of(recent, last)
    return Cell(key=series.key, kind=kind, value=value, note=note)


def _went_back(step: Step, last: NightResult | None) -> bool:
    """Return whether the last night has less than half of the change of the step."""
    now = None if last is None else last.change
    return now is not None and step.change not in {None, 0.0} and now / step.change < _PART


def _describe_night(lab: Lab, recent: Recent, last: NightResult | None) -> tuple[str, str]:
    """Return class and note of a series without an open step.

    :param last: the last night with a result; None without one
    """
    sees = recent.seen_in_one_night
    note = "" if sees is None else f"sees {describe_size(sees, recent)}"
    if last is None or last.verdict not in {"worse", "better"}:
        return "", note
    if any(step.state == "accepted" for step in lab.steps.get(recent.series.key, ())):
        return "", f"accepted; {note}"
    return f"{last.verdict} tonight", f"no step yet; {note}"
