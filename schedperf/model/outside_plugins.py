# SPDX-License-Identifier: GPL-2.0-or-later
"""Load plugins of other installed packages: entry points of the group named as our package.

A package that is installed beside schedperf registers with the same decorators::

    [project.entry-points."schedperf.benchmarks"]
    mybench = "toy_bench.parser"

Its module is imported after our own plugins, so a name that is taken is the other package's error.
An error of such a plugin names its package; it is never skipped, because results would be missing.
"""

import threading
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from schedperf.model.errors import SchedperfError, describe
from schedperf.model.text import clean_line
from schedperf_collectors.registry import DuplicatePlugin, Registry

Plugin = TypeVar("Plugin")
# Returns a plugin whose errors name its package, as the second argument writes them.
Guard = Callable[[Plugin, "Origin"], Plugin]

# Of a text of another package in an error.
LONGEST_PROBLEM = 300


class PluginError(SchedperfError):
    """A plugin of another package failed, or returned something invalid."""


class Origin:
    """Where a plugin comes from, for the errors about it.

    :param package: the package and its version: "toy-bench 1.0"
    """

    def __init__(self, entry_point: EntryPoint) -> None:
        self.package = _name_package(entry_point)
        self._where = f"plugin {entry_point.name!r} of the package {self.package}"

    def error(self, problem: str) -> PluginError:
        """Return the error with a problem of the plugin."""
        line = clean_line(f"{self._where}: {problem}"[: 4 * LONGEST_PROBLEM])
        if len(line) > LONGEST_PROBLEM:
            line = f"{line[: LONGEST_PROBLEM - 1]}…"
        return PluginError(f"{line}; fix or uninstall this package")


# By group, or the error of the group: a module registers once per process.
_guarded: dict[str, Mapping[str, Any] | PluginError] = {}
_lock = threading.Lock()


def all_with_outside(registry: Registry[Plugin], guard: Guard[Plugin]) -> Mapping[str, Plugin]:
    """Return the plugins of a registry and of other packages, sorted by name.

    :param guard: applied to each plugin of another package
    :raises PluginError: one cannot be imported, registers nothing, or has a name that is taken
    """
    group = registry.packages[0]
    with _lock:
        if group not in _guarded:
            try:
                _guarded[group] = _load(registry, group, guard)
            except PluginError as error:
                _guarded[group] = error
        guarded = _guarded[group]
    if isinstance(guarded, PluginError):
        raise guarded
    plugins = registry.all()
    return plugins | {name: guarded[name] for name in plugins.keys() & guarded.keys()}


def _load(registry: Registry[Plugin], group: str, guard: Guard[Plugin]) -> Mapping[str, Plugin]:
    guarded: dict[str, Plugin] = {}
    for entry_point in sorted(entry_points(group=group), key=lambda each: each.name):
        origin = Origin(entry_point)
        before = registry.all().keys()
        try:
            entry_point.load()
        except DuplicatePlugin as error:
            raise origin.error(f"{error}; the plugin needs another name") from None
        # A module may also call sys.exit.
        except (Exception, SystemExit) as error:  # noqa: BLE001 # whatever it raises
            raise origin.error(f"cannot be imported ({_describe(error)})") from None
        added = {name: plugin for name, plugin in registry.all().items() if name not in before}
        if not added:
            raise origin.error(f"registers no {registry.kind} (expected at least one)")
        guarded |= {name: guard(plugin, origin) for name, plugin in added.items()}
    return guarded


def _describe(error: BaseException) -> str:
    return describe(error) if isinstance(error, Exception) else type(error).__name__


def _name_package(entry_point: EntryPoint) -> str:
    distribution = entry_point.dist
    if distribution is None:
        return "(unknown)"
    try:
        return f"{distribution.name} {distribution.version}"
    except Exception:  # noqa: BLE001 # its metadata is damaged in any way
        return "(unknown)"
