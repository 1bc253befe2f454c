# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.rule: the search, from the first boot to the commits that it names."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.lab.bisect.rule import END_BOOTS, MOST_BOOTS, SURE, Bisection

Boot = Callable[[int], float]
SD = 0.01


def lab(steps: Mapping[int, float], *, sd: float = SD, seed: int = 1) -> Boot:
    """Return a function that boots a commit of a range in which some commits change the result.

    :param steps: new / old of each of these commits
    """
    generator = np.random.default_rng(seed)

    def boot(commit: int) -> float:
        level = math.prod(ratio for step, ratio in steps.items() if step <= commit)
        return 100.0 * level * math.exp(sd * generator.standard_normal())

    return boot


def search(commits: int, boot: Boot, *, sd: float | None = SD) -> Bisection:
    """Return a finished search."""
    return finish(Bisection(np.ones(commits), sd), boot)


def finish(bisection: Bisection, boot: Boot) -> Bisection:
    """Make the boots that the search asks for, until it ends."""
    while (visit := bisection.visit) is not None:
        for _ in range(visit.boots):
            bisection.add(visit.commit, boot(visit.commit))
    return bisection


def test_the_ends_are_measured_first_interleaved_and_new_builds_get_one_boot_more() -> None:
    boot = lab({5: 1.1})
    bisection = Bisection(np.ones(9), SD)
    visits = []
    while bisection.visit is not None and bisection.visit.phase == "ends":
        visit = bisection.visit
        visits.append((visit.commit, visit.boots))
        for _ in range(visit.boots):
            bisection.add(visit.commit, boot(visit.commit))
    assert visits == [(0, 3), (8, 3), *[(0, 2), (8, 2)] * 3]
    assert bisection.spent(0, 8) == 2 * (END_BOOTS + 1)
    assert [len(bisection.boots(end)) for end in (0, 8)] == [END_BOOTS] * 2
    # Nothing is known of the commits between them.
    assert bisection.visit is not None
    assert (bisection.visit.commit, bisection.visit.phase) == (4, "search")


def test_the_first_boot_of_each_commit_has_no_effect_but_counts() -> None:
    made: set[int] = set()
    boot, plain = lab({11: 1.08}), lab({11: 1.08})

    def odd_first(commit: int) -> float:
        is_first = commit not in made
        made.add(commit)
        return boot(commit) * (0.5 if is_first else 1.0)

    found, expected = search(17, odd_first), search(17, plain)
    assert found.steps == expected.steps
    assert found.spent(0, 16) == expected.spent(0, 16)
    assert [step.commit for step in found.steps] == [11]


def test_a_step_is_named_after_fresh_boots_of_it_and_its_parent_interleaved() -> None:
    boot = lab({11: 1.08})
    bisection = Bisection(np.ones(17), SD)
    checked = []
    while (visit := bisection.visit) is not None:
        if visit.phase == "check":
            checked.append(visit.commit)
            assert visit.suspect == 11
            assert not bisection.steps
        for _ in range(visit.boots):
            bisection.add(visit.commit, boot(visit.commit))
    # The second boot of the visit that ended the search was the first fresh one.
    assert checked == [10, *[10, 11] * 3]
    [step] = bisection.steps
    assert (step.commit, step.check.boots, step.check.is_passed) == (11, 4, True)
    assert step.probability >= SURE
    assert step.check.p < 0.01
    assert bisection.withheld == []


def test_ends_that_do_not_differ_end_the_search() -> None:
    bisection = search(100, lab({}))
    assert bisection.steps == []
    assert bisection.withheld == []
    # 16 boots of each end, and the first ones.
    assert bisection.spent(0, 99) == 34


def test_two_causes_are_both_named() -> None:
    bisection = search(65, lab({20: 1.1, 50: 0.93}))
    assert sorted(step.commit for step in bisection.steps) == [20, 50]
    assert bisection.withheld == []


@pytest.mark.parametrize("cause", [1, 2])
def test_a_range_of_few_commits(cause: int) -> None:
    assert [step.commit for step in search(3, lab({cause: 1.1})).steps] == [cause]


