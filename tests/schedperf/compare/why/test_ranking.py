# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.compare.why.ranking: in which order findings are told, one rule a test."""

from typing import Any, cast

import pytest

from schedperf.compare.why.ranking import rank_findings
from schedperf.model.rows import Row
from schedperf.model.sections import Finding


class FakeRow:
    """What the ranking looks at of a row."""

    def __init__(self, verdict: str, point: str = "", side: str = "new") -> None:
        self.verdict, self.point, self.side, self.family = verdict, point, side, "primary"


def rows(*verdicts: str, point: str = "") -> tuple[Row, ...]:
    return tuple(cast("Row", FakeRow(verdict, point)) for verdict in verdicts)


def make_finding(name: str, **changes: Any) -> Finding:
    values: dict[str, Any] = {
        "id": name, "side": "new", "clause": name, "metric": "", "value": 1.0, "ci": (0.5, 1.5),
        "unit": "pp", "better": None, "n": (5, 5), "evidence": (), "replication": "5+5 runs",
        "attribution": "correlated",
    }  # fmt: skip
    return Finding(**values | changes)


def order(findings: list[Finding], results: tuple[Row, ...] = ()) -> list[str]:
    return [one.id for one in rank_findings(findings, results)]


def test_what_could_not_be_seen_is_no_reason_and_comes_last() -> None:
    findings = [make_finding("blind", bearing="unseen", edges=4), make_finding("fact", value=None)]
    assert order(findings) == ["fact", "blind"]


def test_more_kinds_of_evidence_come_first() -> None:
    sure = make_finding("sure", ci=(0.99, 1.01))
    assert order([sure, make_finding("two", edges=2), make_finding("four", edges=4)]) == [
        "four", "two", "sure",
    ]  # fmt: skip


def test_changes_of_the_workload_come_before_those_of_all_tasks() -> None:
    sure = make_finding("machine", ci=(0.99, 1.01), of_machine=True)
    more = make_finding("more", edges=2, of_machine=True)
    assert order([sure, make_finding("workload"), more]) == ["more", "workload", "machine"]


@pytest.mark.parametrize(
    ("verdicts", "first"),
    [(("regression", "no-change"), "worse"), (("improvement",), "better")],
)
def test_what_moved_with_the_verdict_comes_before_what_has_no_direction(
    verdicts: tuple[str, ...], first: str
) -> None:
    findings = [
        make_finding("none"),
        make_finding("better", value=-1.0, ci=(-1.5, -0.5), better="lower"),
        make_finding("worse", value=-1.0, ci=(-1.5, -0.5), better="higher"),
    ]
    ranked = rank_findings(findings, rows(*verdicts))
    assert [one.id for one in ranked][:2] == [first, "none"]
    assert [one.bearing for one in ranked] == ["reason", "reason", "against"]


def test_another_effect_of_the_change_is_never_a_reason() -> None:
    effect = make_finding("energy", value=40.0, ci=(39.0, 41.0), better="lower", bearing="effect")
    ranked = rank_findings(
        [effect, make_finding("unsure", value=None, ci=None)], rows("regression")
    )
    assert [one.id for one in ranked] == ["unsure", "energy"]
    assert ranked[1].bearing == "effect"


@pytest.mark.parametrize("verdicts", [("regression", "improvement"), ("no-change",), ()])
def test_without_one_direction_of_the_results_nothing_speaks_against_it(
    verdicts: tuple[str, ...],
) -> None:
    findings = [make_finding("a", better="lower"), make_finding("b", better="higher")]
    assert {one.bearing for one in rank_findings(findings, rows(*verdicts))} == {"reason"}


def test_the_results_of_another_side_give_no_direction() -> None:
    [found] = rank_findings([make_finding("a", side="new2", better="higher")], rows("regression"))
    assert found.bearing == "reason"


def test_what_was_seen_at_the_points_that_changed_comes_first() -> None:
    findings = [
        make_finding("elsewhere", evidence=("profile#x/groups=1/PELT",)),
        make_finding("here", evidence=("profile#x/groups=4/PELT",)),
    ]
    assert order(findings, rows("regression", point="groups=4")) == ["here", "elsewhere"]
    assert order(findings, rows("no-change", point="groups=4")) == ["elsewhere", "here"]


def test_the_interval_farthest_from_no_change_comes_first() -> None:
    findings = [
        make_finding("reaches", ci=(-0.1, 2.0)),
        make_finding("fact", value=None, ci=None),
        make_finding("number", ci=None),
        make_finding("wide", ci=(0.6, 1.6)),
        make_finding("narrow", value=-1.0, ci=(-1.01, -0.99)),
        make_finding("exact", ci=(1.0, 1.0)),
    ]
    assert order(findings) == ["exact", "narrow", "wide", "number", "reaches", "fact"]


def test_equal_ones_stay_in_the_order_of_the_rules() -> None:
    assert order([make_finding("b"), make_finding("a")]) == ["b", "a"]


def test_the_order_is_the_same_whichever_side_is_base() -> None:
    # In per cent "large" would be the farther one from one side alone.
    large, small = ("large", (2.0, 4.0)), ("small", (1.2, 1.4))

    def percent(*ends: float) -> tuple[float, ...]:
        return tuple(100.0 * (end - 1.0) for end in ends)

    there = [make_finding(name, unit="%", ci=percent(*ci)) for name, ci in (large, small)]
    back = [
        make_finding(name, unit="%", value=-1.0, ci=percent(1.0 / ci[1], 1.0 / ci[0]))
        for name, ci in (large, small)
    ]
    assert order(there) == order(back) == ["small", "large"]


def test_what_fell_to_nothing_has_the_least_sure_distance() -> None:
    findings = [
        make_finding("nothing", unit="%", value=-90.0, ci=(-100.0, -50.0)),
        make_finding("half", unit="%", value=-50.0, ci=(-60.0, -40.0)),
    ]
    assert order(findings) == ["half", "nothing"]
