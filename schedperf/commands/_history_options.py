# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the options that the subcommands of ``schedperf history`` share."""

from pathlib import Path

import click

from schedperf.model.text import clean_line


def _refuse_url(_ctx: click.Context, _param: click.Parameter, value: str) -> Path:
    """Return the path of a store that is changed.

    :raises BadParameter: it is a URL, which as a path would be a directory "postgresql:"
    """
    scheme, separator, _ = value.partition("://")
    if separator:
        raise click.BadParameter(
            f"a URL, {clean_line(scheme)}://... (expected a directory, whose file store.toml names "
            'the database, e.g. database = "postgresql://controller/history")'
        )
    return Path(value)


STORE_DIRECTORY = click.option(
    "--store",
    metavar="DIR",
    default="history",
    show_default=True,
    callback=_refuse_url,
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
