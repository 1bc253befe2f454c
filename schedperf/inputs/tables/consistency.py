# SPDX-License-Identifier: GPL-2.0-or-later
"""Check whether a source's claims are consistent with the numbers it prints.

A published table is redundant: it has means beside single runs, or changes beside means. If they
contradict each other, a number was mistyped or belongs to another measurement. Every printed number
represents all numbers that round to it, and a claim also those that truncate to it; only a claim
that none of them satisfies is a contradiction::

    >>> check_claim("-10.70%", 1.579, 1.410, base_step=None, new_step=None)
    >>> check_claim("-4.57%", 1.117, 1.123, base_step=None, new_step=None).text
    'the source states a change of -4.57%, but its numbers yield +0.54%'
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from schedperf.model.caveats import Caveat, caveat
from schedperf.model.errors import InputError
from schedperf.model.frame import Frame, numbers_of, plain

if TYPE_CHECKING:
    import pandas as pd

_NUMBER = r"[+-]?[0-9]{1,12}(?:\.[0-9]{1,12})?"
_CHANGE = re.compile(
    rf"(?P<about>~)?\s*(?P<low>{_NUMBER})\s*%(?:\s*\.\.\s*(?P<high>{_NUMBER})\s*%)?"
)
_MEAN = re.compile(rf"(?P<about>~)?\s*(?P<low>{_NUMBER})")

# Tolerance for decimal fractions that floats cannot represent: an exact bound counts as inside.
TOLERANCE = 1e-12

# Larger numbers are printed with an exponent.
LARGEST_PLAIN = 1e9

# Columns that contain claims: of a change, and of a mean.
_CLAIMS = ("claimed", "claimed_mean")
# Columns that identify a result; `schedperf.stats` groups by the same columns.
_QUESTION = ["comparison", "workload", "point", "metric", "unit", "better"]


class Claim(Struct, frozen=True, kw_only=True):
    """The interval of numbers that a printed number may represent.

    :param low: lower bound; a fraction (-0.107) for a change, in the metric's unit for a mean
    :param high: upper bound, in the same unit
    :param digits: number of decimals that were printed
    """

    low: float
    high: float
    digits: int

    def allows(self, low: float, high: float) -> bool:
        """Return whether the claim may represent a number between ``low`` and ``high``."""
        slack = TOLERANCE * max(abs(low), abs(high), 1.0)
        return low - slack <= self.high and self.low <= high + slack


def parse_change(text: str) -> Claim:
    """Parse a claimed change, new / base - 1: ``-10.70%``, ``~-8%``, ``+1%..+2%``.

    A space may precede the percent sign. The claim represents all numbers that round to it and,
    without ``~``, all numbers that truncate to it.

    :raises InputError: the text has none of these forms
    """
    match = _CHANGE.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"invalid claim {_shown(text)} (expected a change in percent, e.g. -10.70%)"
        )
    return _claim(match, match["high"], unit=0.01)


def parse_mean(text: str) -> Claim:
    """Parse a printed mean: ``286.93``, ``~287``; ``~`` is as in :func:`parse_change`.

    :raises InputError: the text is not a number without exponent
    """
    match = _MEAN.fullmatch(text.strip())
    if match is None:
        raise InputError(f"invalid mean {_shown(text)} (expected a number, e.g. 286.93)")
    return _claim(match, None, unit=1.0)


def _shown(text: str) -> str:
    # An untrusted cell may have any length.
    return repr(text[:40])


def _claim(match: re.Match[str], high: str | None, *, unit: float) -> Claim:
    ends = [Decimal(end) for end in (match["low"], high) if end is not None]
    digits = max(0, *(-int(end.as_tuple().exponent) for end in ends))
    step = Decimal(1).scaleb(-digits)
    # "About" means rounded. Programs round or truncate: awk scripts that print -5.42 for -5.4298
    # are in use, so a number may be up to a whole step farther from 0.
    outwards = step / 2 if match["about"] else step
    low, high_end = min(ends), max(ends)
    below = outwards if low <= 0 else step / 2
    above = outwards if high_end >= 0 else step / 2
    return Claim(low=float(low - below) * unit, high=float(high_end + above) * unit, digits=digits)


def printed_step(value: float) -> float:
    """Return the step of a printed number, at most 1: 0.01 for 286.93, 1 for 12000."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return 10.0 ** min(int(exponent), 0)


def check_claim(
    claimed: str, base: float, new: float, *, base_step: float | None, new_step: float | None
) -> Caveat | None:
    """Return a caveat if no numbers that round to the printed ones have the claimed change.

    :param claimed: in the format of :func:`parse_change`
    :param base: arithmetic mean of base, as printed or computed
    :param new: arithmetic mean of the new side, as printed or computed
    :param base_step: step to which ``base`` is rounded, in its unit; None to derive it from the
        digits
    :param new_step: step to which ``new`` is rounded, as ``base_step``
    :return: None if the claim is consistent, or if ``base`` may be 0
    :raises InputError: ``claimed`` cannot be read
    """
    claim = parse_change(claimed)
    low, high = _rounded(base, base_step)
    if low <= 0.0 <= high:
        return None  # A fraction of 0 is undefined.
    quotients = [
        after / before - 1.0 for after in _rounded(new, new_step) for before in (low, high)
    ]
    if claim.allows(min(quotients), max(quotients)):
        return None
    actual = _write(100.0 * (new / base - 1.0), max(claim.digits, 1))
    sign = "" if actual.startswith("-") else "+"
    return caveat("claim", claimed=claimed.strip(), actual=f"{sign}{actual}%")


