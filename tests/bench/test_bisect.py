# SPDX-License-Identifier: GPL-2.0-or-later
"""How often the first bad commit is right, in a small sample with fixed seeds."""

from dataclasses import replace
from functools import cache
from statistics import fmean, stdev

import numpy as np
import pytest

from bench.bisect.__main__ import SEED, main
from bench.bisect.gates import check_outcomes, own_score
from bench.bisect.measure import BAYESECT, OURS, Outcome, Score, measure_cell
from bench.bisect.worlds import (
    BOOT_SD,
    NO_STEP,
    ONE_STEP,
    TWO_STEPS,
    WORLDS,
    Cell,
    Lab,
    World,
    labs,
)
from schedperf.lab.bisect.rule import MOST_BOOTS

TRIALS = 40
SMALL = Cell(world=ONE_STEP, commits=16, change=0.10)


@cache
def outcome(cell: Cell) -> Outcome:
    return measure_cell(cell, TRIALS, SEED)


def shares(cell: Cell) -> dict[str, float]:
    """Return the share of wrong names of each tool."""
    return {score.tool: score.wrong / max(1, score.named) for score in outcome(cell).scores}


@pytest.mark.slow
@pytest.mark.parametrize("change", [0.05, 0.10])
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_named_commits_are_right_and_others_are_withheld(world: World, change: float) -> None:
    cell = Cell(world=world, commits=128, change=change)
    # A single wrong name of 40 is more than the limit of the whole benchmark.
    assert own_score(outcome(cell)).wrong <= 1
    assert shares(cell)[OURS] <= shares(cell)["git bisect run, k = 3"]


@pytest.mark.slow
def test_a_change_of_five_percent_is_found_with_few_boots() -> None:
    score = own_score(outcome(Cell(world=ONE_STEP, commits=512, change=0.05)))
    assert score.silent <= 0.1
    assert score.boots <= 85.0


def test_a_large_single_step_is_named_by_every_tool() -> None:
    scores = outcome(SMALL).scores
    assert {score.tool: score.wrong for score in scores if score.wrong} == {}
    assert all(score.named == TRIALS for score in scores)
    assert BAYESECT in {score.tool for score in scores}


def test_git_bayesect_is_stopped_after_as_many_boots_as_the_rule() -> None:
    [score] = [
        score
        for score in measure_cell(replace(SMALL, world=NO_STEP), 5, SEED).scores
        if score.tool == BAYESECT
    ]
    assert (score.silent, score.boots) == (1.0, MOST_BOOTS)


@pytest.mark.slow
def test_two_steps_mislead_the_search_that_expects_one_and_not_this_one() -> None:
    cell = Cell(world=TWO_STEPS, commits=128, change=0.10)
    assert own_score(outcome(cell)).complete >= 0.9
    rivals = [score for score in outcome(cell).scores if score.tool != OURS]
    assert all(score.complete == 0.0 for score in rivals)


# the harness itself


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_a_machine_has_the_deviation_that_its_world_says(world: World) -> None:
    cell = Cell(world=world, commits=16, change=0.10)
    logs = []
    for lab in labs(cell, 300, seed=3):
        lab.boot(0)
        logs.append(np.log([lab.boot(0) for _ in range(4)]))
    # Outliers add 0.05 * (5^2 - 1) = 1.2 times the variance.
    expected = BOOT_SD * (2.2**0.5 if world.noise == "outliers" else 1.0)
    assert stdev(np.concatenate(logs)) == pytest.approx(expected, rel=0.15)
    following = np.corrcoef([each[0] for each in logs], [each[1] for each in logs])[0, 1]
    assert following == pytest.approx(0.45 if world.noise == "wandering" else 0.0, abs=0.15)


def test_the_causes_change_the_results_by_what_the_cell_says() -> None:
    cell = Cell(world=replace(TWO_STEPS, steps=(1.0, -0.5)), commits=16, change=0.10)
    lab = Lab(cell, np.random.default_rng(1))
    first, second = lab.causes
    levels = [fmean(lab.boot(commit) for _ in range(2000)) for commit in (0, first, second, 16)]
    assert levels == pytest.approx([1.0, *levels[1:3], 1.1 / 1.05], rel=0.005)
    assert 1 <= first < second <= 16


def test_a_seed_determines_the_outcome() -> None:
    assert measure_cell(SMALL, 3, 5) == measure_cell(SMALL, 3, 5)
    assert measure_cell(SMALL, 3, 5) != measure_cell(SMALL, 3, 6)


def scored(**fields: float) -> Outcome:
    """Return an outcome of this project's rule, right unless a field says otherwise."""
    right = {"named": 200, "wrong": 0, "complete": 1.0, "silent": 0.0, "boots": 50.0}
    score = Score(tool=OURS, **{**right, **fields})  # type: ignore[arg-type] # counts are whole
    return Outcome(scores=(score,), stated=(0,) * 6, true=(0,) * 6)


@pytest.mark.parametrize(
    ("cell", "fields", "failed"),
    [
        (SMALL, {}, []),
        (SMALL, {"wrong": 1}, []),
        (SMALL, {"wrong": 2}, ["wrong among named, one step"]),
        (
            SMALL,
            {"wrong": 3},
            ["wrong among named, one step", "right among named, all worlds"],
        ),
        (replace(SMALL, change=0.05), {"silent": 0.06}, ["nothing named, 16 commits, +5%"]),
        (replace(SMALL, change=0.03), {"silent": 0.06}, []),
        (
            replace(SMALL, world=TWO_STEPS),
            {"complete": 0.9},
            ["both steps named, 16 commits, +10%"],
        ),
        (replace(SMALL, world=NO_STEP), {"silent": 1.0}, []),
        (replace(SMALL, world=NO_STEP), {"silent": 0.99}, ["a commit named, no step"]),
        (replace(SMALL, commits=512, change=0.05), {"boots": 86.0}, ["boots, 512 commits, +5%"]),
    ],
)
def test_limits_that_are_not_met_fail(
    cell: Cell, fields: dict[str, float], failed: list[str]
) -> None:
    checks = check_outcomes({cell: scored(**fields)})
    assert [check.name for check in checks if not check.is_kept] == failed


def test_all_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--trials", "1", "--jobs", "1", "--only", "bimodal"]) == 0
    text = capsys.readouterr().out
    assert text.count("bimodal boots") == 10
    assert "git bisect run, k = 10" in text
    assert "0.99 to 1.00" in text
    assert "right among named, all worlds" in text


def test_an_unknown_world_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "no such world"]) == 2
    assert "no world's name contains 'no such world'" in capsys.readouterr().err
