# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf c2c``: show contended cache lines and the code that accesses them."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedperf.commands._outputs import (
    draw_for_stdout,
    dump_json,
    json_option,
    limit_option,
    open_outputs,
    printed_format,
    write_output,
)

if TYPE_CHECKING:
    from schedperf.evidence.c2c.record import C2cDocument, SortKey

EPILOG = """\b
Examples:
  schedperf c2c base.data --units percpu.txt
  schedperf c2c base.data new.data --sort rmt
  schedperf c2c new.data --sort records --json -
"""

TITLE = "Contended cache lines"
MOST_SOURCES = 2
USUAL_LIMIT = 10


@click.command(epilog=EPILOG)
@click.argument("paths", metavar="BASE [NEW]", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--sort",
    type=click.Choice(["rmt", "lcl", "tot", "peer", "records"]),
    default="tot",
    show_default=True,
    help="Sort by remote, local or all contended loads, peer snoops, or samples.",
)
@click.option("--point", metavar="POINT", help="Show runs with these parameters, e.g. groups=4.")
@click.option(
    "--symbols",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Resolve kernel addresses of perf.data with this System.map or kallsyms.",
)
@click.option(
    "--layout",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Read the kernel's System.map and BTF for perf.data from this directory or file.",
)
@click.option(
    "--units",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read the addresses of the per-CPU areas for perf.data from percpu.json or percpu.txt of "
    "the same boot.",
)
@click.option(
    "--cacheline",
    metavar="BYTES",
    type=click.IntRange(min=1),
    help="Set the cache line size.  [default: as recorded, or 64]",
)
@limit_option(USUAL_LIMIT, "cache lines")
@json_option("the whole result")
def command(
    paths: tuple[Path, ...],
    *,
    sort: "SortKey",
    point: str | None,
    symbols: Path | None,
    layout: Path | None,
    units: Path | None,
    cacheline: int | None,
    limit: int,
    json: str | None,
) -> int:
    """Show contended cache lines and the code that accesses them.

    BASE and NEW are bundles, perf.data with memory samples (perf c2c record, perf mem record), or
    the text of perf c2c report. The copies of a per-CPU cache line on different CPUs are merged
    and shown as one line. Exit status: 0, or 2 for a usage or input error.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.commands._c2c_request import Wanted, describe  # noqa: PLC0415

    if not 1 <= len(paths) <= MOST_SOURCES:
        raise click.UsageError(
            f"{len(paths)} inputs given (expected one bundle, perf.data or report, or two to "
            "compare)"
        )
    options = Wanted(
        sort=sort,
        point=point,
        symbols=symbols,
        layout=layout,
        units=units,
        line_bytes=cacheline,
    )
    inputs = (*paths, *(path for path in (symbols, layout, units) if path is not None))
    asked = {"json": json}
    printed = printed_format(asked)
    with open_outputs(asked, inputs) as files:
        data = describe(paths, options)
        for file in files.values():
            write_output(file, [dump_json(data)])
    click.echo(dump_json(data) if printed else _draw(data, limit), nl=False)
    return 0


def _draw(data: "C2cDocument", limit: int) -> str:
    from schedperf_reports.evidence.c2c.memory import describe_memory  # noqa: PLC0415 # as above

    return draw_for_stdout(TITLE, describe_memory(data, limit), see="--limit or --json")
