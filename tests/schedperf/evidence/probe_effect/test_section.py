# SPDX-License-Identifier: GPL-2.0-or-later
"""What instruments cost, on average and in each run, on bundles with known times."""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.probe_effect.section import probe_effect

Analyse = Callable[..., Any]

CLEAN = [{"time_s": time} for time in (0.4, 0.9)]
PERF = {"perf_stat/perf_stat.csv": "", "schedstat/before": ""}


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(probe_effect)


def instrumented(time_s: float, **chosen: Any) -> dict[str, Any]:
    return {"time_s": time_s, "kind": "instrumented", "files": PERF, **chosen}


def test_each_instrumented_run_stands_beside_the_geometric_mean_of_clean_runs(
    analyse: Analyse,
) -> None:
    data = analyse([*CLEAN, instrumented(0.9), instrumented(0.6)], CLEAN)
    assert [run.effects[0].ratio for run in data.runs] == pytest.approx([1.5, 1.0])
    [run, other] = data.runs
    assert (run.side, run.boot, run.run, other.run) == ("base", 0, 2, 3)
    assert run.effects[0].clean == pytest.approx(0.6)
    assert run.effects[0].n_clean == 2


def test_collectors_that_clean_runs_have_as_well_are_no_instruments(analyse: Analyse) -> None:
    clean = [{**run, "files": {"schedstat/before": ""}} for run in CLEAN]
    data = analyse([*clean, instrumented(0.9)], clean)
    assert data.runs[0].collectors == ("perf_stat",)


def test_a_collector_that_failed_disturbed_the_run_and_a_skipped_one_did_not(
    analyse: Analyse,
) -> None:
    path = "boots/0/runs/002/"
    captures = [
        {"collector": "perf_c2c", "path": f"{path}perf_c2c", "status": "failed", "reason": "x"},
        {"collector": "perf_mem", "path": f"{path}perf_mem", "status": "skipped", "reason": "x"},
    ]
    data = analyse([*CLEAN, instrumented(0.9)], [*CLEAN, instrumented(0.9)], captures=captures)
    assert data.runs[0].collectors == ("perf_stat", "schedstat", "perf_c2c")


def test_only_clean_runs_of_the_same_boot_and_point_are_its_measure(analyse: Analyse) -> None:
    points = [{"point": {"groups": "4"}}, {"point": {"groups": "1"}}]
    runs = [
        *({**run, **points[0]} for run in CLEAN),
        {"time_s": 9.0, **points[1]},
        instrumented(0.9, **points[0]),
        instrumented(0.9, **points[0], boot=1),
    ]
    data = analyse(runs, CLEAN)
    effects = {run.boot: run.effects[0] for run in data.runs}
    assert effects[0].ratio == pytest.approx(1.5)
    assert (effects[1].clean, effects[1].ratio, effects[1].n_clean) == (None, None, 0)


def test_values_that_are_not_positive_have_no_ratio(analyse: Analyse) -> None:
    rule = {"name": "slack", "unit": "s", "better": "higher", "regex": r"slack (\S+)"}
    runs = [{"stdout": f"slack {value}\n", "metric": [rule]} for value in (-1.0, 3.0)]
    probed = {"stdout": "slack 2.0\n", "metric": [rule], "kind": "instrumented"}
    [run] = analyse([*runs, probed], runs).runs
    [effect] = run.effects
    assert (effect.value, effect.clean, effect.ratio) == (2.0, 1.0, None)


@pytest.mark.parametrize("factor", [1.2, 1.0])
def test_instrumented_runs_of_both_sides_are_compared_as_clean_runs_are(
    analyse: Analyse, factor: float
) -> None:
    times = (0.60, 0.61, 0.605, 0.609, 0.598)
    sides = [
        [*({"time_s": time} for time in times), *(instrumented(2.0 * by * time) for time in times)]
        for by in (1.0, factor)
    ]
    [found] = analyse(*sides).between
    assert (found.side, found.metric, found.unit) == ("new", "hackbench time", "s")
    assert (found.n_base, found.n_new, found.replication) == (5, 5, "runs")
    assert found.ratio == pytest.approx(factor, rel=1e-3)
    assert found.ci_low < factor < found.ci_high
    assert (found.ci_low > 1.0) is (factor > 1.0)


def test_instrumented_rounds_are_pairs_whatever_drifted(analyse: Analyse) -> None:
    # Each round is slower than the one before by more than the sides differ.
    sides = [
        [
            *CLEAN,
            *(
                instrumented(
                    by * 2.0**number,
                    round=number,
                    order=10 + 2 * number + place,
                )
                for number, by in enumerate(changes)
            ),
        ]
        for place, changes in enumerate([(1.0, 1.0, 1.0, 1.0), (1.2, 1.21, 1.19, 1.2)])
    ]
    [found] = analyse(*sides).between
    assert (found.n_base, found.n_new, found.replication) == (4, 4, "rounds")
    assert 1.15 < found.ci_low < found.ratio < found.ci_high < 1.25


def test_one_instrumented_run_a_side_has_no_interval(analyse: Analyse) -> None:
    data = analyse([*CLEAN, instrumented(0.5)], [*CLEAN, instrumented(0.75)])
    [found] = data.between
    assert found.ratio == pytest.approx(1.5)
    assert (found.ci_low, found.ci_high) == (None, None)


def test_a_side_without_instrumented_runs_is_not_compared_with_them(analyse: Analyse) -> None:
    assert analyse([*CLEAN, instrumented(0.9)], CLEAN).between == ()
    assert analyse(CLEAN, [*CLEAN, instrumented(0.9)]).between == ()


def test_without_both_kinds_of_runs_there_is_nothing_to_say(analyse: Analyse) -> None:
    with pytest.raises(Absent, match="no metric was measured in both clean and instrumented runs"):
        analyse(CLEAN, CLEAN)
