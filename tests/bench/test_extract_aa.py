# SPDX-License-Identifier: GPL-2.0-or-later
"""From a recorded bundle to the table of A/A runs."""

import csv
from collections.abc import Callable
from pathlib import Path

from bench.verdicts.extract_aa import COLUMNS, write_table
from schedperf.inputs.bundle.open import open_bundle

MakeBundle = Callable[..., Path]


def extract(bundle: Path, path: Path) -> tuple[list[str], list[dict[str, str]]]:
    count = write_table(open_bundle(bundle), path)
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line for line in lines if line.startswith("#")]
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert len(rows) == count
    return comments, rows


def test_every_run_is_a_row_in_the_order_of_time(make_bundle: MakeBundle, tmp_path: Path) -> None:
    runs = [{"time_s": 0.6}, {"time_s": 0.7, "point": {"groups": "1"}}, {"time_s": 0.65}]
    _, rows = extract(make_bundle(tmp_path / "aa.tar", runs=runs), tmp_path / "aa.csv")
    assert list(rows[0]) == COLUMNS
    assert [row["value"] for row in rows] == ["0.6", "0.7", "0.65"]
    assert [row["order"] for row in rows] == ["0", "1", "2"]
    assert {(row["metric"], row["unit"], row["better"]) for row in rows} == {
        ("hackbench time", "s", "lower")
    }


def test_warm_up_and_failed_runs_are_left_out(make_bundle: MakeBundle, tmp_path: Path) -> None:
    runs = [{"time_s": 0.5, "warmup": True}, {"time_s": 0.6}, {"time_s": 0.1, "exit_status": 1}]
    _, rows = extract(make_bundle(tmp_path / "aa.tar", runs=runs), tmp_path / "aa.csv")
    assert [row["value"] for row in rows] == ["0.6"]


def test_the_header_says_where_and_when(make_bundle: MakeBundle, tmp_path: Path) -> None:
    comments, _ = extract(make_bundle(tmp_path / "aa.tar"), tmp_path / "aa.csv")
    text = "\n".join(comments)
    for part in (
        "recorded 2026-11-21",
        "6.12.0-base",
        "Example CPU 9000",
        "hackbench 2.40",
        "load",
    ):
        assert part in text


def test_a_bundle_without_a_machine_still_has_its_numbers(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    comments, rows = extract(make_bundle(tmp_path / "aa.tar", host=None), tmp_path / "aa.csv")
    assert len(rows) == 5
    assert any("machine unknown" in line for line in comments)
