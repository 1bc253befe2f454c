# SPDX-License-Identifier: GPL-2.0-or-later
"""Check the table of runs and form rows: the values to compare, in independent units.

One row is one metric of one point, base against one new side. Its values are those of the runs; or
the means over the runs of a boot if there are several boots, or over the runs of a round if both
sides were interleaved. The means of its sides are computed from the same values, so that they
differ by the effect of the row.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, get_args

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from schedperf.model.errors import InputError
from schedperf.model.frame import Frame, numbers_of, plain
from schedperf.model.rows import Better, Family, Replication

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

FAMILY_ORDER: tuple[Family, ...] = ("primary", "secondary", "informational")
REPLICATIONS: tuple[Replication, ...] = ("runs", "boots", "rounds")

# n pairs have n - 1 degrees of freedom; with two pairs that is one.
FEWEST_ROUNDS = 3
FEWEST_BOOTS = 2
# The columns that identify a row; ``family`` and ``resolution`` only describe it.
KEY = ["workload", "point", "metric", "unit", "better"]
QUESTION = ["comparison", *KEY]
_SUMMARY = ["mean", "cv", "n"]
_NUMBERS = ["value", "resolution", "order", "round", "boot", *_SUMMARY]

_DEFAULTS: Mapping[str, object] = {
    "comparison": 0,
    "value": math.nan,
    "resolution": math.nan,
    "family": "primary",
    "is_maximum": False,
    "status": "ok",
    "boot": math.nan,
    "boot_id": None,
    "kernel": None,
    "round": math.nan,
    "run": math.nan,
    "order": math.nan,
    "claimed": None,
    "claimed_mean": None,
    "mean": math.nan,
    "cv": math.nan,
    "n": math.nan,
}

_WORDS: Mapping[str, tuple[str, ...]] = {
    "better": get_args(Better),
    "family": get_args(Family),
}

# Squares of larger numbers overflow a float, and no benchmark prints such numbers.
_LARGEST_VALUE = 1e150
# Upper limits of a plausible number of runs and of a plausible spread.
_MOST_RUNS = 1e9


class Rows(Struct, frozen=True, kw_only=True):
    """All rows of a call, as columns of equal length; row r of each is the same row.

    :param table: ``comparison, side``, the key, ``family`` and ``resolution`` (NaN unknown)
    :param left_out: runs per side without a counterpart in their round, if rounds are compared;
        shape (rows, 2), base first
    :param units: one row per independent unit: ``row`` (number of the row), ``is_new``, ``value``
        (natural logarithm where ``is_log``, else divided by ``scale``, or by the largest value if
        that is 0), ``floor`` (least variance of it, from rounding), ``order`` (NaN unknown),
        ``unit`` (the number that pairs it); sorted by row, side and unit
    :param inner: the runs within the units, in the same scale, with ``boot``
    :param is_log: True if all values are positive
    :param is_maximum: True for maxima of runs, which are compared by ranks
    :param scale: 1 if ``is_log``; else the larger of the two sides' absolute means, 0 if both are 0
        except for rounding
    :param base: mean in the metric's unit, geometric if ``is_log``; the median for maxima; NaN
        without values
    :param replication: index into ``REPLICATIONS``
    :param is_paired: True if unit i of base and unit i of new belong to one round
    :param boots: number of boots, shape (rows, 2), base first; 0 if unknown
    :param is_one_boot_each: True if each side has one boot, and these boots are known to differ
    :param summaries: published means: ``row, is_new, value`` (as in ``units``), ``cv, n`` (NaN
        unknown); their rows are not part of a block
    """

    table: Frame
    left_out: Integers
    units: Frame
    inner: Frame
    is_log: Flags
    is_maximum: Flags
    scale: Floats
    base: Floats
    new: Floats
    replication: Integers
    is_paired: Flags
    boots: Integers
    is_one_boot_each: Flags
    summaries: Frame

    @property
    def is_summary(self) -> Flags:
        """True for rows in which a side has only a published mean."""
        flags = np.zeros(len(self), dtype=np.bool_)
        flags[self.summaries["row"]] = True
        return flags

    def __len__(self) -> int:
        return len(self.table)


class Block(Struct, frozen=True, kw_only=True):
    """Rows with the same number of values per side, as matrices.

    :param rows: numbers of the rows, shape (rows,)
    :param base: shape (rows, n_base), by unit; the units of a pair are in the same column if
        ``is_paired``
    :param new: shape (rows, n_new)
    :param order_base: shape of ``base``: position in time over all sides, NaN unknown
    :param floors: least variance of a value, from rounding; shape (rows, 2), base first
    """

    rows: Integers
    base: Floats
    new: Floats
    order_base: Floats
    order_new: Floats
    floors: Floats
    is_paired: bool


def complete(runs: "Frame | pd.DataFrame") -> Frame:
    """Return a table with all optional columns, with numbers as floats, after checking its values.

    The column ``is_summary`` is added: True if ``value`` is the published mean of several runs.

    :param runs: as :func:`schedperf.stats.compare_runs` describes it
    :raises InputError: a column is missing; or a row has an invalid number, an invalid ``better``
        or ``family``, or is a second summary of one side (the message names the row)
    """
    given = Frame.of(runs)
    missing = [f"`{name}`" for name in ("side", *KEY) if name not in given]
    if not {"value", "mean"} & set(given):
        missing.append("`value` or `mean`")
    if missing:
        raise InputError(
            f"runs: column {missing[0]} is missing (expected one row per run with the columns "
            f"side, {', '.join(KEY)}); add this column"
        )
    absent = {name: default for name, default in _DEFAULTS.items() if name not in given}
    filled = given.assign(side=list(map(str, given["side"].tolist())), **absent)
    filled = filled.assign(
        family=[_DEFAULTS["family"] if word is None else word for word in plain(filled["family"])],
        **{name: numbers_of(filled[name]) for name in _NUMBERS},
    )
    is_summary = ~np.isnan(filled["mean"])
    value = np.where(is_summary, filled["mean"], filled["value"])
    filled = filled.assign(is_summary=is_summary, value=value)
    _refuse_bad_values(filled, given)
    _refuse_bad_words(filled)
    return filled


def _refuse_bad_values(table: Frame, original: Frame) -> None:
    value, is_summary = table["value"], table["is_summary"]
    bad = (table["status"] == "ok") & ~(np.abs(value) <= _LARGEST_VALUE)
    if bad.any():
        index = int(np.argmax(bad))
        given = original["mean" if is_summary[index] else "value"][index]
        shown = math.nan if given is None else given
        problem = (
            f"invalid value {shown} (expected a number up to {_LARGEST_VALUE:g}); "
            "leave the run out or mark it as failed"
        )
        raise InputError(f"{_where(table, index)}: {problem}")
    # A negative spread and less than one run are invalid; an empty field is unknown.
    spread, number = table["cv"], table["n"]
    bad = (spread < 0.0) | (spread > _MOST_RUNS) | (number < 1.0) | (number > _MOST_RUNS)
    if is_summary.any():
        questions = table.number_rows(["side", *QUESTION])
        bad |= np.bincount(questions)[questions] > 1
    bad &= is_summary
    if bad.any():
        index = int(np.argmax(bad))
        problem = (
            f"invalid row with a mean, `cv` {spread[index]:g} and `n` {number[index]:g} (expected "
            "one such row per side, `cv` >= 0 or empty, and `n` >= 1 or empty); correct the row"
        )
        raise InputError(f"{_where(table, index)}: {problem}")


def _refuse_bad_words(table: Frame) -> None:
    # A wrong guess of the direction would report a regression as an improvement.
    is_ok = table["status"] == "ok"
    for name, words in _WORDS.items():
        bad = is_ok & np.array([word not in words for word in table[name].tolist()], dtype=np.bool_)
        if bad.any():
            index = int(np.argmax(bad))
            problem = f"invalid `{name}` '{table[name][index]}' (expected {' or '.join(words)})"
            raise InputError(f"{_where(table, index)}: {problem}")
    step = table["resolution"]
    if (step > _LARGEST_VALUE).any():
        index = int(np.argmax(step > _LARGEST_VALUE))
        problem = (
            f"invalid `resolution` {step[index]:g} (expected a number up to {_LARGEST_VALUE:g}); "
            "leave the field empty if unknown"
        )
        raise InputError(f"{_where(table, index)}: {problem}")


def _where(table: Frame, index: int) -> str:
    return ", ".join(str(table[name][index]) for name in ("side", "workload", "point", "metric"))


def form_rows(runs: Frame, *, base: str, new: Sequence[str]) -> Rows:
    """Form the rows of a completed table: one per new side and result that it or base has.

    :param runs: successful runs only
    :param new: names of the other sides
    """
    question = runs.number_rows(QUESTION)
    side = runs["side"]
    parts, tables, first = [], [], 0
    for name in new:
        taken = np.flatnonzero((side == base) | (side == name))
        codes, firsts, inverse = np.unique(question[taken], return_index=True, return_inverse=True)
        in_order = np.argsort(firsts, kind="stable")
        rank = np.empty_like(in_order)
        rank[in_order] = np.arange(len(codes))
        part = runs.take(taken).assign(
            row=first + rank[inverse], is_new=(side[taken] == name).astype(np.intp)
        )
        heads = runs.select(QUESTION).take(taken[firsts[in_order]]).assign(side=name)
        parts.append(part)
        tables.append(heads)
        first += len(codes)
    if not new:
        none = np.array([], dtype=np.intp)
        empty = runs.take(none)
        return _form(empty.assign(row=none, is_new=none), empty.select(["side", *QUESTION]))
    return _form(Frame.joined(parts), Frame.joined(tables))


def _form(observed: Frame, table: Frame) -> Rows:
    count = len(table)
    replication, boots = _replication(observed.take(~observed["is_summary"]), count)
    observed, left_out = _compared(_with_units(observed, replication), replication, count)
    row, value = observed["row"], observed["value"]
    is_log = _all_of(value > 0.0, row, count)
    is_maximum = _all_of(observed["is_maximum"].astype(np.bool_), row, count)
    family = _worst_family(observed, row, count)
    resolution = np.full(count, np.nan)
    np.fmax.at(
        resolution, row, np.where(observed["resolution"] > 0.0, observed["resolution"], np.nan)
    )
    table = table.assign(family=np.array(FAMILY_ORDER, dtype=object)[family], resolution=resolution)
    means = _side_means(np.where(is_log[row], _log(value), value), observed, count)
    scale, divisor = _scales(means, value, row, is_log)
    scaled = np.where(is_log[row], _log(value), value / divisor[row])
    step = np.nan_to_num(resolution)[row]
    names = ["row", "is_new", "boot", "round", "order", "cv", "n", "is_summary", "unit"]
    every = observed.select(names).assign(
        value=scaled, floor=_floors(value, step, is_log[row], divisor[row])
    )
    inner = every.take(~every["is_summary"])
    shown = np.where(is_log[:, None], np.exp(np.where(is_log[:, None], means, 0.0)), means)
    of_maximum = is_maximum[row]
    if of_maximum.any():
        medians = _side_medians(value[of_maximum], observed.take(of_maximum), count)
        shown[is_maximum] = medians[is_maximum]
    return Rows(
        table=table,
        left_out=left_out,
        units=_reduce(inner, is_maximum),
        inner=inner,
        is_log=is_log,
        is_maximum=is_maximum,
        scale=scale,
        base=shown[:, 0],
        new=shown[:, 1],
        replication=replication,
        is_paired=replication == REPLICATIONS.index("rounds"),
        boots=boots,
        is_one_boot_each=_is_one_boot_each(observed, count) & (boots < FEWEST_BOOTS).all(axis=1),
        summaries=every.take(every["is_summary"]),
    )


def add_up(values: npt.ArrayLike, groups: Integers, count: int) -> Floats:
    """Return the sum of the values of each group, shape (count,).

    :param groups: the group of each value, numbered from 0
    :param count: number of groups
    """
    weights = np.asarray(values, dtype=np.float64)
    return np.bincount(groups, weights=weights, minlength=count).astype(np.float64)


def _all_of(flags: Flags, row: Integers, count: int) -> Flags:
    is_whole: Flags = add_up(~flags, row, count) == 0.0
    return is_whole


def _log(value: Floats) -> Floats:
    return np.log(np.where(value > 0.0, value, 1.0))


def _worst_family(observed: Frame, row: Integers, count: int) -> Integers:
    # The weaker family of both sides: a metric that is informational on one side is informational.
    codes = np.array(list(map(FAMILY_ORDER.index, observed["family"].tolist())), dtype=np.intp)
    worst = np.zeros(count, dtype=np.intp)
    np.maximum.at(worst, row, codes)
    return worst


class _Units(Struct, frozen=True, kw_only=True):
    # The independent units of both sides of all rows, in the order of row, side and unit.
    of_run: Integers
    cell: Integers
    unit: Floats

    @classmethod
    def of(cls, observed: Frame) -> "_Units":
        units, code = np.unique(observed["unit"], return_inverse=True)
        cell = 2 * observed["row"] + observed["is_new"]
        numbers, of_run = np.unique(cell * len(units) + code, return_inverse=True)
        number_of_units = max(len(units), 1)
        return cls(
            of_run=of_run, cell=numbers // number_of_units, unit=units[numbers % number_of_units]
        )

    def means(self, values: Floats) -> Floats:
        # Mean over the runs of each unit that have a value; NaN if none has one.
        return _means(values, self.of_run, len(self.cell))

    def maxima(self, values: Floats) -> Floats:
        # Largest value of the runs of each unit.
        largest = np.full(len(self.cell), -np.inf)
        np.maximum.at(largest, self.of_run, values)
        return largest


def _means(values: Floats, groups: Integers, count: int) -> Floats:
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        sums = add_up(values[known], groups[known], count)
        return sums / np.bincount(groups[known], minlength=count)


def _side_means(value: Floats, observed: Frame, count: int) -> Floats:
    # Each unit has the same weight, whatever its number of runs.
    units = _Units.of(observed)
    return _means(units.means(value), units.cell, 2 * count).reshape(count, 2)


def _side_medians(maxima: Floats, observed: Frame, count: int) -> Floats:
    # Median over the largest value of each unit.
    units = _Units.of(observed)
    largest = units.maxima(maxima)
    medians = np.full(2 * count, np.nan)
    for cell in np.unique(units.cell):
        medians[cell] = np.median(largest[units.cell == cell])
    return medians.reshape(count, 2)


def _scales(means: Floats, value: Floats, row: Integers, is_log: Flags) -> tuple[Floats, Floats]:
    # The scale of each row, and the divisor of its values: the largest value if the scale is 0. A
    # mean below the rounding error of its values counts as 0.
    largest = np.zeros(len(means))
    np.maximum.at(largest, row, np.abs(value))
    scale = np.fmax(np.fmax(np.abs(means[:, 0]), np.abs(means[:, 1])), 0.0)
    scale = np.where(scale > np.finfo(np.float64).eps * largest, scale, 0.0)
    divisor = np.where(scale > 0.0, scale, np.where(largest > 0.0, largest, 1.0))
    return np.where(is_log, 1.0, scale), np.where(is_log, 1.0, divisor)


def _floors(value: Floats, step: Floats, is_log: Flags, scale: Floats) -> Floats:
    # Rounding to steps of u is an error with variance u^2 / 12 (uniform distribution), so a printed
    # number cannot vary less than that, whatever the sample says. On logarithms it is relative to
    # the value, which is at least one step; else to the mean, which is at least one step divided by
    # the number of runs.
    size = np.where(is_log, np.maximum(value, step), np.maximum(scale, step / _MOST_RUNS))
    return (step / size) ** 2 / 12.0


def _replication(inner: Frame, count: int) -> tuple[Integers, Integers]:
    row, is_new = inner["row"], inner["is_new"]
    boots = np.bincount(_distinct(2 * row + is_new, inner["boot"]), minlength=2 * count)
    boots = boots.reshape(count, 2)
    is_boot = (boots >= FEWEST_BOOTS).any(axis=1)
    replication = np.where(is_boot, REPLICATIONS.index("boots"), REPLICATIONS.index("runs"))
    shared = _shared_rounds(row, is_new, inner["round"])
    pairs = np.bincount(_distinct(row[shared], inner["round"][shared]), minlength=count)
    # Rounds in one boot share that boot, so with several boots only one round per boot is a unit.
    fewest = boots.min(axis=1)
    is_round = (pairs >= FEWEST_ROUNDS) & ((fewest < FEWEST_BOOTS) | (pairs <= fewest))
    return np.where(is_round, REPLICATIONS.index("rounds"), replication), boots


def _is_one_boot_each(observed: Frame, count: int) -> Flags:
    # Runs without a boot id may belong to any boot.
    ids = [None if name is None else str(name) for name in plain(observed["boot_id"])]
    numbers = {name: number for number, name in enumerate(sorted({*ids} - {None}, key=str))}
    code = np.array([numbers.get(name, -1) for name in ids], dtype=np.intp)
    cell = 2 * observed["row"] + observed["is_new"]
    first, last = np.full(2 * count, len(numbers)), np.full(2 * count, -1)
    np.minimum.at(first, cell, code)
    np.maximum.at(last, cell, code)
    is_one = ((first == last) & (first >= 0)).reshape(count, 2).all(axis=1)
    boot = first.reshape(count, 2)
    flags: Flags = is_one & (boot[:, 0] != boot[:, 1])
    return flags


def _code(values: Floats) -> tuple[Integers, int]:
    # The index of each value among the distinct values (-1 if missing), and their number.
    known = ~np.isnan(values)
    contents, code_of_known = np.unique(values[known], return_inverse=True)
    code = np.full(len(values), -1, dtype=np.intp)
    code[known] = code_of_known
    return code, len(contents)


def _distinct(groups: Integers, values: Floats) -> Integers:
    # The group of each distinct (group, value) pair; missing values are ignored.
    code, contents = _code(values)
    known = code >= 0
    size = max(contents, 1)
    distinct: Integers = np.unique(groups[known] * size + code[known]) // size
    return distinct


def _shared_rounds(row: Integers, is_new: Integers, rounds: Floats) -> Flags:
    # True for runs in a round that both sides of the row have.
    code, contents = _code(rounds)
    # Code -1 means no round.
    pair, of_run = np.unique(row * (contents + 1) + code + 1, return_inverse=True)
    sides = np.bincount(2 * of_run + is_new, minlength=2 * len(pair)).reshape(-1, 2)
    is_shared: Flags = np.logical_and(sides[:, 0] > 0, sides[:, 1] > 0)
    return (code >= 0) & is_shared[of_run]


def _with_units(observed: Frame, replication: Integers) -> Frame:
    # The independent unit of each run; NaN for a run without a round if rounds are the units.
    kind = replication[observed["row"]]
    unit = np.select(
        [kind == REPLICATIONS.index("boots"), kind == REPLICATIONS.index("rounds")],
        [np.nan_to_num(observed["boot"]), observed["round"]],
        np.arange(len(observed), dtype=np.float64),
    )
    return observed.assign(unit=unit)


def _compared(observed: Frame, replication: Integers, count: int) -> tuple[Frame, Integers]:
    # The runs that are compared, and the number of runs left out because the other side lacks their
    # round.
    row, is_new = observed["row"], observed["is_new"]
    is_round = replication[row] == REPLICATIONS.index("rounds")
    rounds = np.where(is_round, observed["unit"], np.nan)
    is_left_out = is_round & ~_shared_rounds(row, is_new, rounds)
    cells = (2 * row + is_new)[is_left_out]
    left_out = np.bincount(cells, minlength=2 * count).reshape(count, 2)
    return observed.take(~is_left_out), left_out


def _reduce(inner: Frame, is_maximum: Flags) -> Frame:
    # The mean over the runs of each unit, for maxima the largest; its order in time is the mean of
    # the runs' orders.
    units = _Units.of(inner)
    means = {name: units.means(inner[name]) for name in ("value", "floor", "order")}
    largest = units.maxima(inner["value"])
    means["value"] = np.where(is_maximum[units.cell // 2], largest, means["value"])
    return Frame({"row": units.cell // 2, "is_new": units.cell % 2, "unit": units.unit, **means})


def blocks_of(rows: Rows) -> Iterator[Block]:
    """Yield the rows that have values on both sides, grouped by their numbers of values.

    Paired and unpaired rows are in separate blocks. Rows with a published mean are left out.
    """
    units = rows.units
    row, is_new = units["row"], units["is_new"]
    counts = np.bincount(2 * row + is_new, minlength=2 * len(rows)).reshape(len(rows), 2)
    starts = (np.cumsum(counts.ravel()) - counts.ravel()).reshape(counts.shape)
    columns = {name: units[name] for name in ("value", "order", "floor")}
    shapes = np.column_stack((counts, rows.is_paired))
    usable = (counts > 0).all(axis=1) & ~rows.is_summary
    for n_base, n_new, is_paired in np.unique(shapes[usable], axis=0):
        members = np.flatnonzero((shapes == (n_base, n_new, is_paired)).all(axis=1) & usable)
        at_base = starts[members, 0][:, None] + np.arange(n_base)
        at_new = starts[members, 1][:, None] + np.arange(n_new)
        floor = columns["floor"]
        yield Block(
            rows=members,
            base=columns["value"][at_base],
            new=columns["value"][at_new],
            order_base=columns["order"][at_base],
            order_new=columns["order"][at_new],
            floors=np.column_stack((floor[at_base].mean(axis=1), floor[at_new].mean(axis=1))),
            is_paired=bool(is_paired),
        )


def count_units(rows: Rows) -> Floats:
    """Return how many independent values each row has, shape (rows, 2), base first; NaN unknown."""
    cell = 2 * rows.units["row"] + rows.units["is_new"]
    counts = np.bincount(cell, minlength=2 * len(rows)).astype(np.float64)
    published = rows.summaries
    counts[2 * published["row"] + published["is_new"]] = published["n"]
    return counts.reshape(len(rows), 2)
