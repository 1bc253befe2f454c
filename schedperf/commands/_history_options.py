# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the options that the subcommands of ``schedperf history`` share."""

from pathlib import Path

import click

from schedperf.model.text import clean_line

STORE_DIRECTORY = click.option(
    "--store",
    metavar="DIR",
    default="history",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Use the store in this directory.",
)
# The URL of a database must not become a path, which has no double slash.
STORE = click.option(
    "--store",
    metavar="DIR|URL",
    default="history",
    show_default=True,
    help="Use the store in this directory, or the database with this URL.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def say(line: str) -> None:
    """Print one line on stderr."""
    click.echo(f"schedperf: {clean_line(line)}", err=True)
