# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf profile``: show which functions take CPU time, and which of them changed."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedperf.commands._outputs import (
    STDOUT,
    draw_for_stdout,
    dump_json,
    json_option,
    limit_option,
    open_outputs,
    printed_format,
    write_output,
)

if TYPE_CHECKING:
    from schedperf.commands._profile_request import Request

EPILOG = """\b
Examples:
  schedperf profile base.tar
  schedperf profile base.tar new.tar --flamegraph flames.html
  schedperf profile base.tar new.tar --sort node,symbol --json -
  schedperf profile base.tar new.tar --export folded > stacks.folded
"""

TITLE = "Profile"
MOST_SOURCES = 2
USUAL_SORT = "symbol,dso"
USUAL_LIMIT = 25


@click.command(epilog=EPILOG)
@click.argument("paths", metavar="BASE [NEW]", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--sort",
    metavar="KEY,KEY",
    default=USUAL_SORT,
    show_default=True,
    help="Group samples by these keys: event, cpu, node, comm, dso, symbol.",
)
@click.option("--event", metavar="NAME", help="Show only this event.")
@click.option(
    "--point",
    metavar="POINT",
    help="Show runs with these parameters (e.g. groups=4) or of this workload.",
)
@click.option("--comm", metavar="NAME", help="Count only samples of tasks with this name.")
@click.option("--cpu", metavar="LIST", help="Count only samples on these CPUs, e.g. 0-3,8.")
@click.option("--node", metavar="LIST", help="Count only samples on these NUMA nodes, e.g. 0,1.")
@click.option(
    "--symbols",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Resolve kernel addresses of perf.data with this System.map or kallsyms.",
)
@limit_option(USUAL_LIMIT, "rows")
@json_option("all rows")
@click.option("--flamegraph", metavar="FILE", help="Write a flame graph as one HTML file.")
@click.option(
    "--export",
    type=click.Choice(["folded", "speedscope"]),
    help="Export the call stacks for other viewers.",
)
@click.option(
    "-o",
    "output",
    metavar="FILE",
    help="Write the output of --export to this file.  [default: stdout]",
)
def command(
    paths: tuple[Path, ...],
    *,
    sort: str,
    event: str | None,
    point: str | None,
    comm: str | None,
    cpu: str | None,
    node: str | None,
    symbols: Path | None,
    limit: int,
    json: str | None,
    flamegraph: str | None,
    export: str | None,
    output: str | None,
) -> int:
    """Show which functions take CPU time, and which of them changed.

    BASE and NEW are bundles, or output of perf record: a file, a directory, or data from a pipe,
    compressed or not. Without NEW, symbols are printed as in perf report. With NEW, the parts of
    a function that the compiler split off, and the names of a renamed function, are merged.
    Exit status: 0, or 2 for a usage or input
    error.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.commands._profile_request import make_request  # noqa: PLC0415

    if not 1 <= len(paths) <= MOST_SOURCES:
        raise click.UsageError(
            f"{len(paths)} inputs given (expected one bundle or perf.data, or two to compare)"
        )
    if output is not None and export is None:
        raise click.UsageError("-o: only valid with --export; add --export")
    asked = {
        "json": json,
        "flamegraph": flamegraph,
        "export": (output or STDOUT) if export else None,
    }
    outputs = {name: file for name, file in asked.items() if file is not None}
    printed = printed_format(outputs)
    inputs = (*paths, *([symbols] if symbols else []))
    with open_outputs(outputs, inputs) as files:
        request = make_request(
            paths,
            sort,
            symbols=symbols,
            event=event,
            point=point,
            comm=comm,
            cpu=cpu,
            node=node,
            has_stacks=not outputs.keys() <= {"json"},
        )
        for name, file in files.items():
            write_output(file, _render(request, name, export))
    shown = _render(request, printed, export) if printed else [_draw_text(request, limit)]
    for piece in shown:
        click.echo(piece, nl=False)
    if printed == "export":
        _print_limits(request)
    return 0


def _print_limits(request: "Request") -> None:
    from schedperf_reports.evidence.profile.samples import list_limits  # noqa: PLC0415 # as above

    for text in list_limits(request.describe()):
        click.echo(f"schedperf: {text}", err=True)


def _render(request: "Request", name: str, export: str | None) -> Iterable[str]:
    if name == "json":
        return [dump_json(request.describe())]
    if name == "export":
        return request.export(str(export))
    return [_draw_flames(request)]


def _draw_flames(request: "Request") -> str:
    from schedperf_reports.evidence.profile.samples import describe_basis  # noqa: PLC0415
    from schedperf_reports.page.flame_page import draw_flame_page  # noqa: PLC0415 # as above

    data = request.describe()
    return draw_flame_page(describe_basis(data), request.describe_flames(), request.head(data))


def _draw_text(request: "Request", limit: int) -> str:
    from schedperf_reports.evidence.profile.samples import describe_samples  # noqa: PLC0415 # as above

    blocks = describe_samples(request.describe(), limit)
    return draw_for_stdout(TITLE, blocks, see="--limit or --json")
