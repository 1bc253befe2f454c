# SPDX-License-Identifier: GPL-2.0-or-later
"""Remove the temporary directories of killed commands, and list what killed recordings left."""

import click

from schedperf_collectors.machine.temporary import remove_abandoned
from schedperf_collectors.recorder.journal_folder import has_journals, journal_folder


def warn_of_left_over() -> None:
    """Remove temporary directories of killed commands, and warn of what killed recordings changed.

    Each warning is one line on stderr with the command that undoes the change.
    """
    remove_abandoned()
    folder = journal_folder()
    if not has_journals(folder):
        return
    # Imported here because there is hardly ever anything to print.
    from schedperf_collectors.recorder.journal import describe_left_over  # noqa: PLC0415

    for line in describe_left_over(folder):
        click.echo(f"schedperf: warning: {line}", err=True)
