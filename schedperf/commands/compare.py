"""``schedperf compare``: did anything change between two or more bundles or tables, and why."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from schedperf.bundle import Bundle
    from schedperf.compare import CompareOptions
    from schedperf.model import Comparison
    from schedperf.tables import Table

EPILOG = """\b
Examples:
  schedperf compare base.tar new.tar
  schedperf compare base.tar new.tar --html report.html
  schedperf compare base.tar new.tar --json - | jq .overall
  schedperf compare base.csv new.csv
"""

# Below two there is nothing to compare.
FEWEST_BUNDLES = 2
LARGEST_MARGIN = 0.5
STDOUT = "-"
DEFAULT_FORMAT = "terminal"


class _Percentage(click.ParamType["float"]):
    """A share as people write it: ``3%`` or ``0.03``."""

    name = "percentage"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value).strip()
        number = text.removesuffix("%")
        try:
            share = float(number) / (100.0 if number != text else 1.0)
        except ValueError:
            self.fail(f"{text!r} is not a percentage; write it as 3%", param, ctx)
        if not 0.0 < share <= LARGEST_MARGIN:
            hint = f", it means {share:.0%}" if share > LARGEST_MARGIN else ""
            limits = f"above 0% and up to {LARGEST_MARGIN:.0%}"
            self.fail(f"{text!r} is not {limits}{hint}; write 3% or 0.03", param, ctx)
        return share


@click.command(epilog=EPILOG)
@click.argument("paths", metavar="BASE NEW [NEW2]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--html", metavar="FILE", help="Write the report as one HTML file.")
@click.option("--json", metavar="FILE", help="Write the whole result as JSON; - is stdout.")
@click.option(
    "--format",
    "format_name",
    metavar="NAME",
    help="Print this instead of the terminal report: json, html …",
)
@click.option("--strict", is_flag=True, help="Exit with 3 where the verdict is inconclusive.")
@click.option(
    "--allow",
    "allowed",
    metavar="PATH",
    multiple=True,
    help="A field of host.json that may differ: cpu.microcode.",
)
@click.option(
    "--margin",
    type=_Percentage(),
    default="3%",
    show_default=True,
    help="Sides that differ by less count as equal.",
)
@click.option(
    "--history",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="An earlier recording of the machine: it tells how much few runs vary.",
)
@click.option("--base", metavar="NAME", help="Which side of one table is base; else its first.")
def command(
    paths: tuple[Path, ...],
    *,
    html: str | None,
    json: str | None,
    format_name: str | None,
    strict: bool,
    allowed: tuple[str, ...],
    margin: float,
    history: tuple[Path, ...],
    base: str | None,
) -> int:
    """Compare bundles: did anything change, how sure is that, and why.

    BASE is compared with each NEW. Tables of numbers, .csv or .tsv, are compared as well;
    one alone must have a column that names its sides. Exit status: 0 no regression, 1 regression,
    2 usage or input error, 3 inconclusive (with --strict), 4 not comparable.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.commands._outputs import open_output, write_output  # noqa: PLC0415
    from schedperf.compare import CompareOptions  # noqa: PLC0415
    from schedperf.verdicts import STRICT_INCONCLUSIVE_STATUS  # noqa: PLC0415

    are_tables = _are_tables((*paths, *history))
    if len(paths) < FEWEST_BUNDLES and not are_tables:
        raise click.UsageError(f"got {len(paths)} of the two bundles; name a base and a new one")
    if base is not None and not (are_tables and len(paths) == 1):
        raise click.UsageError(
            "--base names a side of one table; of several files the first is base"
        )
    if allowed and are_tables:
        raise click.UsageError("--allow names a field of host.json, which tables do not have")
    asked = {"html": html, "json": json}
    printed = _choose_format(format_name, asked)
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(open_output(Path(file), paths))
            for name, file in asked.items()
            if file is not None and file != STDOUT
        }
        chosen = CompareOptions(margin=margin, allowed=allowed)
        if are_tables:
            comparison = _compare_tables(paths, history, chosen, base)
        else:
            comparison = _compare(paths, history, chosen)
        for name, file in files.items():
            write_output(file, _render(comparison, name))
    click.echo(_render(comparison, printed), nl=False)
    overall = comparison.overall
    is_undecided = strict and overall.verdict == "inconclusive"
    return STRICT_INCONCLUSIVE_STATUS if is_undecided else overall.exit_status


