# SPDX-License-Identifier: GPL-2.0-or-later
"""The option ``--better NAME=lower``: directions of metrics that their format does not state."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from schedperf.model.text import clean_line

if TYPE_CHECKING:
    from schedperf.model.rows import Better

# Names that a warning suggests, and how alike they must be (difflib's ratio, 1 is equal).
MOST_NEAR = 3
LEAST_ALIKE = 0.4

BETTER: dict[str, Any] = {
    "metavar": "NAME=DIRECTION",
    "multiple": True,
    "help": "State whether lower or higher values of a metric are better, if its format does not.",
}


def directions_of(options: Sequence[str]) -> "dict[str, Better]":
    """Parse the values of the option; return the direction by metric.

    :raises UsageError: a value is not NAME=lower or NAME=higher
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


def warn_of_unknown_metrics(directions: "Mapping[str, Better]", metrics: Collection[str]) -> None:
    """Warn about directions of metrics that do not occur, each with the names most like it.

    :param metrics: names of the metrics of all runs
    """
    import difflib  # noqa: PLC0415 # --help needs none

    for name in directions:
        if name in metrics:
            continue
        # A run that failed has a metric without a name.
        known = sorted(filter(None, metrics))
        near = difflib.get_close_matches(name, known, MOST_NEAR, LEAST_ALIKE) or known[:MOST_NEAR]
        listed = f" (expected one of {len(known)} metrics, e.g. {', '.join(near)})" if near else ""
        text = f"schedperf: warning: --better {name} names an unknown metric{listed}"
        click.echo(clean_line(text), err=True)
