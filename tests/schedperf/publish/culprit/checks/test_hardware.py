# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``hardware``: timings of an emulator or a guest are held."""

import pytest

from schedperf.model.caveats import caveat
from schedperf.publish.culprit.checks.hardware import check
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.records import HOST, make_evidence, make_row, make_side


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ({"kind": "qemu", "emulated": True}, "emulated (QEMU TCG): repeat on real hardware"),
        ({"kind": "kvm", "emulated": False}, "measured in a guest (kvm)"),
        ({}, "not recorded"),
    ],
)
def test_machines_that_are_not_real(machine: dict[str, object], said: str) -> None:
    host = {**HOST, "virtualisation": machine}
    sides = (make_side("base"), make_side("new", host=host))
    assert said in failure(check(make_evidence(sides=sides)))


def test_emulated_timings_are_drafted_and_held() -> None:
    row = make_row(
        verdict="inconclusive",
        family="informational",
        caveats=(caveat("emulated", how="QEMU TCG"),),
    )
    assert failure(check(make_evidence(row))).startswith("emulated")
