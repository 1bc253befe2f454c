# SPDX-License-Identifier: GPL-2.0-or-later
"""When the runs of a growing side are enough, and what looking at them costs."""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from schedperf.inputs.bundle.manifest import Sequential, parse_manifest
from schedperf.model.caveats import caveat
from schedperf.model.errors import BundleError
from schedperf.model.rows import BootSd, Row
from schedperf.model.verdict import FEWEST_IN_BLOCKS
from schedperf.stats.sequential import (
    LEVELS_OF_PAIRS,
    NOMINAL_LEVELS,
    decide_look,
    equality_level,
    nominal_level,
    warn_of_blocks,
    warn_of_boots,
)
from schedperf_collectors.contract import MOST_BUDGETED
from schedperf_collectors.recorder.plan import FIRST_LOOK, MAX_RUNS

PLAN = {"against": "0" * 64, "first": 3, "max_runs": 30, "looks": [3, 4, 7], "stopped": "decided"}


def make_row(verdict: str, **values: Any) -> Row:
    """Make a row of which only that counts."""
    plain = dict.fromkeys(Row.__struct_fields__)
    return Row(
        **{
            **plain,
            "verdict": verdict,
            "family": "primary",
            "workload": "./bench",
            "metric": "rate",
            "point": "",
            "n_base": 10,
            "n_new": 3,
            "reason": "worse: -30%",
            "margin": 0.03,
            "caveats": (),
            **values,
        }
    )


@pytest.mark.parametrize(("is_paired", "table"), [(False, NOMINAL_LEVELS), (True, LEVELS_OF_PAIRS)])
def test_levels_fall_with_the_budget_and_cover_every_budget_that_can_be_recorded(
    table: Sequence[tuple[int, float]],
    is_paired: bool,  # noqa: FBT001 # one of two designs
) -> None:
    levels = [
        nominal_level(runs, is_paired=is_paired) for runs in range(FIRST_LOOK, MOST_BUDGETED + 1)
    ]
    assert levels == sorted(levels, reverse=True)
    assert all(0.0 < level < 0.05 for level in levels)
    assert levels[MAX_RUNS - FIRST_LOOK] == dict(table)[MAX_RUNS]
    assert levels[26 - FIRST_LOOK] == levels[30 - FIRST_LOOK]
    assert 0.0 < equality_level(3, is_paired=is_paired) < 0.05
    with pytest.raises(ValueError, match="too many .expected at most 100"):
        nominal_level(MOST_BUDGETED + 1, is_paired=is_paired)


def test_pairs_may_be_decided_before_the_tenth_run() -> None:
    open_pairs = make_row("inconclusive", n_base=3, n_new=3, more_runs=4)
    decision = decide_look([open_pairs], is_paired=True)
    assert decision.text == "open: rate (1 of 1 rows); about 4 more pairs may still be needed"
    assert not decision.is_over
    one_more = decide_look([replace(open_pairs, more_runs=1)], is_paired=True)
    assert "about 1 more pair may still be needed" in one_more.text
    # A side without a value may have one in the next round; two machines stay two machines.
    assert not decide_look([make_row("invalid", n_base=0)], is_paired=True).is_over
    invalid = decide_look([make_row("invalid")], is_paired=True)
    assert invalid.is_over
    assert invalid.text == "more pairs would not give a verdict for rate (1 of 1 rows)"


def test_a_base_of_another_single_boot_is_warned_of_before_the_first_run() -> None:
    warning = str(warn_of_boots({"a"}, "b"))
    assert warning.startswith("base has one boot, which is not the running one; ")
    assert "only changes of about 32% or more can be decided" in warning
    assert warn_of_boots({"a"}, "a") is None
    assert warn_of_boots({"a", "b"}, "c") is None
    assert warn_of_boots({None}, "a") is None


@pytest.mark.parametrize("n_base", [5, 10, 40])
def test_all_looks_together_are_wrong_five_times_in_a_hundred(n_base: int) -> None:
    budget, trials = 12, 4000
    generator = np.random.default_rng(11)
    base = generator.normal(size=(trials, n_base))
    new = generator.normal(size=(trials, budget))
    smallest = np.min(
        [
            stats.ttest_ind(base, new[:, :look], axis=1, equal_var=False).pvalue
            for look in range(3, budget + 1)
        ],
        axis=0,
    )
    allowed = 0.05 + 2.0 * np.sqrt(0.05 * 0.95 / trials)
    # What is corrected for is there, and the correction is enough.
    assert (smallest < 0.05).mean() > 2.0 * allowed
    assert (smallest < nominal_level(budget)).mean() <= allowed


def test_one_row_is_over_when_it_is_decided() -> None:
    decision = decide_look([make_row("regression")])
    assert decision.is_over
    assert decision.text == "decided: rate: regression, worse: -30%"
    assert decide_look([make_row("no-change", point="x=1")]).text.startswith(
        "decided: rate at x=1: no-change"
    )


def test_a_sweep_is_over_when_every_primary_row_is_decided() -> None:
    rows = [make_row("regression"), make_row("no-change"), make_row("improvement")]
    informational = make_row("inconclusive", family="informational")
    decision = decide_look([*rows, informational])
    assert decision.is_over
    assert decision.text == "all 3 rows decided: 1 regression, 1 improvement, 1 no-change"
    still = decide_look([*rows, make_row("inconclusive", point="groups=4")])
    assert not still.is_over
    assert still.text.startswith("open: rate at groups=4 (1 of 4 rows)")


def test_a_line_names_three_open_rows_at_most() -> None:
    rows = [make_row("inconclusive", point=f"groups={number}") for number in range(9)]
    text = decide_look(rows).text
    names = "rate at groups=0, rate at groups=1, rate at groups=2 and 6 more"
    assert text.startswith(f"open: {names} (9 of 9 rows)")


