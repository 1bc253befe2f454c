# SPDX-License-Identifier: GPL-2.0-or-later
"""Late samples are counted above fixed thresholds; maxima are compared by ranks; no means."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.compare.bundles import compare_bundles
from schedperf.evidence import Absent
from schedperf.evidence.realtime.findings import realtime as find
from schedperf.evidence.realtime.findings import unequal_samples
from schedperf.evidence.realtime.measure import LADDER_US, count_above, merge
from schedperf.evidence.realtime.record import Realtime
from schedperf.evidence.realtime.section import realtime
from schedperf.inputs.benchmarks import Latencies
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.sections import data_of
from tests.schedperf.evidence.realtime.conftest import histogram_text, summary_text, tail_runs

Analyse = Callable[..., Any]

FEW = (3, 5, 4, 2, 6, 4)
MANY = (30, 36, 28, 33, 35, 31)


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(realtime)


def exceedances(data: Realtime) -> dict[int, Any]:
    return {round(row.threshold_s * 1e6): row for row in data.exceedances}


def test_late_samples_are_counted_above_each_threshold(analyse: Analyse) -> None:
    data = analyse(tail_runs(FEW), tail_runs(MANY))
    rows = exceedances(data)
    # From the first that few samples exceed to the first that none does.
    assert list(rows) == [5, 10, 20, 50, 100, 200]
    row = rows[100]
    assert (row.above_base, row.above_new) == (sum(FEW) + 6, sum(MANY) + 6)
    assert (row.samples_base, row.samples_new) == (60_000, 60_000)
    assert row.values_base == tuple(count + 1 for count in FEW)
    assert row.changed
    assert row.ratio == pytest.approx((sum(MANY) + 6) / (sum(FEW) + 6))
    assert 1.0 < row.ci_low < row.ratio < row.ci_high
    assert row.share_low_base < row.above_base / 60_000 < row.share_high_base
    none = rows[200]
    assert (none.above_base, none.above_new, none.ratio, none.p) == (0, 0, None, None)
    assert none.share_low_base == 0.0
    assert none.changed is None


def test_a_change_is_found_at_the_longest_threshold_that_shows_it(analyse: Analyse) -> None:
    data = analyse(tail_runs(FEW), tail_runs(MANY))
    [finding] = find(data)
    assert finding.clause == (
        "cyclictest latency is 100 us or longer in 0.33% of samples (199 of 60000) instead of "
        "0.05% of samples (30 of 60000)"
    )
    assert finding.evidence == (f"realtime#{exceedances(data)[100].row}",)


def test_maxima_are_those_of_all_runs_and_tested_by_ranks(analyse: Analyse) -> None:
    data = analyse(tail_runs(FEW), tail_runs(FEW, longest_us=300))
    [row] = data.maxima
    assert (row.base, row.new) == pytest.approx((155e-6, 305e-6))
    # All of six are longer than all of six: 2 of 924 arrangements.
    assert row.p == pytest.approx(2 / 924)
    assert row.changed
    assert row.ci_low < row.ratio < row.ci_high
    clauses = [finding.clause for finding in find(data)]
    assert "the longest cyclictest latency is 305 us instead of 155 us" in clauses


@pytest.mark.parametrize("is_interleaved", [True, False])
def test_the_section_and_the_results_compare_maxima_in_one_way(
    tmp_path: Path, make_bundle: Callable[..., Path], *, is_interleaved: bool
) -> None:
    sides = [tail_runs((*FEW, 3), longest_us=longest) for longest in (150, 152)]
    for side, runs in enumerate(sides):
        for number, run in enumerate(runs):
            turn = {"session": "one", "round": number, "start_monotonic_s": 2.0 * number + side}
            run.update(turn if is_interleaved else {"session": str(side)})
    paths = [
        make_bundle(tmp_path / f"{number}.tar", runs=runs) for number, runs in enumerate(sides)
    ]
    comparison = compare_bundles([open_bundle(path) for path in paths], drawings=False)
    [result] = [row for row in comparison.rows if row.metric == "cyclictest latency max"]
    record = data_of(comparison.sections, Realtime)
    assert record is not None
    [row] = record.maxima
    assert row.replication == ("rounds" if is_interleaved else "runs")
    assert row.ci_low is not None
    assert (row.n_new, row.replication, row.ratio, row.ci_low, row.ci_high) == (
        result.n_new, result.replication, result.ratio, result.ci_low, result.ci_high
    )  # fmt: skip


def test_runs_of_one_boot_are_not_independent(analyse: Analyse) -> None:
    data = analyse(tail_runs(FEW, boots=3), tail_runs(MANY, boots=3))
    row = exceedances(data)[100]
    assert (row.n_base, row.n_new, row.replication) == (3, 3, "boots")
    assert len(row.values_base) == 6
    [maximum] = data.maxima
    assert (maximum.n_base, maximum.replication) == (3, "boots")
    # Three maxima a side prove nothing.
    assert maximum.p is None
    assert maximum.changed is None


def test_runs_that_differ_more_than_poisson_do_not_prove_a_change(analyse: Analyse) -> None:
    steady = analyse(tail_runs((40,) * 6), tail_runs((60,) * 6))
    wild = analyse(tail_runs((2, 110, 4, 1, 120, 3)), tail_runs((5, 200, 3, 150, 1, 1)))
    assert exceedances(steady)[100].changed
    assert not exceedances(wild)[100].changed


def test_maxima_of_unequal_numbers_of_samples_are_not_compared(analyse: Analyse) -> None:
    data = analyse(tail_runs(FEW), tail_runs(FEW, samples=20_000, longest_us=300))
    [row] = data.maxima
    assert (row.ratio, row.p, row.changed) == (None, None, None)
    assert row.why_invalid == (
        "10000 samples per run of base, 20000 of new: a maximum grows with the number of samples; "
        "record runs of equal duration"
    )
    [found] = unequal_samples(data)
    assert found.text == (
        "runs of new have 2 times as many latency samples as those of base, and a maximum grows "
        "with the number of samples; record runs of equal duration"
    )
    # Shares of samples can be compared nevertheless.
    assert exceedances(data)[100].p is not None


def test_without_a_histogram_there_are_maxima_only(analyse: Analyse) -> None:
    runs = [{"stdout": summary_text(10_000, 150 + step)} for step in range(6)]
    data = analyse(runs, runs)
    assert len(data.maxima) == 1
    # Thresholds above all maxima are known.
    assert [row.threshold_s for row in data.exceedances] == pytest.approx([200e-6])
    assert data.notes[0] == (
        "base: cyclictest latency has no histogram in 6 of 6 runs, so samples above thresholds "
        "cannot be counted (use cyclictest -h or rtla hist)"
    )


def test_samples_above_the_histogram_are_said(analyse: Analyse) -> None:
    text = histogram_text({4: 9_000, 399: 10}, maximum_us=7_000, above=5)
    data = analyse([{"stdout": text}] * 3, [{"stdout": text}] * 3)
    assert [round(row.threshold_s * 1e6) for row in data.exceedances] == [
        5, 10, 20, 50, 100, 200, 10_000,
    ]  # fmt: skip
    assert exceedances(data)[200].above_base == 45
    assert data.notes[0] == (
        "base: 15 samples of cyclictest latency are above the histogram, which ends at 399 us; "
        "record a histogram with more bins to count them above longer thresholds"
    )


def test_a_side_without_such_a_benchmark_has_no_section(analyse: Analyse) -> None:
    with pytest.raises(Absent, match="no run of new printed latencies of cyclictest or rtla"):
        analyse(tail_runs(FEW), [{}])
    with pytest.raises(Absent, match="base and new have no latency in common"):
        analyse(tail_runs(FEW), [{**run, "workload": "other"} for run in tail_runs(FEW)])


@pytest.mark.parametrize(
    ("latencies", "above"),
    [
        # Bins of 5 us: a threshold within a bin is unknown.
        ({"counts": {0: 8, 5: 1, 10: 1}}, {1: None, 5: 2, 10: 1, 20: 0}),
        # Bins in ns.
        ({"counts": {900: 8, 5_000: 2}, "unit_s": 1e-9, "maximum_s": 5_100e-9}, {5: 2, 10: 0}),
        ({"counts": {3: 10}, "width": 1, "above": 2, "maximum_s": 1e-3}, {2: 12, 5: None, 2000: 0}),
        ({"counts": {}, "maximum_s": 1e-3}, {5: None, 2000: 0}),
    ],
)
def test_a_threshold_is_counted_where_it_is_known(
    latencies: dict[str, Any], above: dict[int, int | None]
) -> None:
    known = Latencies(
        **{"name": "a", "samples": 10, "maximum_s": 14e-6, "unit_s": 1e-6, **latencies}
    )
    assert {threshold: count_above(known, threshold) for threshold in above} == above


def test_several_benchmarks_of_one_run_are_added() -> None:
    one = Latencies(name="a", samples=10, maximum_s=1e-5, unit_s=1e-6, counts={1: 9, 10: 1})
    both = merge((one, one))
    assert (both.samples, both.counts) == (20, {1: 18, 10: 2})
    assert merge((one, Latencies(name="a", samples=5, maximum_s=1, unit_s=1e-9))).counts is None
    assert merge((one, replace(one, width=1))).counts is None


def test_thresholds_rise_and_are_the_same_everywhere() -> None:
    assert list(LADDER_US) == sorted(set(LADDER_US))
    assert (LADDER_US[0], LADDER_US[-1], len(LADDER_US)) == (1, 1_000_000, 19)


@pytest.mark.parametrize(
    "text",
    [
        "# Histogram\n000010 000006\n", histogram_text({4: 9}, maximum_us=9)[:-30], "\0" * 99,
        histogram_text({4: 9}, maximum_us=9).replace("000009", "9" * 40),
        histogram_text({4: 9}, maximum_us=9).replace("\n", "\r"), "\u202eT: 0 (",
        '{"cmdline": "cyclictest", "thread": {"0": {"histogram": 5, "max": [], "cycles": {}}}}',
    ],
)  # fmt: skip
def test_damaged_output_has_no_latencies(analyse: Analyse, text: str) -> None:
    with pytest.raises(Absent):
        analyse([{"stdout": text}], [{"stdout": text}])
