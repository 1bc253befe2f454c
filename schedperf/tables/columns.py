"""What each column of a table of numbers may hold, and what reads its fields."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import pandas as pd

from schedperf.model.comparison import Better, Family
from schedperf.model.numbers import printed_step
from schedperf.tables.consistency import parse_change, parse_mean
from schedperf_collectors.contract import point_key

# More text than this in an error message hides what it is about.
LONGEST_SHOWN = 40

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
# Programs that keep whole numbers as floats write 3.0.
_WHOLE = re.compile(r"[0-9]{1,15}(?:\.0*)?")
_NAME = re.compile(r"[^\s=,]+")
# As papers print it behind a mean: ±1.75%, +/-1.75%.
_SPREAD = re.compile(rf"(?:±|\+/-)?\s*(?P<number>{_NUMBER.pattern})\s*(?P<percent>%)?")


def shown(text: str) -> str:
    """Return a field as an error message shows it."""
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…")


def _name(field: str) -> str:
    if not field:
        raise ValueError("is empty; name it")
    return field


def _point(field: str) -> str:
    parameters: dict[str, str] = {}
    for part in field.split(",") if field else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value or not _NAME.fullmatch(name):
            raise ValueError(f"{shown(part)} is no parameter; write it as clients=8")
        if name in parameters:
            raise ValueError(f"{shown(name)} is there twice; a parameter has one value")
        parameters[name] = value
    return point_key(parameters)


def _choice(*known: str) -> Callable[[str], str]:
    def choose(field: str) -> str:
        if field.lower() not in known:
            raise ValueError(f"{shown(field)} is not known; write {' or '.join(known)}")
        return field.lower()

    return choose


def _family(field: str) -> str:
    # Tables written before the record /2 say "diagnostic".
    known = {"": "primary", "diagnostic": "informational"}
    return _choice(*get_args(Family))(known.get(field.lower(), field))


def _status(field: str) -> str:
    return field.lower() or "ok"


def _number(field: str) -> float | None:
    if not field:
        return None
    if not _NUMBER.fullmatch(field):
        raise ValueError(f"{shown(field)} is not a number; write it as 12.5, or leave it empty")
    number = float(field)
    if not math.isfinite(number):
        raise ValueError(f"{shown(field)} is too large for a number")
    return number


def _whole(field: str) -> float | None:
    if field and not _WHOLE.fullmatch(field):
        raise ValueError(f"{shown(field)} is not a whole number from 0 on; write it as 3")
    return float(field) if field else None


def _count(field: str) -> float | None:
    number = _whole(field)
    if number == 0.0:
        raise ValueError("is 0; leave it empty where it is not known")
    return number


def _resolution(field: str) -> float | None:
    number = _number(field)
    if number is not None and number <= 0.0:
        raise ValueError(f"{shown(field)} is no step; write it as 0.001, or leave it empty")
    return number


def _cv(field: str) -> float | None:
    if not field:
        return None
    match = _SPREAD.fullmatch(field)
    if match is None or (number := _number(match["number"])) is None or number < 0.0:
        raise ValueError(f"{shown(field)} is no spread; write it as 1.75% or 0.0175")
    if match["percent"]:
        return number / 100.0
    # Who writes 1.75 nearly always means percent, and never gets a warning from the result.
    if number >= 1.0:
        raise ValueError(f"{shown(field)} is a fraction, thus {number:.0%}; write 1.75% or 0.0175")
    return number


def _claimed(field: str) -> str | None:
    if field:
        parse_change(field)
    return field or None


def _claimed_mean(field: str) -> str | None:
    if field:
        parse_mean(field)
    return field or None


# Every column that a table may have, and what reads its fields.
COLUMNS: Mapping[str, Callable[[str], object]] = {
    "side": _name,
    "workload": _name,
    "point": _point,
    "metric": _name,
    "unit": str,
    "better": _choice(*get_args(Better)),
    "value": _number,
    "mean": _number,
    "cv": _cv,
    "n": _count,
    "order": _whole,
    "round": _whole,
    "boot": _whole,
    "run": _whole,
    "resolution": _resolution,
    "family": _family,
    "status": _status,
    "claimed": _claimed,
    "claimed_mean": _claimed_mean,
    "note": str,
}
_FLOATS = {"value", "mean", "cv", "n", "order", "round", "boot", "run", "resolution"}


def df_rows(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> pd.DataFrame:
    """Make the table of its rows; every row has ``printed``, its number as it was written."""
    # What is written for people only does not reach the statistics.
    kept = [name for name in COLUMNS if name in {*columns, "point", "status"} - {"note"}]
    runs = pd.DataFrame(
        {
            name: pd.Series(
                [row[name] for row in rows], dtype="float64" if name in _FLOATS else "object"
            )
            for name in kept
        }
    )
    return runs.assign(resolution=_resolutions(runs, [str(row["printed"]) for row in rows]))


def _resolutions(runs: pd.DataFrame, printed: Sequence[str]) -> "pd.Series[float]":
    # A number without a resolution was rounded to its last digit. Programs that write tables drop
    # trailing zeros, so the longest number of a metric tells; and what is counted is exact.
    steps = pd.Series(
        [printed_step(text) if text else math.nan for text in printed], dtype="float64"
    )
    finest = steps.groupby([runs[name] for name in ("workload", "metric", "unit")]).transform("min")
    rounded = finest.where(runs["unit"] != "count")
    return runs["resolution"].fillna(rounded) if "resolution" in runs else rounded
