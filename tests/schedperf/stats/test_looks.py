# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats.looks: changes that are reproduced on fresh boots, and those that are not."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
import scipy

from schedperf.stats.looks import CHECK, LEAST_SD, RETEST, TRIAL, judge_boots, least_reproduced

NOISE = [0.004, -0.006, 0.003, -0.001, 0.005, -0.005, 0.002, -0.002]
SEEN = math.log1p(0.05)


def moved(boots: Sequence[float], change: float) -> list[float]:
    """Return the boots of a kernel whose values are larger by a fraction."""
    return [boot + math.log1p(change) for boot in boots]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_test_is_that_of_welch_in_the_direction_that_was_seen(sign: float) -> None:
    base, new = NOISE[:4], [sign * (0.01 + each) for each in NOISE[4:]]
    last = judge_boots(CHECK, base, new, seen=sign * SEEN).last
    assert last is not None
    found = scipy.stats.ttest_ind(new, base, equal_var=False)
    assert last.p == pytest.approx(float(found.pvalue) / 2.0)
    interval = found.confidence_interval()
    assert (last.ci_low, last.ci_high) == pytest.approx((interval.low, interval.high))


def test_each_look_waits_for_its_boots() -> None:
    new = moved(NOISE, 0.01)
    judged = judge_boots(RETEST, NOISE[:3], new, seen=SEEN)
    assert (judged.result, judged.last, judged.wants) == ("open", None, 4)
    # With 5 and 8 boots, the look at 4 is the only one.
    noisy = [5 * each for each in NOISE]
    judged = judge_boots(RETEST, noisy[:5], moved(noisy, 0.05), seen=SEEN)
    assert judged.last is not None
    assert (judged.result, judged.last.boots, judged.wants) == ("open", 4, 8)


def test_later_boots_change_no_decision() -> None:
    judged = judge_boots(RETEST, NOISE[:4], moved(NOISE[:4], 0.05), seen=SEEN)
    assert judged.result == "reproduced"
    base, new = [*NOISE[:4], *[0.0] * 12], [*moved(NOISE[:4], 0.05), *[-0.3] * 12]
    assert judge_boots(RETEST, base, new, seen=SEEN) == judged


def test_values_without_variance_are_exact() -> None:
    same = [1.0] * 12
    assert judge_boots(CHECK, same, [1.1] * 12, seen=SEEN).result == "reproduced"
    for new, seen in ((same, SEEN), ([1.1] * 12, -SEEN)):
        judged = judge_boots(CHECK, same, new, seen=seen)
        assert judged.last is not None
        assert (judged.result, judged.last.p, judged.last.boots) == ("undecided", 1.0, 12)


def test_a_change_below_one_percent_is_not_reproduced() -> None:
    base, new = NOISE[:4] * 4, moved(NOISE[:4] * 4, 0.0099)
    last = judge_boots(RETEST, base, new, seen=math.log1p(0.011)).last
    assert last is not None
    assert last.p < last.level
    assert judge_boots(RETEST, base, new, seen=math.log1p(0.011)).result == "undecided"
    assert judge_boots(RETEST, base, moved(base, 0.0101), seen=0.011).result == "reproduced"


@pytest.mark.parametrize(
    ("change", "noise", "seen", "result"),
    [
        (0.0, 1.0, 0.10, "futile"),
        (0.0, 20.0, 0.10, "undecided"),
        (0.0, 1.0, -0.10, "futile"),
        # In the other direction, it is not reproduced, either.
        (-0.10, 1.0, 0.10, "futile"),
        (0.10, 1.0, -0.10, "futile"),
    ],
)
def test_a_trial_ends_when_less_than_half_of_the_change_is_left(
    change: float, noise: float, seen: float, result: str
) -> None:
    base = [noise * each for each in [*NOISE, *NOISE[:4]]]
    # The other way round, so that no p is 0 or 1.
    new = moved(base[::-1], change)
    judged = judge_boots(TRIAL, base, new, seen=math.log1p(seen))
    assert judged.result == result
    # The check of a search goes on to its last look.
    assert judge_boots(CHECK, base, new, seen=math.log1p(seen)).result == "undecided"


class Rates(NamedTuple):
    """Parts of the trials with each result, and the mean number of boots per side."""

    reproduced: float
    futile: float
    boots: float


def simulate(sd: float, change: float, seen: float, trials: int) -> Rates:
    """Retest a change many times; the same trials in each run of the tests."""
    generator = np.random.default_rng(20_261_130)
    results: Counter[str] = Counter()
    boots = 0
    for _ in range(trials):
        base, new = (sd * generator.standard_normal((2, 16))).tolist()
        judged = judge_boots(RETEST, base, moved(new, change), seen=math.log1p(seen))
        assert judged.last is not None
        results[judged.result] += 1
        boots += judged.last.boots
    return Rates(results["reproduced"] / trials, results["futile"] / trials, boots / trials)


@pytest.mark.parametrize("sd", [0.005, 0.02, 0.06])
def test_what_does_not_exist_is_hardly_ever_reproduced(sd: float) -> None:
    assert simulate(sd, 0.0, 0.05, 1000).reproduced <= 0.008


@pytest.mark.parametrize(
    ("change", "power", "boots"), [(0.03, 0.87, 12.2), (0.05, 0.999, 8.4), (0.10, 1.0, 6.0)]
)
def test_what_exists_is_reproduced(change: float, power: float, boots: float) -> None:
    found = simulate(0.02, change, change, 500)
    assert found.reproduced == pytest.approx(power, abs=0.04)
    assert found.boots == pytest.approx(boots, abs=0.4)


def test_half_of_what_was_seen_is_seldom_stopped_as_futile() -> None:
    for seen in (0.03, 0.05, 0.10):
        assert 0.01 < simulate(0.02, seen / 2, seen, 500).futile < 0.09


@pytest.mark.parametrize("sd", [0.01, 0.02, 0.05])
def test_the_smallest_change_that_a_retest_reproduces(sd: float) -> None:
    change = math.expm1(least_reproduced(RETEST, sd))
    assert simulate(sd, change, change, 500).reproduced == pytest.approx(0.8, abs=0.05)


def test_a_machine_without_noise_does_not_reproduce_less_than_one_percent() -> None:
    assert 0.01 < least_reproduced(RETEST, 0.0) == least_reproduced(RETEST, LEAST_SD) < 0.012
    assert math.isfinite(least_reproduced(RETEST, 1e6))
