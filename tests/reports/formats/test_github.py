# SPDX-License-Identifier: GPL-2.0-or-later
"""Annotations of GitHub workflows: one command per line, whatever the texts are."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf_reports.formats import Options
from schedperf_reports.formats.github import (
    CUT,
    LARGEST_REPORT_BYTES,
    LEVELS,
    MOST_ERRORS,
    github,
    summary,
)

Make = Callable[..., Comparison]
RunCli = Callable[..., subprocess.CompletedProcess[str]]

OPTIONS = Options(width=78, colour=False)
COMMAND = re.compile(r"::(error|warning|notice) title=([^:,]*)::(.*)")


def commands(comparison: Comparison) -> list[tuple[str, str, str]]:
    lines = github(comparison, OPTIONS).splitlines()
    matches = [COMMAND.fullmatch(line) for line in lines]
    return [(match[1], match[2], match[3]) for match in matches if match]


def test_the_verdict_is_first_then_the_regressions_largest_first(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    rows = tuple(
        replace(make_row(), metric=f"m{number}", ratio=1.0 + 0.01 * number) for number in range(20)
    )
    comparison = make_comparison(rows=rows)
    printed = commands(comparison)
    assert len(printed) == MOST_ERRORS
    assert printed[0][1].startswith("schedperf%3A ")
    assert "regression%3A m19" in printed[1][1]
    assert github(comparison, OPTIONS).splitlines()[-1] == "11 more regressions are in the report"


@pytest.mark.parametrize("verdict", LEVELS)
def test_each_verdict_has_its_level(make_comparison: Make, verdict: str) -> None:
    comparison = make_comparison(rows=())
    overall = replace(comparison.overall, verdict=verdict, reason="50% of it: a, b")
    [(level, title, message)] = commands(replace(comparison, overall=overall))
    assert (level, title) == (dict(LEVELS)[verdict], f"schedperf%3A {verdict}")  # type: ignore[index]
    assert message == "50%25 of it: a, b"


@pytest.mark.parametrize(
    "text", ["\n::error::x", "\r\n::warning::", "::", ",file=x", "%0A::", "\x1b"]
)
def test_no_text_is_a_command_or_a_field(
    make_comparison: Make, replace_texts: Callable[[Comparison, str], Comparison], text: str
) -> None:
    expected = len(github(make_comparison(), OPTIONS).splitlines())
    hostile = replace_texts(make_comparison(), f"x{text}y")
    lines = github(hostile, OPTIONS).splitlines()
    assert len(lines) == expected == len(commands(hostile))
    assert not any(re.search("%(?!25|3A|2C)", line) for line in lines)


def test_a_large_report_is_cut_between_paragraphs(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    rows = tuple(replace(make_row(), metric=f"{number} {'m' * 900}") for number in range(800))
    everything = replace(OPTIONS, everything=True)
    text = summary(make_comparison(rows=rows), everything)
    assert len(text.encode()) <= LARGEST_REPORT_BYTES + len(CUT) + 1
    assert text.endswith(f"{CUT}\n")


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    """Return two tables with a regression."""
    files = []
    for name, factor in (("base", 1.0), ("new", 1.5)):
        values = [f"w,m,s,lower,{factor * (1.0 + place / 100)}" for place in range(5)]
        files.append(tmp_path / f"{name}.csv")
        files[-1].write_text("\n".join(["workload,metric,unit,better,value", *values]) + "\n")
    return files


def test_the_report_is_appended_to_the_summary_of_the_step(
    run_cli: RunCli, tables: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = tmp_path / "summary"
    step.write_text("from another command\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    done = run_cli("compare", *tables, "--format", "github")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("::error title=schedperf%3A regression::m: worse: +50.0%25 ")
    text = step.read_text()
    assert text.startswith("from another command\n- base: ")
    assert "overall: **regression**" in text
    run_cli("compare", *tables, "--format", "csv")
    assert step.read_text() == text


def test_a_summary_that_cannot_be_written_is_one_line(
    run_cli: RunCli, tables: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    done = run_cli("compare", *tables, "--format", "github")
    assert done.returncode == 2
    assert done.stdout.startswith("::error ")
    assert done.stderr.count("\n") == 1
    assert f"GITHUB_STEP_SUMMARY: {tmp_path} cannot be written (is a directory)" in done.stderr
