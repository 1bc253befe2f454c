# SPDX-License-Identifier: GPL-2.0-or-later
import re

from schedperf.kernel.renames import newest_function, renamed_functions


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
