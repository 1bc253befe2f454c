# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats.verdicts: rules on numbers that fit on paper."""

import math
from typing import Any

import pytest
from msgspec import structs

from schedperf.model.rows import Family, Row, Verdict
from schedperf.model.sides import Difference
from schedperf.model.units import interval_of, percent, signed
from schedperf.model.verdict import MARGIN, SMALLEST_EFFECT, Reason, decide_overall, reason_of
from schedperf.stats.verdicts import Evidence, decide, lacks_direction

ABSENCE: tuple[Verdict, Reason] = ("inconclusive", reason_of("no results"))


def evidence(**changes: Any) -> Evidence:
    facts: dict[str, Any] = {
        "better": "lower",
        "n_base": 5,
        "n_new": 5,
        "is_log": True,
        "effect": math.log(1.05),
        "ci": (math.log(1.04), math.log(1.06)),
        "equivalence_ci": (math.log(1.045), math.log(1.055)),
        "q": 0.001,
        "steps": None,
    }
    return Evidence(**{**facts, **changes})


def verdict_of(**changes: Any) -> Verdict:
    return decide(evidence(**changes), side="new", margin=MARGIN)[0]


def said(facts: Evidence, side: str = "new") -> tuple[Verdict, str]:
    verdict, reason = decide(facts, side=side, margin=MARGIN)
    return verdict, reason.text


def row(verdict: Verdict, family: Family = "primary", ratio: float | None = 1.05) -> Row:
    return Row(
        side="new", workload="w", point="groups=4", metric="time", unit="s", better="lower",
        family=family, n_base=5, n_new=5, base=1.0, new=1.05, ratio=ratio, ci_low=None,
        ci_high=None, p=None, q=None, margin=MARGIN, verdict=verdict, mde=None, more_runs=None,
        reason=f"because {ratio}", reason_plain="", reason_short="", method="m",
        replication="runs", icc=None, design_effect=None, p_rank=None, rank_ratio=None,
        rank_low=None, rank_high=None, caveats=(), values_base=(), values_new=(),
    )  # fmt: skip


BLOCKING = Difference(
    path="cpu.microcode", side="new", base="0x1", new="0x2", severity="blocking", reason="other CPU"
)


class TestDecide:
    def test_the_effect_must_reach_its_threshold(self) -> None:
        just = math.log1p(SMALLEST_EFFECT)
        wide = (-1.0, 1.0)
        assert verdict_of(effect=just, equivalence_ci=wide) == "regression"
        assert verdict_of(effect=just * 0.999, equivalence_ci=wide) == "inconclusive"

    @pytest.mark.parametrize(("q", "verdict"), [(0.0499, "regression"), (0.05, "inconclusive")])
    def test_q_must_be_below_its_threshold(self, q: float, verdict: Verdict) -> None:
        assert verdict_of(q=q) == verdict

    def test_the_band_is_as_far_from_1_on_both_ends(self) -> None:
        end = math.log1p(MARGIN)
        inside = {"effect": 0.0, "q": 0.9, "equivalence_ci": (-end * 0.999, end * 0.999)}
        assert verdict_of(**inside) == "no-change"
        assert verdict_of(**{**inside, "equivalence_ci": (-end, 0.0)}) == "inconclusive"
        assert verdict_of(**{**inside, "equivalence_ci": (0.0, end)}) == "inconclusive"

    def test_the_reason_has_the_numbers(self) -> None:
        reason = said(evidence())[1]
        assert reason == "worse: +5.0% [+4.0%, +6.0%] (q = 0.001, n = 5+5 runs)"

    def test_the_side_without_values_is_named(self) -> None:
        found = said(evidence(n_new=0), side="new3")
        assert found == ("invalid", "no value recorded in new3")

    def test_an_obstacle_outranks_every_number_but_a_missing_one(self) -> None:
        assert verdict_of(obstacle=reason_of("the machine drifts")) == "inconclusive"
        found = said(evidence(obstacle=reason_of("the machine drifts")))
        assert found[1].endswith("5+5 runs): the machine drifts")
        assert verdict_of(obstacle=reason_of("the machine drifts"), n_new=0) == "invalid"

    def test_what_never_varies_is_exact(self) -> None:
        exact = {"q": None, "ci": (0.5, 0.5), "equivalence_ci": (0.5, 0.5)}
        found = said(evidence(effect=0.5, **exact))
        assert found[0] == "regression"
        assert "exact" in found[1]
        equal = {"q": None, "ci": (0.0, 0.0), "equivalence_ci": (0.0, 0.0)}
        assert verdict_of(effect=0.0, **equal) == "no-change"

    def test_a_higher_value_of_what_should_be_high_is_better(self) -> None:
        assert verdict_of(better="higher") == "improvement"
        down = {"effect": -0.05, "ci": (-0.06, -0.04), "equivalence_ci": (-0.06, -0.04)}
        assert verdict_of(**down) == "improvement"
        assert verdict_of(better="higher", **down) == "regression"

    @pytest.mark.parametrize(
        ("steps", "verdict"), [(1.99, "inconclusive"), (2.0, "regression"), (None, "regression")]
    )
    def test_rounding_needs_two_steps(self, steps: float | None, verdict: Verdict) -> None:
        assert verdict_of(steps=steps) == verdict

    @pytest.mark.parametrize(
        ("replication", "words"),
        [("runs", "5+5 runs"), ("boots", "5+5 boots"), ("rounds", "n = 5 pairs)")],
    )
    def test_the_reason_names_what_was_counted(self, replication: str, words: str) -> None:
        found = said(evidence(replication=replication))
        assert words in found[1]

    def test_an_open_row_says_what_would_settle_it(self) -> None:
        opened = {"q": 0.4, "equivalence_ci": (-1.0, 1.0), "mde": 0.2}
        found = said(evidence(more_runs=7, **opened))
        assert found[1].endswith(
            "smallest detectable change 20% (80% power); about 7 more runs per side would give a "
            "verdict"
        )
        found = said(evidence(more_runs=1, **opened))
        assert found[1].endswith("about 1 more run per side would give a verdict")
        found = said(evidence(replication="boots", **opened))
        assert found[1].endswith("smallest detectable change 20% (80% power)")

    @pytest.mark.parametrize(
        ("changes", "lacks"),
        [
            ({"better": "unknown"}, True),
            ({"better": "unknown", "q": 0.4}, False),
            ({"better": "unknown", "n_new": 1, "ci": None, "q": None}, False),
            ({}, False),
        ],
    )
    def test_more_runs_do_not_state_a_direction(
        self, changes: dict[str, Any], *, lacks: bool
    ) -> None:
        assert lacks_direction(evidence(**changes)) == lacks

    def test_one_unit_has_no_interval(self) -> None:
        bare = {"ci": None, "equivalence_ci": None, "q": None}
        found = said(evidence(n_new=1, **bare))
        assert found == ("inconclusive", "new has 1 run; a CI requires at least 2")

    def test_a_published_mean_says_what_it_lacks(self) -> None:
        bare = {"ci": None, "equivalence_ci": None, "q": None, "n_base": None, "n_new": None}
        found = said(evidence(more_runs=12, **bare))
        assert found[1] == (
            "+5.0%: the number of runs is not recorded; with the recorded standard deviation, "
            "12 runs per side would give a verdict"
        )
        found = said(evidence(**bare))
        assert "the number of runs and the standard deviation are not recorded" in found[1]

    def test_a_share_of_nothing_is_no_share(self) -> None:
        found = said(evidence(effect=None))
        assert found[0] == "inconclusive"
        assert found[1] == "the means of both sides are 0, so a relative change is undefined"

    def test_an_enormous_interval_is_still_a_text(self) -> None:
        found = said(evidence(ci=(-1e9, 1e9), q=0.5))
        assert found[0] == "inconclusive"


