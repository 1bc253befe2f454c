# SPDX-License-Identifier: GPL-2.0-or-later
"""Map renamed kernel functions to their newest names, from ``renames.toml``.

::

    newest_function("trigger_load_balance")     # "sched_balance_trigger"
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from itertools import pairwise

from msgspec import Struct


class Renamed(Struct, frozen=True, kw_only=True):
    """A renamed function.

    :param new: the next name, which may have been renamed again
    :param commit: kernel commit that renamed it, 12 hexadecimal digits
    :param since: first release with the new name
    """

    new: str
    commit: str
    since: str


@cache
def renamed_functions() -> Mapping[str, Renamed]:
    """Return all renamed functions, by their old names."""
    text = (files("schedperf.inputs.kernel") / "renames.toml").read_text(encoding="utf-8")
    return {old: Renamed(**row) for old, row in tomllib.loads(text).items()}


@cache
def _former_functions() -> Mapping[str, str]:
    # The renames, indexed by the next name.
    return {renamed.new: old for old, renamed in renamed_functions().items()}


def all_names(function: str) -> tuple[str, ...]:
    """Return the names that a function has had, newest first.

    >>> all_names("tick_sched_timer")
    ('tick_nohz_handler', 'tick_nohz_highres_handler', 'tick_sched_timer')
    """
    names = [newest_function(function)]
    while names[-1] in _former_functions():
        names.append(_former_functions()[names[-1]])
    return tuple(names)


def name_in_release(function: str, release: str) -> str | None:
    """Return the name of a function in a release; None if the release has no version number.

    The name may be wrong for the kernel of a distribution that backported the rename.

    >>> name_in_release("sched_balance_rq", "6.1.0-47-amd64")
    'load_balance'
    """
    version = _version(release)
    if version is None:
        return None
    for newer, older in pairwise(names := all_names(function)):
        since = _version(renamed_functions()[older].since)
        if since is not None and version >= since:
            return newer
    return names[-1]


def _version(release: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else None


@cache
def newest_function(name: str) -> str:
    """Return the newest name of a kernel function, after all renames.

    >>> newest_function("tick_sched_timer"), newest_function("try_to_wake_up")
    ('tick_nohz_handler', 'try_to_wake_up')
    """
    renamed = renamed_functions().get(name)
    return name if renamed is None else newest_function(renamed.new)
