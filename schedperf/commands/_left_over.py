# SPDX-License-Identifier: GPL-2.0-or-later
"""Say what a killed recording left on this machine."""

import click

from schedperf_collectors.recorder.journal_folder import has_journals, journal_folder


def warn_of_left_over() -> None:
    """Print one line for each thing that is left, with the command that undoes it."""
    folder = journal_folder()
    if not has_journals(folder):
        return
    # Imported here because there is hardly ever anything to say.
    from schedperf_collectors.recorder.journal import say_left_over  # noqa: PLC0415

    for line in say_left_over(folder):
        click.echo(f"schedperf: warning: {line}", err=True)
