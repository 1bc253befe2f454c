# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.culprit_record: a finished search becomes the bisection of a record."""

import pytest

from schedperf.lab.bisect.culprit_record import convert_to_record
from schedperf.model.errors import InputError
from tests.bisections import CAUSE, Search, in_a_branch, make_commits, named

COMMITS = make_commits()


def test_effort_steps_and_probability_are_those_of_the_search() -> None:
    document = named()
    record = convert_to_record(document, COMMITS[CAUSE].hash, "b.json")
    assert (record.good, record.bad) == (COMMITS[0].hash, COMMITS[-1].hash)
    assert record.builds == len(document.tested) == len(record.steps)
    assert record.boots == document.boots == sum(step.boots for step in record.steps)
    assert record.probability == document.named[0].probability
    assert record.neighbours_tested
    [step] = [step for step in record.steps if step.commit == COMMITS[CAUSE].hash]
    assert step.probability == record.probability
    assert all(step.untestable is None for step in record.steps)


def test_untestable_commits_are_steps_without_a_result() -> None:
    search = Search(COMMITS, {CAUSE: 0.92}, untestable=(5, CAUSE - 1))
    search.boot(COMMITS[5], 2)
    record = convert_to_record(search.finish(), COMMITS[CAUSE].hash, "b.json")
    failed = [step for step in record.steps if step.untestable is not None]
    assert [(step.commit, step.boots, step.probability) for step in failed] == [
        (COMMITS[5].hash, 2, None),
        (COMMITS[CAUSE - 1].hash, 0, None),
    ]
    # It cannot be distinguished from the commit before it.
    assert not record.neighbours_tested


def test_each_of_several_named_commits_has_its_own_probability() -> None:
    commits = make_commits(65)
    document = Search(commits, {20: 0.90, 50: 1.12}).finish()
    for step in document.named:
        bad = step.commits[-1].hash
        assert convert_to_record(document, bad, "b.json").probability == step.probability


@pytest.mark.parametrize(
    ("search", "most_boots", "bad", "problem"),
    [
        (Search(COMMITS, {CAUSE: 0.92}), 1000, CAUSE + 1,
         f"names {COMMITS[CAUSE].hash[:12]} (expected {COMMITS[21].hash[:12]}"),
        (Search(COMMITS, {CAUSE: 0.92}), 25, CAUSE, "the search is not over"),
        (Search(COMMITS, {}), 1000, CAUSE, "good and bad do not differ"),
        (Search(COMMITS, dict.fromkeys(range(33), 1.01), sd=0.005), 1000, CAUSE,
         "no commit is named"),
    ],
)  # fmt: skip
def test_a_search_without_this_answer_is_one_line(
    search: Search, most_boots: int, bad: int, problem: str
) -> None:
    document = search.finish(most_boots)
    with pytest.raises(InputError) as error:
        convert_to_record(document, COMMITS[bad].hash, "b.json")
    assert str(error.value).startswith(f"b.json: {problem}")
    assert "\n" not in str(error.value)


def test_a_commit_of_a_merged_branch_has_the_steps_of_the_range_and_of_the_branch() -> None:
    document = in_a_branch()
    [step] = document.named
    [branch] = document.branches
    record = convert_to_record(document, step.commits[-1].hash, "b.json")
    tested = {each.commit.hash for each in (*document.tested, *branch.tested)}
    assert {each.commit for each in record.steps} == tested
    assert record.builds == len(tested)
    assert record.boots == document.boots == sum(each.boots for each in record.steps)
    assert record.probability == step.probability
    assert step.parent.hash in tested