class TestOverall:
    def test_a_regression_outranks_everything(self) -> None:
        rows = [row("invalid"), row("regression"), row("improvement")]
        found = decide_overall(rows, blocking=(BLOCKING,), absence=ABSENCE)
        assert (found.verdict, found.exit_status) == ("regression", 1)

    def test_the_largest_change_speaks(self) -> None:
        rows = [row("regression", ratio=1.02), row("regression", ratio=1.4), row("no-change")]
        found = decide_overall(rows, blocking=(), absence=ABSENCE)
        assert found.reason == "time at groups=4: because 1.4; same verdict in 2 of 3 primary rows"

    def test_invalid_outranks_what_was_decided(self) -> None:
        found = decide_overall([row("invalid"), row("improvement")], blocking=(), absence=ABSENCE)
        assert (found.verdict, found.exit_status) == ("invalid", 4)

    def test_a_blocking_difference_is_named_and_counted(self) -> None:
        found = decide_overall([], blocking=(BLOCKING, BLOCKING), absence=ABSENCE)
        assert (found.verdict, found.exit_status) == ("invalid", 4)
        assert found.reason == (
            "cpu.microcode differs (and 1 more field): base 0x1, new 0x2; other CPU"
        )

    def test_workloads_that_differ_are_quoted(self) -> None:
        other = structs.replace(
            BLOCKING, path="workload", base="true", new="hackbench -l 100", reason="x"
        )
        found = decide_overall([], blocking=(other,), absence=ABSENCE)
        assert found.reason == "workloads differ: base true, new `hackbench -l 100`; x"

    def test_a_missing_value_is_none(self) -> None:
        load = structs.replace(BLOCKING, path="load", base=None, new=True, reason="other load")
        found = decide_overall([], blocking=(load,), absence=ABSENCE)
        assert found.reason == "load differs: base none, new yes; other load"

    @pytest.mark.parametrize(
        ("verdicts", "overall"),
        [
            (["no-change", "no-change"], "no-change"),
            (["no-change", "improvement"], "improvement"),
            (["improvement", "inconclusive"], "inconclusive"),
            (["inconclusive", "no-change"], "inconclusive"),
        ],
    )
    def test_all_primary_rows_must_be_decided(
        self, verdicts: list[Verdict], overall: Verdict
    ) -> None:
        rows = [row(verdict) for verdict in verdicts]
        found = decide_overall(rows, blocking=(), absence=ABSENCE)
        assert (found.verdict, found.exit_status) == (overall, 0)

    def test_other_families_have_no_say(self) -> None:
        rows = [row("no-change"), row("regression", "secondary"), row("invalid", "informational")]
        assert decide_overall(rows, blocking=(), absence=ABSENCE).verdict == "no-change"
        assert decide_overall(rows[1:], blocking=(), absence=ABSENCE).reason == "no results"


@pytest.mark.parametrize(
    ("fraction", "change", "text"),
    [
        (0.0, "+0.0%", "0%"),
        (0.372, "+37.2%", "37.2%"),
        (-0.03, "-3.0%", "3%"),
        (0.0004, "+0.0%", "0.04%"),
        (12.345, "+1234%", "1234.5%"),
        (1e9, "+1e+11%", "1e+11%"),
    ],
)
def test_a_change_has_the_digits_of_tables_and_a_percentage_is_short(
    fraction: float, change: str, text: str
) -> None:
    assert signed(fraction) == change
    assert percent(abs(fraction)) == text


def test_a_narrow_interval_has_two_digits() -> None:
    assert interval_of(0.0297, 0.0299) == "[+2.97%, +2.99%]"
    assert interval_of(0.01, 0.03) == "[+1.0%, +3.0%]"
