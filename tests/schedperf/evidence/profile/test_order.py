"""schedperf.evidence.profile.order: where a drift of the machine may look like a change."""

import pytest

from schedperf.evidence.profile.order import may_be_drift


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        ([0, 1, 2], [3, 4, 5], True),
        ([3, 4, 5], [0, 1, 2], True),
        ([0, 3, 4], [1, 2, 5], False),
        (list(range(10)), list(range(10, 20)), False),
    ],
)
def test_few_runs_of_one_side_before_the_other_may_be_drift(
    base: list[int],
    new: list[int],
    expected: bool,  # noqa: FBT001 # a parameter of the test
) -> None:
    boots = [[0] * len(base), [0] * len(new)]
    assert may_be_drift([base, new], boots) is expected


def test_boots_are_counted_where_a_side_has_several() -> None:
    orders = [list(range(10)), list(range(10, 20))]
    assert may_be_drift(orders, [[0, 1] * 5, [0, 1] * 5])
