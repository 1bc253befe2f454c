# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the results of the boots of a bundle: one value per boot, or per run of a program."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.inputs.side import name_sides
from schedperf.lab.bisect.store import Chosen, Place
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, list_some
from schedperf.runs.values import ELAPSED, read_run_values

_RESULT = ("workload", "point", "metric")
_MOST_NAMES = 3


def choose_result(path: Path, name: str | None, at: float) -> Chosen | None:
    """Choose the result that decides; None if no run was successful.

    :param name: its name; None to use the only primary one
    :param at: time of the choice, in s since 1970
    :raises InputError: the bundle has no such result, or several, or cannot be read
    """
    bundle = open_bundle(path)
    rows = _rows(bundle)
    if not rows:
        return None
    named = [row for row in rows if (name is None or row["metric"] == name)]
    if name is None:
        named = [row for row in rows if row["family"] == "primary"] or [
            row for row in rows if row["metric"] == ELAPSED.name
        ]
    found = list(dict.fromkeys(tuple(row[key] for key in _RESULT) for row in named))
    if len(found) == 1:
        workload, point, metric = found[0]
        return Chosen(
            at=at,
            workload=workload,
            point=point,
            metric=metric,
            emulated=any(boot.host.virtualisation.emulated for boot in bundle.boots),
        )
    given = "" if name is None else f"--result {clean_line(name)}: "
    if not found:
        known = list(dict.fromkeys(str(row["metric"]) for row in rows))
        raise InputError(
            f"{path}: {given}not found (expected e.g. {list_some(known, _MOST_NAMES)}); name a "
            "result of the command by --result, or state how to read it by --metric"
        )
    results = list_some(
        [" ".join(filter(None, (point, metric))) for _, point, metric in found], _MOST_NAMES
    )
    raise InputError(
        f"{path}: {given}{len(found)} results ({results}; expected one that decides); name one by "
        "--result, and record one point"
    )


def read_values(path: Path, chosen: Chosen, place: Place) -> Sequence[float]:
    """Return the value of each boot in which a run was successful, in their order.

    It is the arithmetic mean of the boot's runs. On this machine, where nothing boots, each run
    counts as a boot.

    :raises InputError: the bundle cannot be read, or a value is not above 0
    """
    units: dict[object, list[float]] = {}
    for row in _rows(open_bundle(path)):
        if tuple(row[key] for key in _RESULT) == (chosen.workload, chosen.point, chosen.metric):
            unit = (row["boot"], row["run"]) if place == "here" else row["boot"]
            units.setdefault(unit, []).append(row["value"])
    values = [sum(each) / len(each) for each in units.values()]
    if any(value <= 0.0 for value in values):
        raise InputError(
            f"{path}: {chosen.metric} has a value of {min(values):g} (expected values above 0, "
            "whose ratios are compared); name another result by --result"
        )
    return values


def read_logs(path: Path, chosen: Chosen, place: Place) -> Sequence[float]:
    """Return the natural logarithms of the values of :func:`read_values`."""
    return [math.log(value) for value in read_values(path, chosen, place)]


def _rows(bundle: Bundle) -> list[dict[str, Any]]:
    table = read_run_values(name_sides([bundle])).table
    return [
        row
        for row in table.records()
        if row["kind"] == "clean" and row["status"] == "ok" and row["value"] is not None
    ]
