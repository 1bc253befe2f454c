# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``size``: the kernel's rule of 5% for micro-benchmarks."""

from schedperf.publish.culprit.checks.size import check
from schedperf.publish.culprit.figures import name_machine
from schedperf.publish.culprit.record import Elsewhere
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.records import make_culprit, make_evidence, make_row, measured

SMALL = make_row(ratio=1.031, ci_low=1.02, ci_high=1.042)


def test_a_small_change_is_held() -> None:
    assert failure(check(make_evidence(SMALL))).startswith("3.1% (expected 5%")


def test_another_machine_agrees() -> None:
    elsewhere = (Elsewhere(result=measured("small"), machine="1-socket EPYC"),)
    evidence = make_evidence(SMALL, culprit=make_culprit(regressed_on=elsewhere))
    assert check(evidence).passed


def test_another_workload_of_the_same_machine_is_no_second_machine() -> None:
    evidence = make_evidence(SMALL)
    same = Elsewhere(result=measured("small"), machine=name_machine(evidence.main_sides[1]))
    evidence = make_evidence(SMALL, culprit=make_culprit(regressed_on=(same,)))
    assert failure(check(evidence)).startswith("3.1%")


def test_a_large_change_passes() -> None:
    assert check(make_evidence(SMALL, make_row())).passed
