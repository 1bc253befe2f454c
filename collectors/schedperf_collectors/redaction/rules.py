# SPDX-License-Identifier: GPL-2.0-or-later
"""Define what may be published of host.json and texts, as the analysis lists it."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from fnmatch import translate

COMMAND_LINE = "kernel.cmdline"


@dataclass(frozen=True)
class Rules:
    """The allow-list of host.json and texts.

    :param host: patterns of fields of host.json, as a shell's
    :param kernel_parameters: parameters of the kernel's command line
    :param public_folders: directories whose paths may be published
    :param public_servers: servers whose URLs may be published
    :param common_names: names, in small letters, that identify no one
    """

    host: tuple[str, ...]
    kernel_parameters: frozenset[str]
    public_folders: tuple[str, ...]
    public_servers: frozenset[str]
    common_names: frozenset[str]

    def has_host_field(self, path: str) -> bool:
        """Return whether a field of host.json may be published: ``cpu.model``."""
        if path.startswith(f"{COMMAND_LINE}."):
            return self.has_parameter(path[len(COMMAND_LINE) + 1 :])
        return path == COMMAND_LINE or fits_any(path, self.host)

    def has_parameter(self, name: str) -> bool:
        """Return whether a parameter of the kernel's command line may be published."""
        return name in self.kernel_parameters


def fits_any(path: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a path matches one of the shell patterns; case matters.

    >>> fits_any("cpu.model", ("cpu.*",)), fits_any("cpu.model", ())
    (True, False)
    """
    return bool(patterns) and _compiled(patterns).match(path) is not None


@functools.cache
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))
