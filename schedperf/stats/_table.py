"""The table that :func:`schedperf.stats.compare_runs` gets, checked and made complete."""

import math
from collections.abc import Mapping
from typing import get_args

import numpy as np
import pandas as pd

from schedperf.model.comparison import Better, Family
from schedperf.model.errors import InputError

# What makes two runs the same question; ``family`` and ``resolution`` only describe it.
KEY = ["workload", "point", "metric", "unit", "better"]
QUESTION = ["comparison", *KEY]
SUMMARY = ["mean", "cv", "n"]
NUMBERS = ["value", "resolution", "order", "round", "boot", *SUMMARY]

DEFAULTS: Mapping[str, object] = {
    "comparison": 0,
    "value": math.nan,
    "resolution": math.nan,
    "family": "primary",
    "status": "ok",
    "boot": math.nan,
    "round": math.nan,
    "run": math.nan,
    "order": math.nan,
    "claimed": None,
    "claimed_mean": None,
    "mean": math.nan,
    "cv": math.nan,
    "n": math.nan,
}

WORDS: Mapping[str, tuple[str, ...]] = {
    "better": get_args(Better),
    "family": get_args(Family),
}

# Squares of larger numbers leave the range of a float, and no benchmark counts that far.
LARGEST_VALUE = 1e150
# Neither has a table so many runs, nor a benchmark so wide a spread.
MOST_RUNS = 1e9


def complete(runs: pd.DataFrame) -> pd.DataFrame:
    """Fill in the optional columns, with numbers as floats; refuse what is no number.

    ``is_summary`` is added: is ``value`` the published mean of several runs?

    :param runs: as :func:`schedperf.stats.compare_runs` describes it
    :raises InputError: names the column that is missing, or the row with a bad value
    """
    missing = [name for name in ("side", *KEY) if name not in runs]
    if not {"value", "mean"} & set(runs):
        missing.append("value")
    if missing:
        raise InputError(f"runs: no column {missing[0]}; a row a run needs side, {', '.join(KEY)}")
    filled = runs.reset_index(drop=True).astype({"side": str})
    for name in DEFAULTS.keys() - set(filled):
        filled[name] = pd.Series([DEFAULTS[name]] * len(filled), index=filled.index)
    filled["family"] = filled["family"].astype(object).fillna(str(DEFAULTS["family"]))
    for name in NUMBERS:
        filled[name] = _numbers(filled, name)
    filled["is_summary"] = filled["mean"].notna()
    filled["value"] = filled["value"].where(~filled["is_summary"], filled["mean"])
    _refuse_bad_values(filled, runs)
    _refuse_bad_words(filled)
    return filled


def _numbers(table: pd.DataFrame, name: str) -> pd.Series:
    return pd.to_numeric(table[name], errors="coerce").astype(np.float64)


def _refuse_bad_values(table: pd.DataFrame, original: pd.DataFrame) -> None:
    value, is_summary = table["value"].to_numpy(), table["is_summary"].to_numpy()
    bad = (table["status"] == "ok").to_numpy() & ~(np.abs(value) <= LARGEST_VALUE)
    if bad.any():
        place = int(np.argmax(bad))
        shown = original["mean" if is_summary[place] else "value"].iloc[place]
        problem = f"the value of a run is {shown}; leave the run out or mark it as failed"
        raise InputError(f"{_where(table, place)}: {problem}")
    # A spread below zero and half a run are slips of the pen; an empty field is an unknown one.
    spread, number = table["cv"].to_numpy(), table["n"].to_numpy()
    bad = (spread < 0.0) | (spread > MOST_RUNS) | (number < 1.0) | (number > MOST_RUNS)
    bad = (
        is_summary & bad | is_summary & table.duplicated(["side", *QUESTION], keep=False).to_numpy()
    )
    if bad.any():
        place = int(np.argmax(bad))
        problem = (
            f"cv = {spread[place]:g}, n = {number[place]:g} cannot be; a summary needs one row, "
            "with a spread of 0 or more and a number of runs from 1, or none"
        )
        raise InputError(f"{_where(table, place)}: {problem}")


def _refuse_bad_words(table: pd.DataFrame) -> None:
    # A direction that is guessed would turn a regression into an improvement.
    is_ok = (table["status"] == "ok").to_numpy()
    for name, words in WORDS.items():
        bad = is_ok & ~table[name].isin(words).to_numpy()
        if bad.any():
            place = int(np.argmax(bad))
            found = f"{name} is {table[name].iloc[place]}"
            raise InputError(f"{_where(table, place)}: {found}; write {' or '.join(words)}")
    step = table["resolution"].to_numpy()
    if (step > LARGEST_VALUE).any():
        place = int(np.argmax(step > LARGEST_VALUE))
        problem = f"the resolution is {step[place]:g}; leave it out where it is not known"
        raise InputError(f"{_where(table, place)}: {problem}")


def _where(table: pd.DataFrame, place: int) -> str:
    row = table.iloc[place]
    return ", ".join(str(row[name]) for name in ("side", "workload", "point", "metric"))
