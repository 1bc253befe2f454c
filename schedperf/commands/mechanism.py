# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf mechanism``: compare the changes of a microbenchmark and of production."""

from collections.abc import Mapping, Sequence
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
    from schedperf.compare.mechanism.judge import Source
    from schedperf.compare.mechanism.record import Mechanism

EPILOG = """\b
Examples:
  schedperf mechanism micro.json production.json
  schedperf mechanism micro.json monday.json tuesday.json --html same.html
  schedperf mechanism micro.json production.json \\
     --point micro.json=groups=4 --limit 50
"""

TITLE = "Mechanisms"
USUAL_LIMIT = 20


@click.command(epilog=EPILOG)
@click.argument("micro", metavar="MICRO", type=click.Path(path_type=Path))
@click.argument("productions", metavar="PRODUCTION...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--point", "points", metavar="FILE=POINT", multiple=True,
              help="Use this workload or these parameters of FILE.  [default: those of the result "
                   "that decides the verdict]")  # fmt: skip
@click.option("--side", "sides", metavar="FILE=SIDE", multiple=True,
              help="Use this new side of FILE, e.g. new2.  [default: that of the result that "
                   "decides the verdict]")  # fmt: skip
@limit_option(USUAL_LIMIT, "quantities per comparison")
@click.option("--html", metavar="FILE", help="Write one HTML page; - is stdout.")
@json_option("all quantities")
def command(
    micro: Path,
    productions: tuple[Path, ...],
    *,
    points: tuple[str, ...],
    sides: tuple[str, ...],
    limit: int,
    html: str | None,
    json: str | None,
) -> int:
    """Compare the changes of a microbenchmark and of production.

    All files are comparisons (schedperf compare --json). A quantity (a part of the time account, a
    counter, a function, a wait, a cache line) has the same mechanism if its change is significant
    after multiple-testing correction in both comparisons, in one direction. Sizes are shown, but
    need not be equal. Exit status: 0, or 2 for a usage or input error.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf import __version__  # noqa: PLC0415
    from schedperf.compare.mechanism.judge import compare_mechanisms  # noqa: PLC0415

    if not productions:
        raise click.UsageError(
            "1 comparison given (expected that of the microbenchmark and one or more of production)"
        )
    paths = (micro, *productions)
    chosen = {
        "point": _by_file("--point", points, paths),
        "side": _by_file("--side", sides, paths),
    }
    outputs = {"json": json, "html": html}
    printed = printed_format(outputs)
    with open_outputs(outputs, paths) as files:
        first, *others = (_load(path, chosen) for path in paths)
        mechanism = compare_mechanisms(first, others, __version__)
        for name, file in files.items():
            write_output(file, [_render(mechanism, name, limit)])
    click.echo(_render(mechanism, printed, limit), nl=False)
    return 0


def _by_file(option: str, given: Sequence[str], paths: Sequence[Path]) -> dict[str, str]:
    # Names of files may contain "=", so the longest fitting one counts.
    names = sorted(map(str, paths), key=len, reverse=True)
    chosen = {}
    for text in given:
        name = next((name for name in names if text.startswith(f"{name}=")), None)
        if name is None:
            raise click.UsageError(
                f"{option}: {text!r} names no given file (expected e.g. {names[-1]}=VALUE)"
            )
        chosen[name] = text[len(name) + 1 :]
    return chosen


def _load(path: Path, chosen: Mapping[str, Mapping[str, str]]) -> "Source":
    from schedperf.compare.mechanism.judge import Source  # noqa: PLC0415 # as above
    from schedperf.publish.culprit.files import load_comparison  # noqa: PLC0415

    return Source(
        file=str(path),
        comparison=load_comparison(path),
        point=chosen["point"].get(str(path)),
        side=chosen["side"].get(str(path)),
    )


def _render(mechanism: "Mechanism", name: str | None, limit: int) -> str:
    if name == "json":
        return dump_json(mechanism)
    from schedperf_reports.mechanism.blocks import describe_mechanism  # noqa: PLC0415 # as above

    if name == "html":
        from schedperf_reports.standalone import Head, PageSource, draw_page  # noqa: PLC0415

        everyone = (mechanism.micro, *(pair.production for pair in mechanism.pairs))
        head = Head(
            title=f"mechanisms: {mechanism.micro.where}",
            sides=tuple(
                PageSource(name="", label=each.where, path=each.file, digest=each.id)
                for each in everyone
            ),
            tool_version=mechanism.tool_version,
            schema=mechanism.schema,
        )
        return draw_page("mechanism", TITLE, describe_mechanism(mechanism, None), head)
    return draw_for_stdout(TITLE, describe_mechanism(mechanism, limit), see="--limit or --json")
