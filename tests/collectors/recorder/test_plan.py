# SPDX-License-Identifier: GPL-2.0-or-later
"""The order of runs."""

from collections import Counter
from itertools import pairwise

import pytest

from schedperf_collectors.contract import format_template
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.plan import (
    Counts,
    check_placeholders,
    cross_points,
    fill,
    parse_point,
    plan_ab,
    plan_record,
    williams,
)

POINTS = [{"groups": "1"}, {"groups": "4"}, {"groups": "16"}]
COUNTS = Counts(clean=8, instrumented=3, warmup=2)


def test_each_block_holds_each_point_once() -> None:
    plan = plan_record(POINTS, COUNTS, seed=7)
    for block in range(8):
        clean = [
            run.point["groups"]
            for run in plan
            if run.block == block and run.kind == "clean" and not run.warmup
        ]
        instrumented = [
            run.point["groups"] for run in plan if run.block == block and run.kind != "clean"
        ]
        assert sorted(clean) == ["1", "16", "4"]
        assert sorted(instrumented) == (["1", "16", "4"] if block < 3 else [])


def test_blocks_follow_one_another() -> None:
    blocks = [run.block for run in plan_record(POINTS, COUNTS, seed=7) if not run.warmup]
    assert blocks == sorted(blocks)


def test_the_order_inside_blocks_is_random_and_follows_from_the_seed() -> None:
    def order(seed: int) -> list[str]:
        return [run.point["groups"] for run in plan_record(POINTS, COUNTS, seed)]

    assert order(1) == order(1)
    assert order(1) != order(2)
    counts = Counts(clean=8, instrumented=0, warmup=0)
    blocks = plan_record(POINTS, counts, seed=1)
    firsts = {blocks[index].point["groups"] for index in range(0, 24, 3)}
    assert len(firsts) > 1


def test_runs_that_warm_up_come_first_and_are_clean() -> None:
    plan = plan_record(POINTS, COUNTS, seed=7)
    assert [run.warmup for run in plan] == [True] * 6 + [False] * (len(plan) - 6)
    assert {run.kind for run in plan if run.warmup} == {"clean"}


def test_rounds_of_two_sides_are_abba() -> None:
    plan = plan_ab([{}], Counts(clean=4, instrumented=0, warmup=0), 3, ("base", "new"))
    assert [run.side for run in plan] == ["base", "new", "new", "base"] * 2
    assert [run.round for run in plan] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("sides", range(2, 9))
def test_a_williams_design_is_balanced(sides: int) -> None:
    design = williams(sides)
    assert len(design) == (sides if sides % 2 == 0 else 2 * sides)
    positions = Counter(pair for order in design for pair in enumerate(order))
    assert len(positions) == sides**2
    assert len(set(positions.values())) == 1
    followers = Counter(pair for order in design for pair in pairwise(order))
    assert len(followers) == sides * (sides - 1)
    assert len(set(followers.values())) == 1
    # Linear drift cancels after each second round.
    assert all(
        order == mirror[::-1] for order, mirror in zip(design[::2], design[1::2], strict=True)
    )


def test_rounds_of_three_sides_follow_the_design() -> None:
    plan = plan_ab([{}], Counts(clean=7, instrumented=0, warmup=0), 3, ("a", "b", "c"))
    rounds = ["".join(str(run.side) for run in plan if run.round == number) for number in range(7)]
    assert rounds == ["abc", "cba", "bca", "acb", "cab", "bac", "abc"]


def test_two_sides_get_equal_numbers_of_every_kind_of_run() -> None:
    plan = plan_ab(POINTS, COUNTS, 3, ("base", "new"))
    count = Counter((run.side, run.kind, run.warmup, run.point["groups"]) for run in plan)
    for side in ("base", "new"):
        for groups in ("1", "4", "16"):
            assert count[side, "clean", True, groups] == 2
            assert count[side, "clean", False, groups] == 8
            assert count[side, "instrumented", False, groups] == 3


def test_more_instrumented_than_clean_runs_are_possible() -> None:
    plan = plan_record([{}], Counts(clean=1, instrumented=3, warmup=0), seed=0)
    assert Counter(run.kind for run in plan) == {"clean": 1, "instrumented": 3}


def test_absurdly_many_runs_are_refused() -> None:
    with pytest.raises(RecordError, match="runs planned \\(expected at most 100000\\); lower -n"):
        plan_record([{}], Counts(clean=100_001, instrumented=0, warmup=0), seed=0)


def test_points_are_all_combinations_of_the_parameters() -> None:
    points = cross_points([("groups", ("1", "4")), ("fds", ("20", "40"))])
    assert points == [
        {"groups": "1", "fds": "20"},
        {"groups": "1", "fds": "40"},
        {"groups": "4", "fds": "20"},
        {"groups": "4", "fds": "40"},
    ]
    assert cross_points([]) == [{}]


def test_too_many_points_are_refused_before_they_are_made() -> None:
    values = tuple(map(str, range(40)))
    with pytest.raises(
        RecordError, match=r"^--point: 2e\+19 points .expected at most 100000.; give"
    ):
        cross_points([(f"n{number}", values) for number in range(12)])


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(RecordError, match="given twice"):
        cross_points([("groups", ("1",)), ("groups", ("4",))])


@pytest.mark.parametrize(
    "text", ["", "groups", "groups=", "=1", "1x=2", "a=1,,2", "a=1,1", "a=\x1b"]
)
def test_a_bad_point_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected|give each value once"):
        parse_point(text)


def test_placeholders_are_filled_inside_arguments() -> None:
    template = ["run", "--groups={groups}", "{groups}x{fds}", "{{groups}}", "{ print }", "${"]
    filled = fill(template, {"groups": "4", "fds": "20"})
    assert filled == ["run", "--groups=4", "4x20", "{groups}", "{ print }", "${"]


def test_a_placeholder_without_values_is_refused() -> None:
    with pytest.raises(RecordError, match=r"\{fds\} has no values; add --point fds=1,2"):
        check_placeholders(["hackbench", "-f", "{fds}"], [])


def test_values_without_a_placeholder_are_refused() -> None:
    with pytest.raises(RecordError, match=r"the command has no \{groups\}"):
        check_placeholders(["hackbench", "{{groups}}"], ["groups"])


def test_a_template_reads_as_a_shell_would_read_it() -> None:
    template = ["hackbench", "-g", "{groups}", "--name", "a b", "$x", "{a,b}"]
    assert format_template(template) == "hackbench -g {groups} --name 'a b' '$x' '{a,b}'"
