# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf show``: print the contents of a bundle, and what is missing and why."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from schedperf.inputs.bundle.open import Bundle

EPILOG = """\b
Examples:
  schedperf show base.tar
  schedperf show --runs base.tar
  schedperf show --cat boots/0/runs/000/stdout base.tar
"""


@click.command(epilog=EPILOG)
@click.argument("path", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--runs", "list_runs", is_flag=True, help="List every run.")
@click.option("--verify", is_flag=True, help="Verify every member's checksum.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, with all runs.")
@click.option("--cat", "member", metavar="MEMBER", help="Print only this member of the archive.")
def command(
    path: Path, *, list_runs: bool, verify: bool, as_json: bool, member: str | None
) -> None:
    """Print the contents of a bundle, and what is missing and why.

    A damaged bundle is read as far as possible; the exit status is then 2.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.commands._left_over import warn_of_left_over  # noqa: PLC0415
    from schedperf.commands._summary import summarise  # noqa: PLC0415
    from schedperf.inputs.importers.open import Opener  # noqa: PLC0415
    from schedperf.model.schema import to_plain  # noqa: PLC0415

    warn_of_left_over()
    with Opener() as opener:
        bundle = opener.open(path, salvage=True)
        if member is not None:
            _write_member(bundle, member)
            return
        summary = summarise(bundle, verify=verify)
        if as_json:
            click.echo(json.dumps(to_plain(summary), indent=1))
        else:
            from schedperf.commands._show_text import format_summary  # noqa: PLC0415

            click.echo(format_summary(summary, list_runs=list_runs), nl=False)
    _complain(bundle, summary.verification.broken if summary.verification else ())


def _write_member(bundle: "Bundle", member: str) -> None:
    """Write a member unchanged; on a terminal, control characters are removed.

    :raises BundleError: the member is missing or damaged
    """
    from schedperf.model.text import clean  # noqa: PLC0415 # as above

    if sys.stdout.isatty():
        click.echo(clean(bundle.read_text(member)), nl=False)
    else:
        sys.stdout.buffer.write(bundle.read(member))


def _complain(bundle: "Bundle", broken: tuple[str, ...]) -> None:
    """Raise an error for a damaged bundle; one still being written is not damaged.

    :param broken: members that do not match their checksum
    :raises BundleError: the bundle is damaged
    """
    from schedperf.model.errors import BundleError  # noqa: PLC0415 # as above

    problems = [
        str(caveat.numbers["problem"]) for caveat in bundle.caveats if caveat.code == "damaged"
    ]
    problems += [f"{name} does not match its checksum" for name in broken]
    if not problems or bundle.path.name.endswith(".partial"):
        return
    # A member that does not match its checksum is noticed when it is read and when it is verified.
    first, *others = dict.fromkeys(problems)
    noun = "problem" if len(others) == 1 else "problems"
    more = f" (and {len(others)} more {noun})" if others else ""
    raise BundleError(f"{bundle.path}: {first}{more}", "copy it again")
