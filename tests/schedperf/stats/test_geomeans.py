# SPDX-License-Identifier: GPL-2.0-or-later
"""Results have a mean per direction, whose interval their dependence does not narrow."""

import math

import pytest

from schedperf.stats.geomeans import geomeans_of
from tests.reports.comparison_records import make_row


def test_results_of_one_run_do_not_narrow_their_mean() -> None:
    rows = [make_row(metric=f"m{n}", ratio=1.2, ci_low=1.1, ci_high=1.32) for n in range(9)]
    assert not [*geomeans_of(rows)]
    other = make_row(point="groups=9", ratio=1.2, ci_low=1.2, ci_high=1.2)
    (found,) = geomeans_of([*rows, other])
    assert (found.better, found.count) == ("lower", 10)
    assert math.log(found.ci_high / found.ci_low) == pytest.approx(0.9 * math.log(1.32 / 1.1))


def test_what_cannot_be_compared_is_not_in_a_mean() -> None:
    rows = [make_row(point="1"), make_row(point="2", verdict="invalid"), make_row(ratio=None)]
    assert not [*geomeans_of(rows)]
