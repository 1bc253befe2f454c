# SPDX-License-Identifier: GPL-2.0-or-later
"""What looking at runs costs, in a small sample."""

import numpy as np
import pytest

from bench.verdicts.looks import BUDGET, LEVEL, main, record, smallest_p
from schedperf.stats.sequential import nominal_level

TRIALS = 4000
# Two standard errors of a rate of 5 %.
ERROR = 2.0 * np.sqrt(0.05 * 0.95 / TRIALS)


@pytest.mark.parametrize("base", [3, 10, 70])
def test_a_recording_that_changed_nothing_reports_a_change_in_five_of_a_hundred_at_most(
    base: int,
) -> None:
    budgets = (3, 10, 30, 100)
    found = smallest_p(np.random.default_rng(1), TRIALS, base=base, budgets=budgets)
    levels = [nominal_level(budget) for budget in budgets]
    assert ((found < levels).mean(axis=0) <= LEVEL + ERROR).all()
    assert (found[:, -1] < LEVEL).mean() > 2.0 * LEVEL


@pytest.mark.parametrize("base", [5, 10, 30])
def test_a_change_as_large_as_the_margin_is_hardly_ever_called_none(base: int) -> None:
    generator = np.random.default_rng(2)
    corrected = record(generator, TRIALS, base=base, change=0.03)
    assert corrected.no_change <= LEVEL + ERROR
    assert corrected.lower == 0.0
    plain = record(generator, TRIALS, base=base, change=0.03, equality=LEVEL)
    assert plain.no_change > 2.0 * LEVEL


def test_a_clear_change_is_found_early() -> None:
    end = record(np.random.default_rng(3), TRIALS, base=10, change=0.05)
    assert end.higher >= 0.98
    assert end.mean_runs <= BUDGET / 5


def test_all_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--trials", "200"])
    text = capsys.readouterr().out
    for title in ("false alarms of a whole", "how recordings end", "wrong no-change"):
        assert title in text
    main(["--trials", "200", "--levels"])
    assert "\nsmallest" in capsys.readouterr().out
