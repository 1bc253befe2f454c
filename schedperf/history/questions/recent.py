# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the last nights of all series of a lab, with the change, interval and verdict of each night.

The nights of all series are computed at once, as arrays, because a lab has thousands of series.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import scipy
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import func, or_, select

from schedperf.history.periods import Change
from schedperf.history.questions.chains import read_chains
from schedperf.history.questions.history import History
from schedperf.history.questions.noise import FEWEST, WEEK, WINDOW, noises_of, smallest_steps
from schedperf.history.questions.records import Series
from schedperf.history.questions.watched import read_services, to_watched
from schedperf.history.store.nights import NIGHTS_OF_A_DATE
from schedperf.history.store.reading import PARSER
from schedperf.history.store.tables import NIGHT, NIGHT_RUN, RESULT, SERIES, WATCHED
from schedperf.history.watch.nights import watch_series
from schedperf.model.verdict import CONFIDENCE, MARGIN

# Days that are shown, or nights of a series without dates.
RECENT = 100
# Positions of dates are larger than the numbers of builds.
_FIRST_DATE = 100_000_000
_FEWEST_BOOTS = 2
_DATE = 10
_DATE_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Rows of so many dates are read at once.
_MOST_DATES = 30
_LEVEL = 0.05

Verdict = Literal["worse", "better", "higher", "lower", "no change", "unclear", "lost"]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_COLUMNS = (
    "series_id", "night", "revision", "new", "new_sd", "new_boots", "reference", "reference_sd",
    "reference_boots", "reference_revision", "scale",
)  # fmt: skip


class NightResult(NamedTuple):
    """What a series showed in a night.

    :param night: its date, or the order of a foreign history
    :param revision: of the new kernel
    :param change: of new / reference, a fraction, or a difference in the unit; the value of the new
        kernel without references; None for a lost night
    :param low: lower end of the 95% CI of the night's boots; None with one boot of a kernel
    :param boots: of the new kernel and of the reference; None if not recorded
    :param reason: why it is lost, as ``schedperf night`` says; None if it does not
    """

    night: str
    revision: str
    change: float | None
    low: float | None
    high: float | None
    boots: int | None
    reference_boots: int | None
    verdict: Verdict
    new: float | None
    reference: float | None
    reason: str | None = None


class Recent(Struct, frozen=True, kw_only=True):
    """The last nights of a series.

    :param is_paired: whether its nights have references
    :param is_log: whether changes are fractions; otherwise they are in the unit
    :param nights: at most 100 days, oldest first
    :param lost: nights without a result
    :param sd_nights: standard deviation between nights, as of :class:`Noise`
    :param seen_in_one_night: smallest change that one night shows, as of :class:`Noise`
    :param aa_nights: nights with one kernel on both sides, and two boots of each
    :param pair_half: half of the 95% CI of the difference of two single nights, of logarithms if
        ``is_log``; None if ``sd_nights`` is
    :param reference: the last reference kernel; None without one
    """

    series: Series
    is_paired: bool
    is_log: bool
    nights: tuple[NightResult, ...]
    lost: int
    sd_nights: float | None
    sd_boots: float | None
    seen_in_one_night: float | None
    seen_in_seven_nights: float | None
    aa_nights: int
    aa_differ: int
    pair_half: float | None
    reference: str | None

    @property
    def last(self) -> NightResult:
        """Return its last night."""
        return self.nights[-1]

    @property
    def last_result(self) -> NightResult | None:
        """Return its last night with a result; None without one."""
        return next((each for each in reversed(self.nights) if each.change is not None), None)


class NightOfSeries(NamedTuple):
    """What a series showed in a night, from the row of this night alone.

    :param key: of the series
    """

    key: str
    is_paired: bool
    is_log: bool
    result: NightResult


class NightMark(Struct, frozen=True, kw_only=True):
    """What is known of all rows of a date.

    :param text: another one after most changes of the rows
    :param machines: classes of the machines that have a result
    """

    text: str
    machines: AbstractSet[str]


