# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf compare --history``: earlier recordings tell how much few runs vary."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main

MakeBundle = Callable[..., Path]
Capture = pytest.CaptureFixture[str]
# Three runs that happen to be closer to each other than those of this machine usually are.
QUIET = (1.000, 1.002, 0.998)
TYPICAL = (0.985, 1.012, 1.003, 0.991)


def bundle(make_bundle: MakeBundle, path: Path, times: tuple[float, ...], **facts: Any) -> str:
    return str(make_bundle(path, runs=[{"time_s": time} for time in times], **facts))


@pytest.fixture
def sides(make_bundle: MakeBundle, tmp_path: Path) -> list[str]:
    """Write two bundles of three runs that are 1.2% apart."""
    new = tuple(1.012 * time for time in QUIET)
    return [
        bundle(make_bundle, tmp_path / "base.tar", QUIET),
        bundle(make_bundle, tmp_path / "new.tar", new, label="new"),
    ]


@pytest.fixture
def past(make_bundle: MakeBundle, tmp_path: Path) -> list[str]:
    """Write three earlier bundles; return the options that name them."""
    paths = [
        bundle(make_bundle, tmp_path / f"{night}.tar", tuple(scale * time for time in TYPICAL))
        for night, scale in enumerate((1.0, 1.04, 0.97))
    ]
    return [argument for path in paths for argument in ("--history", path)]


def only_row(capsys: Capture) -> dict[str, Any]:
    [row] = json.loads(capsys.readouterr().out)["rows"]
    return dict(row)


def test_a_lucky_calm_is_no_change_where_the_machine_is_known_to_vary(
    sides: list[str], past: list[str], capsys: Capture
) -> None:
    main(["compare", *sides, "--json", "-"])
    alone = only_row(capsys)
    assert (alone["verdict"], alone["method"]) == ("regression", "Welch t on logs")
    main(["compare", *sides, *past, "--json", "-"])
    firm = only_row(capsys)
    assert firm["method"] == "moderated t on logs"
    assert firm["verdict"] == "no-change"
    assert firm["ratio"] == alone["ratio"]


def test_a_recording_of_another_machine_is_refused(
    sides: list[str], make_bundle: MakeBundle, tmp_path: Path, capsys: Capture
) -> None:
    host = {"cpu": {"microcode": "0x1"}}
    other = bundle(make_bundle, tmp_path / "other.tar", TYPICAL, host=host)
    assert main(["compare", *sides, "--history", other]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"schedperf: error: {other}: not comparable with {sides[0]}")
    assert "cpu.microcode differs" in said
    assert said.endswith("leave it out of --history\n")


def test_tables_take_tables(tmp_path: Path, capsys: Capture) -> None:
    def write(name: str, values: tuple[float, ...]) -> str:
        lines = [f"hackbench,,time,s,lower,{value:.5f}" for value in values]
        path = tmp_path / name
        path.write_text("\n".join(["workload,point,metric,unit,better,value", *lines, ""]))
        return str(path)

    sides = [write("base.csv", QUIET), write("new.csv", tuple(1.012 * t for t in QUIET))]
    past = [
        write(f"{night}.csv", tuple(scale * time for time in TYPICAL))
        for night, scale in enumerate((1.0, 1.04, 0.97))
    ]
    options = [argument for path in past for argument in ("--history", path)]
    main(["compare", *sides, *options, "--json", "-"])
    assert only_row(capsys)["method"] == "moderated t on logs"


def test_steps_of_tables_use_the_earlier_recordings_as_rows_do(
    tmp_path: Path, capsys: Capture
) -> None:
    def write(name: str, shifts: dict[str, float], times: tuple[float, ...]) -> str:
        lines = [
            f"{side},hackbench,time,s,lower,{shift * time:.5f}"
            for side, shift in shifts.items()
            for time in times
        ]
        path = tmp_path / name
        path.write_text("\n".join(["side,workload,metric,unit,better,value", *lines, ""]))
        return str(path)

    series = write("series.csv", {"base": 1.0, "a": 1.012, "b": 1.012}, QUIET)
    past = [
        write(f"{night}.csv", {"past": scale}, TYPICAL)
        for night, scale in enumerate((1.0, 1.04, 0.97))
    ]
    options = [argument for path in past for argument in ("--history", path)]
    main(["compare", series, *options, "--json", "-"])
    comparison = json.loads(capsys.readouterr().out)
    assert {row["method"] for row in comparison["rows"]} == {"moderated t on logs"}
    assert comparison["movers"] == []
    [result] = comparison["side_by_side"]
    first, step = result["cells"][1], result["cells"][1]["step"]
    assert [step[name] for name in ("ci_low", "ci_high")] == [first["ci_low"], first["ci_high"]]


