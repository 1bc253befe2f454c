"""``schedperf schedstat``: what the scheduler counted, in one source or between two."""

from pathlib import Path

import click

from schedperf.commands._outputs import (
    STDOUT,
    draw_for_stdout,
    dump_json,
    json_option,
    limit_option,
    open_output,
    write_output,
)

EPILOG = """\b
Examples:
  schedperf schedstat examples/deep-cgroup-arm64/base.tar.xz
"""

TITLE = "Scheduler statistics"
MOST_SOURCES = 2
USUAL_LIMIT = 20
LARGEST_HZ = 10_000


@click.command(epilog=EPILOG)
@click.argument("sources", metavar="A [B]", nargs=-1)
@click.option("--cpu", metavar="LIST", help="Count only these CPUs, as 0-3,8.")
@click.option(
    "--hz",
    type=click.IntRange(min=1, max=LARGEST_HZ),
    help="Of files: the kernels' CONFIG_HZ, for rates a second; else they are per tick.",
)
@click.option("--point", metavar="POINT", help="Of a bundle: look at this point, as groups=4.")
@click.option(
    "--sort",
    type=click.Choice(["change", "name"]),
    default="change",
    show_default=True,
    help="What comes first in a table: the largest change, or the order of the kernel.",
)
@limit_option(USUAL_LIMIT, "rows of a table")
@json_option("all of it")
def command(
    sources: tuple[str, ...],
    *,
    cpu: str | None,
    hz: int | None,
    point: str | None,
    sort: str,
    limit: int,
    json: str | None,
) -> int:
    """Say what the scheduler did more or less of, by CPU and by level of the topology.

    A and B are bundles, files of perf sched stats record or report, folders with the copies before
    and after of /proc/schedstat, or two copies as BEFORE,AFTER. Counts of kernels of different
    versions are joined by name; what has no counterpart is said. Exit status: 0, or 2 for a usage
    or input error.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.commands._schedstat_request import Wanted, describe, parse_cpus  # noqa: PLC0415

    if not 1 <= len(sources) <= MOST_SOURCES:
        raise click.UsageError("give one bundle, file or folder, or two to compare")
    wanted = Wanted(cpus=None if cpu is None else parse_cpus(cpu), hz=hz, point=point)
    if json is None or json == STDOUT:
        data = describe(sources, wanted)
        click.echo(dump_json(data) if json else _draw(data, sort, limit), nl=False)
        return 0
    inputs = [Path(part) for source in sources for part in (source, *source.split(","))]
    with open_output(Path(json), inputs) as file:
        data = describe(sources, wanted)
        write_output(file, dump_json(data))
    click.echo(_draw(data, sort, limit), nl=False)
    return 0


def _draw(data: "dict[str, object]", sort: str, limit: int) -> str:
    from schedperf_reports._scheduler_counts import describe_counts  # noqa: PLC0415 # as above

    blocks = describe_counts(data, limit, by_name=sort == "name")
    return draw_for_stdout(TITLE, blocks, see="--limit or --json")
