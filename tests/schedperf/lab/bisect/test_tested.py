# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.tested: boots, levels, changes and probabilities of the tested commits."""

import math
from statistics import fmean, stdev

import pytest
from scipy import stats

from schedperf.inputs.git import Commit
from schedperf.lab.bisect.rule import SURE
from schedperf.lab.bisect.tested import BootedCommit
from tests.bisections import CAUSE, Search, make_commits, named


def used_logs(tested: BootedCommit) -> list[float]:
    return [math.log(boot.value) for boot in tested.boots if boot.is_used]


def test_all_boots_are_listed_in_their_order_and_the_first_is_not_used() -> None:
    search = Search(make_commits(), {CAUSE: 0.92})
    document = search.finish()
    for tested in document.tested:
        made = [value for commit, value in search.boots if commit == tested.commit.hash]
        assert [boot.value for boot in tested.boots] == made
        assert [boot.is_used for boot in tested.boots] == [False] + [True] * (len(made) - 1)
    assert sum(len(tested.boots) for tested in document.tested) == document.boots


def test_commits_are_listed_in_the_order_of_history_with_their_position() -> None:
    commits = make_commits()
    document = Search(commits, {CAUSE: 0.92}, untestable=(3, 4, 17)).finish()
    positions = [tested.position for tested in document.tested]
    assert positions == sorted(positions)
    assert [tested.commit for tested in document.tested] == [commits[i] for i in positions]
    assert (positions[0], positions[-1]) == (0, len(commits) - 1)


def test_a_level_is_the_geometric_mean_with_students_interval_over_boots() -> None:
    for tested in named().tested:
        logs = used_logs(tested)
        assert tested.level is not None
        assert tested.level.mean == pytest.approx(math.exp(fmean(logs)))
        half = stats.t.ppf(0.975, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
        assert tested.level.ci_low == pytest.approx(math.exp(fmean(logs) - half))
        assert tested.level.ci_high == pytest.approx(math.exp(fmean(logs) + half))


def test_a_change_is_that_from_good() -> None:
    document = named()
    good, *others = document.tested
    assert good.change is None
    for tested in others:
        welch = stats.ttest_ind(used_logs(tested), used_logs(good), equal_var=False)
        interval = welch.confidence_interval(0.95)
        assert tested.change is not None
        assert math.log(tested.change.ratio) == pytest.approx(
            fmean(used_logs(tested)) - fmean(used_logs(good))
        )
        assert math.log(tested.change.ci_low) == pytest.approx(interval.low)
        assert math.log(tested.change.ci_high) == pytest.approx(interval.high)
    assert others[-1].change == document.change


@pytest.mark.parametrize(("boots", "has_level"), [(1, False), (2, True)])
def test_few_boots_have_no_interval_and_no_change(boots: int, *, has_level: bool) -> None:
    commits = make_commits()
    search = Search(commits, {})
    search.boot(commits[0], 3)
    search.boot(commits[7], boots)
    tested = search.judge().tested[1]
    assert tested.commit == commits[7]
    assert (tested.level is not None) == has_level
    if tested.level is not None:
        assert tested.level.mean == pytest.approx(tested.boots[1].value)
        assert (tested.level.ci_low, tested.level.ci_high) == (None, None)
    assert tested.change is None


def test_a_finished_search_keeps_the_probabilities_that_led_to_the_name() -> None:
    document = named()
    [step] = document.named
    assert document.candidates == ()
    by_commit = {tested.commit: tested.probability for tested in document.tested}
    assert by_commit[step.commits[-1]] == step.probability >= SURE
    assert by_commit[document.good] is None
    others = [p for p in by_commit.values() if p is not None and p != step.probability]
    assert 0.0 <= sum(others) <= 1.0 - step.probability + 1e-9


def test_each_commit_has_the_probability_of_the_last_search_around_it() -> None:
    commits = make_commits(65)
    document = Search(commits, {20: 0.90, 50: 1.12}).finish()
    steps = {step.commits[-1]: step.probability for step in document.named}
    assert {*steps} == {commits[20], commits[50]}
    by_commit = {tested.commit: tested.probability for tested in document.tested}
    assert {commit: by_commit[commit] for commit in steps} == steps


def test_before_the_ends_differ_no_probability_is_computed() -> None:
    commits = make_commits()
    search = Search(commits, {CAUSE: 0.92})
    for commit in (commits[0], commits[-1], commits[8]):
        search.boot(commit, 4)
    assert [tested.probability for tested in search.judge().tested] == [None] * 3


def test_during_a_search_the_probabilities_are_those_of_the_candidates() -> None:
    search = Search(make_commits(), {CAUSE: 0.92})
    document = search.finish(most_boots=22)
    assert document.next is not None
    assert document.next.phase == "search"
    now = {each.commits[-1]: each.probability for each in document.candidates}
    good, *others = document.tested
    assert good.probability is None
    assert {each.commit: each.probability for each in others} == {
        each.commit: now[each.commit] for each in others
    }
    assert len(others) > 1


def test_boots_of_untestable_commits_are_not_levels() -> None:
    commits = make_commits()
    search = Search(commits, {CAUSE: 0.92}, untestable=(5,))
    search.boot(commits[5], 3)
    document = search.finish()
    assert commits[5] not in [tested.commit for tested in document.tested]
    assert document.not_used == {commits[5].hash: 3}


def test_what_remains_unexplained_is_the_rest_of_the_whole_change() -> None:
    document = named()
    assert document.change is not None
    assert document.explained is not None
    assert document.unexplained == pytest.approx(document.change.ratio / document.explained)
    assert Search(make_commits(), {}).finish().unexplained is None


def test_absurd_values_have_finite_numbers() -> None:
    commits = [Commit(hash=f"{i:040x}", subject="") for i in range(2)]
    search = Search(commits, {})
    # One commit is the least value of a float, and the other the largest.
    search.boots = [(commits[i % 2].hash, (5e-324, 1.7e308)[i % 2]) for i in range(60)]
    document = search.judge()
    assert document.status == "named"
    for tested in document.tested:
        assert tested.level is not None
        assert math.isfinite(tested.level.mean)
    assert document.unexplained == 1.0