def _are_tables(paths: Sequence[Path]) -> bool:
    from schedperf.errors import InputError  # noqa: PLC0415 # as above
    from schedperf.tables import is_table  # noqa: PLC0415

    tables = [path for path in paths if is_table(path)]
    if tables and len(tables) < len(paths):
        other = next(path for path in paths if not is_table(path))
        raise InputError(
            f"{other}: is a bundle and {tables[0]} is a table; compare bundles with bundles "
            "and tables with tables"
        )
    return bool(tables)


def _compare(
    paths: Sequence[Path], history: Sequence[Path], options: "CompareOptions"
) -> "Comparison":
    from schedperf.bundle import open_bundle  # noqa: PLC0415 # as above
    from schedperf.compare import compare, df_past_runs  # noqa: PLC0415

    bundles = [open_bundle(path) for path in paths]
    _warn_of_unknown(bundles, options.allowed)
    earlier = [open_bundle(path) for path in history]
    _refuse_known([*bundles, *earlier], len(bundles))
    past = tuple(df_past_runs(bundle, bundles[0], options) for bundle in earlier)
    return compare(bundles, replace(options, history=past))


def _compare_tables(
    paths: Sequence[Path], history: Sequence[Path], options: "CompareOptions", base: str | None
) -> "Comparison":
    from schedperf.compare_tables import compare_tables  # noqa: PLC0415 # as above
    from schedperf.tables import open_table  # noqa: PLC0415

    tables = [open_table(path) for path in paths]
    earlier = [open_table(path) for path in history]
    _refuse_known([*tables, *earlier], len(tables))
    past = tuple(one.runs if one.sides else one.runs.assign(side=one.path.name) for one in earlier)
    return compare_tables(tables, replace(options, history=past), base=base)


def _refuse_known(files: "Sequence[Bundle | Table]", compared: int) -> None:
    # Data that are given twice would count as two recordings.
    from schedperf.errors import InputError  # noqa: PLC0415 # as above

    seen = {file.digest: file.path for file in files[:compared]}
    for past in files[compared:]:
        if past.digest in seen:
            same = f"holds the same data as {seen[past.digest]}"
            raise InputError(f"{past.path}: {same}; leave it out of --history")
        seen[past.digest] = past.path


def _warn_of_unknown(bundles: "Sequence[Bundle]", allowed: Sequence[str]) -> None:
    # A slip of the pen must not pass for a permission; a script for many kernels may go on.
    from schedperf.comparability import unknown_fields  # noqa: PLC0415 # as above
    from schedperf.text import clean_line  # noqa: PLC0415

    for path in unknown_fields(bundles, allowed):
        click.echo(
            f"schedperf: warning: --allow {clean_line(path)}: no bundle has such a field; "
            "`schedperf show --cat boots/0/host.json` prints them",
            err=True,
        )


def _choose_format(name: str | None, asked: Mapping[str, str | None]) -> str:
    """Return the one format that stdout gets."""
    from schedperf_reports.formats import all_formats  # noqa: PLC0415 # as above

    chosen = {option for option, file in asked.items() if file == STDOUT}
    if name is not None:
        chosen.add(name)
    if len(chosen) > 1:
        raise click.UsageError(f"stdout can hold one format, not {' and '.join(sorted(chosen))}")
    printed = next(iter(chosen), DEFAULT_FORMAT)
    known = all_formats()
    if printed not in known:
        raise click.UsageError(f"no format {printed!r}; there is {', '.join(known)}")
    return printed


def _render(comparison: "Comparison", name: str) -> str:
    from schedperf.text import make_console  # noqa: PLC0415 # as above
    from schedperf_reports.formats import Options, all_formats  # noqa: PLC0415

    console = make_console()
    has_colour = console.color_system is not None and not console.no_color
    options = Options(width=console.width, colour=has_colour)
    return all_formats()[name].render(comparison, options)
