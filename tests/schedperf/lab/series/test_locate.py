# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.series.locate: where a change lies, with few recordings."""

from collections.abc import Sequence

import pytest

from schedperf.lab.series.locate import Located, locate

COMMITS = 100


class Fake:
    """A series in which one commit changes a result, and some do not build."""

    def __init__(self, values: Sequence[float], broken: Sequence[int] = ()) -> None:
        self.recorded = {0, len(values) - 1}
        self._values = values
        self._broken = set(broken)

    def record(self, indices: Sequence[int]) -> bool:
        if indices[1] in self._broken:
            return False
        self.recorded.update(indices)
        return True

    def change(self, before: int, after: int) -> float:
        assert {before, after} <= self.recorded
        return abs(self._values[after] - self._values[before])

    def locate(self) -> Located | None:
        return locate(len(self._values), self.record, self.change)


@pytest.mark.parametrize("first", [1, 2, 37, 50, COMMITS - 1])
def test_the_first_commit_with_the_change_is_found(first: int) -> None:
    fake = Fake([float(index >= first) for index in range(COMMITS)])
    assert fake.locate() == Located(before=first - 1, after=first)
    assert len(fake.recorded) <= 2 + 7


def test_equal_ends_need_no_further_recording() -> None:
    fake = Fake([0.0] * COMMITS)
    assert fake.locate() is None
    assert len(fake.recorded) == 2


def test_the_larger_of_two_changes_is_followed() -> None:
    values = [float(index >= 20) + 3.0 * (index >= 80) for index in range(COMMITS)]
    assert Fake(values).locate() == Located(before=79, after=80)


def test_broken_commits_are_left_out() -> None:
    fake = Fake([float(index >= 5) for index in range(10)], broken=(4, 5))
    located = fake.locate()
    assert located is not None
    assert (located.before, located.after) == (3, 6)
    assert "builds and boots" in located.reason


def test_a_change_that_is_in_no_half_is_not_located() -> None:
    located = locate(3, lambda _: True, lambda low, high: float((low, high) == (0, 2)))
    assert located == Located(
        before=0, after=2, reason="the change is not significant in either half"
    )