def test_a_range_of_one_commit_needs_only_the_ends_and_the_check() -> None:
    bisection = search(2, lab({1: 1.1}))
    assert [step.commit for step in bisection.steps] == [1]
    assert bisection.spent(0, 1) == 2 * (END_BOOTS + 1 + 4)


def test_a_step_that_fresh_boots_do_not_show_is_withheld() -> None:
    before, after = lab({6: 1.1}), lab({})
    bisection = Bisection(np.ones(9), SD)
    while (visit := bisection.visit) is not None:
        boot = after if visit.phase == "check" else before
        for _ in range(visit.boots):
            bisection.add(visit.commit, boot(visit.commit))
    assert bisection.steps == []
    [withheld] = bisection.withheld
    assert (withheld.first, withheld.last, withheld.commit) == (0, 8, 6)
    assert withheld.check is not None
    assert (withheld.check.boots, withheld.check.is_passed) == (12, False)


def test_a_search_ends_after_the_most_boots() -> None:
    # No single split: the result rises a little with each commit.
    bisection = search(9, lab(dict.fromkeys(range(1, 9), 1.01), sd=0.005), sd=0.005)
    assert bisection.steps == []
    [withheld] = bisection.withheld
    assert withheld.probability < SURE
    assert withheld.check is None
    assert MOST_BOOTS <= bisection.spent(0, 8) <= MOST_BOOTS + 2


def test_boots_that_were_not_asked_for_are_used() -> None:
    boot = lab({11: 1.08})
    bisection = Bisection(np.ones(17), SD)
    for commit in (10, 11, 3, 0, 16):
        for _ in range(END_BOOTS + 1):
            bisection.add(commit, boot(commit))
    # The search is over before it asks for a commit; only the check needs boots after it.
    assert bisection.visit is not None
    assert (bisection.visit.phase, bisection.visit.suspect) == ("check", 11)
    assert [step.commit for step in finish(bisection, boot).steps] == [11]


def test_boots_after_the_end_change_nothing() -> None:
    bisection = search(9, lab({4: 1.1}))
    steps = list(bisection.steps)
    for _ in range(20):
        bisection.add(7, 1.0)
    assert bisection.steps == steps
    assert bisection.visit is None


def test_probabilities_need_two_boots_of_each_end() -> None:
    bisection = Bisection(np.ones(5))
    for commit in (0, 0, 0, 4, 4):
        assert bisection.probabilities() is None
        bisection.add(commit, 100.0)
    bisection.add(4, 110.0)
    p = bisection.probabilities()
    assert p is not None
    assert p == pytest.approx([0.25] * 4)


@pytest.mark.property
class TestLaws:
    @given(st.integers(1, 300), st.data(), st.sampled_from([0.7, 0.9, 1.15, 2.0]))
    def test_a_large_step_is_found_wherever_it_is(
        self, last: int, data: st.DataObject, ratio: float
    ) -> None:
        cause = data.draw(st.integers(1, last))
        bisection = search(last + 1, lab({cause: ratio}), sd=None)
        assert [step.commit for step in bisection.steps] == [cause]

    @given(st.integers(2, 100), st.integers(0, 1000), st.sampled_from([1.0, 1.02, 1.04]))
    def test_every_search_ends_and_names_no_commit_twice(
        self, last: int, seed: int, ratio: float
    ) -> None:
        boot = lab({1 + seed % last: ratio}, seed=seed, sd=0.02)
        bisection = search(last + 1, boot, sd=None)
        commits = [step.commit for step in bisection.steps]
        assert len(set(commits)) == len(commits)
        assert all(step.probability >= SURE and step.check.is_passed for step in bisection.steps)
        assert all(part.first < part.commit <= part.last for part in bisection.withheld)

    @given(st.integers(0, 1000), st.floats(1e-6, 1e9))
    def test_the_unit_of_the_values_does_not_matter(self, seed: int, unit: float) -> None:
        boot, scaled = (lab({13: 1.05}, seed=seed, sd=0.02) for _ in range(2))
        found = search(33, boot)
        expected = search(33, lambda commit: scaled(commit) * unit)
        assert [step.commit for step in found.steps] == [step.commit for step in expected.steps]
        assert found.spent(0, 32) == expected.spent(0, 32)
