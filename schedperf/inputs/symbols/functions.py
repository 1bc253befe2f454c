# SPDX-License-Identifier: GPL-2.0-or-later
"""Normalize function names across builds and kernels, and classify functions.

::

    function_name("finish_task_switch.isra.0")              # "finish_task_switch"
    newest_name(Place("load_balance", "[kernel]"))          # Place("sched_balance_rq", "[kernel]")
    SharedNames(base_places, new_places).of(location)       # a name that one of the sides has
    class_of(Place("update_cfs_group", "[kernel]"))         # "PELT and group shares"

The classes are in ``classes.toml``, the renames in ``schedperf/inputs/kernel/renames.toml``.
"""

import re
import tomllib
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from msgspec import Struct

from schedperf.inputs.kernel.renames import newest_function
from schedperf.model.place import (
    KERNEL,
    Place,
    code_of,
    in_interrupts,
    is_in_interrupts,
    is_kernel_dso,
)

IDLE = "idle"
# Class of all functions in interrupts and softirqs.
INTERRUPTS = "interrupts and softirqs"

# Suffixes that compilers append to parts and copies of a function: cold parts, copies for constant
# arguments, outlined parts; gcc and clang with LTO append numbers, and clang also for static
# functions (-funique-internal-linkage-names).
_PART_SUFFIX = re.compile(
    r"\.(?:cold|isra|constprop|part|lto_priv|llvm|warm|localalias|cfi|cfi_jt|__uniq)(?:\.\d+)*(?![^.])"
)


class _Group(NamedTuple):
    function_class: str
    scheduler: bool


class FunctionTable(Struct, frozen=True, kw_only=True):
    """Classes of the kernel's functions.

    :param names: group by name
    :param prefixes: group by prefix of the name
    :param modules: group by prefix of the module's name
    :param idle_routines: functions in which process 0 waits for work, with a description
    """

    names: Mapping[str, _Group]
    prefixes: Mapping[str, _Group]
    modules: Mapping[str, _Group]
    idle_routines: Mapping[str, str]

    def find(self, name: str) -> _Group | None:
        """Return the group of a function; None if it has none.

        A name takes precedence over the longest prefix.
        """
        return self.names.get(name) or _longest(self.prefixes, name)


@cache
def function_table() -> FunctionTable:
    """Return the table of ``classes.toml``."""
    text = (files("schedperf.inputs.symbols") / "classes.toml").read_text(encoding="utf-8")
    tree = tomllib.loads(text)
    idle = _Group(IDLE, scheduler=False)
    return FunctionTable(
        names=_by(tree, "names") | dict.fromkeys(tree["idle_routines"], idle),
        prefixes=_by(tree, "prefixes"),
        modules=_by(tree, "modules"),
        idle_routines=tree["idle_routines"],
    )


def function_name(symbol: str) -> str:
    """Return the function name of a symbol, without suffixes of parts and copies.

    >>> function_name("finish_task_switch.isra.0"), function_name("do_exit.cold")
    ('finish_task_switch', 'do_exit')
    """
    return _PART_SUFFIX.sub("", symbol) or symbol


def newest_name(location: Place) -> Place:
    """Return a place with the newest name of its function.

    Parts and copies are folded; renames are known only for functions of the kernel itself.
    """
    name = function_name(location.symbol)
    return Place(newest_function(name) if location.dso == KERNEL else name, location.dso)


class SharedNames:
    """The names under which the functions of two sides are compared.

    Parts, copies and former names of a function are one function. Its name is the one that new's
    symbols have, or base's if new has no such function; the name without the suffix of a part or
    copy is preferred if one of the sides has it.

    :param base: all places of base
    :param new: all places of new
    """

    def __init__(self, base: Collection[Place] = (), new: Collection[Place] = ()) -> None:
        functions: dict[Place, tuple[set[str], set[str]]] = {}
        for side, places in enumerate((base, new)):
            for location in map(code_of, places):
                functions.setdefault(newest_name(location), (set(), set()))[side].add(
                    location.symbol
                )
        self._shown = {
            function: Place(_shared_name(*symbols), function.dso)
            for function, symbols in functions.items()
        }
        self._former = {
            self._shown[function]: former
            for function, symbols in functions.items()
            if (former := _former_name(self._shown[function].symbol, symbols[0]))
        }

    def of(self, location: Place) -> Place:
        """Return the place under which this one is compared; itself if neither side has it."""
        if is_in_interrupts(location.dso):
            return in_interrupts(self.of(code_of(location)))
        return self._shown.get(newest_name(location), location)

    def base_name(self, location: Place) -> str | None:
        """Return the name of a function in base's kernel if it was renamed, otherwise None.

        :param location: a result of :meth:`of`
        """
        return self._former.get(code_of(location))


def _shared_name(base: Collection[str], new: Collection[str]) -> str:
    # Preference among the symbols of one function.
    own = new or base
    functions = sorted(map(function_name, own))
    function = next((name for name in functions if newest_function(name) == name), functions[0])
    if function in base or function in new:
        return function
    copies = [symbol for symbol in own if function_name(symbol) == function]
    return min(copies, key=lambda symbol: (".cold" in symbol, len(symbol), symbol))


def _former_name(shown: str, base: Collection[str]) -> str | None:
    names = sorted(map(function_name, base))
    return names[0] if names and function_name(shown) not in names else None


def class_of(location: Place) -> str | None:
    """Return the class of a kernel or module function; None if unknown, or for user code.

    The class of a function in an interrupt or softirq is ``INTERRUPTS``.
    """
    if is_in_interrupts(location.dso):
        return INTERRUPTS
    group = _group_of(location)
    return group.function_class or None if group else None


def is_idle_routine(location: Place) -> bool:
    """Return whether process 0 waits for work in this function."""
    return function_name(location.symbol) in function_table().idle_routines


def is_scheduler_function(location: Place) -> bool:
    """Return whether ``classes.toml`` marks this as a function of kernel/sched.

    Most of them run with interrupts off.
    """
    location = code_of(location)
    group = _group_of(location)
    return location.dso == KERNEL and group is not None and group.scheduler


def _group_of(location: Place) -> _Group | None:
    table = function_table()
    if location.dso == KERNEL:
        return table.find(function_name(location.symbol))
    return _longest(table.modules, location.dso[1:-1]) if is_kernel_dso(location.dso) else None


def _longest(prefixes: Mapping[str, _Group], name: str) -> _Group | None:
    for length in range(len(name), 0, -1):
        group = prefixes.get(name[:length])
        if group is not None:
            return group
    return None


def _by(tree: Mapping[str, Any], key: str) -> dict[str, _Group]:
    return {
        name: _Group(group["class"], group["scheduler"])
        for group in tree["group"]
        for name in group.get(key, ())
    }
