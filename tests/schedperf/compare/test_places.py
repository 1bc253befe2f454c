# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.compare.places: the answer of ``ab --probe`` on values whose truth is known."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.compare.places import judge_places
from schedperf.compare.tables import compare_tables
from schedperf.inputs.tables.read import open_table
from schedperf.model.comparison import Comparison
from schedperf.model.places import Places
from schedperf_reports.formats import Options
from schedperf_reports.places import describe_places
from schedperf_reports.standalone import draw_text

NAMES = ("session-autogroup", "session-noautogroup", "root-autogroup", "root-noautogroup")
# Half a per cent apart, so that a shift of a tenth is beyond doubt.
QUIET = (1.0, 1.005, 0.995, 1.002, 0.998, 1.001, 0.999, 1.003)
LOUD = (1.0, 1.3, 0.8, 1.1, 0.7, 1.2, 0.9, 1.25)


def compare(
    folder: Path, means: Sequence[float], factors: Sequence[float] = QUIET, metric: str = "time"
) -> Comparison:
    lines = ["side,workload,metric,unit,better,value"]
    for name, mean in zip(NAMES, means, strict=False):
        lines += [f"{name},hackbench,{metric},s,lower,{mean * factor!r}" for factor in factors]
    path = folder / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return compare_tables([open_table(path, "table")])


def judge(folder: Path, means: Sequence[float], factors: Sequence[float] = QUIET) -> Places:
    return judge_places(compare(folder, means, factors))


def test_a_result_depends_if_one_place_differs(tmp_path: Path) -> None:
    comparison = compare(tmp_path, (1.0, 1.0, 1.05, 0.8))
    places = judge_places(comparison)
    assert places.answer == "yes"
    # The largest change is named, with its numbers.
    rows = {row.side: row for row in comparison.rows}
    last = rows["new3"]
    assert last.ratio == pytest.approx(0.8)
    assert places.sentence.startswith("time -20.0% [-20.")
    assert places.sentence.endswith(
        "] in root-noautogroup (n = 8+8 runs, lower is better); other places that differ: 2 of 3"
    )
    [result] = places.results
    assert [value.place for value in result.values] == list(NAMES)
    first, *others = result.values
    assert (first.ratio, first.verdict, first.n) == (None, None, 8)
    assert first.value == pytest.approx(1.0, abs=1e-3)
    for value, row in zip(others, rows.values(), strict=True):
        assert (value.ratio, value.ci_low, value.ci_high, value.q, value.n, value.verdict) == (
            row.ratio, row.ci_low, row.ci_high, row.q, row.n_new, row.verdict,
        )  # fmt: skip


def test_a_result_does_not_depend_if_all_places_are_equivalent(tmp_path: Path) -> None:
    places = judge(tmp_path, (1.0, 1.001, 0.999, 1.004))
    assert places.answer == "no"
    assert places.sentence.startswith(
        "within +-3% in all other places; largest difference: time +0.4%"
    )


def test_noise_is_not_taken_for_an_answer(tmp_path: Path) -> None:
    places = judge(tmp_path, (1.0, 1.01, 0.99, 1.02), LOUD)
    assert places.answer == "undecided"
    assert "not significant" in places.sentence
    assert "more runs per side would give a verdict" in places.sentence


def test_without_a_value_there_is_no_answer(tmp_path: Path) -> None:
    comparison = compare(tmp_path, (1.0, 1.0))
    places = judge_places(replace(comparison, rows=()))
    assert (places.answer, places.results) == ("invalid", ())
    assert places.sentence == comparison.overall.reason


def test_informational_results_are_shown_and_answer_nothing(tmp_path: Path) -> None:
    comparison = compare(tmp_path, (1.0, 0.5))
    rows = tuple(replace(row, family="informational") for row in comparison.rows)
    places = judge_places(replace(comparison, rows=rows))
    assert places.answer == "invalid"
    [result] = places.results
    assert (result.family, result.values[1].verdict) == ("informational", "improvement")


def test_places_are_tested_together(tmp_path: Path) -> None:
    """The p of a place is corrected for the other places."""
    three = judge(tmp_path, (1.0, 1.0, 1.0, 1.004)).results[0].values[3]
    alone = judge(tmp_path, (1.0, 1.004)).results[0].values[1]
    assert three.ratio == pytest.approx(alone.ratio)
    assert three.q is not None
    assert alone.q is not None
    assert three.q > alone.q


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_text_fits_and_names_every_place(tmp_path: Path, width: int) -> None:
    places = judge(tmp_path, (1.0, 1.0, 1.05, 0.8))
    missing = ["the root cgroup: /x: not writable (run as root, e.g. with sudo)"]
    options = Options(width=width, colour=False, see="schedperf compare")
    text = draw_text("Places", describe_places(places, missing), options)
    assert max(map(len, text.splitlines())) <= width
    assert "depends on the place: " in text
    words = " ".join(text.split())
    for name in NAMES:
        assert name in words
    assert "not tried: the root cgroup: /x: not writable" in words
    assert "corrected for multiple testing" in words