def check_mean(
    claimed: str, values: Sequence[float], *, side: str, step: float | None
) -> Caveat | None:
    """Return a caveat if a printed mean cannot be the arithmetic mean of the printed runs.

    Return None if it can.

    :param claimed: in the format of :func:`parse_mean`
    :param values: the printed runs; at least one
    :param side: name of the side, for the caveat
    :param step: step to which the values are rounded, in their unit; None to derive it from the
        digits
    :raises InputError: ``claimed`` cannot be read
    """
    claim = parse_mean(claimed)
    mean = fmean(values)
    low, high = _rounded(mean, _mean_step(values, step))
    if claim.allows(low, high):
        return None
    actual = _write(mean, claim.digits + 1)
    return caveat("claimed-mean", claimed=claimed.strip(), side=side, actual=actual)


def _write(number: float, digits: int) -> str:
    plain = f"{number:.{digits}f}"
    return plain if abs(number) < LARGEST_PLAIN else f"{number:.3g}"


def _rounded(value: float, step: float | None) -> tuple[float, float]:
    half = (printed_step(value) if step is None else step) / 2.0
    return value - half, value + half


def _mean_step(values: Sequence[float], step: float | None) -> float:
    # The error of a mean of rounded numbers is at most the mean of their errors.
    return fmean(printed_step(value) for value in values) if step is None else step


def find_contradictions(
    runs: "Frame | pd.DataFrame", *, base: str
) -> Mapping[tuple[object, ...], tuple[Caveat, ...]]:
    """Check the claims of a table for which it has numbers.

    :param runs: input of :func:`schedperf.stats.compare_runs`; ``claimed`` and ``claimed_mean`` are
        text, or None, NaN or "" without a claim
    :param base: name of the side that the others are compared with
    :return: caveats by ``(comparison, side, workload, point, metric, unit, better)`` of a new side,
        including caveats of base; only of results with a caveat; ``comparison`` is 0 if the table
        has no such column
    :raises InputError: a claim that is checked cannot be read
    """
    table = Frame.of(runs)
    claims = [table[name].tolist() for name in _CLAIMS if name in table]
    is_claiming = [any(map(_text_of, texts)) for texts in zip(*claims, strict=True)]
    if not any(is_claiming):
        return {}
    if "comparison" not in table:
        table = table.assign(comparison=0)
    asked = list(table.rows(_QUESTION))
    claimed_questions = set(itertools.compress(asked, is_claiming))
    questions: dict[tuple[object, ...], dict[str, _Printed]] = {}
    for question, cells in zip(asked, _cells(table), strict=True):
        if question in claimed_questions:
            sides = questions.setdefault(question, {})
            sides.setdefault(cells.side, _Printed()).add(cells)
    contradictions: dict[tuple[object, ...], tuple[Caveat, ...]] = {}
    for (comparison, *key), sides in questions.items():
        for side in (name for name in sides if name != base):
            if caveats := tuple(_contradictions(sides.get(base), sides[side], side)):
                contradictions[comparison, side, *key] = caveats
    return contradictions


class _Cells(NamedTuple):
    # The values of one side in one row of a table; None if missing.
    side: str
    number: float | None
    step: float | None
    claimed: str | None
    claimed_mean: str | None


def _text_of(value: object) -> str | None:
    # A column of numbers has NaN if there is no claim.
    return value if isinstance(value, str) and value else None


def _cells(table: Frame) -> Iterator[_Cells]:
    optional = ("value", "mean", "resolution", *_CLAIMS)
    table = table.assign(**{name: None for name in optional if name not in table})
    value, mean, step, *claims = (table[name] for name in optional)
    number = numbers_of(value)
    number = np.where(np.isnan(number), numbers_of(mean), number)
    if "status" in table:
        number = np.where(table["status"] == "ok", number, np.nan)
    columns = [table["side"].tolist(), plain(number), plain(numbers_of(step))]
    return itertools.starmap(
        _Cells, zip(*columns, *(map(_text_of, texts.tolist()) for texts in claims), strict=True)
    )


@dataclass(kw_only=True, slots=True)
class _Printed:
    # The printed values of one side: its runs or its mean, and the claims about them. A claim about
    # all runs of a side is printed on one of its rows or repeated on each, so claims are keys of a
    # dict, which removes duplicates and keeps their order.
    numbers: list[float] = field(default_factory=list)
    step: float | None = None
    claimed: dict[str, None] = field(default_factory=dict)
    claimed_mean: dict[str, None] = field(default_factory=dict)

    def add(self, cells: _Cells) -> None:
        """Add one row."""
        if cells.number is not None:
            self.numbers.append(float(cells.number))
        if cells.step is not None:
            self.step = max(cells.step, self.step or 0.0)
        for texts, text in ((self.claimed, cells.claimed), (self.claimed_mean, cells.claimed_mean)):
            if text is not None:
                texts[text] = None


def _contradictions(base: _Printed | None, new: _Printed, side: str) -> Iterator[Caveat]:
    for name, printed in (("base", base), (side, new)):
        if printed is not None and printed.numbers:
            for text in printed.claimed_mean:
                if problem := check_mean(text, printed.numbers, side=name, step=printed.step):
                    yield problem
    if base is None or not base.numbers or not new.numbers:
        return
    steps = [_mean_step(printed.numbers, printed.step) for printed in (base, new)]
    means = [fmean(printed.numbers) for printed in (base, new)]
    for text in new.claimed:
        if problem := check_claim(text, *means, base_step=steps[0], new_step=steps[1]):
            yield problem
