# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf bisect``: find the first bad commit of a regression from noisy boots."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from schedperf.commands._bisect_options import read_options, search_options
from schedperf.commands._bisect_outputs import Outputs, result_options
from schedperf.commands._bisect_run import run
from schedperf.commands._bisect_state import log, mark, skip, status, stop
from schedperf.model.text import clean_line

EPILOG = """\b
Examples:
  schedperf bisect next boots.csv --repo linux --good v6.18 --bad v6.19
  schedperf bisect next boots.csv --repo linux --good v6.18 --bad v6.19 \\
     --paths kernel/sched --json -
  schedperf bisect next boots.csv --repo linux --good v6.18 --bad v6.19 \\
     --html bisect.html --git-log bisect.log
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """Find the first bad commit of a regression from noisy boots.

    Unlike git bisect, the search does not decide at each commit whether it is good or bad: it
    weighs the results of all boots, and names a commit with a probability, after it was reproduced
    on fresh boots.
    """


@command.command(name="next")
@click.argument("path", metavar="RESULTS.csv", type=click.Path(path_type=Path))
@search_options
@click.option("--skip", metavar="COMMIT", multiple=True,
              help="Name a commit that cannot be tested, e.g. does not build.")  # fmt: skip
@click.option("--final", "is_final", is_flag=True,
              help="Judge the boots as they are; no more can be made.")  # fmt: skip
@result_options
def next_(
    path: Path,
    *,
    repo: Path,
    good: str,
    bad: str,
    skip: Sequence[str],
    is_final: bool,
    **options: Any,
) -> int:
    """Print the commit to boot next, or the first bad commit.

    RESULTS.csv has the columns commit, boot (a number) and value (above 0), and a line for each
    boot, in the order in which they were made. The first boot of each commit is not used, but
    listed. Exit status: 0 a commit is named, 1 good and bad do not differ, 2 usage or input error,
    3 no commit is named although good and bad differ, 75 more boots are needed; make them, and run
    it again.
    """
    from schedperf.commands._bisect_screen import EXIT_STATUSES  # noqa: PLC0415 # --help stays fast
    from schedperf.inputs.git import Repository  # noqa: PLC0415 # as above
    from schedperf.lab.bisect.judge import find_inside, judge, read_range  # noqa: PLC0415
    from schedperf.lab.bisect.results import read_results, resolve_results  # noqa: PLC0415

    outputs = Outputs(options, path)
    with outputs.opened() as write:
        repository = Repository(repo)
        span = read_range(repository, good, bad, read_options(options))
        untestable = {find_inside(span, repository, name) for name in skip}
        boots = resolve_results(read_results(path), repository.resolve)
        document = judge(span, boots, untestable, is_final=is_final)
        write(document)
    for commit, number in document.not_used.items():
        click.echo(
            f"schedperf: {path}: {number} boot(s) of {commit[:12]} not used: untestable, or not in "
            f"{clean_line(good)}..{clean_line(bad)} or a branch that is searched",
            err=True,
        )
    outputs.print(document)
    return EXIT_STATUSES[document.status]


for subcommand in (run, status, log, skip, mark, stop):
    command.add_command(subcommand)
