# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf layout``: compare cache-line layouts of kernels."""

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
# The exit status of a regression, as in compare.
ALARM_STATUS = 1


@click.command(epilog=EPILOG)
@click.argument("paths", metavar="BASE [NEW]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--percpu", is_flag=True, help="Show the per-CPU section.")
@click.option(
    "--struct", "structs", metavar="NAME", multiple=True, help="Show this struct or union."
)
@click.option("--globals", "has_globals", is_flag=True, help="Show the global variables.")
@click.option(
    "--all",
    "has_all",
    is_flag=True,
    help="Show all sections and the scheduler's structs.  [default: if no section is selected]",
)
@click.option(
    "--hot",
    metavar="NAME,NAME",
    multiple=True,
    help="Suggest how to place these variables, or fields such as rq.nr_running, on fewer cache "
    "lines.",
)
@click.option(
    "--cacheline",
    metavar="BYTES",
    type=click.IntRange(min=1),
    help="Set the cache line size.  [default: as reported by the kernel, or 64]",
)
@limit_option(USUAL_LIMIT, "alarms and table rows")
@json_option("the whole result")
@click.option("--html", metavar="FILE", help="Write the report as one HTML file; - is stdout.")
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
    """Compare cache-line layouts of kernels.

    Show which variables moved to or from a shared cache line, why, and whether it matters. BASE and
    NEW are bundles, directories, or files: System.map, nm output, kallsyms, raw BTF, vmlinux. Each
    NEW is compared with BASE; without NEW, the layout of BASE is shown. Exit status: 0 no alarm, 1
    at least one alarm, 2 usage or input error.
    """
    if not paths:
        raise click.UsageError(
            "no kernel given (expected a bundle, a directory or a file, e.g. System.map)"
        )
    outputs = {"json": json, "html": html}
    printed = printed_format(outputs)
    with open_outputs(outputs, paths) as files:
        # Imported here so that --help of all commands stays fast.
        from schedperf.commands._layout_request import make_request  # noqa: PLC0415

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