def read_night_marks(history: History) -> Mapping[str, NightMark]:
    """Return a mark of each date, the oldest first.

    Nights without a date are left out.

    :raises InputError: the database cannot be read
    """
    day = func.substr(NIGHT.c.night, 1, _DATE)
    sums = [func.sum(NIGHT.c[name]) for name in ("new", "reference", "new_sd", "new_boots")]
    query = (
        select(day, RESULT.c.machine_class, func.count(NIGHT.c.new), func.count(), *sums)
        .join(SERIES, SERIES.c.id == NIGHT.c.series_id)
        .join(RESULT, RESULT.c.id == SERIES.c.result_id)
        .where(NIGHT.c.position >= _FIRST_DATE)
        .group_by(day, RESULT.c.machine_class)
        .order_by(day, RESULT.c.machine_class)
    )
    with history.database.transaction() as connection:
        rows = connection.execute(query).all()
    marks = {}
    for date, of_date in groupby(rows, key=itemgetter(0)):
        of_machines = [*of_date]
        if _DATE_TEXT.fullmatch(date):
            marks[date] = NightMark(
                text="\n".join(" ".join(map(repr, row[1:])) for row in of_machines),
                machines={row[1] for row in of_machines if row[2]},
            )
    return marks


def read_nights(history: History, dates: Sequence[str]) -> Mapping[str, list[NightOfSeries]]:
    """Return the results of some dates, each in the order of the series.

    :raises InputError: the database cannot be read
    """
    series = history.series()
    order = {each.key: number for number, each in enumerate(series)}
    found: dict[str, list[NightOfSeries]] = {each: [] for each in dates}
    for start in range(0, len(dates), _MOST_DATES):
        part = dates[start : start + _MOST_DATES]
        query = (
            select(*(NIGHT.c[name] for name in _COLUMNS), SERIES.c.key)
            .join(SERIES, SERIES.c.id == NIGHT.c.series_id)
            .where(func.substr(NIGHT.c.night, 1, _DATE).in_(part))
            .order_by(NIGHT.c.position, NIGHT.c.revision)
        )
        with history.database.transaction() as connection:
            rows = connection.execute(query).all()
            ids = {row.id: row.key for row in connection.execute(select(SERIES.c.id, SERIES.c.key))}
        if not rows:
            continue
        # Each row is a series of its own.
        columns = _Columns([row[:-1] for row in rows], range(len(rows)))
        results = _results([row[:-1] for row in rows], columns, _signs(series, ids, rows))
        of_rows = zip(rows, columns.of_series_paired, columns.of_series_log, results, strict=True)
        for row, is_paired, is_log, result in of_rows:
            night = NightOfSeries(row.key, bool(is_paired), bool(is_log), result)
            found[row.night[:_DATE]].append(night)
    for nights in found.values():
        nights.sort(key=lambda each: order[each.key])
    return found


def read_recent(history: History) -> tuple[Recent, ...]:
    """Return the last nights of all series that have some, in the order of the series.

    :raises InputError: the database cannot be read
    """
    rows, ids = _read_rows(history)
    bounds = [*_bounds(rows)]
    if not bounds:
        return ()
    columns = _Columns(rows, [start for start, _ in bounds])
    series = history.series()
    results = _results(rows, columns, _signs(series, ids, rows))
    by_key = {
        ids[rows[start][0]]: (number, start, end) for number, (start, end) in enumerate(bounds)
    }
    noise = _Noises(columns, bounds)
    failed = _read_failed(history)
    return tuple(
        _with_failed(noise.recent(each, *by_key[each.key], results), failed)
        for each in series
        if each.key in by_key
    )


def read_changes(history: History, keys: Sequence[str]) -> Mapping[str, tuple[Change, ...]]:
    """Return the changes of the conditions of series, by their keys; only of series that have some.

    :raises InputError: the database cannot be read
    """
    query = select(SERIES.c.key, WATCHED.c.found).join(SERIES, SERIES.c.id == WATCHED.c.series_id)
    with history.database.transaction() as connection:
        rows = connection.execute(query.where(WATCHED.c.version == PARSER)).all()
        keys_by_id = {
            row.id: row.key for row in connection.execute(select(SERIES.c.id, SERIES.c.key))
        }
        last = {
            keys_by_id[number]: position
            for number, position in connection.execute(
                select(NIGHT.c.series_id, func.max(NIGHT.c.position)).group_by(NIGHT.c.series_id)
            )
        }
    found = {key: _decode_watched(data) for key, data in rows}
    watched = {
        key: each.changes for key, each in found.items() if each.state.order == last.get(key)
    }
    if left := {*keys} - watched.keys():
        services, chains = read_services(history), read_chains(history)
        for series in history.series():
            if series.key in left:
                of_machine = services.get(series.machine_class, ())
                of_series = chains.get(series.key, ())
                nights = history.nights(series)
                converted = to_watched(series, nights, of_machine, of_series)
                watched[series.key] = watch_series(converted).changes
    return {key: watched[key] for key in keys if watched.get(key)}


