# SPDX-License-Identifier: GPL-2.0-or-later
"""A store of a lab of any size, whose rows are written directly, for tests of its pages."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct
from sqlalchemy import insert

from schedperf.history.nightly import watch_store
from schedperf.history.store.directory import Directory, open_or_create
from schedperf.history.store.tables import INPUT, NIGHT, NIGHT_RUN, RESULT, SERIES
from schedperf.history.store.writer import writing

FIRST = date(2026, 8, 1)


class Shape(Struct, frozen=True, kw_only=True):
    """The size of a lab, and what happens in it.

    :param step: night from which the first result of all machines is slower; None for never
    :param dead: the last machine has no result from this night on
    :param texts: other texts than ordinary ones, by column
    """

    machines: int = 2
    results: int = 3
    nights: int = 45
    step: int | None = None
    size: float = 0.06
    dead: int | None = None
    texts: Mapping[str, str] = {}


def night_of(number: int) -> str:
    """Return the date of a night, counted from 0."""
    return (FIRST + timedelta(days=number)).isoformat()


def revision_of(number: int) -> str:
    """Return the commit of the new kernel of a night."""
    return hashlib.sha1(str(number).encode(), usedforsecurity=False).hexdigest()


def make_lab(folder: Path, shape: Shape, *, watch: bool = True) -> Directory:
    """Write a store with all nights of a lab."""
    directory, _ = open_or_create(folder)
    with writing(directory, print):
        pass
    with directory.database().transaction() as connection:
        results = [*_results(shape)]
        connection.execute(insert(RESULT), [row for row, _ in results])
        connection.execute(insert(SERIES), [row for _, row in results])
    add_nights(directory, shape, range(shape.nights))
    if watch:
        watch_store(directory, print)
    return directory


def add_nights(directory: Directory, shape: Shape, nights: Sequence[int]) -> None:
    """Write some nights of a lab."""
    rows = [row for number in nights for row in _rows(shape, number)]
    runs = [row for number in nights for row in _outcomes(shape, number)]
    with directory.database().transaction() as connection:
        connection.execute(insert(NIGHT), rows)
        connection.execute(insert(NIGHT_RUN), runs)


def add_input(directory: Directory, sha256: str, **columns: Any) -> None:
    """Write the row of a bundle of the first machine."""
    row = {
        "id": 1, "kind": "bundle", "digest": sha256, "sha256": sha256, "bytes": 1,
        "path": "base.tar", "kept": True, "purpose": "night", "role": "new",
        "parser": "1", "machine": "m00",
        "machine_class": machine_of(0, Shape()), **columns,
    }  # fmt: skip
    with directory.database().transaction() as connection:
        connection.execute(insert(INPUT).values(**row))


def machine_of(number: int, shape: Shape) -> str:
    """Return the class of a machine."""
    name = f"{shape.texts.get('machine', 'm')}{number:02d}"
    return f"{name}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def key_of(machine: int, result: int) -> str:
    """Return the key of a series."""
    return hashlib.sha256(f"{machine},{result}".encode()).hexdigest()[:12]


def _results(shape: Shape) -> Iterator[tuple[dict[str, object], dict[str, object]]]:
    texts = shape.texts
    for number in range(shape.machines * shape.results):
        machine, result = divmod(number, shape.results)
        row = {
            "id": number + 1,
            "machine_class": machine_of(machine, shape),
            "workload": texts.get("workload", f"bench{result // 6} -g {result}"),
            "point": texts.get("point", ""),
            "metric": f"{texts.get('metric', 'time')} {result}",
            "unit": "s",
            "better": "lower",
            "family": "primary",
        }
        series = {"id": number + 1, "key": key_of(machine, result), "result_id": number + 1}
        yield row, {**series, "tree": texts.get("tree", "tip")}


def _rows(shape: Shape, number: int) -> Iterator[dict[str, object]]:
    day = FIRST + timedelta(days=number)
    for index in range(shape.machines * shape.results):
        machine, result = divmod(index, shape.results)
        if shape.dead is not None and number >= shape.dead and machine == shape.machines - 1:
            continue
        noise = Random(number * 100_003 + index).gauss(0.0, 0.004)  # noqa: S311 # not for secrets
        is_slower = shape.step is not None and number >= shape.step and result == 0
        size = 1.0 + shape.size if is_slower else 1.0
        yield {
            "series_id": index + 1,
            "position": day.toordinal() * 1000 + 1,
            "revision": shape.texts.get("revision") or revision_of(number),
            "night": day.isoformat(),
            "scale": "log",
            "new": 0.6 * size * math.exp(noise),
            "new_sd": 0.004,
            "new_boots": 4,
            "new_runs": 8,
            "reference": 0.6,
            "reference_sd": 0.004,
            "reference_boots": 4,
            "reference_runs": 8,
            "reference_revision": shape.texts.get("reference", "6.18.0"),
            "environment": "e",
            "reference_environment": "e",
            "parser": "1",
            "program": "p",
            "emulated": False,
        }


def _outcomes(shape: Shape, number: int) -> Iterator[dict[str, object]]:
    for machine in range(shape.machines):
        is_dead = shape.dead is not None and number >= shape.dead and machine == shape.machines - 1
        outcome = "no result: did not boot" if is_dead else "no regression"
        yield {
            "machine": machine_of(machine, shape).rpartition("-")[0],
            "job": shape.texts.get("job", "hackbench"),
            "night": night_of(number),
            "outcome": shape.texts.get("outcome", outcome),
            "failed": is_dead,
            "verdict": None,
            "retest": None,
        }
