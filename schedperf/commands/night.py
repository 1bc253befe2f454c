# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf night``: record, compare and retest two kernels of one machine every night."""

from pathlib import Path

import click

EPILOG = """\b
Examples:
  schedperf night run night.toml
  schedperf night status night.toml
  schedperf night install night.toml --at 22:00
"""
_JOB = click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path))


@click.group(epilog=EPILOG)
def command() -> None:
    """Record, compare and retest two kernels of one machine every night.

    A night boots the last release and today's kernel alternately, and compares them. A regression
    is recorded again, on other boots. If it is reproduced, the result is published as pages, and
    a mail is drafted and held. The job file names machine, benchmark and kernels.
    """


@command.command()
@_JOB
def run(job_file: Path) -> int:
    """Run a night, or go on with an unfinished one.

    Each step is written to the state before it begins, so that a night that was killed goes on with
    `run`. Exit status: 0 the night has ended with a result, 1 it cannot go on now or has failed, 2
    usage or input error.
    """
    from schedperf.night.job import read_job  # noqa: PLC0415 # --help stays fast
    from schedperf.night.run import run_night  # noqa: PLC0415

    return run_night(read_job(job_file), lambda line: click.echo(line, err=True))


@command.command()
@_JOB
def status(job_file: Path) -> int:
    """Print how far the last night is, also while it runs.

    Exit status: 0, or 1 if the night has failed or its last step did.
    """
    from schedperf.model.errors import InputError  # noqa: PLC0415 # as above
    from schedperf.night.job import read_job  # noqa: PLC0415
    from schedperf.night.state import find_nights  # noqa: PLC0415
    from schedperf.night.status import draw  # noqa: PLC0415

    job = read_job(job_file)
    nights = find_nights(job.out)
    if not nights:
        raise InputError(f"{job.out}: no night yet; start one with: schedperf night run {job_file}")
    night = nights[-1].read()
    for line in draw(job, nights[-1], night):
        click.echo(line)
    return int(night.failed or any(step.problem for step in night.steps.values()))
