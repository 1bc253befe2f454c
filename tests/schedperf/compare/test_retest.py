# SPDX-License-Identifier: GPL-2.0-or-later
"""The comparison of a retest's bundles decides as the retest did, and believes no other levels."""

import math
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.compare.retest import UNKNOWN_PLAN
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.comparison import Comparison
from schedperf.model.errors import BundleError
from schedperf.model.rows import Row
from tests.conftest import bundle_members, write_tar
from tests.retests import NOISE, make_plan, record_boots

PLANS = (make_plan(), make_plan())
RATE = {"name": "rate", "unit": "1/s", "better": "higher", "regex": "Time: ([0-9.]+)"}


def compare(
    folder: Path, change: float, boots: int, plans: Any = PLANS, **chosen: Any
) -> Comparison:
    """Compare bundles whose boots differ by a change.

    :param plans: of base and new
    """
    bundles = []
    for side, factor, plan in zip(("base", "new"), (1.0, 1.0 + change), plans, strict=True):
        times = [0.5 * math.exp(noise) * factor for noise in NOISE[:boots]]
        bundles.append(record_boots(folder / f"{side}.tar", side, times, plan, **chosen))
    return compare_bundles([open_bundle(path) for path in bundles])


def time_of(comparison: Comparison) -> Row:
    [row] = [row for row in comparison.rows if row.metric == "hackbench time"]
    return row


def codes(comparison: Comparison) -> set[str]:
    return {each.code for each in comparison.caveats}


def test_what_is_reproduced_is_a_regression_or_an_improvement(tmp_path: Path) -> None:
    comparison = compare(tmp_path, 0.10, 4)
    row = time_of(comparison)
    assert comparison.overall.verdict == row.verdict == "regression"
    assert row.reason.startswith("worse, reproduced: +10.1% [+7.9%, +12.3%] (one-sided p = ")
    assert row.reason.endswith("level 0.0005, n = 4+4 boots)")
    assert (row.n_base, row.n_new, row.replication) == (4, 4, "boots")
    assert "retest" in codes(comparison)
    plan = make_plan(seen=-0.10, direction="lower")
    assert time_of(compare(tmp_path, -0.10, 4, (plan, plan))).verdict == "improvement"


def test_boots_that_were_added_later_change_nothing(tmp_path: Path) -> None:
    decided, later = (time_of(compare(tmp_path, 0.10, boots)) for boots in (4, 7))
    assert decided.reason == later.reason
    assert len(later.values_new) == 7


def test_what_is_seen_in_no_retest_is_an_ordinary_comparison(tmp_path: Path) -> None:
    # The design would need p < 0.0005 here.
    row = time_of(compare(tmp_path, 0.03, 4, (None, None)))
    assert row.verdict == "regression"
    row = time_of(compare(tmp_path, 0.03, 4))
    assert row.verdict == "inconclusive"


@pytest.mark.parametrize(
    ("change", "boots", "seen", "text"),
    [
        (0.0, 4, 0.10, "not reproduced, smaller than half of what was seen (+10.0%): +0.0% [-2."),
        (0.025, 4, 0.10, "smaller than half of what was seen (+10.0%): +2.5% [+0."),
        (0.008, 16, 0.011, "neither reproduced nor excluded by the last look, at 16 boots per"),
        (0.04, 4, 0.10, "the retest has not ended: 4+4 boots; its next look is at 8 per side"),
        (0.04, 2, 0.10, "the retest has not ended: 2+2 boots; its next look is at 4 per side"),
        # In the other direction, it is not what was seen, however clear it is.
        (-0.20, 4, 0.10, "not reproduced, smaller than half of what was seen (+10.0%): -2"),
    ],
)
def test_what_is_not_reproduced_has_no_verdict(
    change: float, boots: int, seen: float, text: str, tmp_path: Path
) -> None:
    plan = make_plan(seen=seen)
    row = time_of(compare(tmp_path, change, boots, (plan, plan)))
    assert row.verdict == "inconclusive"
    assert text in row.reason
    assert row.more_runs is None


@pytest.mark.parametrize(
    "looks",
    [
        [[4, 0.9999]],
        [[2, 0.0005], [4, 0.0012]],
        [[4, 0.0005], [8, 0.0012], [12, 0.002], [16, 0.5]],
        [[4, 0.0005], [8, 0.0012], [12, 0.002]],
        [],
    ],
)
def test_other_looks_and_levels_are_not_believed(looks: Any, tmp_path: Path) -> None:
    plan = make_plan(looks=looks)
    for plans in ((plan, plan), (None, plan), (plan, make_plan())):
        comparison = compare(tmp_path, 0.10, 4, plans)
        row = time_of(comparison)
        assert (row.verdict, row.reason) == ("inconclusive", UNKNOWN_PLAN)
        assert comparison.overall.verdict == "inconclusive"


@pytest.mark.parametrize(
    "changes",
    [
        {"looks": [[4, 1.0]]},
        {"looks": [[4, 0.0]]},
        {"looks": [[0, 0.01]]},
        {"looks": [[10**9, 0.01]]},
        {"looks": [[4]]},
        {"looks": [[4, 0.01]] * 101},
        {"direction": "lower"},
        {"direction": "both"},
        {"seen": 0},
        {"seen": -1},
        {"seen": 1e300},
        {"step": "x" * 101},
    ],
)
def test_a_hostile_plan_is_one_line(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BundleError) as caught:
        compare(tmp_path, 0.10, 4, (None, make_plan(**changes)))
    assert "manifest.json" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_sides_of_different_retests_are_corrected_for_looks(tmp_path: Path) -> None:
    ordinary = time_of(compare(tmp_path, 0.05, 4, (None, None)))
    assert ordinary.p is not None
    for plans in ((make_plan(), None), (make_plan(), make_plan(seen=0.2))):
        comparison = compare(tmp_path, 0.05, 4, plans)
        row = time_of(comparison)
        assert row.p is not None
        assert row.p > 2 * ordinary.p
        assert "reproduced" not in row.reason
        assert "retest" in codes(comparison)


def test_other_results_do_not_decide(tmp_path: Path) -> None:
    # Both results are read from the same line; a larger rate is better.
    comparison = compare(tmp_path, 0.10, 4, metric=[RATE])
    rows = {row.metric: row for row in comparison.rows}
    assert rows["hackbench time"].family == "primary"
    assert rows["rate"].family == "secondary"
    plan = make_plan(metric="rate")
    comparison = compare(tmp_path, 0.10, 4, (plan, plan), metric=[RATE])
    rows = {row.metric: row for row in comparison.rows}
    assert rows["hackbench time"].family == "secondary"
    assert rows["rate"].reason.startswith("better, reproduced: +10.1%")
    assert comparison.overall.verdict == "improvement"


def test_without_the_retested_result_there_is_no_verdict(tmp_path: Path) -> None:
    plan = make_plan(metric="latency")
    comparison = compare(tmp_path, 0.10, 4, (plan, plan))
    assert comparison.overall.verdict == "inconclusive"


def test_a_manifest_that_is_lost_is_rebuilt_with_the_plan(tmp_path: Path) -> None:
    members = bundle_members(runs=[{"retest": make_plan()}], manifest=None)
    plan = open_bundle(write_tar(tmp_path / "new.tar", members.items())).retest
    assert plan is not None
    assert plan.seen == 0.10
