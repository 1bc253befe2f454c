# SPDX-License-Identifier: GPL-2.0-or-later
# ruff: noqa: N999 # commands are named like their modules
"""``schedperf import``: convert results of mmtests, LKP and other tools to a bundle."""

from pathlib import Path

import click

from schedperf.commands._better import BETTER, directions_of, warn_of_unknown_metrics

EPILOG = """\b
Examples:
  schedperf import mmtests work/log/6.12 -o base.tar
  schedperf import lkp hackbench/COMMIT -o commit.tar
  schedperf import benchfmt old.txt -o old.tar --better hits/op=higher
  schedperf compare frames:old frames:new
  schedperf compare trace:old.dat trace:new.dat
  schedperf compare mmtests:work/log/6.12 mmtests:work/log/6.13
"""


@click.command(name="import", epilog=EPILOG)
@click.argument("kind", metavar="FORMAT")
@click.argument("path", metavar="PATH", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="Write the bundle to this file: .tar, .tar.gz or .tar.xz.",
)
@click.option("--label", metavar="NAME", help="Name the side.  [default: name of the directory]")
@click.option("--better", **BETTER)
@click.option("--force", is_flag=True, help="Replace an existing file.")
def command(
    kind: str, path: Path, *, output: Path, label: str | None, better: tuple[str, ...], force: bool
) -> None:
    """Convert results of mmtests, LKP and other tools to a bundle.

    FORMAT is e.g. mmtests, lkp, benchfmt (Go benchmarks), frames, perf-stat or trace (trace-cmd,
    perf sched); docs/import.md lists all. The bundle contains the original files except traces, and
    the results are parsed when it is compared. `compare` and `show` also take FORMAT:PATH instead
    of a bundle.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.inputs.importers.open import import_results  # noqa: PLC0415

    directions = directions_of(better)
    written, imported = import_results(
        kind, path, output, better=directions, label=label, force=force
    )
    if directions:
        warn_of_unknown_metrics(directions, _metrics_of(written))
    runs = sum(len(boot.runs) for boot in imported.boots)
    for note in imported.notes:
        click.echo(f"{path}: {note}", err=True)
    if imported.incomplete:
        click.echo(f"{path}: {imported.incomplete}", err=True)
    boots = len(imported.boots)
    click.echo(
        f"{written}: {runs} run{'s' * (runs != 1)} in {boots} boot{'s' * (boots != 1)}", err=True
    )


def _metrics_of(bundle: Path) -> set[str]:
    from schedperf.inputs.bundle.open import open_bundle  # noqa: PLC0415 # as above
    from schedperf.inputs.side import name_sides  # noqa: PLC0415
    from schedperf.runs.values import read_run_values  # noqa: PLC0415

    return set(read_run_values(name_sides([open_bundle(bundle)])).table["metric"].tolist())
