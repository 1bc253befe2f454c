# SPDX-License-Identifier: GPL-2.0-or-later
"""Other load that differs between the sides is a caveat and a finding, with its commands."""

from collections.abc import Sequence
from typing import Any

import pytest

from schedperf.evidence.account.other_load import other_load_caveats, other_load_findings
from tests.schedperf.evidence.account.conftest import Analyse, run_of

NOISE = (1.0, 1.02, 0.98, 1.01)


def beside(used_s: float, more: Sequence[dict[str, Any]] = ()) -> list[Any]:
    """Return runs beside a command that uses about this CPU time in s, and others."""
    return [
        run_of(
            changes={
                "others": [{"command": "stress", "cpu_s": used_s * noise}, *more],
                "others_cpu_s": 0.1 * noise + used_s * noise,
            },
            wall_s=1.0,
        )
        for noise in NOISE
    ]


def texts(analyse: Analyse, base: list[Any], new: list[Any]) -> list[str]:
    return [each.text for each in other_load_caveats(analyse(base, new))]


def test_more_load_on_one_side_is_named(analyse: Analyse) -> None:
    [text] = texts(analyse, beside(0.02), beside(4.0))
    assert text == (
        "other commands used 0.1203 s of CPU time per second on base and 4.11 s on new (stress), "
        "which may change the result"
    )
    # Less load may be the reason of an improvement.
    [text] = texts(analyse, beside(4.0), beside(0.02))
    assert "4.11 s of CPU time per second on base and 0.1203 s on new (stress)" in text


@pytest.mark.parametrize(("base_s", "new_s"), [(4.0, 4.0), (0.02, 0.03)])
def test_equal_load_and_a_small_difference_are_no_caveat(
    analyse: Analyse, base_s: float, new_s: float
) -> None:
    assert texts(analyse, beside(base_s), beside(new_s)) == []


def test_a_difference_that_noise_may_explain_is_no_caveat(analyse: Analyse) -> None:
    new = beside(0.02)
    new[0] = beside(9.0)[0]
    assert texts(analyse, beside(0.02), new) == []


def test_more_load_is_a_finding_with_its_part_of_the_busy_time(analyse: Analyse) -> None:
    data = analyse(beside(0.02), beside(4.0))
    [found] = other_load_findings(data)
    assert found.clause == "other load (stress): 0.1203 s -> 4.11 s of CPU time per second"
    assert found.details == ": stress 0.02005 s -> 4.01 s"
    # The workload itself uses 1 s per second.
    assert found.value == pytest.approx(100.0 * (4.11 - 0.12) / 1.12, rel=0.01)
    assert found.ci is not None
    assert 0.0 < found.ci[0] < (found.value or 0.0) < found.ci[1]
    assert (found.unit, found.n, found.bearing) == ("pp", (4, 4), "reason")
    # Each row that a finding cites is in the section.
    assert found.evidence == (f"account#{data.other_load[0].row}",)
    assert [*other_load_findings(analyse(beside(4.0), beside(4.0)))] == []


def test_small_commands_are_not_named(analyse: Analyse) -> None:
    new = beside(4.0, more=({"command": "sshd", "cpu_s": 0.3}, {"command": "cc", "cpu_s": 0.5}))
    [text] = texts(analyse, beside(0.02), new)
    assert "(stress, cc)" in text
