# SPDX-License-Identifier: GPL-2.0-or-later
"""What functions are called and what they are for: names across builds and kernels, and classes.

::

    function_name("finish_task_switch.isra.0")              # "finish_task_switch"
    newest_name(Place("load_balance", "[kernel]"))          # Place("sched_balance_rq", "[kernel]")
    class_of(Place("update_cfs_group", "[kernel]"))         # "PELT and group shares"

The classes are in ``classes.toml``, the renames in ``schedperf/kernel/renames.toml``.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from schedperf.kernel.renames import newest_function
from schedperf.symbols.place import KERNEL, Place

IDLE = "idle"

# What a compiler appends to the parts and copies of a function: the part that seldom runs, the
# copy for one argument, the part that was split off. gcc and clang with LTO number them.
_PART_SUFFIX = re.compile(
    r"\.(?:cold|isra|constprop|part|lto_priv|llvm|warm|localalias|cfi|cfi_jt)(?:\.\d+)*(?![^.])"
)


class _Group(NamedTuple):
    function_class: str
    scheduler: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionTable:
    """What is known of the kernel's functions.

    :param names: group by whole name
    :param prefixes: group by beginning
    :param modules: group by beginning of a module's name
    :param idle_routines: where process 0 waits for work, and how
    """

    names: Mapping[str, _Group]
    prefixes: Mapping[str, _Group]
    modules: Mapping[str, _Group]
    idle_routines: Mapping[str, str]

    def find(self, name: str) -> _Group | None:
        """Return the group of a function; a whole name comes before the longest prefix."""
        return self.names.get(name) or _longest(self.prefixes, name)


@cache
def function_table() -> FunctionTable:
    """Return the table that comes with this package."""
    text = (files("schedperf.symbols") / "classes.toml").read_text(encoding="utf-8")
    tree = tomllib.loads(text)
    idle = _Group(IDLE, scheduler=False)
    return FunctionTable(
        names=_by(tree, "names") | dict.fromkeys(tree["idle_routines"], idle),
        prefixes=_by(tree, "prefixes"),
        modules=_by(tree, "modules"),
        idle_routines=tree["idle_routines"],
    )


def function_name(symbol: str) -> str:
    """Return the name of the function that a symbol is a part or a copy of.

    >>> function_name("finish_task_switch.isra.0"), function_name("do_exit.cold")
    ('finish_task_switch', 'do_exit')
    """
    return _PART_SUFFIX.sub("", symbol) or symbol


def newest_name(place: Place) -> Place:
    """Return a place under the name that the newest kernel has for its function.

    Parts and copies are folded; only the kernel's own functions have known renames.
    """
    name = function_name(place.symbol)
    return Place(newest_function(name) if place.dso == KERNEL else name, place.dso)


def class_of(place: Place) -> str | None:
    """Return what a function of the kernel or of a module is for; None: not known, or user code."""
    group = _group_of(place)
    return group.function_class or None if group else None


def is_idle_routine(place: Place) -> bool:
    """Say whether this is code in which process 0 waits for work."""
    return function_name(place.symbol) in function_table().idle_routines


def is_scheduler_function(place: Place) -> bool:
    """Say whether this is a function of kernel/sched, most of which run with interrupts off."""
    group = _group_of(place)
    return place.dso == KERNEL and group is not None and group.scheduler


def _group_of(place: Place) -> _Group | None:
    table = function_table()
    if place.dso == KERNEL:
        return table.find(function_name(place.symbol))
    return _longest(table.modules, place.dso[1:-1]) if place.dso.startswith("[") else None


def _longest(prefixes: Mapping[str, _Group], name: str) -> _Group | None:
    for length in range(len(name), 0, -1):
        found = prefixes.get(name[:length])
        if found is not None:
            return found
    return None


def _by(tree: Mapping[str, Any], key: str) -> dict[str, _Group]:
    return {
        name: _Group(group["class"], group["scheduler"])
        for group in tree["group"]
        for name in group.get(key, ())
    }
