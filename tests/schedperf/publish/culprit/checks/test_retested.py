# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``retested``: what was told before it was measured again (.NET, Bencher) is held."""

from msgspec.structs import replace

from schedperf.publish.culprit.checks.retested import check
from schedperf.publish.culprit.record import Retest
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.records import (
    make_comparison,
    make_culprit,
    make_evidence,
    make_row,
    measured,
    no_change,
)


def test_a_first_detection_alone_is_held() -> None:
    evidence = make_evidence(culprit=make_culprit(retest=None))
    assert failure(check(evidence)).startswith("not retested")


def test_a_retest_on_the_boots_of_the_first_detection_is_held() -> None:
    retest = Retest(result=measured("main"), found=measured("main").comparison)
    evidence = make_evidence(culprit=make_culprit(retest=retest))
    assert "uses boots of the first detection" in failure(check(evidence))


def test_what_is_not_reproduced_is_held() -> None:
    again = make_comparison(no_change(), name="again")
    retest = Retest(result=measured("again"), found=measured("main").comparison)
    evidence = make_evidence(culprit=make_culprit(retest=retest))
    evidence = replace(evidence, comparisons={**evidence.comparisons, again.id: again})
    assert failure(check(evidence)) == "not reproduced: the retest is no-change"


def test_p_must_be_below_1_percent() -> None:
    evidence = make_evidence(make_row(q=0.03))
    assert "p = 0.03" in failure(check(evidence))


def test_the_first_detection_must_be_known() -> None:
    retest = Retest(result=measured("main"), found="f" * 64)
    evidence = make_evidence(culprit=make_culprit(retest=retest))
    assert "is not given" in failure(check(evidence))
