# SPDX-License-Identifier: GPL-2.0-or-later
"""Reduce the runs of a night to one row per series: levels of both kernels, and their noise.

The level of a kernel is the mean over its boots of the logarithm of the boot's value, which is the
mean of its runs; a level of values that are not all above 0 is the mean of the values themselves.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from statistics import fmean
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Connection, Row, Table, delete, func, insert, select, update

from schedperf.history.store.decisions import Purpose
from schedperf.history.store.reading import Result, program_of
from schedperf.history.store.tables import BOOT, CHAIN, INPUT, NIGHT, RESULT, SERIES, VALUE
from schedperf.history.store.watched import forget_watched
from schedperf.model.rows import digest_of
from schedperf.stats.welch import variance_of

# Positions of one date; its nights are numbered from 1.
NIGHTS_OF_A_DATE = 1000
_DATE = slice(0, 10)
_NUMBER = slice(11, None)
KEY_DIGITS = 12
# Boots for a standard deviation.
_FEWEST = 2
_MOST_VARIABLES = 500


class Level(Struct, frozen=True, kw_only=True):
    """What one kernel reached in a night.

    :param level: geometric mean of the boots; arithmetic mean if ``is_log`` is false
    :param sd: standard deviation between boots, of logarithms if ``is_log``; None for one boot
    """

    level: float
    sd: float | None
    boots: int
    runs: int


def position_of(night: str) -> int:
    """Return the order of a night: days since the year 1, and its number within the date."""
    number = int(night[_NUMBER] or 1)
    return date.fromisoformat(night[_DATE]).toordinal() * NIGHTS_OF_A_DATE + number


def night_of(position: int) -> str | None:
    """Return the date of a night by its position; None for the order of a foreign history."""
    day, number = divmod(position, NIGHTS_OF_A_DATE)
    if not 1 <= day <= date.max.toordinal():
        return None
    return f"{date.fromordinal(day)}{f'-{number}' if number > 1 else ''}"


def level_of(boots: Mapping[tuple[int, int], Sequence[float]], *, is_log: bool) -> Level | None:
    """Return the level of one kernel; None without values.

    :param boots: values of the runs of each boot
    :param is_log: whether all values of the night are above 0
    """
    if not boots:
        return None
    means = [fmean(values) for values in boots.values()]
    scaled = [math.log(mean) for mean in means] if is_log else means
    centre = fmean(scaled)
    return Level(
        level=math.exp(centre) if is_log else centre,
        sd=math.sqrt(variance_of(scaled)) if len(scaled) >= _FEWEST else None,
        boots=len(means),
        runs=sum(map(len, boots.values())),
    )


class _Stored(Struct, frozen=True, kw_only=True):
    """A result in the database."""

    id: int
    better: str


class Catalogue:
    """The ids of results and series; new ones are inserted.

    Ids are given in the order of the decisions, so that a database that is made again has the same.

    :param connection: of the database
    :ivar next_series: id of the next series
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._results: dict[str, dict[tuple[str, ...], _Stored]] = {}
        self._series: dict[tuple[int, str], int] = {}
        self._first_result = self._next_result = next_id(connection, RESULT)
        self.next_series = next_id(connection, SERIES)

    def result(self, machine_class: str, result: Result) -> int:
        """Return the id of a result; store its direction if it was unknown."""
        known = self._known(machine_class)
        names = (result.workload, result.point, result.metric, result.unit)
        stored = known.get(names)
        if stored is None:
            number = self._next_result
            self._next_result += 1
            self._connection.execute(
                insert(RESULT).values(id=number, machine_class=machine_class, **asdict(result))
            )
        elif stored.better == "unknown" != result.better:
            number = stored.id
            self._connection.execute(
                update(RESULT)
                .where(RESULT.c.id == number)
                .values(better=result.better, family=result.family)
            )
        else:
            return stored.id
        known[names] = _Stored(id=number, better=result.better)
        return number

    def results_at(self, machine_class: str, points: AbstractSet[tuple[str, str]]) -> set[int]:
        """Return the ids of all results of workloads and points that are stored."""
        known = self._known(machine_class).items()
        return {row.id for names, row in known if names[:2] in points}

    def series(self, result: int, tree: str) -> int:
        """Return the id of a series."""
        if (result, tree) not in self._series:
            found = self._find(result, tree)
            self._series[result, tree] = self._insert(result, tree) if found is None else found
        return self._series[result, tree]

    def _find(self, result: int, tree: str) -> int | None:
        # A new result has no series yet.
        if result >= self._first_result:
            return None
        query = select(SERIES.c.id).where(SERIES.c.result_id == result, SERIES.c.tree == tree)
        return self._connection.execute(query).scalar()

    def _insert(self, result: int, tree: str) -> int:
        row = self._connection.execute(select(RESULT).where(RESULT.c.id == result)).one()
        names = [row.machine_class, tree, row.workload, row.point, row.metric, row.unit]
        key = digest_of(names)[:KEY_DIGITS]
        number = self.next_series
        self.next_series += 1
        self._connection.execute(
            insert(SERIES).values(id=number, key=key, result_id=result, tree=tree)
        )
        return number

    def _known(self, machine_class: str) -> dict[tuple[str, ...], _Stored]:
        if machine_class not in self._results:
            query = select(RESULT).where(RESULT.c.machine_class == machine_class)
            self._results[machine_class] = {
                (row.workload, row.point, row.metric, row.unit): _Stored(
                    id=row.id, better=row.better
                )
                for row in self._connection.execute(query)
            }
        return self._results[machine_class]


