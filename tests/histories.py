# SPDX-License-Identifier: GPL-2.0-or-later
"""Nights, bundles and stores for the tests of the history."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from schedperf.history.store.add import Counts, Options, add
from schedperf.history.store.directory import Directory, open_or_create
from schedperf.history.store.inputs import find_sources
from tests.conftest import bundle_members, write_tar

FIRST_NIGHT = date(2026, 6, 1)
MACHINE = "2x48"
DEFAULTS = Options()


def night_name(number: int) -> str:
    """Return the date of a night, counted from 0."""
    return f"{FIRST_NIGHT + timedelta(days=number):%Y-%m-%d}"


def make_recording(
    path: Path,
    night: str,
    side: str,
    boots: Sequence[Sequence[float]],
    *,
    release: str = "6.18.0",
    printed: Callable[[float], str] | None = None,
    **chosen: Any,
) -> Path:
    """Write a bundle of one kernel in a night.

    :param boots: the times of the runs of each boot
    :param printed: returns what a run of a time prints; None for hackbench
    :param chosen: more of what ``make_bundle`` takes
    """
    runs = [
        {
            "boot": boot,
            "run": run,
            "boot_id": f"{night}-{side}-{boot}",
            "session": f"{night}-{release}",
            "side": side,
            "order": len(times) * boot + run,
            "start": f"{night[:10]}T22:{boot:02d}:{run:02d}.000000Z",
            "time_s": time_s,
            **({} if printed is None else {"stdout": printed(time_s)}),
        }
        for boot, times in enumerate(boots)
        for run, time_s in enumerate(times)
    ]
    manifest = {
        "created": f"{night[:10]}T22:00:00.000000Z",
        "machine": MACHINE,
        **chosen.pop("manifest", {}),
    }
    host = {**chosen.pop("host", {}), "kernel": {"release": release}}
    members = bundle_members(
        runs=chosen.pop("runs", runs), label=side, host=host, manifest=manifest, **chosen
    )
    return write_tar(path, members.items())


def make_night(
    folder: Path,
    number: int,
    *,
    base: float = 0.6,
    new: float = 0.6,
    state: Mapping[str, object] = {},
    releases: Mapping[str, str] = {"base": "6.18.0", "new": "6.19.0"},
) -> Path:
    """Write the folder of a night of ``schedperf night`` with two boots of both kernels."""
    night = night_name(number)
    path = folder / night
    path.mkdir(parents=True)
    for side, level in (("base", base), ("new", new)):
        # As boots differ, but the same in each run of the tests.
        boots = [[level * (1 + 0.001 * ((number * 7 + boot * 3) % 5))] * 2 for boot in range(2)]
        make_recording(path / f"night-{side}.tar", night, side, boots, release=releases[side])
    written = {
        "schema": "schedperf/night/1",
        "id": night,
        "machine": MACHINE,
        "job": "hackbench",
        "outcome": "no regression",
        "verdict": "no-change",
        **state,
    }
    (path / "state.json").write_text(json.dumps(written))
    return path


def add_to(folder: Path, *paths: Path, options: Options = DEFAULTS) -> tuple[Directory, Counts]:
    """Add paths to a store, which is created; fail if something cannot be added."""
    said: list[str] = []
    directory, counts = add_said(folder, said.append, *paths, options=options)
    assert said == []
    return directory, counts


def add_said(
    folder: Path, say: Callable[[str], None], *paths: Path, options: Options = DEFAULTS
) -> tuple[Directory, Counts]:
    """Add paths to a store, which is created."""
    directory, _ = open_or_create(folder)
    return directory, add(directory, find_sources(paths), options, say)


def dump(directory: Directory) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows that are made from decisions, by table."""
    from sqlalchemy import select  # noqa: PLC0415 # only these tests need it

    from schedperf.history.store.tables import REBUILT  # noqa: PLC0415

    database = directory.database(is_read_only=True)
    with database.transaction() as connection:
        rows = {
            table.name: [
                tuple(row)
                for row in connection.execute(select(table).order_by(*table.primary_key.columns))
            ]
            for table in REBUILT
        }
    database.close()
    return rows
