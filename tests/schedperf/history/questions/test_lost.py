# SPDX-License-Identifier: GPL-2.0-or-later
"""What has no result: series, machines, and whole nights."""

import json
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from pathlib import Path

from schedperf.history.questions.history import open_history
from schedperf.history.questions.lost import Lost, read_lost
from tests.histories import FIRST_NIGHT, add_to, make_recording, night_name

# The morning after night 20.
TODAY = FIRST_NIGHT + timedelta(days=21)


def write_table(path: Path, series: Mapping[str, Iterable[int]]) -> Path:
    """Write a foreign history: nights with a result by series."""
    lines = ["series,time,value"]
    lines += [
        f"{name},{night_name(each)},1.5" for name, nights in series.items() for each in nights
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def record(folder: Path, machine: str, number: int, **host: object) -> Path:
    """Write a recording of a new kernel."""
    return make_recording(
        folder / f"{machine}-{number}.tar",
        night_name(number),
        "new",
        # Runs with the same results would be copies.
        [[0.6 + 0.001 * ord(machine[0]), 0.61]],
        manifest={"machine": machine},
        host=host,
    )


def lost_of(store: Path, *paths: Path, today: date = TODAY) -> Lost:
    """Return what is lost after paths were added."""
    add_to(store, *paths)
    with open_history(store) as history:
        return read_lost(history, today)


def test_a_series_that_the_last_nights_lack_is_lost(tmp_path: Path) -> None:
    table = write_table(
        tmp_path / "boot.csv",
        {
            "nightly": range(21),
            "ended": [*range(19)],
            # Every fourth night: not lost three nights after its last one.
            "seldom": range(1, 18, 4),
            "seldom and lost": range(0, 17, 4),
        },
    )
    lost = lost_of(tmp_path / "store", table)
    assert [(each.series.metric, each.last, each.nights) for each in lost.series] == [
        ("ended", night_name(18), 2),
        ("seldom and lost", night_name(16), 4),
    ]
    assert lost.followed == 4
    assert (lost.night.night, lost.night.days, lost.night.is_late) == (night_name(20), 1, False)
    # A foreign history has no machine.
    assert lost.machines == ()


def test_the_whole_lab_is_late_by_the_calendar(tmp_path: Path) -> None:
    table = write_table(tmp_path / "boot.csv", {"nightly": range(21)})
    yesterday = lost_of(tmp_path / "store", table, today=TODAY)
    assert not yesterday.night.is_late
    later = lost_of(tmp_path / "store", today=TODAY + timedelta(days=1))
    assert (later.night.is_late, later.night.days) == (True, 2)
    # No night of the lab passed without it.
    assert later.series == ()


def test_series_that_nobody_measures_any_more_are_not_lost(tmp_path: Path) -> None:
    table = write_table(tmp_path / "boot.csv", {"old": range(3), "nightly": range(95)})
    lost = lost_of(tmp_path / "store", table)
    assert (lost.series, lost.followed) == ((), 1)


def test_machines_are_lost_with_all_their_series(tmp_path: Path) -> None:
    paths = [record(tmp_path, "2x48", number) for number in range(4)]
    paths += [record(tmp_path, "4x16", number) for number in range(2)]
    # The memory of this machine was replaced; its earlier class is not lost.
    paths += [record(tmp_path, "1x64", 0, memory={"total_bytes": 1 << 36})]
    paths += [record(tmp_path, "1x64", each, memory={"total_bytes": 1 << 38}) for each in (2, 3)]
    for number in range(4):
        folder = tmp_path / "dead" / night_name(number)
        folder.mkdir(parents=True)
        state = {
            "schema": "schedperf/night/1", "id": night_name(number), "machine": "arm64",
            "job": "hackbench", "outcome": "no result: did not boot", "failed": True,
        }  # fmt: skip
        (folder / "state.json").write_text(json.dumps(state))
    lost = lost_of(tmp_path / "store", *paths, tmp_path / "dead")
    shown = [(each.machine.partition("-")[0], each.last, each.nights) for each in lost.machines]
    assert shown == [("4x16", night_name(1), 2), ("arm64", None, 4)]
    assert {each.series.machine_class.partition("-")[0] for each in lost.series} == {"4x16"}


def test_a_store_without_dates_has_lost_nothing(tmp_path: Path) -> None:
    table = tmp_path / "boot.csv"
    table.write_text("series,order,value\nboot,1,1.5\nboot,2,1.5\n")
    lost = lost_of(tmp_path / "store", table)
    assert (lost.series, lost.machines, lost.followed) == ((), (), 0)
    assert (lost.night.night, lost.night.days, lost.night.is_late) == (None, None, False)


def test_a_night_that_began_today_may_still_get_results(tmp_path: Path) -> None:
    table = write_table(tmp_path / "boot.csv", {"done": range(21), "running": range(20)})
    evening = lost_of(tmp_path / "store", table, today=TODAY - timedelta(days=1))
    assert evening.series == ()
    [morning] = lost_of(tmp_path / "store").series
    assert (morning.series.metric, morning.nights) == ("running", 1)