def next_id(connection: Connection, table: Table) -> int:
    """Return the id of the next row of a table."""
    return (connection.execute(select(func.max(table.c.id))).scalar() or 0) + 1


# Columns of a level that a chain has, after the name of the kernel.
_OF_LEVEL = ("", "_sd", "_boots")
# Values of the runs of each boot, by input and boot.
_Boots = dict[tuple[int, int], list[float]]


class Nights:
    """Writes the rows of nights, and of chain nights.

    :param connection: of the database
    """

    def __init__(self, connection: Connection, catalogue: Catalogue) -> None:
        self._connection = connection
        self._catalogue = catalogue

    def update(self, touched: Mapping[str, Mapping[int, int]]) -> None:
        """Write the rows of some results in some nights again.

        A result that no new kernel has in the night is a lost night of its series.

        :param touched: by night and id of the result: the id of the first series that came later,
            which has no lost night
        """
        rows: list[dict[str, object]] = []
        for night, result, made in self._reduce(touched, "night"):
            rows += self._rows(made, result, touched[night][result])
        self._remove(NIGHT, touched)
        if rows:
            self._connection.execute(insert(NIGHT), rows)

    def update_chains(self, touched: Mapping[str, Mapping[int, int]]) -> None:
        """Write again by which ratio the reference kernel was renewed in some chain nights.

        :param touched: as for :meth:`update`
        """
        rows = [
            {"result_id": result, **row}
            for _, result, made in self._reduce(touched, "chain")
            for row in made.chains()
        ]
        self._remove(CHAIN, touched)
        if rows:
            self._connection.execute(insert(CHAIN), rows)

    def _rows(self, made: "_Night", result: int, later: int) -> Iterator[dict[str, object]]:
        for tree, revision in made.kernels():
            series = self._catalogue.series(result, tree)
            yield {"series_id": series, **made.row(tree, revision)}
        if not made.kernels():
            for series in self._series_of(result, later):
                yield {"series_id": series, **made.lost()}

    def _remove(self, table: Table, touched: Mapping[str, Collection[int]]) -> None:
        """Remove the rows of some nights, and what the watch found with them."""
        for night, results in touched.items():
            position = position_of(night)
            for part in _parts(sorted(results)):
                series = select(SERIES.c.id).where(SERIES.c.result_id.in_(part))
                is_of = (
                    table.c.result_id.in_(part)
                    if "result_id" in table.c
                    else table.c.series_id.in_(series)
                )
                self._connection.execute(delete(table).where(table.c.position == position, is_of))
                forget_watched(self._connection, series, position)

    def _reduce(
        self, touched: Mapping[str, Collection[int]], purpose: Purpose
    ) -> Iterator[tuple[str, int, "_Night"]]:
        """Yield the values of each result, from the inputs of each night with one purpose."""
        inputs = self._inputs([*touched], purpose)
        values = self._values(inputs, touched)
        boots = self._boots([each for of_night in inputs.values() for each in of_night])
        workloads = self._workloads(inputs, touched)
        for night, results in sorted(touched.items()):
            for result in sorted(results):
                found = values.get((night, result), {})
                of_night = inputs.get(night, {})
                workload = workloads.get(result, "")
                yield night, result, _Night(night, of_night, found, boots, workload)

    def _workloads(
        self,
        inputs: Mapping[str, Mapping[int, Row[Any]]],
        touched: Mapping[str, Collection[int]],
    ) -> Mapping[int, str]:
        """Return the workload of each result, if a bundle has several of them."""
        stored = (each.program for of_night in inputs.values() for each in of_night.values())
        if not any(program is not None and program.startswith("{") for program in stored):
            return {}
        results = sorted({result for each in touched.values() for result in each})
        return {
            row.id: row.workload
            for part in _parts(results)
            for row in self._connection.execute(
                select(RESULT.c.id, RESULT.c.workload).where(RESULT.c.id.in_(part))
            )
        }

    def _inputs(
        self, nights: Sequence[str], purpose: Purpose
    ) -> Mapping[str, Mapping[int, Row[Any]]]:
        """Return the bundles of each night, by id."""
        query = select(INPUT).where(
            INPUT.c.night.in_(nights),
            INPUT.c.purpose == purpose,
            INPUT.c.role.in_(["reference", "new"]),
            INPUT.c.superseded_by.is_(None),
        )
        found: dict[str, dict[int, Row[Any]]] = {}
        for row in self._connection.execute(query):
            found.setdefault(row.night, {})[row.id] = row
        return found

    def _values(
        self,
        inputs: Mapping[str, Mapping[int, Row[Any]]],
        touched: Mapping[str, Collection[int]],
    ) -> Mapping[tuple[str, int], _Boots]:
        """Return the values of the runs by night and result."""
        nights = {number: night for night, of_night in inputs.items() for number in of_night}
        found: dict[tuple[str, int], _Boots] = {}
        for part in _parts(sorted(nights)):
            query = (
                select(VALUE)
                .where(VALUE.c.input_id.in_(part))
                .order_by(VALUE.c.result_id, VALUE.c.input_id, VALUE.c.boot, VALUE.c.run)
            )
            for row in self._connection.execute(query):
                night = nights[row.input_id]
                if row.result_id in touched[night]:
                    of_boot = found.setdefault((night, row.result_id), {})
                    of_boot.setdefault((row.input_id, row.boot), []).append(row.value)
        return found

    def _boots(self, inputs: Sequence[int]) -> Mapping[tuple[int, int], Row[Any]]:
        return {
            (row.input_id, row.boot): row
            for part in _parts(inputs)
            for row in self._connection.execute(select(BOOT).where(BOOT.c.input_id.in_(part)))
        }

    def _series_of(self, result: int, later: int) -> Sequence[int]:
        query = (
            select(SERIES.c.id)
            .where(SERIES.c.result_id == result, SERIES.c.id < later)
            .order_by(SERIES.c.id)
        )
        return list(self._connection.execute(query).scalars())


