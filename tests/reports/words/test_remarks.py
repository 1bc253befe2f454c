# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said where the CI of a row and the correction for multiple testing seem to disagree."""

from collections.abc import Callable

import pytest

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.verdict import FALSE_DISCOVERY_RATE
from schedperf_reports.blocks import Text
from schedperf_reports.results.benchmarks import benchmarks
from schedperf_reports.words.remarks import explain_correction

MakeRow = Callable[..., Row]

BEGIN = "CI excludes 0, but not significant after correction for multiple testing: "


@pytest.mark.parametrize(
    ("low", "high", "q", "is_listed"),
    [
        (1.01, 1.09, 0.08, True),
        (0.91, 0.99, 0.08, True),
        (1.01, 1.09, FALSE_DISCOVERY_RATE, True),
        (1.01, 1.09, 0.049, False),
        (0.99, 1.09, 0.08, False),
        (1.0, 1.09, 0.08, False),
        (None, None, 0.08, False),
        (1.01, 1.09, None, False),
    ],
)
def test_a_row_is_worth_a_look_if_its_ci_excludes_0_and_it_is_not_significant(
    make_row: MakeRow, *, low: float | None, high: float | None, q: float | None, is_listed: bool
) -> None:
    row = make_row(ci_low=low, ci_high=high, q=q, verdict="inconclusive")
    told = [block.text for block in explain_correction([("time +5.0%", row)])]
    assert told == ([f"{BEGIN}time +5.0%"] if is_listed else [])


def test_three_rows_are_named_and_the_others_counted(make_row: MakeRow) -> None:
    row = make_row(ci_low=1.01, ci_high=1.09, q=0.08)
    [told] = explain_correction([(f"row {n}", row) for n in range(5)])
    assert told.text == f"{BEGIN}row 0, row 1, row 2 and 2 more"


def test_it_stands_below_the_results_with_the_change(
    make_comparison: Callable[..., Comparison], make_row: MakeRow
) -> None:
    near = make_row(
        point="groups=16", ratio=1.05, ci_low=1.01, ci_high=1.09, q=0.08, verdict="inconclusive"
    )
    comparison = make_comparison(rows=(make_row(), near), sweeps=())
    told = [block.text for block in benchmarks(comparison) if isinstance(block, Text)]
    assert f"{BEGIN}hackbench time at groups=16 +5.0%" in told
