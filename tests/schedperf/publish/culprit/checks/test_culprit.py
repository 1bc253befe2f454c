# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``culprit``: a range, an uncertain bisection (syzkaller#1051), or no revert is held."""

import pytest
from msgspec.structs import replace

from schedperf.publish.culprit.checks.culprit import check
from schedperf.publish.culprit.record import Bisection, Culprit, Revert
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.records import (
    BAD,
    GOOD,
    make_comparison,
    make_culprit,
    make_evidence,
    make_finding,
    make_row,
    measured,
)


def bisected(**fields: object) -> Bisection:
    default = make_culprit().bisection
    assert default is not None
    return replace(default, **fields)


@pytest.mark.parametrize(
    ("culprit", "said"),
    [
        (make_culprit(is_range=True), "the first bad commit is unknown: bisect the range"),
        (make_culprit(bisection=None), "not bisected"),
        (
            make_culprit(bisection=bisected(probability=0.9)),
            "probability of the first bad commit 0.90",
        ),
        (make_culprit(bisection=bisected(probability=None)), "unknown"),
        (make_culprit(bisection=bisected(neighbours_tested=False)), "before and after it"),
        (make_culprit(revert=None), "no revert"),
        (make_culprit(revert=Revert()), "no revert"),
    ],
)
def test_what_is_held(culprit: Culprit, said: str) -> None:
    assert said in failure(check(make_evidence(culprit=culprit)))


def test_a_revert_that_does_not_restore_is_held() -> None:
    evidence = make_evidence()
    revert = make_comparison(make_row(), name="revert")
    evidence = replace(evidence, comparisons={**evidence.comparisons, revert.id: revert})
    assert "does not restore" in failure(check(evidence))


def test_an_alignment_artefact_is_held_until_it_is_known_to_be_one() -> None:
    layout = make_finding(evidence=("layout#sd_llc_id",))
    assert "only the cache-line layout changed" in failure(check(make_evidence(findings=(layout,))))
    assert check(make_evidence(findings=(layout, make_finding()))).passed
    measured_too = make_culprit(forced_alignment=measured("small"))
    assert check(make_evidence(culprit=measured_too, findings=(layout,))).passed


def test_a_revert_may_be_impossible() -> None:
    culprit = make_culprit(revert=Revert(impossible="conflicts with fedcba987654"))
    assert check(make_evidence(culprit=culprit)).passed
    assert (culprit.good.commit, culprit.bad.commit) == (GOOD, BAD)
    assert measured("main") == culprit.main
