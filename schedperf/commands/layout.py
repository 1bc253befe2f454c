"""``schedperf layout``: who shares cache lines with whom, in one kernel or between several."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedperf.commands._outputs import (
    json_option,
    limit_option,
    open_outputs,
    printed_format,
    write_output,
)

if TYPE_CHECKING:
    from schedperf.evidence.layout.record import UnitKind

EPILOG = """\b
Examples:
  schedperf layout base.tar new.tar
  schedperf layout base.tar new.tar --percpu --html layout.html
  schedperf layout base.tar new.tar --hot sd_llc_id,sd_llc --json -
  schedperf layout base.tar --struct task_group
"""

USUAL_LIMIT = 8
# As compare says "regression".
ALARM_STATUS = 1


@click.command(epilog=EPILOG)
@click.argument("paths", metavar="A [B]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--percpu", is_flag=True, help="Look at the per-CPU section.")
@click.option(
    "--struct", "structs", metavar="NAME", multiple=True, help="Look at this struct or union."
)
@click.option("--globals", "has_globals", is_flag=True, help="Look at the global variables.")
@click.option(
    "--all",
    "has_all",
    is_flag=True,
    help="Look at all of these and the scheduler's structs; so it is where nothing is chosen.",
)
@click.option(
    "--hot",
    metavar="NAME,NAME",
    multiple=True,
    help="What belongs on as few lines as possible: variables, fields as rq.nr_running.",
)
@click.option(
    "--cacheline",
    metavar="BYTES",
    type=click.IntRange(min=1),
    help="Length of a cache line; else what the kernel says, or 64.",
)
@limit_option(USUAL_LIMIT, "alarms and rows of a table")
@json_option("all of it")
@click.option("--html", metavar="FILE", help="Write it as one HTML file; - is stdout.")
def command(
    paths: tuple[Path, ...],
    *,
    percpu: bool,
    structs: tuple[str, ...],
    has_globals: bool,
    has_all: bool,
    hot: tuple[str, ...],
    cacheline: int | None,
    limit: int,
    json: str | None,
    html: str | None,
) -> int:
    """Say whose cache line mates differ between kernels, why, and whether it can matter.

    A and B are bundles, folders, or files: System.map, output of nm, kallsyms, raw BTF, vmlinux.
    A is compared with each other one; alone, it is drawn. Exit status: 0 no alarm, 1 at least one,
    2 usage or input error.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.commands._layout_request import make_request  # noqa: PLC0415

    if not paths:
        raise click.UsageError("got no kernel; name a bundle, a folder or a file")
    wanted = {"json": json, "html": html}
    printed = printed_format(wanted)
    with open_outputs(wanted, paths) as files:
        asked = _kinds(percpu=percpu, has_structs=bool(structs), has_globals=has_globals)
        request = make_request(paths, () if has_all else asked, structs, hot, cacheline)
        layout = request.analyse()
        for name, file in files.items():
            write_output(file, [request.render(layout, name, limit)])
    click.echo(request.render(layout, printed, limit), nl=False)
    return ALARM_STATUS if layout.has_alarms else 0


def _kinds(*, percpu: bool, has_structs: bool, has_globals: bool) -> "tuple[UnitKind, ...]":
    asked: dict[UnitKind, bool] = {
        "percpu": percpu,
        "struct": has_structs,
        "globals": has_globals,
    }
    return tuple(kind for kind, is_asked in asked.items() if is_asked)