def test_data_that_are_given_twice_are_refused(
    sides: list[str], past: list[str], capsys: Capture
) -> None:
    assert main(["compare", *sides, *past, *past[:2]]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"{past[1]}; leave it out of --history\n")
    assert main(["compare", *sides, "--history", sides[0]]) == 2
    assert f"{sides[0]}: contains the same data as" in capsys.readouterr().err


def test_a_directory_of_earlier_boots_tells_how_boots_differ(
    make_bundle: MakeBundle, tmp_path: Path, capsys: Capture
) -> None:
    folder = tmp_path / "earlier"
    folder.mkdir()

    def boot(name: str, scale: float) -> str:
        runs = [{"time_s": scale * time, "boot_id": name} for time in TYPICAL]
        return str(make_bundle(folder / f"{name}.tar", runs=runs, label=name))

    for number, scale in enumerate((1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.0)):
        boot(f"night-{number}", scale)
    # What is compared may be in the directory, too.
    sides = [boot("base", 1.0), boot("new", 1.15)]
    (folder / "notes.txt").write_text("no bundle")
    # Neither may a recording that cannot be used, here the first and the last of the names.
    host = {"cpu": {"microcode": "0x1"}}
    foreign = bundle(make_bundle, folder / "a.tar", TYPICAL, host=host)
    (folder / "z.tar").write_bytes(b"cut")
    assert main(["compare", *sides, "--json", "-"]) == 0
    alone = only_row(capsys)
    assert (alone["verdict"], alone["boot_sd"]) == (
        "inconclusive",
        {"sd": 0.1, "source": "assumed", "df": None},
    )
    assert main(["compare", *sides, "--history", str(folder), "--json", "-"]) == 1
    out, err = capsys.readouterr()
    assert re.fullmatch(
        rf"schedperf: warning: 2 of 11 recordings in {folder} not used; first: {foreign}: not "
        rf"comparable with {sides[0]} \(cpu\.microcode differs.*\); leave it out of --history\n",
        err,
    )
    [known] = json.loads(out)["rows"]
    assert (known["verdict"], known["boot_sd"]["source"], known["boot_sd"]["df"]) == (
        "regression",
        "history",
        6,
    )
    assert 0.01 < known["boot_sd"]["sd"] < 0.02
    others = tmp_path / "others"
    others.mkdir()
    Path(foreign).rename(others / "a.tar")
    assert main(["compare", *sides, "--history", str(others)]) == 2
    assert f"error: 1 of 1 recordings in {others} not used; " in capsys.readouterr().err


def test_published_boots_without_ids_are_told_apart_by_their_numbers(
    make_bundle: MakeBundle, tmp_path: Path, capsys: Capture
) -> None:
    def write(name: str, scales: Sequence[float], boot_id: str | None) -> str:
        runs = [
            {"time_s": scale * time, "boot": boot, "run": run, "boot_id": boot_id}
            for boot, scale in enumerate(scales)
            for run, time in enumerate(TYPICAL)
        ]
        return str(make_bundle(tmp_path / f"{name}.tar", runs=runs, label=name))

    sides = [write("base", [1.0], "boot-a"), write("new", [1.15], "boot-b")]
    nights = (1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.0)
    past = write("past", nights, None)
    main(["compare", *sides, "--history", past, "--json", "-"])
    known = only_row(capsys)["boot_sd"]
    assert (known["source"], known["df"]) == ("history", 6)
    assert 0.01 < known["sd"] < 0.02
    # Two of these may be of one boot.
    apart = [write(f"night-{at}", [scale], None) for at, scale in enumerate(nights)]
    options = [option for path in apart for option in ("--history", path)]
    main(["compare", *sides, *options, "--json", "-"])
    assert only_row(capsys)["boot_sd"]["source"] == "assumed"


def test_a_directory_without_bundles_is_refused(
    sides: list[str], tmp_path: Path, capsys: Capture
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["compare", *sides, "--history", str(empty)]) == 2
    assert capsys.readouterr().err == (
        f"schedperf: error: {empty}: no bundles in this directory (expected files named *.tar*)\n"
    )


@pytest.mark.parametrize("given", ["60%", "-1%", "no"])
def test_a_deviation_that_is_none_is_refused(sides: list[str], given: str, capsys: Capture) -> None:
    assert main(["compare", *sides, f"--boot-sd={given}"]) == 2
    assert "--boot-sd" in capsys.readouterr().err
