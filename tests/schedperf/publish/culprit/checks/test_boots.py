# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``boots``: a result of one boot, or of sides recorded one after the other, is held."""

import pytest

from schedperf.model.caveats import Caveat, caveat
from schedperf.model.rows import BootSd
from schedperf.publish.culprit.checks.boots import check
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.records import make_evidence, make_row, make_side


@pytest.mark.parametrize(
    ("boots", "said"), [(1, "1 boot "), (3, "3 boots "), (None, "not recorded")]
)
def test_few_boots_are_held(boots: int | None, said: str) -> None:
    sides = (make_side("base", boots=8), make_side("new", boots=boots))
    assert said in failure(check(make_evidence(sides=sides)))


@pytest.mark.parametrize(
    "found",
    [
        caveat("one-boot", side="base"),
        caveat("blocks"),
        caveat("unbalanced", sides=2, rounds=3, cycle=2),
    ],
)
def test_caveats_of_the_design_are_held(found: Caveat) -> None:
    assert failure(check(make_evidence(make_row(caveats=(found,)))))


def test_one_boot_per_side_names_the_deviation_that_was_given() -> None:
    row = make_row(boot_sd=BootSd(sd=0.01, source="given"))
    evidence = make_evidence(row, caveats=(caveat("boot-sd", how="1% (--boot-sd)"),))
    said = "one boot per side: boot-to-boot standard deviation 1% (--boot-sd); record again"
    assert said in failure(check(evidence))


@pytest.mark.parametrize("code", ["one-boot", "boot-sd"])
def test_boots_of_another_side_are_not_held(code: str) -> None:
    of_another = {"one-boot": {"side": "new2"}, "boot-sd": {"how": "10% (assumed)"}}[code]
    assert check(make_evidence(caveats=(caveat(code, **of_another),))).passed


def test_four_boots_pass() -> None:
    sides = (make_side("base", boots=4), make_side("new", boots=4))
    assert check(make_evidence(sides=sides)).passed


def test_an_unknown_order_is_held() -> None:
    row = make_row(values_base=(), values_new=())
    assert "order of the runs not recorded" in failure(check(make_evidence(row)))