def _read_failed(history: History) -> list[tuple[str, str, str]]:
    """Return machine, night and outcome of the nights without a result."""
    query = (
        select(NIGHT_RUN.c.machine, NIGHT_RUN.c.night, NIGHT_RUN.c.outcome)
        .where(NIGHT_RUN.c.failed)
        .order_by(NIGHT_RUN.c.night, NIGHT_RUN.c.job)
    )
    with history.database.transaction() as connection:
        return [(row.machine, row.night, row.outcome) for row in connection.execute(query)]


def _with_failed(recent: Recent, failed: Sequence[tuple[str, str, str]]) -> Recent:
    """Return a series with the nights in which its machine had no result by any job."""
    machine = recent.series.machine_class
    return with_lost(
        recent,
        {
            night: outcome
            for name, night, outcome in failed
            if machine == name or machine.startswith(f"{name}-")
        },
    )


def with_lost(recent: Recent, reasons: Mapping[str, str]) -> Recent:
    """Return a series with nights after its first one that have no result.

    :param reasons: why there is none, by night
    """
    known = {each.night for each in recent.nights} if reasons else frozenset()
    lost = [
        NightResult(night, "", None, None, None, None, None, "lost", None, None, reason)
        for night, reason in reasons.items()
        if night > recent.nights[0].night and night not in known
    ]
    if not lost:
        return recent
    nights = sorted((*recent.nights, *lost), key=lambda each: each.night)
    return replace(recent, nights=tuple(nights), lost=recent.lost + len(lost))


class _WatchedState(Struct):
    order: int | None = None


class _Watched(Struct):
    state: _WatchedState
    changes: tuple[Change, ...] = ()


def _decode_watched(data: bytes) -> _Watched:
    return msgspec.msgpack.decode(data, type=_Watched)


def _read_rows(history: History) -> tuple[list[tuple[Any, ...]], Mapping[int, str]]:
    """Return the rows of the last nights by series, and the keys of the series by id."""
    with history.database.transaction() as connection:
        last = connection.execute(select(func.max(NIGHT.c.position))).scalar() or 0
        first = last - RECENT * NIGHTS_OF_A_DATE
        query = (
            select(*(NIGHT.c[name] for name in _COLUMNS))
            .select_from(SERIES)
            .join(NIGHT, NIGHT.c.series_id == SERIES.c.id)
            .where(or_(NIGHT.c.position > first, NIGHT.c.position < _FIRST_DATE))
            .order_by(NIGHT.c.series_id, NIGHT.c.position, NIGHT.c.revision)
        )
        rows = connection.execute(query).all()
        ids = {row.id: row.key for row in connection.execute(select(SERIES.c.id, SERIES.c.key))}
    kept: list[tuple[Any, ...]] = []
    for _, of_series in groupby(rows, key=itemgetter(0)):
        kept += [*of_series][-RECENT:]
    return kept, ids


def _bounds(rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, int]]:
    """Yield the first index of each series, and the one after its last."""
    start = 0
    for _, of_series in groupby(rows, key=itemgetter(0)):
        end = start + sum(1 for _ in of_series)
        yield start, end
        start = end


def _signs(
    series: Sequence[Series], ids: Mapping[int, str], rows: Sequence[tuple[Any, ...]]
) -> npt.NDArray[np.int64]:
    """Return 1 for each row where higher is worse, -1 where lower is, and 0 if it is unknown."""
    signs = {"lower": 1, "higher": -1}
    by_key = {each.key: signs.get(each.better, 0) for each in series}
    by_id = {number: by_key[key] for number, key in ids.items()}
    return np.array([by_id[row[0]] for row in rows], dtype=np.int64)


