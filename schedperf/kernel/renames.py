# SPDX-License-Identifier: GPL-2.0-or-later
"""Map renamed kernel functions to their newest names, from ``renames.toml``.

::

    newest_function("trigger_load_balance")     # "sched_balance_trigger"
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, kw_only=True, slots=True)
class Renamed:
    """A renamed function.

    :param commit: kernel commit, 12 hexadecimal digits
    :param since: first release with the new name
    """

    new: str
    commit: str
    since: str


@cache
def renamed_functions() -> Mapping[str, Renamed]:
    """Return all renamed functions, by their old names."""
    text = (files("schedperf.kernel") / "renames.toml").read_text(encoding="utf-8")
    return {old: Renamed(**row) for old, row in tomllib.loads(text).items()}


@cache
def newest_function(name: str) -> str:
    """Return the newest name of a kernel function, after all renames.

    >>> newest_function("tick_sched_timer"), newest_function("try_to_wake_up")
    ('tick_nohz_handler', 'try_to_wake_up')
    """
    renamed = renamed_functions().get(name)
    return name if renamed is None else newest_function(renamed.new)
