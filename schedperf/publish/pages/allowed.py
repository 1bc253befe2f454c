# SPDX-License-Identifier: GPL-2.0-or-later
"""Read ``allowed.toml``, the list of what may be published.

A package of evidence may have its own list for the texts of its records::

    [texts]
    EnergyRow = ["side", "workload", "point", "domain"]
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from schedperf_collectors.redaction.rules import Rules, fits_any

NAME = "allowed.toml"

Fields = Mapping[str, tuple[str, ...]]
Value = TypeVar("Value")


class Texts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Allowed texts of records; the list of a kind of evidence contains nothing else.

    :param texts: fields by record; private names in them are replaced
    :param commands: fields by record that are command lines: paths in them are shortened
    :param private_texts: texts that are never published, by ``RECORD.FIELD``; each has the words
        under which omissions are counted
    """

    texts: Fields = {}
    commands: Fields = {}
    private_texts: Mapping[str, str] = {}


class Allowed(Texts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The allow-list; ``allowed.toml`` describes each of its lists."""

    host: tuple[str, ...]
    kernel_parameters: frozenset[str]
    differences: tuple[str, ...]
    caveat_values: frozenset[str]
    public_folders: tuple[str, ...]
    public_servers: frozenset[str]
    common_names: frozenset[str]
    public_texts: Fields
    commit_texts: Fields

    @property
    def rules(self) -> Rules:
        """Return what may be published of host.json and texts."""
        return Rules(
            host=self.host,
            kernel_parameters=self.kernel_parameters,
            public_folders=self.public_folders,
            public_servers=self.public_servers,
            common_names=self.common_names,
        )

    def has_host_field(self, path: str) -> bool:
        """Return whether a field of host.json may be published: ``cpu.model``."""
        return self.rules.has_host_field(path)

    def has_parameter(self, name: str) -> bool:
        """Return whether a parameter of the kernel's command line may be published."""
        return self.rules.has_parameter(name)

    def has_difference(self, path: str) -> bool:
        """Return whether a difference between sides may be published."""
        return fits_any(path, self.differences) or self.has_host_field(path)


@cache
def read_allowed() -> Allowed:
    """Return what may be published: the list of schedperf and those of the packages of evidence."""
    allowed = _read(files("schedperf.publish.pages"), Allowed)
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
