# SPDX-License-Identifier: GPL-2.0-or-later
"""The Go benchmark format: every run is a line, and no text breaks a line or joins two results."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.sides import SideSummary
from schedperf_reports.formats import Options
from schedperf_reports.formats.benchfmt import LONGEST_NAME, benchfmt

Make = Callable[..., Comparison]

OPTIONS = Options(width=78, colour=False)


def read(comparison: Comparison) -> tuple[dict[str, str], list[tuple[str, str, float, str]]]:
    """Return the directions of units, and side, name, value and unit of each result line."""
    directions: dict[str, str] = {}
    results = []
    side = ""
    for line in benchfmt(comparison, OPTIONS).splitlines():
        fields = line.split()
        if line.startswith("side: "):
            side = fields[1]
        elif line.startswith("Unit "):
            assert fields[1] not in directions
            directions[fields[1]] = fields[2].removeprefix("better=")
        elif line.startswith("Benchmark"):
            name, iterations, value, unit = fields
            assert iterations == "1"
            results.append((side, name, float(value), unit))
        else:
            assert not line or line.startswith("#") or ": " in line, line
    return directions, results


def test_every_run_of_every_result_is_a_line(make_comparison: Make) -> None:
    comparison = make_comparison()
    directions, results = read(comparison)
    expected = {
        (side, float(f"{value.value:.15g}"))
        for row in comparison.rows
        for side, values in (("base", row.values_base), (row.side, row.values_new))
        for value in values
    }
    assert {(side, value) for side, _, value, _ in results} == expected
    assert set(directions.values()) <= {"lower", "higher"}
    assert {unit for *_, unit in results} == set(directions)


def test_base_is_written_once_for_all_new_sides(
    make_comparison: Make, make_row: Callable[..., Row], make_side: Callable[..., SideSummary]
) -> None:
    row = make_row()
    sides = tuple(make_side(name) for name in ("base", "new", "new2"))
    comparison = make_comparison(rows=(row, replace(row, side="new2")), sides=sides)
    _, results = read(comparison)
    assert [side for side, *_ in results].count("base") == len(row.values_base)
    assert [side for side, *_ in results].count("new2") == len(row.values_new)


def test_a_published_mean_is_one_line_and_a_note_says_so(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    row = replace(make_row(), values_base=(), values_new=(), base=2.0, new=None)
    comparison = make_comparison(rows=(row,))
    assert [result[2] for result in read(comparison)[1]] == [2.0]
    assert "instead of the value of a run: 1\n" in benchfmt(comparison, OPTIONS)


def test_values_have_no_errors_of_rounding(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    values = tuple(replace(run, value=80 * 1e-6) for run in make_row().values_base)
    assert repr(values[0].value) != "8e-05"
    comparison = make_comparison(rows=(replace(make_row(), values_base=values),))
    assert " 1 8e-05 " in benchfmt(comparison, OPTIONS)


def test_names_that_become_alike_stay_two_results(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    row = make_row()
    other = replace(row, workload=f"{row.workload} ".replace(" ", "  "), better="higher")
    directions, results = read(make_comparison(rows=(row, other)))
    assert len({name for _, name, _, _ in results}) == 2
    assert sorted(directions.values()) == ["higher", "lower"]


def test_an_unknown_direction_is_not_written(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    row = replace(make_row(), better="unknown")
    text = benchfmt(make_comparison(rows=(row,)), OPTIONS)
    assert "Unit" not in text
    assert text.count("\nBenchmark") == len(row.values_base) + len(row.values_new)


@pytest.mark.parametrize(
    "text", ["\n", "\r", "\v", "\x85", "\u2028", "\u00a0", "\x1c", "a\nUnit x better=lower", ""]
)
def test_no_text_breaks_a_line(
    make_comparison: Make, replace_texts: Callable[[Comparison, str], Comparison], text: str
) -> None:
    hostile = replace_texts(make_comparison(), f"x{text}y")
    directions, results = read(hostile)
    assert results
    assert len(directions) <= len(hostile.rows)
    texts = benchfmt(replace_texts(make_comparison(), "m" * 1_000_000), OPTIONS)
    assert max(map(len, texts.splitlines())) < 4 * LONGEST_NAME


def test_without_results_there_is_no_line(make_comparison: Make) -> None:
    assert read(make_comparison(rows=())) == ({}, [])
