# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.watch.groups: steps that are likely to have one cause."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from schedperf.history.watch.groups import group_steps
from schedperf.history.watch.state import Alarm
from schedperf.history.watch.steps import Step, form_steps
from schedperf.stats.shift import Shift
from tests.nightly import KEY


def step(earliest: int, latest: int, *, rises: bool = True, **key: str) -> Step:
    """Return a step whose place is the middle of its range."""
    middle = (earliest + latest) // 2
    alarm = Alarm(
        key=replace(KEY, **key), found=latest + 5, place=middle, before=middle - 1,
        earliest=earliest, latest=latest, rises=rises,
        shift=Shift(estimate=0.1, low=0.05, high=0.15), is_log=True, nights_before=30,
        nights_after=6,
    )  # fmt: skip
    [made] = form_steps([alarm])
    return made


def places(*steps: Step) -> list[list[int]]:
    return [[each.key.place for each in group.steps] for group in group_steps(steps)]


def test_overlapping_ranges_of_one_machine_and_tree_are_one_group() -> None:
    first, second = step(60, 62), step(62, 66, workload="schbench")
    [group] = group_steps([second, first])
    assert (group.earliest, group.latest) == (60, 66)
    assert group.steps == (first, second)


def test_ranges_are_joined_by_one_that_overlaps_both() -> None:
    assert places(step(60, 62), step(70, 72), step(61, 70)) == [[61, 65, 71]]


def test_a_long_range_is_not_forgotten_behind_a_short_one() -> None:
    assert places(step(60, 80), step(61, 61), step(79, 79)) == [[61, 70, 79]]


def test_separate_ranges_machines_and_trees_are_separate_groups() -> None:
    assert places(step(60, 62), step(63, 65)) == [[61], [64]]
    assert len(group_steps([step(60, 62), step(60, 62, machine_class="arm")])) == 2
    assert len(group_steps([step(60, 62), step(60, 62, tree="next")])) == 2


def test_a_regression_and_an_improvement_of_one_place_are_one_group() -> None:
    assert len(group_steps([step(60, 62), step(60, 62, rises=False)])) == 1


def test_nothing_has_no_groups() -> None:
    assert group_steps([]) == ()


@pytest.mark.property
@given(
    st.lists(
        st.builds(
            lambda first, length, metric, machine: step(
                first, first + length, metric=str(metric), machine_class=machine
            ),
            st.integers(0, 60), st.integers(0, 9), st.integers(0, 99), st.sampled_from("ab"),
        ),
        max_size=12,
    )
)  # fmt: skip
def test_each_step_is_in_one_group_and_groups_do_not_overlap(steps: list[Step]) -> None:
    groups = group_steps(steps)
    assert sorted(each.key for group in groups for each in group.steps) == sorted(
        each.key for each in steps
    )
    for before, group in pairwise(groups):
        assert before.machine_class < group.machine_class or before.latest < group.earliest
