# SPDX-License-Identifier: GPL-2.0-or-later
"""What boots that differ cost, in a small sample with fixed seeds."""

import numpy as np
import pytest

from bench.verdicts.boots import (
    BOOT_SDS,
    DESIGNS,
    MOST_FALSE,
    UNAWARE,
    Design,
    main,
    share_of_changes,
)

TRIALS = 200
ALLOWED = MOST_FALSE + 3.0 * np.sqrt(MOST_FALSE * (1.0 - MOST_FALSE) / TRIALS)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_boots_that_differ_by_ten_percent_are_rarely_a_change(design: Design) -> None:
    assert share_of_changes(design, boot_sd=max(BOOT_SDS), trials=TRIALS) <= ALLOWED


def test_runs_as_units_take_boots_for_changes() -> None:
    assert share_of_changes(UNAWARE, boot_sd=min(BOOT_SDS), trials=TRIALS) > 4.0 * MOST_FALSE


def test_a_clear_change_is_found_with_a_known_deviation() -> None:
    known, assumed = (Design(base=1, new=1, is_given=is_given) for is_given in (True, False))
    found = [
        share_of_changes(each, boot_sd=0.01, trials=TRIALS, change=0.05)
        for each in (known, assumed)
    ]
    assert found[0] > 0.7
    assert found[1] == 0.0


def test_all_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--trials", "2"])
    text = capsys.readouterr().out
    assert [
        line.split(maxsplit=4)[-1] for line in text.splitlines() if line.startswith("share")
    ] == ["find +5%", "find +40%", "find +100%"]
