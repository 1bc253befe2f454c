# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the list of what may be published, ``allowed.toml``.

A package of evidence may have a list of the texts of its records beside them::

    [texts]
    EnergyRow = ["side", "workload", "point", "domain"]
"""

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

NAME = "allowed.toml"
COMMAND_LINE = "kernel.cmdline"

Fields = Mapping[str, tuple[str, ...]]
Value = TypeVar("Value")


class Texts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Texts of records, which is all that a kind of evidence lists.

    :param texts: fields by record, in which private names are replaced
    :param commands: fields by record that are command lines: paths in them are shortened
    :param private_texts: what texts that are never published are called, by record and field
    """

    texts: Fields = {}
    commands: Fields = {}
    private_texts: Mapping[str, str] = {}


class Allowed(Texts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be published; ``allowed.toml`` describes each list."""

    host: tuple[str, ...]
    kernel_parameters: frozenset[str]
    differences: tuple[str, ...]
    caveat_values: frozenset[str]
    public_folders: tuple[str, ...]
    public_servers: frozenset[str]
    common_names: frozenset[str]
    public_texts: Fields
    commit_texts: Fields

    def has_host_field(self, path: str) -> bool:
        """Return whether a field of host.json may be published: ``cpu.model``."""
        parameter = path.removeprefix(f"{COMMAND_LINE}.")
        if parameter != path:
            return self.has_parameter(parameter)
        return path == COMMAND_LINE or any(fnmatchcase(path, pattern) for pattern in self.host)

    def has_parameter(self, name: str) -> bool:
        """Return whether a parameter of the kernel's command line may be published."""
        return name in self.kernel_parameters

    def has_difference(self, path: str) -> bool:
        """Return whether a difference between sides may be published."""
        others = any(fnmatchcase(path, pattern) for pattern in self.differences)
        return others or self.has_host_field(path)


@cache
def read_allowed() -> Allowed:
    """Return the list that schedperf ships, with those of the packages of evidence."""
    allowed = _read(files("schedperf.publish"), Allowed)
    folders = sorted(files("schedperf.evidence").iterdir(), key=lambda folder: folder.name)
    evidence = [_read(folder, Texts) for folder in folders if folder.joinpath(NAME).is_file()]
    lists: list[Texts] = [allowed, *evidence]
    return replace(
        allowed,
        texts={kind: names for each in lists for kind, names in each.texts.items()},
        commands={kind: names for each in lists for kind, names in each.commands.items()},
        private_texts={text: what for each in lists for text, what in each.private_texts.items()},
    )


def _read(folder: Traversable, kind: type[Value]) -> Value:
    text = folder.joinpath(NAME).read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), kind)
