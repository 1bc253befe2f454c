# SPDX-License-Identifier: GPL-2.0-or-later
"""The program behind `make bench-verdicts`."""

import csv
import re
from pathlib import Path

import pytest

from bench.verdicts.__main__ import main
from bench.verdicts.gates import Check, check_speed
from bench.verdicts.rivals import RIVALS
from bench.verdicts.speed import Timing
from bench.verdicts.table import gate_lines

CELL = "iid n=3 rows=9"


@pytest.mark.slow
def test_chosen_cells_are_printed_with_all_tools_and_promises(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "scores.csv"
    main(["--quick", "--only", CELL, "--csv", str(path)])
    text = capsys.readouterr().out
    assert re.search(rf"^{CELL} +\d+\.\d\d±", text, re.MULTILINE)
    assert "A/A, families" in text
    assert "compare_runs n=10" in text
    assert all(name in text for name in RIVALS)
    assert max(map(len, text.splitlines())) < 260
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["tool"] for row in rows] == ["schedperf", *RIVALS]
    assert {row["cell"] for row in rows} == {CELL}
    assert 0 <= float(rows[0]["row_alarms"]) < 0.03
    assert rows[0]["power"] == ""


def test_an_unknown_cell_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "no such cell"]) == 2
    assert "no cell's name contains 'no such cell'" in capsys.readouterr().err


def check(value: float, *, error: float | None, is_upper: bool = True) -> Check:
    return Check(gate="g", cell="c", value=value, error=error, limit=0.05, is_upper=is_upper)


def test_a_rate_may_be_two_standard_errors_beyond_its_limit() -> None:
    assert check(0.0599, error=0.005).is_kept
    assert not check(0.0601, error=0.005).is_kept
    assert check(0.0401, error=0.005, is_upper=False).is_kept
    assert not check(0.0399, error=0.005, is_upper=False).is_kept
    assert not check(0.0501, error=None).is_kept


def test_every_cell_that_fails_is_listed_and_the_worst_is_first() -> None:
    lines = list(gate_lines([check(value, error=0.001) for value in (0.01, 0.06, 0.08)]))
    assert lines[1].startswith("FAIL  g")
    assert "1/3 cells" in lines[1]
    assert "8.00" in lines[1]
    assert lines[2].startswith("FAIL")
    assert "6.00" in lines[2]
    assert len(lines) == 3


def test_only_our_own_time_has_a_limit() -> None:
    timings = [
        Timing(name="ours", cpu=201.0, wall=300.0, is_ours=True),
        Timing(name="SciPy", cpu=900.0, wall=900.0, is_ours=False),
    ]
    [found] = check_speed(timings)
    assert found.cell == "ours"
    assert not found.is_kept


def test_a_folder_of_texts_without_runs_is_an_input_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("### run 1\nnothing that a benchmark prints\n")
    assert main(["--texts", str(tmp_path)]) == 2
    assert "no program has 40 runs with a number" in capsys.readouterr().err
