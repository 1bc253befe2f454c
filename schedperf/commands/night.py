# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf night``: record and compare kernels every night; draft mails."""

import re
from pathlib import Path

import click

EPILOG = """\b
Examples:
  schedperf night check lab.toml
  schedperf night run lab.toml
  schedperf night status lab.toml
  schedperf night install lab.toml --print
"""
_LAB = click.argument("path", metavar="LAB.toml", type=click.Path(path_type=Path))
_MACHINE = click.option("--machine", metavar="NAME", help="Only this machine.  [default: all]")


@click.group(epilog=EPILOG)
def command() -> None:
    """Record and compare kernels every night; draft mails.

    A night boots the last release and today's kernel of a tree alternately, compares them, and adds
    them to the history of the lab. Lasting changes are retested on other boots, and bisected. What
    is reproduced is published as pages, and a mail is drafted and held. The file of the lab names
    machines, trees and jobs.
    """


@command.command()
@_LAB
@_MACHINE
@click.option("--again", is_flag=True,
              help="Record the kernels although the last night has a result of them.")  # fmt: skip
@click.option("--unfinished", is_flag=True,
              help="Go on with an unfinished night; start no other.")  # fmt: skip
def run(path: Path, *, machine: str | None, again: bool, unfinished: bool) -> int:
    """Run a night on all machines, or go on with unfinished ones.

    Each machine has a process of its own. Each step is written to the state before it begins, so
    that a night that was killed goes on with `run`. Exit status: 0 the night has ended with a
    result, 1 it has failed or is outside its hours, 2 usage or input error, 75 it cannot go on
    now; run it again.
    """
    from schedperf.lab.night.lab import read_lab  # noqa: PLC0415 # --help stays fast
    from schedperf.lab.night.machines import run_machines  # noqa: PLC0415
    from schedperf.lab.night.run import run_nights, unfinished_nights  # noqa: PLC0415
    from schedperf.lab.night.state import is_running  # noqa: PLC0415

    lab = read_lab(path)
    if machine is None and len(lab.machines) > 1:
        flags = {"--again": again, "--unfinished": unfinished}
        return run_machines(lab, [flag for flag, is_set in flags.items() if is_set])
    chosen = lab.machine(machine)
    if unfinished and (is_running(lab.folder_of(chosen)) or not unfinished_nights(lab, chosen)):
        return 0
    return run_nights(lab, chosen, lambda line: click.echo(line, err=True), again=again)


@command.command()
@_LAB
@_MACHINE
def status(path: Path, *, machine: str | None) -> int:
    """Print how far the last nights are, also while they run, and what has no result.

    Exit status: 0; 1 if a night has failed, or a step of it, or if a machine, a series or a whole
    night has no result.
    """
    from schedperf.lab.night.lab import read_lab  # noqa: PLC0415 # --help stays fast
    from schedperf.lab.night.status import (  # noqa: PLC0415
        draw_lab,
        draw_lost,
        draw_night,
        draw_requests,
        is_lost,
        read_lab_lost,
        read_machine,
    )
    from schedperf.model.errors import InputError  # noqa: PLC0415

    lab = read_lab(path)
    chosen = [lab.machine(machine)] if machine or len(lab.machines) == 1 else [*lab.machines]
    machines = [read_machine(lab, each) for each in chosen]
    if all(each.night is None for each in machines):
        raise InputError(f"{lab.out}: no night yet; start one with: schedperf night run {path}")
    shown = machines[0]
    is_one = len(machines) == 1
    lines = [*(draw_night(lab, shown) if is_one else draw_lab(lab, machines))]
    click.echo("\n".join(lines))
    # The store may be damaged; how far the nights are is printed before.
    lost = read_lab_lost(lab)
    more = [*draw_requests(lab, chosen), *(draw_lost(lost) if lost is not None else ())]
    click.echo("".join(f"{line}\n" for line in more), nl=False)
    return int(any(each.is_bad for each in machines) or is_lost(lost))


@command.command()
@_LAB
def check(path: Path) -> int:
    """Check a lab without a boot, and print what a night costs.

    The machines are asked for the proof of their boot entries and for the programs of the jobs;
    nothing is changed. Exit status: 0, or 1 if something would stop a night.
    """
    from schedperf.lab.night.check import describe_plan, find_problems  # noqa: PLC0415 # as above
    from schedperf.lab.night.lab import read_lab  # noqa: PLC0415
    from schedperf.model.text import clean_line  # noqa: PLC0415

    lab = read_lab(path)
    for line in describe_plan(lab):
        click.echo(clean_line(line))
    problems = [*find_problems(lab)]
    for problem in problems:
        click.echo(f"problem: {clean_line(problem)}")
    if not problems:
        click.echo(f"{path}: no problem found")
    return int(bool(problems))


@command.command()
@_LAB
@click.option("--at", metavar="HH:MM",
              help="Start the nights at this local time.  [default: the begin of each machine's "
                   "hours; 22:00]")  # fmt: skip
@click.option("--user", is_flag=True, help="Install for systemd --user.  [default: the system's]")
@click.option("--print", "only_print", is_flag=True, help="Print the units; write nothing.")
def install(path: Path, *, at: str | None, user: bool, only_print: bool) -> None:
    """Write a systemd timer and services that run the nights every day.

    The units are templates, with an instance per machine. After a power cut of this machine,
    unfinished nights go on when it boots. The timers start with the command that is printed.
    """
    from schedperf.lab.night.lab import read_lab  # noqa: PLC0415 # --help stays fast
    from schedperf.lab.night.systemd import make_units, write_units  # noqa: PLC0415
    from schedperf.model.errors import InputError  # noqa: PLC0415 # as above

    if at is not None and not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", at, re.ASCII):
        raise InputError(f"--at: invalid time {at!r} (expected HH:MM, e.g. 22:00)")
    units = make_units(read_lab(path), at, user=user)
    if only_print:
        click.echo("\n".join(f"# {file}\n{text}" for file, text in units.texts.items()))
        return
    write_units(units)
    click.echo("\n".join(map(str, units.texts)))
    click.echo(f"start the timers with: {units.enable}")


@command.command("kernel-build")
def kernel_build() -> None:
    """Print a program that builds and installs kernels: a shell script to copy and to change.

    It builds the reference and today's kernel of a tree by one toolchain, and installs them on the
    machine by ssh. Its first lines say how it is used.
    """
    script = Path(__file__).parent.parent / "lab" / "night" / "kernel-build.sh"
    click.echo(script.read_text(encoding="utf-8"), nl=False)
