# SPDX-License-Identifier: GPL-2.0-or-later
"""The option ``--better NAME=lower``: directions of metrics that their format does not state."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from schedperf.model.comparison import Better

BETTER: dict[str, Any] = {
    "metavar": "NAME=DIRECTION",
    "multiple": True,
    "help": "State whether lower or higher values of a metric are better, if its format does not.",
}


def directions_of(options: Sequence[str]) -> "dict[str, Better]":
    """Parse the values of the option.

    :raises UsageError: one is not NAME=lower or NAME=higher
    """
    directions: dict[str, Better] = {}
    for text in options:
        name, _, direction = text.rpartition("=")
        if not name or direction not in ("lower", "higher"):
            raise click.UsageError(
                f"--better: invalid direction {text!r} (expected NAME=lower or NAME=higher, e.g. "
                "hackbench.time=lower)"
            )
        directions[name] = "lower" if direction == "lower" else "higher"
    return directions
