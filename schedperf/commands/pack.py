# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf pack``: write the recorder as one file that needs only Python 3.9+."""

from pathlib import Path

import click

EPILOG = """\b
Examples:
  schedperf pack collect.pyz
  scp collect.pyz target: && \\
    ssh target sudo ./collect.pyz record -o base.tar -- hackbench
"""


@click.command(epilog=EPILOG)
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
def command(path: Path) -> None:
    """Write the recorder as one file that needs only Python 3.9+.

    Copy the file to the machine under test and run it there.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.commands._outputs import cannot_be_written  # noqa: PLC0415
    from schedperf.commands._zipapp import write_zipapp  # noqa: PLC0415

    try:
        zipapp = write_zipapp(path)
    except OSError as error:
        raise cannot_be_written(path, error) from None
    size = len(zipapp.data)
    click.echo(
        f"{path}: {size / 1e3:.0f} kB; needs Python 3.9 or newer on the machine under test",
        err=True,
    )
    if zipapp.without_objects is not None:
        click.echo(
            f"{path}: does not contain compiled BPF programs ({zipapp.without_objects}); run "
            "`apt-get install clang` and pack again, or install clang on the machine under test",
            err=True,
        )
