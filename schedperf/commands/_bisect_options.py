# SPDX-License-Identifier: GPL-2.0-or-later
"""The options of commands that search a range of commits."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedperf.commands._percentage import Percentage

if TYPE_CHECKING:
    from schedperf.lab.bisect.judge import Options

_MOST_BOOTS = 140

_OPTIONS = (
    click.option("--repo", metavar="DIR", required=True, type=click.Path(path_type=Path),
                 help="Read the commits from this git repository."),
    click.option("--good", metavar="COMMIT", required=True,
                 help="Name a commit before the change."),
    click.option("--bad", metavar="COMMIT", required=True, help="Name a commit with the change."),
    click.option("--paths", metavar="PATH", multiple=True,
                 help="Expect the cause in commits that touch this path; others are ten times less "
                      "probable at first."),
    click.option("--boot-sd", type=Percentage("standard deviation"),
                 help="Set the standard deviation between boots of one kernel, from earlier boots "
                      "of the machine.  [default: from the boots of good and bad]"),
    click.option("--boots", "most_boots", metavar="N", type=click.IntRange(min=1),
                 default=_MOST_BOOTS, show_default=True,
                 help="Give up the search of a range after N boots, first boots included."),
)  # fmt: skip


def search_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def read_options(given: Mapping[str, Any]) -> "Options":
    """Return how the range is searched."""
    from schedperf.lab.bisect.judge import Options  # noqa: PLC0415 # --help stays fast

    return Options(paths=given["paths"], boot_sd=given["boot_sd"], most_boots=given["most_boots"])
