# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf pack``: write the recorder as one file that needs only Python 3.9+."""

from pathlib import Path

import click

EPILOG = """\b
Examples:
  schedperf pack collect.pyz
  scp collect.pyz target: && \\
    ssh target sudo ./collect.pyz record -o base.tar -- hackbench
  schedperf pack request.pyz --ask ASK.toml
"""


@click.command(epilog=EPILOG)
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--ask", metavar="FILE", type=click.Path(path_type=Path),
              help="Write a request to a reporter: FILE (TOML) has the question, the command, "
                   "kernels and scheduler features. The reporter runs `sudo ./FILE` on each "
                   "kernel, and sends the file that it writes.")  # fmt: skip
def command(path: Path, *, ask: Path | None) -> None:
    """Write the recorder as one file that needs only Python 3.9+.

    Copy the file to the machine under test and run it there.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.commands._outputs import cannot_be_written  # noqa: PLC0415
    from schedperf.commands._zipapp import write_zipapp  # noqa: PLC0415

    request = None if ask is None else _read_request(ask)
    try:
        zipapp = write_zipapp(path, request)
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


def _read_request(path: Path) -> bytes:
    """Return the request of a file, with the rules by which its results are redacted.

    :raises InputError: the file cannot be read, or is invalid
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.model.errors import InputError  # noqa: PLC0415
    from schedperf.publish.pages.allowed import read_allowed  # noqa: PLC0415
    from schedperf_collectors.machine.errors import RecordError  # noqa: PLC0415
    from schedperf_collectors.recorder.jobs import read_tree  # noqa: PLC0415
    from schedperf_collectors.request.ask import pack, parse_ask  # noqa: PLC0415
    from schedperf_collectors.request.steps import read_workload  # noqa: PLC0415

    try:
        tree = read_tree(path, "a TOML file with sentence, run ... (see docs/for-reporters.md)")
        read_workload(parse_ask(tree, str(path)).job)
    except RecordError as error:
        raise InputError(str(error)) from error
    return pack(tree, read_allowed().rules)
