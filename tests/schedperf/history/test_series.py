# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.series: levels, scales, and numbers that are refused."""

import math

import pytest

from schedperf.history.series import LARGEST, Chain, Scale, WatchedNight, scale_of
from schedperf.model.errors import InputError
from tests.nightly import KEY, paired, series, unpaired


@pytest.mark.parametrize(
    ("values", "is_log"),
    [([1.0, 2.0], True), ([1.0, 0.0], False), ([-1.0, 2.0], False), ([None, 2.0], True)],
)
def test_a_value_of_zero_or_less_makes_a_series_of_differences(
    values: list[float | None], *, is_log: bool
) -> None:
    assert scale_of(unpaired(values)) == Scale(is_paired=False, is_log=is_log)


def test_one_reference_makes_a_series_paired_and_nights_without_it_lost() -> None:
    nights = [*unpaired([1.0, 2.0]), WatchedNight(order=2, value=3.0, reference=2.0)]
    scale = series(nights).scale
    assert scale.is_paired
    assert [scale.is_lost(night) for night in nights] == [True, True, False]


def test_a_reference_of_zero_makes_differences_too() -> None:
    assert not scale_of([WatchedNight(order=0, value=1.0, reference=0.0)]).is_log


def test_a_level_is_a_logarithm_or_the_number_itself() -> None:
    assert Scale(is_paired=True, is_log=True).level(2.0) == math.log(2.0)
    assert Scale(is_paired=True, is_log=False).level(-2.0) == -2.0


def test_an_empty_series_has_a_scale() -> None:
    assert series([]).scale.is_log


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 2 * LARGEST])
def test_numbers_that_are_not_finite_or_enormous_are_refused(number: float) -> None:
    with pytest.raises(InputError, match=r"^night 3: invalid value \S+ \(expected a number up to"):
        WatchedNight(order=3, value=number, reference=None)
    with pytest.raises(InputError, match=r"^night 3: invalid reference"):
        WatchedNight(order=3, value=1.0, reference=number)
    with pytest.raises(InputError, match=r"^night 3: invalid sd of the chain"):
        WatchedNight(order=3, value=1.0, reference=1.0, chain=Chain(shift=0.0, sd=number))


@pytest.mark.parametrize("orders", [(1, 1), (2, 1)])
def test_nights_must_be_in_order(orders: tuple[int, int]) -> None:
    nights = [WatchedNight(order=order, value=1.0, reference=None) for order in orders]
    with pytest.raises(InputError, match=r"night \d follows night \d \(expected increasing"):
        series(nights)


def test_a_hostile_name_does_not_reach_the_message() -> None:
    key = type(KEY)(machine_class="", tree="", workload="a\x1b[31m\nb", point="", metric="m")
    with pytest.raises(InputError) as error:
        series([*paired([0.0]), *paired([0.0])], key=key)
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)
