# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.questions.balance: directions of causes and of A/A nights."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.history.questions.balance import balance_of, read_balance, sign_test
from schedperf.history.questions.history import open_history
from schedperf.history.store.add import Options
from tests.histories import MACHINE, add_to
from tests.mail_inputs import write_kernel
from tests.step_stores import OTHER_STEP, PLACE, QUIET, decide, make_step_store


def test_sign_test() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(17, 17) == pytest.approx(2.0**-16)
    assert sign_test(5, 10) == 1.0


def test_only_the_last_50_count() -> None:
    balance = balance_of([True] * 50 + [False] * 50)
    assert (balance.worse, balance.better) == (0, 50)


def test_eight_nights_of_one_step_count_once(tmp_path: Path) -> None:
    directory = make_step_store(tmp_path)
    for number in range(8):
        decide(directory, reason=f"night {number}")
    decide(directory, "groups=4", step=OTHER_STEP, change=0.08)
    with open_history(directory.folder) as history:
        balance = read_balance(history)
    assert (balance.worse, balance.better, balance.p) == (1, 0, 1.0)
    assert not balance.is_suspicious
    # What was refuted is not counted.
    decide(directory, state="invalid")
    decide(directory, "groups=4", step=OTHER_STEP, state="not reproduced")
    with open_history(directory.folder) as history:
        assert read_balance(history).worse == 0


def test_a_a_nights_are_those_of_one_kernel(tmp_path: Path) -> None:
    directory = make_step_store(tmp_path)
    with open_history(directory.folder) as history:
        assert read_balance(history).aa_worse + read_balance(history).aa_better == 0
    paths = []
    for number in range(3):
        day = f"{PLACE - timedelta(days=20 + number)}"
        manifest = {"created": f"{day}T22:00:00.000000Z", "machine": MACHINE}
        slower = replace(QUIET, factors={"base": (1.01, 1.02, 1.01)})
        for name, recorded in (("night-base", QUIET), ("night-new", slower)):
            path = tmp_path / day / f"{name}.tar"
            path.parent.mkdir(exist_ok=True)
            paths.append(write_kernel(path, "base", recorded, session=f"{day}-{name}", **manifest))
    add_to(directory.folder, *paths, options=Options(references=("night-base",)))
    with open_history(directory.folder) as history:
        balance = read_balance(history)
    # The three results of a night count once.
    assert (balance.aa_worse, balance.aa_better) == (3, 0)
    assert not balance.is_cleared
