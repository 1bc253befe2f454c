# SPDX-License-Identifier: GPL-2.0-or-later
"""Maxima of runs are compared by ranks: nothing that is shown or decided is a mean of them."""

import math
from statistics import median

import pytest

from schedperf.model.frame import Frame
from schedperf.stats import JudgedRow, compare_runs

BASE = [70.0, 75.0, 71.0, 90.0, 73.0]
NEW = [170.0, 9000.0, 165.0, 180.0, 172.0]


def judge(
    base: list[float],
    new: list[float],
    *,
    is_interleaved: bool = False,
    boots: tuple[int, ...] | None = None,
) -> JudgedRow:
    rows = [
        {
            "side": side, "workload": "cyclictest", "point": "", "metric": "cyclictest latency max",
            "unit": "s", "better": "lower", "value": value * 1e-6, "is_maximum": True,
            "order": 2 * index + (side == "new"),
            "round": index if is_interleaved else None,
            "boot": 0 if boots is None else boots[index],
        }
        for side, values in (("base", base), ("new", new))
        for index, value in enumerate(values)
    ]  # fmt: skip
    [row] = compare_runs(Frame.of_rows(rows, list(rows[0])), base="base").rows
    return row


def test_sides_are_medians_and_the_change_is_that_of_the_ranks() -> None:
    row = judge(BASE, NEW)
    assert row.base == pytest.approx(median(BASE) * 1e-6)
    assert row.new == pytest.approx(median(NEW) * 1e-6)
    ratios = [new / base for new in NEW for base in BASE]
    assert row.ratio == pytest.approx(median(ratios))
    assert (row.ratio, row.ci_low, row.ci_high) == (row.rank_ratio, row.rank_low, row.rank_high)
    # Two of the 252 arrangements of 5 and 5 are as extreme.
    assert row.p == pytest.approx(2 / 252)
    assert (row.verdict, row.method) == ("regression", "exact Mann-Whitney of maxima")
    assert (row.p_t, row.mde) == (None, None)
    assert any("medians of the maxima" in caveat.text for caveat in row.caveats)


def test_one_outlier_does_not_change_the_sides() -> None:
    row = judge(BASE, [70.5, 75.5, 71.5, 90.5, 73000.0])
    assert row.new == pytest.approx(75.5e-6)
    assert row.verdict == "inconclusive"


@pytest.mark.parametrize(("n", "is_interleaved", "fewest"), [(4, False, 5), (5, True, 6)])
def test_few_runs_have_no_interval(n: int, *, is_interleaved: bool, fewest: int) -> None:
    row = judge(BASE[:n], NEW[:n], is_interleaved=is_interleaved)
    assert (row.verdict, row.ci_low, row.p, row.method) == ("inconclusive", None, None, "none")
    assert f"a CI requires at least {fewest}" in row.reason.sentence
    # No mean of logarithms, which would be larger.
    assert row.ratio == pytest.approx(median(NEW[:n]) / median(BASE[:n]))
    assert row.more_runs is None or row.more_runs >= fewest - n


def test_pairs_are_compared_by_signed_ranks() -> None:
    row = judge([*BASE, 72.0], [*NEW, 168.0], is_interleaved=True)
    assert row.n_base == 6
    assert row.p == pytest.approx(2 / 2**6)
    assert row.method == "exact Wilcoxon of maxima"


def test_the_maximum_of_a_boot_is_that_of_its_runs() -> None:
    row = judge(BASE, NEW, boots=(0, 0, 1, 1, 2))
    assert (row.n_base, row.replication) == (3, "boots")
    assert row.base == pytest.approx(75e-6)
    assert row.new == pytest.approx(180e-6)


def test_equal_maxima_are_no_change() -> None:
    row = judge([70.0] * 5, [70.0] * 5)
    assert row.verdict == "no-change"
    assert row.ratio == pytest.approx(1.0)
    assert math.isclose(row.p or 0.0, 1.0)


def test_among_equal_maxima_the_size_of_an_outlier_does_not_count() -> None:
    tied = [170.0, 170.0, 165.0, 180.0]
    rows = [judge(BASE, [*tied, largest]) for largest in (190.0, 900_000.0)]
    assert [row.method for row in rows] == ["permutation of the ranks of maxima"] * 2
    assert [row.p for row in rows] == [pytest.approx(2 / 252)] * 2


def test_equal_pairs_of_maxima_are_compared_by_signed_ranks() -> None:
    # Two pairs doubled; one became smaller, by the largest factor.
    base = [*BASE, 100_000.0]
    rows = [
        judge(base, [140.0, 150.0, 213.0, 360.0, 365.0, smallest], is_interleaved=True)
        for smallest in (10_000.0, 10.0)
    ]
    assert [row.method for row in rows] == ["permutation of the ranks of maxima"] * 2
    assert rows[0].p == rows[1].p