class _Columns:
    """The rows of nights as arrays, shape (rows,), and what is analysed of them.

    :ivar values: log(new / reference), or as of :class:`Analysed`; NaN for lost nights
    :ivar half: half of the 95% CI of ``values``; NaN with one boot of a kernel
    """

    def __init__(self, rows: Sequence[tuple[Any, ...]], starts: Sequence[int]) -> None:
        table = [*zip(*rows, strict=True)]
        self.revisions, self.references = table[2], table[9]
        self.new, self.new_sd, self.new_boots = (_floats(table[index]) for index in (3, 4, 5))
        self.reference, reference_sd, reference_boots = (
            _floats(table[index]) for index in (6, 7, 8)
        )
        self.reference_sd, self.reference_boots = reference_sd, reference_boots
        sizes = np.diff([*starts, len(rows)])
        is_log = np.array([scale == "log" for scale in table[10]])
        self.of_series_log = np.logical_and.reduceat(is_log, starts)
        self.of_series_paired = np.logical_or.reduceat(np.isfinite(self.reference), starts)
        self.is_log = np.repeat(self.of_series_log, sizes)
        self.is_paired = np.repeat(self.of_series_paired, sizes)
        self.values = self._values()
        self.half, self.p = self._intervals()

    def _values(self) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            new, reference = (
                np.where(self.is_log, np.log(each), each) for each in (self.new, self.reference)
            )
        return np.where(self.is_paired, new - reference, new)

    def _intervals(self) -> tuple[Floats, Floats]:
        """Return Welch's half interval of each paired night, and its two-sided p value."""
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = [
                np.where(boots >= _FEWEST_BOOTS, sd**2 / boots, np.nan)
                for sd, boots in (
                    (self.new_sd, self.new_boots),
                    (self.reference_sd, self.reference_boots),
                )
            ]
            total = errors[0] + errors[1]
            inverse = (errors[0] / total) ** 2 / (self.new_boots - 1.0)
            inverse += (errors[1] / total) ** 2 / (self.reference_boots - 1.0)
            df, error = 1.0 / inverse, np.sqrt(total)
            half = scipy.special.stdtrit(df, 0.5 + CONFIDENCE / 2.0) * error
            p = 2.0 * scipy.special.stdtr(df, -np.abs(self.values) / error)
        half = np.where(total == 0.0, 0.0, half)
        return np.where(self.is_paired, half, np.nan), p


def _floats(column: Iterable[float | None]) -> Floats:
    return np.array([*column], dtype=np.float64)


def _results(
    rows: Sequence[tuple[Any, ...]], columns: _Columns, signs: npt.NDArray[np.int64]
) -> list[NightResult]:
    values, half = columns.values, columns.half
    is_ratio = columns.is_log & columns.is_paired
    with np.errstate(over="ignore"):
        low, high = values - half, values + half
        shown = np.where(columns.is_log & ~columns.is_paired, columns.new, values)
        change, low, high = (
            np.where(is_ratio, np.expm1(each), each) for each in (shown, low, high)
        )
    words = _verdicts(
        change, low, high, is_ratio=is_ratio, is_paired=columns.is_paired, signs=signs
    )
    numbers = [_nullable(each) for each in (change, low, high)]
    levels = [_nullable(each) for each in (columns.new, columns.reference)]
    return [
        NightResult(row[1], row[2], at, below, above, row[5], row[8], word, new, reference)
        for row, at, below, above, word, new, reference in zip(
            rows, *numbers, words, *levels, strict=True
        )
    ]


def _nullable(numbers: Floats) -> list[float | None]:
    made: list[float | None] = numbers.tolist()
    for index in np.flatnonzero(~np.isfinite(numbers)).tolist():
        made[index] = None
    return made