class _Night:
    """The values of one result in a night.

    :param inputs: the bundles of the night, by id
    :param boots: their boots
    :param workload: that of the result; "" if no bundle has several
    """

    def __init__(
        self,
        night: str,
        inputs: Mapping[int, Row[Any]],
        values: _Boots,
        boots: Mapping[tuple[int, int], Row[Any]],
        workload: str,
    ) -> None:
        self._workload = workload
        self._night = night
        self._inputs = inputs
        self._values = values
        self._boots = boots
        self._is_log = all(value > 0.0 for each in values.values() for value in each)
        self._reference = self._of("reference")

    def kernels(self) -> Sequence[tuple[str, str]]:
        """Return tree and revision of each new kernel that has values."""
        return sorted({_kernel(self._inputs[number]) for number, _ in self._of("new")})

    def row(self, tree: str, revision: str) -> dict[str, object]:
        """Return the columns of a new kernel."""
        chosen = {
            key: values
            for key, values in self._of("new").items()
            if _kernel(self._inputs[key[0]]) == (tree, revision)
        }
        level = level_of(chosen, is_log=self._is_log)
        used = [self._inputs[number] for number, _ in chosen]
        return {
            **self.lost(),
            "revision": revision,
            "new": level and level.level,
            "new_sd": level and level.sd,
            "new_boots": level and level.boots,
            "new_runs": level and level.runs,
            "environment": self._environment(chosen),
            "parser": _only({each.parser for each in used}),
            "program": _only({program_of(each.program, self._workload) for each in used}),
            "emulated": self._is_emulated(chosen),
        }

    def lost(self) -> dict[str, object]:
        """Return the columns of a night without a new kernel."""
        level = level_of(self._reference, is_log=self._is_log)
        revisions = {_kernel(self._inputs[number])[1] for number, _ in self._reference}
        return {
            "position": position_of(self._night),
            "revision": "",
            "night": self._night,
            "scale": "log" if self._is_log else "linear",
            **dict.fromkeys(("new", "new_sd", "new_boots", "new_runs", "input_id")),
            "reference": level and level.level,
            "reference_sd": level and level.sd,
            "reference_boots": level and level.boots,
            "reference_runs": level and level.runs,
            "reference_revision": _only(revisions),
            "environment": None,
            "reference_environment": self._environment(self._reference),
            "parser": None,
            "program": None,
            "emulated": self._is_emulated(self._reference),
        }

    def chains(self) -> Iterator[dict[str, object]]:
        """Yield the columns of each kernel that was compared with the reference."""
        for tree, revision in self.kernels():
            row = self.row(tree, revision)
            if row["reference"] is not None and row["reference_revision"] != revision:
                yield {
                    "position": row["position"],
                    "previous_revision": row["reference_revision"],
                    "next_revision": revision,
                    "night": row["night"],
                    "scale": row["scale"],
                    **{f"previous{each}": row[f"reference{each}"] for each in _OF_LEVEL},
                    **{f"next{each}": row[f"new{each}"] for each in _OF_LEVEL},
                }

    def _of(self, role: str) -> _Boots:
        return {
            key: values for key, values in self._values.items() if self._inputs[key[0]].role == role
        }

    def _environment(self, chosen: _Boots) -> str | None:
        return _only({self._boots[key].environment for key in chosen if key in self._boots})

    def _is_emulated(self, chosen: _Boots) -> bool | None:
        states = {self._boots[key].emulated for key in chosen if key in self._boots}
        return max(states - {None}, default=None)


def _kernel(row: Row[Any]) -> tuple[str, str]:
    return row.tree or "", row.commit_hash or row.kernel or row.label or ""


def _only(values: AbstractSet[str | None]) -> str | None:
    """Return the value if all are equal, None without any, and else a hash of them."""
    if len(values) <= 1:
        return next(iter(values), None)
    return digest_of(sorted(map(str, values)))[:KEY_DIGITS]


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    # The number of variables of a statement is limited.
    for start in range(0, len(ids), _MOST_VARIABLES):
        yield ids[start : start + _MOST_VARIABLES]
