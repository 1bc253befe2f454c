# SPDX-License-Identifier: GPL-2.0-or-later
"""Discover plugins: the public modules of a plugin package, and those of other installed packages.

Importing the package's public modules runs their decorators, which register the plugins. Modules
that start with an underscore are helpers. In a subpackage, only modules with a given name register,
e.g. ``section``, and those whose name ends with it, e.g. ``flames_section``.

A package that is installed beside schedperf registers with the same decorators. It names its module
as an entry point of the group with the dotted name of schedperf's package::

    [project.entry-points."schedperf.inputs.benchmarks"]
    mybench = "toy_bench.parser"

The module is imported after schedperf's own plugins, so a duplicate name is the other package's
error. Errors of such a plugin name its package. A failing plugin is never skipped, because results
would be missing.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

Plugin = TypeVar("Plugin")

# Maximum length of another package's text in an error.
LONGEST_PROBLEM = 300


class DuplicatePlugin(Exception):
    """Two modules register the same name."""


class PluginError(Exception):
    """A plugin of another package failed, or returned something invalid; the text is one line."""

    exit_status = 2


class Origin(NamedTuple):
    """The origin of another package's plugin, for error messages.

    :param package: the package and its version: "toy-bench 1.0"
    :param entry_point: the entry point, which names the module that registers the plugin
    """

    package: str
    entry_point: EntryPoint

    def error(self, problem: str) -> PluginError:
        """Return an error that names the plugin; the caller raises it.

        :param problem: what is wrong; a long text is shortened
        """
        where = f"plugin {self.entry_point.name!r} of the package {self.package}"
        text = f"{where}: {problem}"[: 4 * LONGEST_PROBLEM]
        line = "".join(sign for sign in " ".join(text.split()) if sign.isprintable())
        if len(line) > LONGEST_PROBLEM:
            line = f"{line[: LONGEST_PROBLEM - 1]}…"
        return PluginError(f"{line}; fix or uninstall this package")


# Returns a plugin whose errors name its package, formatted by the second argument.
Guard = Callable[[Plugin, Origin], Plugin]


class Registry(Generic[Plugin]):
    """The plugins of one package and of other installed packages, by name.

    :param packages: dotted names of the packages whose public modules register here; the first is
        also the group of the entry points of other packages
    :param kind: kind of plugin, for messages: "collector"
    :param module: name of the registering module in subpackages; None if subpackages do not
        register
    :param guard: wraps each plugin of another package; None to use these plugins unchanged
    """

    def __init__(
        self,
        *packages: str,
        kind: str,
        module: str | None = None,
        guard: Guard[Plugin] | None = None,
    ) -> None:
        self.packages = packages
        self.kind = kind
        self._module = module
        self._guard = guard
        self._plugins: dict[str, Plugin] = {}
        registries.setdefault(self.group, []).append(self)

    @property
    def group(self) -> str:
        """Return the group of the entry points that register here."""
        return self.packages[0]

    def add(self, name: str, plugin: Plugin) -> None:
        """Register a plugin.

        :raises DuplicatePlugin: the name is taken
        :raises TypeError: the name is not a text
        """
        if not isinstance(name, str):
            raise TypeError(f"invalid name {name!r} (expected a text)")
        if name in self._plugins:
            raise DuplicatePlugin(f"two {self.kind}s have the name {name!r}")
        self._plugins[name] = plugin

    def all(self) -> dict[str, Plugin]:
        """Import every registering module and return the plugins, sorted by name.

        :raises PluginError: a plugin of another package cannot be imported, registers nothing, or
            has a name that is taken
        :raises DuplicatePlugin: two of schedperf's own modules register the same name
        """
        self.import_own()
        _load_outside(self.group)
        return dict(sorted(self._plugins.items()))

    def names(self) -> list[str]:
        """Return the sorted names of the plugins without importing them.

        They are the names of the public modules of the first package, and of the entry points. This
        requires that each module registers one plugin, under the module's name.
        """
        own = (module.rpartition(".")[2] for module in public_modules(self.packages[0]))
        return sorted({*own, *(each.entry_point.name for each in _outside(self.group))})

    def find(self, name: str) -> Plugin:
        """Return the plugin with this name.

        For one of schedperf's own plugins, only its module is imported; for a plugin of another
        package, all plugins are.

        :param name: one of :meth:`names`
        :raises PluginError: the plugin of another package cannot be used
        """
        module = f"{self.packages[0]}.{name}"
        if module in public_modules(self.packages[0]):
            importlib.import_module(module)
            return self._plugins[name]
        plugins = self.all()
        if name not in plugins:
            origin = next(each for each in _outside(self.group) if each.entry_point.name == name)
            raise origin.error(f"registers no {self.kind} of the name of its entry point")
        return plugins[name]

    def import_own(self) -> None:
        """Import the registering modules of schedperf's own packages."""
        for package in self.packages:
            for module in public_modules(package, self._module):
                importlib.import_module(module)

    def registered(self) -> set[str]:
        """Return the names that are registered so far."""
        return set(self._plugins)

    def guard(self, names: set[str], origin: Origin) -> None:
        """Apply the registry's guard, if it has one, to plugins that another package registered.

        :param names: names of these plugins
        """
        if self._guard is not None:
            for name in names:
                self._plugins[name] = self._guard(self._plugins[name], origin)


