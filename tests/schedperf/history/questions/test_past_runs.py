# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf compare --history STORE``: the store tells how the boots of a machine differ."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.history.questions.history import open_history
from schedperf.history.questions.noise import noise_of
from tests.histories import add_to, make_night, make_recording, night_name

NIGHTS = 8


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of nights with two boots of each kernel; the machine slows each night."""
    root = tmp_path_factory.mktemp("history")
    for number in range(NIGHTS):
        level = 0.5 * 1.02**number
        make_night(root / "nights", number, base=level, new=level)
    return add_to(root / "store", root / "nights")[0].folder


def write_sides(folder: Path, nights: Sequence[int]) -> list[str]:
    """Write bundles of one boot each, recorded in some nights."""
    return [
        str(make_recording(folder / f"{side}.tar", night_name(night), side, [[level] * 3]))
        for side, night, level in zip(("base", "new"), nights, (0.5, 0.52), strict=True)
    ]


def row_of(sides: Sequence[str], store: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    main(["compare", *sides, "--history", str(store), "--json", "-"])
    [row] = json.loads(capsys.readouterr().out)["rows"]
    return dict(row)


def test_boots_of_one_day_differ_as_those_of_the_series(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = row_of(write_sides(tmp_path, (20, 20)), store, capsys)
    with open_history(store) as history:
        [series] = history.series()
        noise = noise_of(series, history.nights(series))
    # One degree of freedom for each kernel and night.
    assert row["boot_sd"] == {
        "sd": pytest.approx(noise.sd_boots),
        "source": "history",
        "df": 2 * NIGHTS,
    }


def test_boots_of_different_days_differ_as_the_days_do(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_day = row_of(write_sides(tmp_path, (20, 20)), store, capsys)["boot_sd"]
    of_days = row_of(write_sides(tmp_path, (20, 21)), store, capsys)["boot_sd"]
    assert of_days["sd"] > 5 * of_day["sd"]
    assert of_days["df"] == 2 * (2 * NIGHTS - 1)


def test_the_compared_bundles_themselves_are_not_used(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = write_sides(tmp_path, (20, 20))
    alone = row_of(sides, store, capsys)
    nights = sorted((store.parent / "nights").iterdir())
    with_both = add_to(tmp_path / "store", *map(Path, sides), *nights)[0].folder
    assert row_of(sides, with_both, capsys) == alone


def test_without_earlier_runs_the_comparison_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = write_sides(tmp_path, (20, 20))
    only = add_to(tmp_path / "store", *map(Path, sides))[0].folder
    main(["compare", *sides, "--history", str(only), "--json", "-"])
    out, err = capsys.readouterr()
    assert err == (
        f"schedperf: warning: {only}: no earlier runs of this machine and workload; "
        "`schedperf history list` shows what it has\n"
    )
    assert json.loads(out)["rows"][0]["boot_sd"]["source"] == "assumed"


def test_a_damaged_store_is_one_line(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "store.toml").write_bytes((store / "store.toml").read_bytes())
    (damaged / "history.db").write_bytes(b"not a database")
    sides = write_sides(tmp_path, (20, 20))
    assert main(["compare", *sides, "--history", str(damaged)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_tables_of_numbers_take_no_store(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "a.csv"
    table.write_text("side,workload,metric,unit,better,value\nbase,a,time,s,lower,1\n")
    assert main(["compare", str(table), "--history", str(store)]) == 2
    assert "a bundle cannot be compared with a table" in capsys.readouterr().err
