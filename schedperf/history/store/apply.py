# SPDX-License-Identifier: GPL-2.0-or-later
"""Apply decisions to the database, in the order of the log.

The rows depend only on the decisions and what they name, so that a database that is made again is
equal row by row.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.json import encode
from msgspec.structs import asdict
from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from schedperf.history.store.decisions import (
    Added,
    Line,
    NightEnded,
    Requested,
    RequestEnded,
    Serviced,
    StepChanged,
)
from schedperf.history.store.foreign import ForeignTable, Point
from schedperf.history.store.nights import Catalogue, Nights, next_id, position_of
from schedperf.history.store.reading import PARSER, Reading, Result
from schedperf.history.store.tables import (
    BOOT,
    FACT,
    INPUT,
    LEASE,
    NIGHT,
    NIGHT_RUN,
    REQUEST,
    RUN,
    SERIES,
    SERVICE,
    STEP,
    STEP_CHANGE,
    VALUE,
)
from schedperf.history.store.view import make_view
from schedperf.history.store.watched import forget_watched

Content = Reading | ForeignTable
_MOST_ROWS = 10_000
# Nights whose rows are written together.
_MOST_NIGHTS = 50


class Applier:
    """Applies decisions within one transaction; :meth:`finish` ends it.

    :param connection: of the database
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._catalogue = Catalogue(connection)
        self._nights = Nights(connection, self._catalogue)
        self._next_input = next_id(connection, INPUT)
        # By purpose, night and result.
        self._touched: dict[str, dict[str, dict[int, int]]] = {"night": {}, "chain": {}}

    def apply(self, line: Line, content: Content | None) -> None:
        """Apply one decision.

        :param content: what an added file contains; None for other decisions
        """
        match line.decided:
            case Added():
                assert content is not None
                self._add(line.decided, content)
            case NightEnded() as night:
                self._replace(NIGHT_RUN, asdict(night), ("machine", "job", "night"))
            case Serviced() as service:
                self._replace(SERVICE, asdict(service), ("machine", "night"))
                forget_watched(self._connection, select(SERIES.c.id), position_of(service.night))
            case StepChanged() as step:
                self._change_step(step, line.at)
            case Requested() as request:
                self._request(request)
            case RequestEnded() as ended:
                self._end_request(ended)

    def finish(self) -> None:
        """Write the rows of the nights that the decisions have changed."""
        self._nights.update(self._touched["night"])
        self._nights.update_chains(self._touched["chain"])
        self._touched = {purpose: {} for purpose in self._touched}

    def _add(self, added: Added, content: Content) -> None:
        number = self._next_input
        self._next_input += 1
        row = {
            "id": number,
            "parser": PARSER,
            "label": content.label,
            **{name: getattr(added, name) for name in _FROM_DECISION},
        }
        if isinstance(content, Reading):
            row |= {name: getattr(content, name) for name in _FROM_BUNDLE}
        self._insert(INPUT, [row])
        facts = [
            {"input_id": number, "key": key, "value": value}
            for key, value in sorted(added.facts.items())
        ]
        self._insert(FACT, facts)
        if facts:
            make_view(self._connection)
        if isinstance(content, Reading):
            self._add_runs(number, added, content)
        else:
            self._add_points(number, content)

    def _add_runs(self, number: int, added: Added, reading: Reading) -> None:
        replaced, container = self._find_copies(number, reading)
        if container is not None:
            self._supersede(number, container)
            return
        for old in replaced:
            self._remove_runs(old)
            self._supersede(old, number)
        self._insert(BOOT, [{"input_id": number, **asdict(each)} for each in reading.boots])
        self._insert(RUN, [{"input_id": number, **asdict(each)} for each in reading.runs])
        machine_class = reading.machine_class or ""
        ids = [self._catalogue.result(machine_class, each) for each in reading.results]
        self._insert(
            VALUE,
            [
                {
                    "result_id": ids[each.result],
                    "input_id": number,
                    "boot": each.boot,
                    "run": each.run,
                    "value": each.value,
                }
                for each in reading.numbers
            ],
        )
        at = {(run.workload, run.point) for run in reading.runs}
        of_input = {*ids, *self._catalogue.results_at(machine_class, at)}
        if added.night is not None:
            self._touch(added.purpose, added.night, of_input)
            if added.purpose == "night" and added.role == "new":
                # Ids of series are given in the order of the decisions.
                for each in sorted({*ids}):
                    self._catalogue.series(each, reading.tree or "")

    def _touch(self, purpose: str, night: str, results: AbstractSet[int]) -> None:
        """Note that the rows of a night change; only series that are known now have one."""
        if purpose not in self._touched:
            return
        known = dict.fromkeys(results, self._catalogue.next_series)
        self._touched[purpose].setdefault(night, {}).update(known)
        if len(self._touched[purpose]) > _MOST_NIGHTS:
            self.finish()

    def _find_copies(self, number: int, reading: Reading) -> tuple[list[int], int | None]:
        """Find bundles with the same runs: appending to a bundle copies them.

        :return: bundles whose runs this one has all, and the bundle that has all runs of this one
        """
        identities = [run.identity for run in reading.runs]
        if not identities:
            return [], None
        shared = self._count_runs(RUN.c.identity.in_(identities), RUN.c.input_id != number)
        if not shared:
            return [], None
        total = self._count_runs(RUN.c.input_id.in_([*shared]))
        contained = sorted(each for each in shared if shared[each] == total[each])
        whole = [each for each in sorted(shared) if shared[each] == len(identities)]
        if whole:
            return [], whole[0]
        return contained, None

    def _count_runs(self, *conditions: ColumnElement[bool]) -> dict[int, int]:
        """Return the number of runs by input."""
        query = select(RUN.c.input_id, func.count()).where(*conditions).group_by(RUN.c.input_id)
        return {int(row[0]): int(row[1]) for row in self._connection.execute(query)}

    def _supersede(self, old: int, new: int) -> None:
        self._connection.execute(update(INPUT).where(INPUT.c.id == old).values(superseded_by=new))

    def _remove_runs(self, number: int) -> None:
        """Remove the runs of a bundle."""
        row = self._connection.execute(select(INPUT).where(INPUT.c.id == number)).one()
        results = select(VALUE.c.result_id).where(VALUE.c.input_id == number).distinct()
        ids = set(self._connection.execute(results).scalars())
        for table in (VALUE, RUN, BOOT):
            self._connection.execute(delete(table).where(table.c.input_id == number))
        if row.night is not None:
            self._touch(row.purpose, row.night, ids)

    def _add_points(self, number: int, content: ForeignTable) -> None:
        ids: dict[str, int] = {}
        first_new = self._catalogue.next_series
        for each in content.series:
            family = "informational" if each.better == "unknown" else "primary"
            result = Result(content.label, "", each.name, each.unit, each.better, family)
            ids[each.name] = self._catalogue.series(self._catalogue.result("", result), "")
        is_log = dict.fromkeys(ids, True)
        for point in content.points:
            values = (point.value, point.ref)
            is_log[point.series] &= all(value is None or value > 0.0 for value in values)
        for start in range(0, len(content.points), _MOST_ROWS):
            part = content.points[start : start + _MOST_ROWS]
            # New series have no earlier lines, and a table has no line twice.
            self._remove_points(
                [(ids[each.series], each.position) for each in part if ids[each.series] < first_new]
            )
            self._insert(
                NIGHT,
                [
                    _night_of(each, ids[each.series], number, is_log=is_log[each.series])
                    for each in part
                ],
            )

    def _remove_points(self, keys: Sequence[tuple[int, int]]) -> None:
        """Remove earlier lines of the same series and order: a later table replaces them."""
        positions: dict[int, list[int]] = {}
        for series, position in keys:
            positions.setdefault(series, []).append(position)
        for series, of_series in positions.items():
            ids = select(SERIES.c.id).where(SERIES.c.id == series)
            forget_watched(self._connection, ids, min(of_series))
            known = select(NIGHT.c.position).where(
                NIGHT.c.series_id == series,
                NIGHT.c.position.between(min(of_series), max(of_series)),
            )
            both = {*of_series} & {*self._connection.execute(known).scalars()}
            for position in sorted(both):
                self._connection.execute(
                    delete(NIGHT).where(NIGHT.c.series_id == series, NIGHT.c.position == position)
                )

    def _change_step(self, step: StepChanged, at: str) -> None:
        series = self._connection.execute(
            select(SERIES.c.id).where(SERIES.c.key == step.series)
        ).scalar()
        if series is None:
            return
        values = {name: getattr(step, name) for name in _OF_STEP}
        self._replace(STEP, {"id": step.step, "series_id": series, **values}, ("id",))
        count = select(func.count()).where(STEP_CHANGE.c.step_id == step.step)
        number = self._connection.execute(count).scalar_one()
        changed = {name: getattr(step, name) for name in _OF_CHANGE}
        self._insert(
            STEP_CHANGE,
            [
                {
                    "step_id": step.step,
                    "number": number,
                    "at": at,
                    "numbers": encode(step.numbers, order="sorted").decode(),
                    "decided_by": step.by,
                    **changed,
                }
            ],
        )

    def _request(self, request: Requested) -> None:
        count = select(func.count()).select_from(REQUEST)
        number = self._connection.execute(count).scalar_one()
        self._insert(
            REQUEST,
            [
                {
                    "id": request.request,
                    "number": number,
                    "kind": request.kind,
                    "machine": request.machine,
                    "reference": request.reference,
                    "new": request.new,
                    "job": request.job,
                    "step_id": request.step,
                    "boots": request.boots,
                    "boots_done": 0,
                    "why": request.why,
                    "state": "open",
                }
            ],
        )

    def _end_request(self, ended: RequestEnded) -> None:
        self._connection.execute(
            update(REQUEST)
            .where(REQUEST.c.id == ended.request)
            .values(state=ended.state, boots_done=ended.boots, reason=ended.reason)
        )
        self._connection.execute(delete(LEASE).where(LEASE.c.request_id == ended.request))

    def _replace(self, table: Table, row: Mapping[str, object], names: Sequence[str]) -> None:
        """Insert a row, or update the one that has the same values in some columns."""
        same = [table.c[name] == row[name] for name in names]
        if self._connection.execute(select(func.count()).where(*same)).scalar():
            self._connection.execute(update(table).where(*same).values(row))
        else:
            self._insert(table, [row])

    def _insert(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        if rows:
            self._connection.execute(insert(table), rows)


_FROM_DECISION = (
    "kind", "digest", "sha256", "bytes", "format", "path", "kept", "night", "role", "purpose",
)  # fmt: skip
_FROM_BUNDLE = (
    "created", "complete", "recorder", "machine", "machine_class", "kernel", "tree", "ref",
    "commit_hash", "subject", "committed", "program", "problem",
)  # fmt: skip
_OF_STEP = ("position", "night", "direction", "state", "change", "ci_low", "ci_high")
_OF_CHANGE = ("state", "change", "ci_low", "ci_high", "reason")


def _night_of(point: Point, series: int, number: int, *, is_log: bool) -> dict[str, object]:
    return {
        "series_id": series,
        "position": point.position,
        "revision": point.revision,
        "night": point.night,
        "scale": "log" if is_log else "linear",
        "new": point.value,
        "reference": point.ref,
        "input_id": number,
    }
