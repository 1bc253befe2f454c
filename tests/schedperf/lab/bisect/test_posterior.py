# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.posterior: probabilities of splits, and the next commit."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.lab.bisect.posterior import PRIOR_BOOTS, choose_commit, split_probabilities

SD = 0.02


def equal(commits: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.ones(commits)


def by_formula(boots: Mapping[int, Sequence[float]], split: int, sd: float) -> float:
    """Return the likelihood of the formula as it is written, for one split."""
    before = [value for commit, values in boots.items() if commit < split for value in values]
    after = [value for commit, values in boots.items() if commit >= split for value in values]
    means = [sum(values) / len(values) for values in (before, after)]
    squares = sum((value - means[0]) ** 2 for value in before)
    squares += sum((value - means[1]) ** 2 for value in after)
    total = len(before) + len(after)
    power = -(PRIOR_BOOTS + total - 2) / 2
    return float((4 * sd**2 + squares) ** power / math.sqrt(len(before) * len(after)))


def test_values_computed_by_hand() -> None:
    boots = {0: [0.0, 0.0], 1: [0.1], 2: [0.1, 0.1]}
    # A split at 1 leaves no residual: 0.0016^-3.5 / sqrt(2 * 3). A split at 2 leaves
    # 3 * 2/9 * 0.01 = 0.00667: 0.00827^-3.5 / sqrt(3 * 2).
    ratio = (0.0016 / (0.0016 + 0.02 / 3)) ** 3.5
    expected = [1 / (1 + ratio), ratio / (1 + ratio)]
    assert split_probabilities(boots, equal(2), SD) == pytest.approx(expected)


def test_commits_between_tested_ones_cannot_be_distinguished() -> None:
    boots = {0: [0.0, 0.01], 3: [0.01, 0.0], 6: [0.1, 0.11]}
    p = split_probabilities(boots, equal(6), SD)
    assert p[:3] == pytest.approx([p[0]] * 3)
    assert p[3:] == pytest.approx([p[3]] * 3)
    assert p[3] > 0.3


def test_weights_multiply_the_probabilities() -> None:
    boots = {0: [0.0, 0.02], 4: [0.1, 0.12]}
    weights = np.array([1.0, 0.1, 1.0, 0.1])
    assert split_probabilities(boots, weights, SD) == pytest.approx(weights / 2.2)


@st.composite
def measured(draw: st.DrawFn) -> tuple[int, dict[int, list[float]]]:
    """Draw a range with boots of its ends and of some commits between them."""
    last = draw(st.integers(1, 40))
    tested = draw(st.sets(st.integers(0, last), max_size=8)) | {0, last}
    values = st.lists(st.floats(-0.3, 0.3), min_size=1, max_size=6)
    return last, {commit: draw(values) for commit in sorted(tested)}


@pytest.mark.property
class TestLaws:
    @given(measured(), st.sampled_from([0.002, 0.02, 0.1]))
    def test_they_follow_the_formula(
        self, drawn: tuple[int, dict[int, list[float]]], sd: float
    ) -> None:
        last, boots = drawn
        likelihoods = np.array([by_formula(boots, split, sd) for split in range(1, last + 1)])
        p = split_probabilities(boots, equal(last), sd)
        assert p == pytest.approx(likelihoods / likelihoods.sum(), rel=1e-6, abs=1e-12)

    @given(measured(), st.floats(-20.0, 20.0))
    def test_neither_the_unit_nor_the_direction_matters(
        self, drawn: tuple[int, dict[int, list[float]]], shift: float
    ) -> None:
        last, boots = drawn
        p = split_probabilities(boots, equal(last), SD)
        shifted = {commit: [value + shift for value in each] for commit, each in boots.items()}
        mirrored = {commit: [-value for value in each] for commit, each in boots.items()}
        assert split_probabilities(shifted, equal(last), SD) == pytest.approx(p, abs=1e-9)
        assert split_probabilities(mirrored, equal(last), SD) == pytest.approx(p, abs=1e-9)

    @given(measured())
    def test_the_other_way_round_is_the_mirror(
        self, drawn: tuple[int, dict[int, list[float]]]
    ) -> None:
        last, boots = drawn
        backwards = {last - commit: each for commit, each in boots.items()}
        p = split_probabilities(boots, equal(last), SD)
        assert split_probabilities(backwards, equal(last), SD) == pytest.approx(p[::-1], abs=1e-9)


@pytest.mark.parametrize(
    ("probabilities", "boots", "expected"),
    [
        # Nothing is known: the middle.
        ([0.25] * 4, {0: 8, 4: 8}, 2),
        # 0.45 and 0.55 are closer to equal than 0.9 and 0.1.
        ([0.45, 0.45, 0.1], {}, 1),
        # Rounding must not choose a commit whose boots tell nothing.
        ([0.4999999999999999, 0.5, 1e-16], {2: 100}, 1),
        # One leads: it or its parent, whichever has fewer boots; the parent first.
        ([0.1, 0.8, 0.1], {}, 1),
        ([0.1, 0.8, 0.1], {1: 2}, 2),
        ([0.8, 0.2], {0: 8, 1: 4}, 1),
    ],
)
def test_the_next_commit(
    probabilities: Sequence[float], boots: Mapping[int, int], expected: int
) -> None:
    made = {commit: [0.0] * count for commit, count in boots.items()}
    assert choose_commit(np.array(probabilities), 0, made) == expected
    moved = {commit + 7: each for commit, each in made.items()}
    assert choose_commit(np.array(probabilities), 7, moved) == expected + 7
