# SPDX-License-Identifier: GPL-2.0-or-later
"""What looking at pairs costs, in a small sample with a fixed seed."""

import numpy as np
import pytest

from bench.verdicts.pairs import (
    BUDGET,
    BUDGETS,
    LEVEL,
    PAIR_SDS,
    main,
    record,
    share_of_changes,
    smallest_p,
)
from schedperf.model.verdict import MARGIN
from schedperf.stats.sequential import nominal_level

TRIALS = 4000
# Two standard errors of a rate of 5%.
ERROR = 2.0 * np.sqrt(LEVEL * (1.0 - LEVEL) / TRIALS)


def test_pairs_that_changed_nothing_report_a_change_in_five_of_a_hundred_at_most() -> None:
    found = smallest_p(np.random.default_rng(1), TRIALS, budgets=BUDGETS)
    levels = [nominal_level(budget, is_paired=True) for budget in BUDGETS]
    assert ((found < levels).mean(axis=0) <= LEVEL + ERROR).all()
    assert (found[:, -1] < LEVEL).mean() > 2.0 * LEVEL
    # Stricter levels than these would need more pairs for nothing.
    assert ((found < levels).mean(axis=0) >= LEVEL - 2.0 * ERROR).all()


@pytest.mark.parametrize("sd", PAIR_SDS)
def test_a_change_as_large_as_the_margin_is_hardly_ever_called_none(sd: float) -> None:
    assert record(np.random.default_rng(2), TRIALS, sd=sd, change=MARGIN).no_change <= LEVEL


def test_a_clear_change_is_found_early() -> None:
    end = record(np.random.default_rng(3), TRIALS, sd=0.02, change=0.05)
    assert end.changed >= 0.98
    assert end.mean_pairs <= BUDGET / 4


def test_the_comparison_itself_is_corrected() -> None:
    """What ``compare_runs`` reports at any look: all of its tests, not the t test alone."""
    plain, corrected = (
        share_of_changes(np.random.default_rng(4), 200, budget=8, rows=1, is_corrected=is_corrected)
        for is_corrected in (False, True)
    )
    assert corrected <= LEVEL + 2.0 * np.sqrt(LEVEL * (1.0 - LEVEL) / 200)
    assert plain > corrected


def test_all_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--trials", "200", "--compared", "5"])
    text = capsys.readouterr().out
    for title in (
        "false positives of a whole",
        "wrong no-change",
        "how recordings end",
        "any look",
    ):
        assert title in text
    assert main(["--trials", "200", "--levels"]) == 0
    assert "in use" in capsys.readouterr().out
