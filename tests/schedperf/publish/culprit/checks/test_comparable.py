# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``comparable``: invalid results and sides that differ in more than the kernel are held."""

from typing import Any

import pytest

from schedperf.model.sides import Comparability, Difference
from schedperf.publish.culprit.checks.comparable import check
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.records import make_evidence, make_row, make_side


def differing(path: str, severity: Any) -> Comparability:
    difference = Difference(path=path, side="new", base="a", new="b", severity=severity, reason="")
    return Comparability(comparable=True, compared=1, differences=(difference,))


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (
            make_evidence(comparability=differing("cpu.microcode", "blocking")),
            "cpu.microcode differs",
        ),
        (
            make_evidence(comparability=differing("cgroup.depth", "treatment")),
            "cgroup.depth differs, too",
        ),
        (make_evidence(comparability=differing("sched.sched_ext", "noted")), "sched_ext is loaded"),
        (
            make_evidence(make_row(), make_row(metric="other", verdict="invalid")),
            "1 invalid result",
        ),
        (
            make_evidence(sides=(make_side("base"), make_side("new", imported="mmtests"))),
            "imported from mmtests",
        ),
        (
            make_evidence(comparability=Comparability(comparable=True, compared=0, differences=())),
            "the machines are not recorded",
        ),
        (
            make_evidence(
                comparability=Comparability(comparable=False, compared=0, differences=())
            ),
            "not comparable",
        ),
    ],
)
def test_what_is_held(evidence: Any, said: str) -> None:
    assert said in failure(check(evidence))


def test_other_differences_pass() -> None:
    assert check(make_evidence(comparability=differing("kernel.release", "treatment"))).passed