def public_modules(package: str, module: str | None = None) -> Iterator[str]:
    """Yield the dotted names of the public modules of a package and of its public subpackages.

    :param module: in subpackages, yield only modules with this name and those whose name ends with
        an underscore and this name; None to skip subpackages
    """
    for module_info in pkgutil.iter_modules(
        importlib.import_module(package).__path__, f"{package}."
    ):
        name = module_info.name.rpartition(".")[2]
        if name.startswith("_"):
            continue
        if not module_info.ispkg:
            yield module_info.name
        elif module is not None:
            inner = public_modules(module_info.name)
            yield from (
                qualified for qualified in inner if qualified.endswith((f".{module}", f"_{module}"))
            )


# All registries by group. Several may share a group: modules of evidence register in three.
registries: dict[str, list[Registry[Any]]] = {}
# Groups whose entry points were imported, with the error if there was one; a module registers once.
_loaded: dict[str, PluginError | None] = {}
_lock = threading.RLock()


def _load_outside(group: str) -> None:
    with _lock:
        if group not in _loaded:
            _loaded[group] = None
            try:
                for origin in _outside(group):
                    _load(registries[group], origin)
            except PluginError as error:
                _loaded[group] = error
        error_of_group = _loaded[group]
    if error_of_group is not None:
        raise error_of_group


def _load(takers: Sequence[Registry[Any]], origin: Origin) -> None:
    for registry in takers:
        registry.import_own()
    before = [registry.registered() for registry in takers]
    try:
        origin.entry_point.load()
    except DuplicatePlugin as error:
        raise origin.error(f"{error}; the plugin needs another name") from None
    # A module may also call sys.exit.
    except (Exception, SystemExit) as error:  # noqa: BLE001 # whatever it raises
        raise origin.error(f"cannot be imported ({_describe(error)})") from None
    added = [registry.registered() - names for registry, names in zip(takers, before)]
    if not any(added):
        kinds = " or ".join(registry.kind for registry in takers)
        raise origin.error(f"registers no {kinds} (expected at least one)")
    for registry, names in zip(takers, added):
        registry.guard(names, origin)


def _describe(error: BaseException) -> str:
    text = type(error).__name__
    return f"{text}: {error}" if isinstance(error, Exception) else text


def _outside(group: str) -> Sequence[Origin]:
    return _entry_points(tuple(sys.path)).get(group, ())


@lru_cache(maxsize=1)
def _entry_points(_path: tuple[str, ...]) -> Mapping[str, Sequence[Origin]]:
    """Return other packages' plugins by group, sorted by name and without duplicates."""
    from importlib.metadata import distributions  # noqa: PLC0415 # --help needs none

    found: dict[tuple[str, str, str], Origin] = {}
    for distribution in distributions():
        for each in distribution.entry_points:
            if each.group.startswith("schedperf"):
                package = _name_package(distribution)
                found.setdefault((each.group, each.name, package), Origin(package, each))
    groups: dict[str, list[Origin]] = {}
    for (group, _, _), origin in sorted(found.items()):
        groups.setdefault(group, []).append(origin)
    return groups


def _name_package(distribution: Distribution) -> str:
    try:
        return f"{distribution.metadata['Name']} {distribution.version}"
    except Exception:  # noqa: BLE001 # its metadata is damaged in any way
        return "(unknown)"
