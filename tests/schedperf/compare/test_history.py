# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf compare --history``: earlier recordings tell how much few runs vary."""

import json
from collections.abc import Callable
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


def test_data_that_are_given_twice_are_refused(
    sides: list[str], past: list[str], capsys: Capture
) -> None:
    assert main(["compare", *sides, *past, *past[:2]]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"{past[1]}; leave it out of --history\n")
    assert main(["compare", *sides, "--history", sides[0]]) == 2
    assert f"{sides[0]}: contains the same data as" in capsys.readouterr().err
