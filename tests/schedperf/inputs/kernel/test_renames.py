# SPDX-License-Identifier: GPL-2.0-or-later
import re

import pytest

from schedperf.inputs.kernel.renames import (
    all_names,
    name_in_release,
    newest_function,
    renamed_functions,
)


def test_each_rename_has_its_commit_and_its_release() -> None:
    for old, renamed in renamed_functions().items():
        assert re.fullmatch(r"[0-9a-f]{12}", renamed.commit), old
        assert re.fullmatch(r"[5-9]\.\d+", renamed.since), old


def test_a_name_ends_at_a_name_that_is_not_renamed() -> None:
    table = renamed_functions()
    for old in table:
        assert newest_function(old) not in table


def test_a_function_is_known_under_its_newest_name() -> None:
    assert newest_function("trigger_load_balance") == "sched_balance_trigger"
    assert newest_function("tick_sched_timer") == "tick_nohz_handler"
    assert newest_function("sched_balance_trigger") == "sched_balance_trigger"
    assert newest_function("no_such_function") == "no_such_function"


def test_no_two_functions_became_one() -> None:
    # Otherwise the former name of a function would be ambiguous.
    newer = [renamed.new for renamed in renamed_functions().values()]
    assert len(newer) == len(set(newer))


@pytest.mark.parametrize(
    ("function", "release", "name"),
    [
        ("sched_balance_rq", "6.1.192-tip", "load_balance"),
        ("load_balance", "6.9.12", "load_balance"),
        ("load_balance", "6.10-rc1", "sched_balance_rq"),
        ("sched_balance_softirq", "5.10.0-8-amd64", "run_rebalance_domains"),
        ("tick_nohz_handler", "6.6.0", "tick_sched_timer"),
        ("tick_nohz_handler", "6.8.0", "tick_nohz_highres_handler"),
        ("tick_sched_timer", "6.18.44", "tick_nohz_handler"),
        ("schedule", "6.1.0", "schedule"),
        ("sched_balance_rq", "next", None),
    ],
)
def test_a_release_has_one_of_the_names(function: str, release: str, name: str | None) -> None:
    assert name_in_release(function, release) == name
    assert name is None or name in all_names(function)
