# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf rerun``: record bundles again with their original options.

The commands come from bundles, which are untrusted. They are printed completely, with every
character visible, directly before the confirmation prompt. No command runs before the user has
confirmed, or has given ``--yes``.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedperf.commands._collector_names import CollectorNames
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

if TYPE_CHECKING:
    from schedperf.commands._rerun_commands import Command
    from schedperf.commands._rerun_plan import Plan

EPILOG = """\b
Examples:
  schedperf rerun base.tar new.tar --print
  schedperf rerun base.tar new.tar -n 10
  schedperf rerun base.tar new.tar --with default,bpf_pelt
  schedperf rerun base.tar new.tar --append -n 5
  schedperf rerun base.tar new.tar --boots 4 \\
     --kernel base=../tip/arch/x86/boot/bzImage \\
     --kernel new=arch/x86/boot/bzImage
\b
The commands come from the bundles. Read them before you answer, in particular
if somebody else recorded the bundles.
"""
_NOT_CONFIRMED = 2


@click.command(epilog=EPILOG)
@click.argument("paths", metavar="BASE [NEW]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("-n", "--runs", metavar="N", type=click.IntRange(min=1),
              help="Record N runs per point (in guests: per boot).  "
                   "[default: as recorded]")  # fmt: skip
@click.option("--boots", metavar="N", type=click.IntRange(1, 1000),
              help="Boot each kernel N times (not `record`).  [default: as recorded]")  # fmt: skip
@click.option("--with", "collectors", metavar="NAMES", type=CollectorNames(),
              help="Select collectors, e.g. default,bpf_pelt.  [default: as recorded]")  # fmt: skip
@click.option("--without", "left_out", metavar="COLLECTORS", type=CollectorNames(words=()),
              help="Leave out collectors that are used by default, e.g. account.  "
                   "[default: as recorded]")  # fmt: skip
@click.option("--metric", "rules", metavar="RULE", multiple=True,
              help="Read a number from the output: NAME[UNIT,higher|lower]=REGEX.")  # fmt: skip
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="NAME=IMAGE",
    help="Boot this kernel in guests for the bundle NAME.tar (schedperf vm).",
)
@click.option(
    "--accel",
    type=click.Choice(["auto", "kvm", "tcg"]),
    help="Use KVM or QEMU's emulation (TCG) for guests.  [default: auto]",
)
@click.option(
    "--append",
    is_flag=True,
    help="Add runs to the given bundles; requires the same kernel and machine.",
)
@click.option("-o", "--output", metavar="DIR", type=click.Path(path_type=Path),
              help="Write new bundles to this directory.  [default: rerun]")  # fmt: skip
@click.option("--print", "only_print", is_flag=True, help="Print the commands; run nothing.")
@click.option("--yes", is_flag=True, help="Run the commands without asking.")
def command(
    paths: tuple[Path, ...],
    *,
    runs: int | None,
    boots: int | None,
    collectors: str | None,
    left_out: str | None,
    rules: tuple[str, ...],
    kernels: tuple[str, ...],
    accel: str | None,
    append: bool,
    output: Path | None,
    only_print: bool,
    yes: bool,
) -> int:
    """Record bundles again with their original options.

    Workload, parameters, metrics, setups and collectors are those of the bundles. All commands
    are printed, and run only after confirmation. The new bundles keep the names of the old
    ones. If two kernels share one machine, only the side whose kernel is booted is recorded.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.commands._rerun_commands import Changes  # noqa: PLC0415
    from schedperf.commands._rerun_plan import Request, make_plan  # noqa: PLC0415

    if not paths:
        raise click.UsageError(
            "no bundle given (expected the bundles to record again, e.g. base.tar new.tar)"
        )
    if append:
        _refuse_other_workload(
            {"--with": collectors, "--without": left_out, "--metric": rules, "-o": output}
        )
    plan = make_plan(
        Request(
            paths=paths,
            changes=Changes(
                runs=runs,
                boots=boots,
                collectors=tuple(collectors.split(",")) if collectors else None,
                left_out=tuple(left_out.split(",")) if left_out else None,
                rules=rules or None,
                accel=accel,
            ),
            kernels=_read_kernels(kernels),
            append=append,
            output=output,
            every_side=only_print,
        )
    )
    if only_print:
        for each in plan.commands:
            click.echo(each.show())
        _print_notes((*plan.notes, *plan.missing))
        return 0
    _print_notes(plan.notes)
    for each in plan.commands:
        click.echo(f"  {each.show()}", err=True)
    if plan.missing:
        raise InputError("; ".join(plan.missing))
    if not (yes or _confirms(plan)):
        return _NOT_CONFIRMED
    return _run_all(plan)


def _refuse_other_workload(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value:
            raise InputError(
                f"{option}: cannot be combined with --append, which adds runs of the same workload "
                "and collectors to the same bundles; leave out --append to record new bundles"
            )


def _read_kernels(given: tuple[str, ...]) -> Mapping[str, str]:
    images = {}
    for text in given:
        name, _, image = text.partition("=")
        if not name or not image or name in images:
            problem = "name given twice" if name in images else "invalid (expected NAME=IMAGE)"
            raise InputError(f"--kernel {text}: {problem}; give one --kernel NAME=IMAGE per bundle")
        images[name] = image
    return images


def _print_notes(notes: Iterable[str]) -> None:
    # Notes contain names of files, which are untrusted.
    for note in notes:
        click.echo(f"schedperf: {clean_line(note)}", err=True)


def _confirms(plan: "Plan") -> bool:
    """Ask on the terminal whether to run the commands; return the answer.

    :raises InputError: stdin is not a terminal
    """
    number = len(plan.commands)
    which = "this command" if number == 1 else f"these {number} commands"
    if sys.stdin is None or not sys.stdin.isatty():
        raise InputError(
            f"no terminal to ask whether to run {which}; check the printed commands, then add --yes"
        )
    if click.confirm(f"Run {which}?", err=True):
        return True
    click.echo("schedperf: nothing was run", err=True)
    return False


def _run_all(plan: "Plan") -> int:
    from schedperf.commands._rerun_length import short_run_warnings  # noqa: PLC0415

    if plan.folder is not None:
        plan.folder.mkdir(parents=True, exist_ok=True)
    status: int | None = None
    try:
        for each in plan.commands:
            status = _run(each)
            if status:
                return status
    finally:
        # The bundles of a machine that must reboot are not written yet.
        if status != 0 and plan.folder is not None and not any(plan.folder.iterdir()):
            plan.folder.rmdir()
    _print_notes(short_run_warnings(plan.commands))
    for line in plan.afterwards:
        click.echo(line)
    return 0


def _run(each: "Command") -> int:
    """Run one command without a shell, so that its words stay as they are.

    :return: its exit status
    :raises InputError: the recorder's file cannot be written, or `vm` fails
    """
    if each.name == "vm":
        from schedperf.commands import vm  # noqa: PLC0415

        context = vm.command.make_context("schedperf vm", list(each.words[1:]))
        with context:
            return int(vm.command.invoke(context) or 0)
    from schedperf.commands._recorder import run_recorder  # noqa: PLC0415

    return run_recorder(each.words)
