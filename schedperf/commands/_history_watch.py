# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf history watch``: find lasting changes of all series."""

from pathlib import Path

import click

from schedperf.commands._history_options import JSON, STORE_DIRECTORY, say


@click.command()
@STORE_DIRECTORY
@JSON
def watch(*, store: Path, as_json: bool) -> int:
    """Find lasting changes of all series, and request a retest of each new one.

    A step that is still there in later nights is not printed again. Nothing is sent to anyone.
    Exit status: 1 if there is a new step, else 0.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.commands._outputs import dump_json  # noqa: PLC0415
    from schedperf.history.nightly import watch_store  # noqa: PLC0415
    from schedperf.history.store.directory import open_directory  # noqa: PLC0415

    found = watch_store(open_directory(store), say)
    if as_json:
        click.echo(dump_json(found), nl=False)
    else:
        from schedperf.commands._history_text import describe_suspected  # noqa: PLC0415 # as above

        for each in found:
            click.echo(describe_suspected(each))
        if not found:
            click.echo(f"{store}: no new step")
    return 1 if found else 0


COMMANDS = {"watch": watch}
