# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the list of what may be published, ``allowed.toml``."""

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

COMMAND_LINE = "kernel.cmdline"

Fields = Mapping[str, tuple[str, ...]]


class Allowed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    commands: Fields
    private_texts: Mapping[str, str]
    texts: Fields

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
    """Return the list that schedperf ships."""
    text = files("schedperf.publish").joinpath("allowed.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Allowed)
