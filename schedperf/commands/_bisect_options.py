# SPDX-License-Identifier: GPL-2.0-or-later
"""The options of commands that search a range of commits."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedperf.commands._percentage import Percentage
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

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
    click.option("--history", metavar="STORE SERIES",
                 type=(click.Path(path_type=Path), str),
                 help="Take the standard deviation between boots from a series of a store of "
                      "`schedperf history`."),
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
    """Return how the range is searched.

    :raises InputError: the store has no such series, or does not know how its boots differ
    """
    from schedperf.lab.bisect.judge import Options  # noqa: PLC0415 # --help stays fast

    boot_sd = given["boot_sd"]
    if given["history"] is not None:
        if boot_sd is not None:
            raise click.UsageError("--boot-sd and --history exclude each other")
        boot_sd = _boot_sd_of(*given["history"])
    return Options(paths=given["paths"], boot_sd=boot_sd, most_boots=given["most_boots"])


def _boot_sd_of(store: Path, name: str) -> float:
    from schedperf.history.questions.history import open_history  # noqa: PLC0415 # as above
    from schedperf.history.questions.noise import noise_of  # noqa: PLC0415

    with open_history(store) as history:
        series = history.find(name)
        noise = noise_of(series, history.nights(series))
    if not noise.sd_boots or not noise.is_log:
        raise InputError(
            f"{store}: {clean_line(series.name)}: unknown how boots differ (expected nights with "
            "two boots of a kernel, and values above 0); give --boot-sd instead"
        )
    return noise.sd_boots
