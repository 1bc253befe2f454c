# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf compare``: compare bundles: what changed, how certain it is, and why."""

import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedperf.commands._better import BETTER, directions_of, warn_of_unknown_metrics
from schedperf.commands._outputs import STDOUT, append_file, open_outputs, write_output
from schedperf.commands._percentage import Percentage

if TYPE_CHECKING:
    from schedperf.model.comparison import Comparison

EPILOG = """\b
Examples:
  schedperf compare base.tar new.tar
  schedperf compare base.tar new.tar --all
  schedperf compare base.tar new.tar --html report.html
  schedperf compare base.tar new.tar --json - | jq .overall
  schedperf compare base.tar new.tar --history earlier/
  schedperf compare base.tar new.tar --boot-sd 1%
  schedperf compare base.csv new.csv
  schedperf compare --many pairs.csv --format csv
"""

# A comparison needs two.
FEWEST_BUNDLES = 2
DEFAULT_FORMAT = "text"
# The text report that is written beside a page.
BESIDE = "text beside"


def _complete_formats(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the formats whose names start with a text, without importing their modules."""
    from schedperf_reports.formats import format_names  # noqa: PLC0415 # as below

    return [name for name in format_names() if name.startswith(incomplete)]


@click.command(epilog=EPILOG)
@click.argument("paths", metavar="BASE NEW [NEW2]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--html",
    metavar="FILE",
    help="Write the report as one HTML file, and the terminal output to FILE.txt.",
)
@click.option("--json", metavar="FILE", help="Write the whole result as JSON; - is stdout.")
@click.option(
    "--format",
    "format_name",
    metavar="NAME",
    shell_complete=_complete_formats,
    help="Choose the format of stdout: text, markdown, lkml, csv, benchfmt, mmtests, junit, "
    "github, json or html.  [default: text]",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Print the complete text or markdown report instead of one screen.",
)
@click.option("--strict", is_flag=True, help="Exit with status 3 if the verdict is inconclusive.")
@click.option(
    "--allow",
    "allowed",
    metavar="PATH",
    multiple=True,
    help="Allow a field of host.json to differ, e.g. cpu.microcode.",
)
@click.option("--better", **BETTER)
@click.option(
    "--margin",
    type=Percentage("margin"),
    default="3%",
    show_default=True,
    help="Set the equivalence margin: no-change requires a 90% CI within the margin and no "
    "significant change of 1% or more.",
)
@click.option(
    "--history",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Use this earlier recording from the same machine, all recordings in this directory, or "
    "those of this store of `schedperf history`, to estimate the variance of runs and of boots.",
)
@click.option(
    "--boot-sd",
    type=Percentage("standard deviation"),
    help="Set the standard deviation between boots of one kernel, which results with one boot per "
    "side include.  [default: from --history, else 10%]",
)
@click.option(
    "--many",
    metavar="PAIRS.csv",
    type=click.Path(path_type=Path),
    help="Compare the pairs that this table lists in the columns base and new (files or URLs) and, "
    "if wanted, name; print one line per pair.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="With --many: compare by the workers of this Dask scheduler.  [default: processes of this "
    "machine]",
)
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="With --many: write the whole result of each pair to DIR/NAME.json.",
)
@click.option(
    "--base",
    metavar="NAME",
    help="If the input is one table with several sides, use this side as base.  "
    "[default: the first side]",
)
def command(
    paths: tuple[Path, ...],
    *,
    html: str | None,
    json: str | None,
    format_name: str | None,
    everything: bool,
    strict: bool,
    allowed: tuple[str, ...],
    better: tuple[str, ...],
    margin: float,
    history: tuple[Path, ...],
    boot_sd: float | None,
    many: Path | None,
    scheduler: str | None,
    output: Path | None,
    base: str | None,
) -> int:
    """Compare bundles: what changed, how certain it is, and why.

    Each NEW is compared with BASE. Tables of numbers (.csv, .tsv) can also be compared; a single
    table needs a column with the side of each row. Exit status: 0 no regression, 1 regression, 2
    usage or input error, 3 inconclusive (with --strict), 4 not comparable; with --many that of the
    first pair of this order: 1, 2, 4, 3, 0.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.commands._compare_request import CompareRequest  # noqa: PLC0415
    from schedperf.commands._left_over import warn_of_left_over  # noqa: PLC0415
    from schedperf.model.verdict import STRICT_INCONCLUSIVE_STATUS  # noqa: PLC0415

    warn_of_left_over()
    if many is not None:
        from schedperf.commands._compare_many import ManyRequest, compare_many  # noqa: PLC0415

        unused = {"paths": paths, "--html": html, "--all": everything, "--history": history,
                  "--base": base}  # fmt: skip
        _refuse_with_many(unused)
        return compare_many(
            ManyRequest(
                pairs=many,
                scheduler=scheduler,
                output=output,
                json=json,
                printed=choose_format(format_name, {"json": json}),
                strict=strict,
                margin=margin,
                allowed=allowed,
                better=tuple(directions_of(better).items()),
                boot_sd=boot_sd,
            )
        )
    for name, value in (("--scheduler", scheduler), ("--output", output)):
        if value is not None:
            raise click.UsageError(f"{name}: only valid with --many; leave this option out")
    are_tables = _are_tables((*paths, *history))
    _refuse_misuse(
        paths, are_tables=are_tables, allowed=allowed, better=better, boot_sd=boot_sd, base=base
    )
    asked = {"html": html, "json": json}
    printed = choose_format(format_name, asked)
    request = CompareRequest(
        paths=paths,
        history=history,
        margin=margin,
        boot_sd=boot_sd,
        allowed=allowed,
        better=tuple(directions_of(better).items()),
        base=base,
        are_tables=are_tables,
    )
    with open_outputs({**asked, BESIDE: _text_beside(html)}, paths) as files:
        request.warn_of_unknown()
        used = {printed, *(name for name, file in asked.items() if file is not None)}
        comparison = request.compare(drawings=_use_drawings(used, everything=everything))
        warn_of_unknown_metrics(dict(request.better), {row.metric for row in comparison.rows})
        others = [
            shlex.join(alternative.command())
            for alternative in request.other_bases(comparison.sides)
        ]
        options = {"everything": everything, "other_bases": others}
        for name, file in files.items():
            drawn = (
                _render_piped(comparison, **options)
                if name == BESIDE
                else _render(comparison, name, **options)
            )
            write_output(file, [drawn])
        text = _render(comparison, printed, **options)
    click.echo(text, nl=False)
    _append(comparison, printed, **options)
    overall = comparison.overall
    is_undecided = strict and overall.verdict == "inconclusive"
    return STRICT_INCONCLUSIVE_STATUS if is_undecided else overall.exit_status


def _refuse_with_many(unused: Mapping[str, object]) -> None:
    for name, value in unused.items():
        if value:
            raise click.UsageError(f"{name}: not valid with --many; leave it out")


def _refuse_misuse(
    paths: Sequence[Path],
    *,
    are_tables: bool,
    allowed: Sequence[str],
    better: Sequence[str],
    boot_sd: float | None,
    base: str | None,
) -> None:
    if len(paths) < FEWEST_BUNDLES and not are_tables:
        raise click.UsageError(
            f"{len(paths)} bundle(s) given (expected at least two, e.g. base.tar new.tar)"
        )
    if base is not None and not (are_tables and len(paths) == 1):
        raise click.UsageError(
            "--base: only valid with a single table; with several files, the first one is base"
        )
    if better and are_tables:
        raise click.UsageError("--better: tables have a column `better`; leave this option out")
    if boot_sd is not None and are_tables:
        raise click.UsageError("--boot-sd: tables do not identify boots; leave this option out")
    if allowed and are_tables:
        raise click.UsageError("--allow: tables have no fields of host.json; leave this option out")


def _text_beside(html: str | None) -> str | None:
    """Return the path of the text beside a page; None unless the page is a file."""
    if html is None or html == STDOUT:
        return None
    is_device = Path(html).exists() and not Path(html).is_file()
    return None if is_device else f"{html}.txt"


def _are_tables(paths: Sequence[Path]) -> bool:
    from schedperf.inputs.importers.open import split_format  # noqa: PLC0415 # as above
    from schedperf.inputs.tables.names import is_table  # noqa: PLC0415
    from schedperf.model.errors import InputError  # noqa: PLC0415

    tables = [path for path in paths if is_table(path) and split_format(path) is None]
    if tables and len(tables) < len(paths):
        bundle = next(path for path in paths if not is_table(path))
        raise InputError(
            f"{bundle}: a bundle cannot be compared with a table, {tables[0]} (expected only "
            "bundles "
            "or only tables)"
        )
    return bool(tables)


def choose_format(name: str | None, asked: Mapping[str, str | None]) -> str:
    """Return the format of stdout.

    :param name: value of ``--format``; None if not given
    :param asked: output file by format; ``-`` asks for that format on stdout
    :raises click.UsageError: the format is unknown, or several are requested
    """
    from schedperf_reports.formats import format_names  # noqa: PLC0415 # as above

    chosen = {option for option, file in asked.items() if file == STDOUT}
    if name is not None:
        chosen.add(name)
    if len(chosen) > 1:
        raise click.UsageError(
            f"stdout: {len(chosen)} formats requested (expected one of "
            f"{', '.join(sorted(chosen))}); write the others to files"
        )
    printed = next(iter(chosen), DEFAULT_FORMAT)
    names = format_names()
    if printed not in names:
        raise click.UsageError(f"unknown format {printed!r} (expected one of {', '.join(names)})")
    return printed


def _use_drawings(names: Collection[str], *, everything: bool) -> bool:
    """Return whether one of these formats uses the sections that only drawings use."""
    from schedperf_reports.formats import find_format  # noqa: PLC0415 # as above

    return any(find_format(name).uses_drawings(everything=everything) for name in names)


def _render_piped(comparison: "Comparison", **how: Any) -> str:
    """Return the text report as for a pipe, without colours, regardless of the terminal.

    :param how: as in :func:`_render`
    """
    from schedperf.model.text import PIPED_COLUMNS  # noqa: PLC0415 # as above
    from schedperf_reports.formats import Options, find_format  # noqa: PLC0415

    options = Options(width=PIPED_COLUMNS, colour=False, **how)
    return find_format(DEFAULT_FORMAT).render(comparison, options)


def _render(comparison: "Comparison", name: str, **how: Any) -> str:
    """Return the comparison in a format, for the terminal or pipe on stdout.

    :param how: further fields of :class:`schedperf_reports.formats.Options`
    """
    from schedperf.model.text import make_console  # noqa: PLC0415 # as above
    from schedperf_reports.formats import Options, find_format  # noqa: PLC0415

    console = make_console()
    has_colour = console.color_system is not None and not console.no_color
    options = Options(width=console.width, colour=has_colour, **how)
    return find_format(name).render(comparison, options)


def _append(comparison: "Comparison", name: str, **how: Any) -> None:
    """Append a format's additions to the files that a CI system names in environment variables.

    :param how: as in :func:`_render`
    :raises InputError: a file cannot be written
    """
    from schedperf.model.text import PIPED_COLUMNS  # noqa: PLC0415 # as above
    from schedperf_reports.formats import Options, find_format  # noqa: PLC0415

    for variable, render in find_format(name).appends.items():
        file = os.environ.get(variable)
        if file:
            options = Options(width=PIPED_COLUMNS, colour=False, **how)
            append_file(file, render(comparison, options), where=variable)