def _verdicts(
    change: Floats,
    low: Floats,
    high: Floats,
    *,
    is_ratio: Flags,
    is_paired: Flags,
    signs: npt.NDArray[np.int64],
) -> list[Verdict]:
    """Return the verdict of each night.

    A night is worse or better if its 95% CI excludes 0, and its change is beyond the equivalence
    margin; it has no change if the CI is within the margin.
    """
    margin = np.where(is_ratio, MARGIN, 0.0)
    with np.errstate(invalid="ignore"):
        is_apart = (np.abs(change) > margin) & ((low > 0.0) | (high < 0.0))
        is_within = (low > -margin) & (high < margin)
    direction = np.where(change > 0.0, 1, -1)
    codes = np.select(
        [
            ~np.isfinite(change),
            ~is_paired,
            is_apart & (signs == 0) & (direction > 0),
            is_apart & (signs == 0),
            is_apart & (signs * direction > 0),
            is_apart,
            is_within,
        ],
        [0, 1, 2, 3, 4, 5, 6],
        1,
    )
    names: Sequence[Verdict] = (
        "lost", "unclear", "higher", "lower", "worse", "better", "no change",
    )  # fmt: skip
    return [names[code] for code in codes.tolist()]


class _Noises:
    """The noise of all series in their last 90 nights."""

    def __init__(self, columns: _Columns, bounds: Sequence[tuple[int, int]]) -> None:
        self._columns = columns
        measured = [columns.values[max(start, end - WINDOW) : end] for start, end in bounds]
        values = [each[np.isfinite(each)] for each in measured]
        self._sizes = np.array([len(each) for each in values], dtype=np.float64)
        self._sd = np.array(
            [np.nan if sd is None else sd for sd in noises_of(values)], dtype=np.float64
        )
        is_log = columns.of_series_log
        one = smallest_steps(self._sd, 1, self._sizes, is_log=is_log)
        week = smallest_steps(self._sd, WEEK, self._sizes, is_log=is_log)
        with np.errstate(invalid="ignore"):
            quantile = scipy.special.stdtrit(self._sizes - 1.0, 0.5 + CONFIDENCE / 2.0)
        pair = np.where(self._sizes >= FEWEST, quantile * self._sd * np.sqrt(2.0), np.nan)
        self._numbers = [_nullable(each) for each in (self._sd, one, week, pair)]
        self._boots = self._pool(bounds)
        is_aa = np.array(
            [
                bool(new) and new == reference
                for new, reference in zip(columns.revisions, columns.references, strict=True)
            ]
        )
        self._aa = is_aa & np.isfinite(columns.p)
        self._differs = self._aa & (np.nan_to_num(columns.p, nan=1.0) < _LEVEL)

    def _pool(self, bounds: Sequence[tuple[int, int]]) -> list[float | None]:
        """Return the standard deviation between boots of each series."""
        columns = self._columns
        squares, freedom = np.zeros(len(columns.new)), np.zeros(len(columns.new))
        for sd, boots in (
            (columns.new_sd, columns.new_boots),
            (columns.reference_sd, columns.reference_boots),
        ):
            known = np.isfinite(sd) & np.isfinite(boots)
            freedom += np.where(known, boots - 1.0, 0.0)
            squares += np.where(known, sd**2 * (boots - 1.0), 0.0)
        sums = [
            (
                squares[max(start, end - WINDOW) : end].sum(),
                freedom[max(start, end - WINDOW) : end].sum(),
            )
            for start, end in bounds
        ]
        return [float(np.sqrt(square / number)) if number else None for square, number in sums]

    def recent(
        self, series: Series, number: int, start: int, end: int, results: Sequence[NightResult]
    ) -> Recent:
        """Return a series with its nights.

        :param number: its index among the series with nights
        """
        columns = self._columns
        nights = tuple(results[start:end])
        sd, one, week, pair = (each[number] for each in self._numbers)
        references = columns.references[start:end]
        return Recent(
            series=series,
            is_paired=bool(columns.of_series_paired[number]),
            is_log=bool(columns.of_series_log[number]),
            nights=nights,
            lost=sum(each.change is None for each in nights),
            sd_nights=sd,
            sd_boots=self._boots[number],
            seen_in_one_night=one,
            seen_in_seven_nights=week,
            aa_nights=int(self._aa[start:end].sum()),
            aa_differ=int(self._differs[start:end].sum()),
            pair_half=pair,
            reference=next((each for each in reversed(references) if each is not None), None),
        )
