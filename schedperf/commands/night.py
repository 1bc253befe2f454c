# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf night``: record and compare two kernels every night; draft a mail."""

import re
from pathlib import Path

import click

EPILOG = """\b
Examples:
  schedperf night run night.toml
  schedperf night status night.toml
  schedperf night install night.toml --at 22:00 --print
"""
_JOB = click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path))


@click.group(epilog=EPILOG)
def command() -> None:
    """Record and compare two kernels every night; draft a mail.

    A night boots the last release and today's kernel alternately, and compares them. A regression
    is recorded again, on other boots. If it is reproduced, the result is published as pages, and
    a mail is drafted and held. The job file names machine, benchmark and kernels.
    """


@command.command()
@_JOB
@click.option("--again", is_flag=True,
              help="Record the kernels although the last night has a result of them.")  # fmt: skip
@click.option("--unfinished", is_flag=True,
              help="Go on with an unfinished night; start no other.")  # fmt: skip
def run(job_file: Path, *, again: bool, unfinished: bool) -> int:
    """Run a night, or go on with an unfinished one.

    Each step is written to the state before it begins, so that a night that was killed goes on with
    `run`. Exit status: 0 the night has ended with a result, 1 it has failed or is outside its
    hours, 2 usage or input error, 75 it cannot go on now; run it again.
    """
    from schedperf.lab.night.job import read_job  # noqa: PLC0415 # --help stays fast
    from schedperf.lab.night.run import is_unfinished, run_night  # noqa: PLC0415
    from schedperf.lab.night.state import is_running  # noqa: PLC0415

    job = read_job(job_file)
    if unfinished and (is_running(job.out) or not is_unfinished(job)):
        return 0
    return run_night(job, lambda line: click.echo(line, err=True), again=again)


@command.command()
@_JOB
def status(job_file: Path) -> int:
    """Print how far the last night is, also while it runs.

    Exit status: 0, or 1 if the night has failed or its last step did.
    """
    from schedperf.lab.night.job import read_job  # noqa: PLC0415
    from schedperf.lab.night.state import find_nights  # noqa: PLC0415
    from schedperf.lab.night.status import draw  # noqa: PLC0415
    from schedperf.model.errors import InputError  # noqa: PLC0415 # as above

    job = read_job(job_file)
    nights = find_nights(job.out)
    if not nights:
        raise InputError(f"{job.out}: no night yet; start one with: schedperf night run {job_file}")
    night = nights[-1].read()
    for line in draw(job, nights[-1], night):
        click.echo(line)
    return int(night.failed or any(step.problem for step in night.steps.values()))


@command.command()
@_JOB
@click.option("--at", metavar="HH:MM", default="22:00", show_default=True,
              help="Start the night at this local time.")  # fmt: skip
@click.option("--user", is_flag=True, help="Install for systemd --user.  [default: the system's]")
@click.option("--print", "only_print", is_flag=True, help="Print the units; write nothing.")
def install(job_file: Path, *, at: str, user: bool, only_print: bool) -> None:
    """Write a systemd timer and services that run the night every day.

    After a power cut of this machine, an unfinished night goes on when it boots. The timer starts
    with the command that is printed.
    """
    from schedperf.lab.night.job import read_job  # noqa: PLC0415
    from schedperf.lab.night.systemd import make_units, write_units  # noqa: PLC0415
    from schedperf.model.errors import InputError  # noqa: PLC0415 # as above

    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", at, re.ASCII):
        raise InputError(f"--at: invalid time {at!r} (expected HH:MM, e.g. 22:00)")
    units = make_units(read_job(job_file), at, user=user)
    if only_print:
        click.echo("\n".join(f"# {path}\n{text}" for path, text in units.texts.items()))
        return
    write_units(units)
    click.echo("\n".join(map(str, units.texts)))
    click.echo(f"start the timer with: {units.enable}")


@command.command("kernel-build")
def kernel_build() -> None:
    """Print a program that builds and installs kernels: a shell script to copy and to change.

    It builds the reference and today's kernel of a tree by one toolchain, and installs them on the
    machine by ssh. Its first lines say how it is used.
    """
    script = Path(__file__).parent.parent / "lab" / "night" / "kernel-build.sh"
    click.echo(script.read_text(encoding="utf-8"), nl=False)