@pytest.mark.parametrize(
    ("n_new", "more_runs", "needed"),
    [
        # Sides recorded one after the other need 10 runs each, whatever the row itself needs.
        (4, None, "; no verdict is possible before run 10"),
        (4, 2, "; no verdict is possible before run 10"),
        (4, 25, "; no verdict is possible before run 10"),
        (9, None, "; no verdict is possible before run 10"),
        (12, 1, "; about 1 more run may still be needed"),
        (12, 3, "; about 3 more runs may still be needed"),
        (12, None, ""),
    ],
)
def test_an_open_row_says_how_many_runs_it_may_still_need(
    n_new: int, more_runs: int | None, needed: str
) -> None:
    row = make_row("inconclusive", n_base=12, n_new=n_new, more_runs=more_runs)
    decision = decide_look([row])
    assert not decision.is_over
    assert decision.text == f"open: rate (1 of 1 rows){needed}"


@pytest.mark.parametrize("ratio", [1.05, 0.8, None])
def test_runs_do_not_decide_what_two_boots_can_explain(ratio: float | None) -> None:
    of_two_boots = BootSd(sd=0.1, source="assumed")
    row = make_row("inconclusive", n_new=12, ratio=ratio, boot_sd=of_two_boots)
    assert decide_look([row]).is_over
    assert decide_look([row]).text.endswith("rate (1 of 1 rows): one boot per side")
    assert not decide_look([replace(row, ratio=1.5)]).is_over
    # Ranks of runs say nothing of boots, however large the change is.
    assert decide_look([replace(row, ratio=1.5, caveats=(caveat("maxima", side="new"),))]).is_over
    assert decide_look([row], is_paired=True).is_over


def test_runs_decide_a_change_within_the_margin_if_boots_hardly_differ() -> None:
    row = make_row("inconclusive", n_new=12, ratio=1.001)
    given = [BootSd(sd=sd, source="given") for sd in (0.005, 0.02)]
    looks = [decide_look([replace(row, boot_sd=boot_sd)]) for boot_sd in given]
    assert [look.is_over for look in looks] == [False, True]


def test_what_can_never_be_decided_ends_it() -> None:
    few = make_row("inconclusive", n_base=FEWEST_IN_BLOCKS - 1)
    assert decide_look([few]).is_over
    assert decide_look([few]).text == "more runs would not give a verdict for rate (1 of 1 rows)"
    assert decide_look([few, make_row("regression")]).is_over
    assert not decide_look([few] * 4).is_over
    # Points of two metrics are two sweeps, and neither shows enough.
    assert decide_look([few, few, *[replace(few, metric="time")] * 2]).is_over
    assert not decide_look([few, make_row("inconclusive")]).is_over
    assert decide_look([make_row("invalid", n_base=0)]).is_over
    assert decide_look([make_row("invalid")]).is_over
    assert not decide_look([make_row("invalid", n_new=0)]).is_over
    assert decide_look([]).text == "no verdict is possible without a primary result"
    assert decide_look([make_row("regression", family="secondary")]).is_over


def test_few_runs_of_few_rows_are_warned_of_before_the_first_run() -> None:
    assert warn_of_blocks(10, 30, 1) is None
    assert warn_of_blocks(5, 30, 4) is None
    assert str(warn_of_blocks(5, 30, 3)).startswith(
        "base has 5 runs, but sides recorded one after the other"
    )
    assert str(warn_of_blocks(10, 8, 1)).startswith(
        "--max-runs is 8, but sides recorded one after the other"
    )


def manifest_with(sequential: object) -> bytes:
    manifest = {
        "format": "schedperf-bundle",
        "version": {"major": 1, "minor": 0},
        "label": "new",
        "complete": True,
        **{name: [] for name in ("workload", "points", "treatment", "captures")},
        "sequential": sequential,
    }
    return json.dumps(manifest).encode()


def test_the_manifest_tells_of_the_looks() -> None:
    assert parse_manifest(manifest_with(PLAN), "x").sequential == Sequential(
        against="0" * 64, first=3, max_runs=30, looks=(3, 4, 7), stopped="decided"
    )
    assert parse_manifest(manifest_with(None), "x").sequential is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"max_runs": 10**9}, ".max_runs is 1000000000 (expected int <= 100)"),
        ({"max_runs": 2}, ': "first" is 3 (expected at most "max_runs", which is 2)'),
        ({"first": 0}, ".first is 0 (expected int >= 1)"),
        ({"first": "3"}, '.first is "3" (expected int, got str)'),
        ({"max_runs": True}, ".max_runs is true (expected int, got bool)"),
        ({"looks": [3, 3]}, ': invalid "looks" (expected increasing numbers of runs, at most 30)'),
        ({"looks": [0]}, ".looks[0] is 0 (expected int >= 1)"),
        ({"looks": [31]}, ': invalid "looks" (expected increasing numbers of runs, at most 30)'),
        ({"looks": [True]}, ".looks[0] is true (expected int, got bool)"),
        ({"looks": 3}, ".looks is 3 (expected array | null, got int)"),
        ({"against": 1}, ".against is 1 (expected str | null, got int)"),
        ({"stopped": []}, ".stopped is [] (expected str | null, got array)"),
    ],
)
def test_looks_that_no_recorder_writes_are_refused(change: Any, complaint: str) -> None:
    with pytest.raises(BundleError, match=rf"^x: \$\.sequential{re.escape(complaint)}"):
        parse_manifest(manifest_with({**PLAN, **change}), "x")
    with pytest.raises(BundleError, match=r"sequential is 3 \(expected object"):
        parse_manifest(manifest_with(3), "x")
