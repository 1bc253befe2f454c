# SPDX-License-Identifier: GPL-2.0-or-later
"""The reason of most of a change of waiting or blocked time, by the instrumented runs."""

from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.account.main_reason import with_main_reasons
from schedperf.evidence.account.record import AccountPoint, DividedPoint, DividedRow, Part, SubPart
from schedperf.evidence.account.waits import Divided
from tests.account_records import account_point, divided_point, divided_row


def reason_of(
    part: Part, divided: DividedPoint, row: DividedRow, point: AccountPoint | None = None
) -> SubPart | None:
    points = [point or account_point()]
    [found] = with_main_reasons(points, Divided(points=(divided,), rows=(row,)))
    return next(each.mostly for each in found.parts if each.part == part)


@pytest.mark.parametrize(
    ("parts", "changed", "reason"),
    [
        ({"preempted": 0.8, "woken": 0.1}, "preempted", "preempted"),
        ({"preempted": 0.1, "woken": 0.8}, "woken", "woken"),
        ({"preempted": 0.1, "yielded": 0.8}, "yielded", "yielded"),
        ({"throttled": 0.5}, "throttled", "throttled"),
        # Two have half of the sum; the larger one is the main reason.
        ({"preempted": 0.6, "woken": 0.7, "yielded": -0.3}, "woken", "woken"),
        ({"preempted": 0.6, "woken": 0.7, "yielded": -0.3}, "preempted", None),
        # Not significant, too little, of another part, or in the other direction.
        ({"preempted": 0.8, "woken": 0.1}, "woken", None),
        ({"preempted": 0.4, "woken": 0.5}, "preempted", None),
        ({"preempted": 0.1, "io": 0.9}, "io", None),
        ({"preempted": -0.8, "woken": -0.1}, "preempted", None),
        ({"preempted": 0.8, "woken": -0.9}, "preempted", None),
    ],
)
def test_most_of_the_waiting_has_a_reason(parts: Any, changed: Any, reason: str | None) -> None:
    assert reason_of("waiting", divided_point(parts), divided_row(changed)) == reason


def test_the_reason_is_that_of_the_same_point_and_side() -> None:
    parts: Any = {"preempted": 0.8}
    for field in ("point", "workload", "side"):
        other: dict[str, Any] = {field: "other"}
        assert reason_of("waiting", divided_point(parts, **other), divided_row()) is None
        assert reason_of("waiting", divided_point(parts), divided_row(**other)) is None


def test_io_is_the_reason_of_blocked_time() -> None:
    point = account_point()
    parts = [replace(each, contribution=abs(each.contribution)) for each in point.parts]
    rose = replace(point, parts=tuple(parts))
    divided = divided_point({"io": 0.3, "other": 0.1})
    assert reason_of("blocked", divided, divided_row("io"), rose) == "io"
    # In the other direction than in the clean runs.
    assert reason_of("blocked", divided, divided_row("io"), point) is None
