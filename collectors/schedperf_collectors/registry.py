# SPDX-License-Identifier: GPL-2.0-or-later
"""Discover plugins: the public modules of a plugin package.

Importing the package's public modules runs their decorators, which register the plugins. Modules
that start with an underscore are helpers. If each plugin is a package, its module of a given name
registers: ``section``, or one whose name ends with it, ``flames_section``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Generic, TypeVar

Plugin = TypeVar("Plugin")


class DuplicatePlugin(Exception):
    """Two modules register the same name."""


class Registry(Generic[Plugin]):
    """The plugins of one package, by name.

    :param packages: dotted names of the packages whose public modules register here
    :param kind: kind of plugin, for messages: "collector"
    :param module: name of the registering module in subpackages; None: subpackages do not register
    """

    def __init__(self, *packages: str, kind: str, module: str | None = None) -> None:
        self.packages = packages
        self.kind = kind
        self._module = module
        self._plugins: dict[str, Plugin] = {}

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
        """Import every registering module and return the plugins, sorted by name."""
        for package in self.packages:
            for module in public_modules(package, self._module):
                importlib.import_module(module)
        return dict(sorted(self._plugins.items()))

    def find(self, name: str) -> Plugin:
        """Import the module of this name, which registers the plugin of its name, and no other."""
        importlib.import_module(f"{self.packages[0]}.{name}")
        return self._plugins[name]


def public_modules(package: str, module: str | None = None) -> Iterator[str]:
    """Yield the public modules of a package, and modules called ``module`` in its subpackages."""
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
