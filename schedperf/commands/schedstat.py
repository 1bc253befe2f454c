# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf schedstat``: compare /proc/schedstat counters per CPU and topology level."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedperf.commands._outputs import (
    draw_for_stdout,
    dump_section,
    json_option,
    limit_option,
    open_outputs,
    printed_format,
    write_output,
)

if TYPE_CHECKING:
    from schedperf.evidence.schedstat.record import Schedstat
    from schedperf_reports.blocks import Block

EPILOG = """\b
Examples:
  schedperf schedstat examples/deep-cgroup-arm64/base.tar.xz
  schedperf schedstat examples/cluster-percpu/base.tar.xz \\
    examples/cluster-percpu/new.tar.xz --html schedstat.html
"""

TITLE = "Scheduler statistics"
MOST_SOURCES = 2
USUAL_LIMIT = 20
LARGEST_HZ = 10_000


@click.command(epilog=EPILOG)
@click.argument("sources", metavar="BASE [NEW]", nargs=-1, type=click.Path())
@click.option("--cpu", metavar="LIST", help="Count only these CPUs, e.g. 0-3,8.")
@click.option(
    "--hz",
    metavar="N",
    type=click.IntRange(min=1, max=LARGEST_HZ),
    help="Assume this CONFIG_HZ; not needed for recorded bundles, which contain it.  [default: "
    "rates per tick]",
)
@click.option("--point", metavar="POINT", help="Show runs with these parameters, e.g. groups=4.")
@click.option(
    "--sort",
    type=click.Choice(["change", "name"]),
    default="change",
    show_default=True,
    help="Sort tables by change, or list counters in the kernel's order (name).",
)
@limit_option(USUAL_LIMIT, "table rows")
@json_option("the whole result")
@click.option("--html", metavar="FILE", help="Write the report as one HTML file; - is stdout.")
def command(
    sources: tuple[str, ...],
    *,
    cpu: str | None,
    hz: int | None,
    point: str | None,
    sort: str,
    limit: int,
    json: str | None,
    html: str | None,
) -> int:
    """Compare /proc/schedstat counters per CPU and topology level.

    BASE and NEW are bundles, files of perf sched stats record or report, directories with two
    snapshots of /proc/schedstat (files before and after), or two snapshots as BEFORE,AFTER.
    Counters of different kernel versions are matched by name; counters without a match are listed.
    Exit status: 0, or 2 for a usage or input error.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.commands._schedstat_request import Wanted, describe, parse_cpus  # noqa: PLC0415

    if not 1 <= len(sources) <= MOST_SOURCES:
        raise click.UsageError(
            f"{len(sources)} inputs given (expected one bundle, file or directory, or two to "
            "compare)"
        )
    options = Wanted(cpus=None if cpu is None else parse_cpus(cpu), hz=hz, point=point)
    outputs = {"json": json, "html": html}
    printed = printed_format(outputs)
    inputs = [Path(part) for source in sources for part in (source, *source.split(","))]
    with open_outputs(outputs, inputs) as files:
        data = describe(sources, options)
        for name, file in files.items():
            write_output(file, [_render(data, sources, name, sort, limit)])
    click.echo(_render(data, sources, printed, sort, limit), nl=False)
    return 0


def _render(
    data: "Schedstat", sources: Sequence[str], name: str | None, sort: str, limit: int
) -> str:
    if name == "json":
        return dump_section(data)
    from schedperf_reports.evidence.schedstat import describe_counts  # noqa: PLC0415 # as above

    blocks = describe_counts(data, limit, by_name=sort == "name")
    if name == "html":
        return _draw_page(data, sources, blocks)
    return draw_for_stdout(TITLE, blocks, see="--limit, --html or --json")


def _draw_page(data: "Schedstat", sources: Sequence[str], blocks: "Iterable[Block]") -> str:
    from schedperf import __version__  # noqa: PLC0415 # as above
    from schedperf.commands._schedstat_request import label_sources  # noqa: PLC0415
    from schedperf_reports.standalone import Head, PageSource, draw_page  # noqa: PLC0415

    labels = label_sources(sources)
    head = Head(
        title=f"scheduler statistics: {' vs '.join(reversed(labels))}",
        sides=tuple(
            PageSource(name=side.side, label=label, path=source)
            for side, label, source in zip(data.sides, labels, sources, strict=True)
        ),
        tool_version=__version__,
        schema=data.schema_id(),
    )
    return draw_page("schedstat", TITLE, blocks, head)
