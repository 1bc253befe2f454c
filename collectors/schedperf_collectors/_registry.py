"""A registry that needs no list: a plugin is a public module of a plugin package.

Importing the package's public modules runs their decorators, and these
register. Modules that start with an underscore are machinery.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Generic, TypeVar

Plugin = TypeVar("Plugin")


class DuplicatePlugin(Exception):
    """Two modules register one name."""


class Registry(Generic[Plugin]):
    """The plugins of one package, by name.

    :param package: dotted name of the package whose public modules register here
    :param kind: what a plugin is, for messages: "collector"
    """

    def __init__(self, package: str, kind: str) -> None:
        self.package = package
        self.kind = kind
        self._plugins: dict[str, Plugin] = {}

    def add(self, name: str, plugin: Plugin) -> None:
        """Register a plugin.

        :raises DuplicatePlugin: the name is taken
        """
        if name in self._plugins:
            raise DuplicatePlugin(f"two {self.kind}s are called {name!r}")
        self._plugins[name] = plugin

    def all(self) -> dict[str, Plugin]:
        """Import every public module of the package and return what registered, sorted by name."""
        package = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(package.__path__):
            if not module.name.startswith("_"):
                importlib.import_module(f"{self.package}.{module.name}")
        return dict(sorted(self._plugins.items()))
