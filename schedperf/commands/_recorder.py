# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the recorder as a separate process with the system's Python.

Distribution packages such as bcc are installed for the system's Python only, so the recorder never
runs inside this process.
"""

import argparse
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

import click
from msgspec import Struct

from schedperf.commands._left_over import warn_of_left_over
from schedperf.commands._zipapp import write_zipapp
from schedperf.model.errors import InputError
from schedperf_collectors.machine.errors import LARGER_TMPDIR, OUT_OF_SPACE, explain
from schedperf_collectors.machine.orphans import (
    Moment,
    adopt_orphans,
    end_orphans,
    end_with_parent,
)
from schedperf_collectors.machine.process import signal_name
from schedperf_collectors.recorder.bundle import Names
from schedperf_collectors.recorder.options import AB_ACTIONS, COMMANDS, make_parser
from schedperf_collectors.recorder.sides import read_settings

_SYSTEM_PYTHON = "/usr/bin/python3"
_IS_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 9))"
# An interpreter that takes longer to print its version is broken.
_VERSION_LIMIT_S = 10.0

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Invoke = Callable[[Sequence[str]], int]


class _Ended(Struct, frozen=True, kw_only=True):
    """The end of the recorder.

    :param left: names of processes that it left running, because it was killed; they are killed
    """

    pid: int
    status: int
    left: Sequence[str]


class RecorderCommand(click.Command):
    """A command of the recorder; its options are parsed here only for help and completion.

    :param invoke: called with the arguments as given; returns the exit status
    """

    def __init__(self, name: str, invoke: Invoke) -> None:
        parser = make_parser(name, "schedperf")
        super().__init__(
            name,
            help=parser.description,
            epilog="\b\n" + _sentence((parser.epilog or "") % {"prog": parser.prog}),
            params=list(parameters(parser.options(), takes_command=COMMANDS[name].takes_command)),
            callback=lambda **_: invoke(self._arguments),
        )
        self._arguments: list[str] = []

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        self._arguments = list(args)
        # Only `ab stop` has this option; the recorder parses the arguments itself.
        is_action = _is_action([str(self.name), *args])
        return super().parse_args(ctx, [word for word in args if word != "--now" or not is_action])


def run_recorder(arguments: Sequence[str], lent: Sequence[int] = ()) -> int:
    """Run the recorder and return its exit status; draw its progress on a terminal.

    :param lent: file descriptors that it inherits
    """
    with _zipapp() as program:
        # `ab status` and `ab stop` have no progress, and `ab --kernel` prints lines.
        if not sys.stderr.isatty() or _is_action(arguments) or _boots_kernels(arguments):
            return _exit_status(_wait([*program, *arguments], lent=lent), arguments)
        read_fd, tell = os.pipe()
        with (
            os.fdopen(read_fd, encoding="utf-8") as events,
            tempfile.TemporaryFile("w+", encoding="utf-8", errors="backslashreplace") as last,
        ):
            # Imported here: importing rich takes 30 ms, too long for --help.
            from schedperf.commands._live import draw  # noqa: PLC0415

            name, *rest = arguments
            command = [*program, name, "--events", str(tell), *rest]
            ended = _wait(
                command,
                stderr=last.fileno(),
                lent=lent,
                tell=tell,
                while_running=lambda: draw(events),
            )
            # The recorder's own last line is printed here, after the bar is gone.
            last.seek(0)
            click.echo(last.read(), err=True, nl=False)
            return _exit_status(ended, arguments)


def run_doctor(arguments: Sequence[str]) -> int:
    """Run the recorder's doctor, which has no progress to draw; return its exit status."""
    with _zipapp() as program:
        command = ["doctor", *arguments]
        return _exit_status(_wait([*program, *command]), command)


@contextlib.contextmanager
def _zipapp() -> Iterator[list[str]]:
    """Write the recorder's file; yield the command that runs it.

    :raises InputError: the file system is full
    """
    with tempfile.TemporaryDirectory(prefix="schedperf-") as folder:
        path = Path(folder, "schedperf")
        try:
            write_zipapp(path)
        except OSError as error:
            remedy = (
                LARGER_TMPDIR if error.errno in OUT_OF_SPACE else "set TMPDIR to another directory"
            )
            raise InputError(f"{Path(folder).parent}: {explain(error)}; {remedy}") from error
        # Isolated: PYTHONPATH belongs to this program, and the other Python may be older.
        yield [system_python(), "-I", str(path)]


def system_python() -> str:
    """Return the system's Python, which has the distribution's packages; or this process's."""
    try:
        subprocess.run(
            [_SYSTEM_PYTHON, "-I", "-c", _IS_NEW_ENOUGH],
            check=True,
            stderr=subprocess.DEVNULL,
            timeout=_VERSION_LIMIT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return sys.executable
    return _SYSTEM_PYTHON


def _wait(
    command: Sequence[str],
    *,
    stderr: int | None = None,
    lent: Sequence[int] = (),
    tell: int | None = None,
    while_running: Callable[[], None] = lambda: None,
) -> _Ended:
    """Run a command to its end. Pass signals on: the recorder then finishes its bundle.

    What a killed recorder leaves running, as its workload, is killed too.
    """
    running: list[subprocess.Popen[bytes]] = []
    # A signal that arrives before the process exists is passed on as soon as it does.
    early: list[int] = []

    def pass_on(signum: int, _frame: FrameType | None) -> None:
        if not running:
            early.append(signum)
        for process in running:
            process.send_signal(signum)

    # nohup ignores SIGHUP on purpose.
    before = {signal_number: signal.getsignal(signal_number) for signal_number in _PASSED_ON}
    taken = [
        signal_number for signal_number, handler in before.items() if handler != signal.SIG_IGN
    ]
    for signal_number in taken:
        signal.signal(signal_number, pass_on)
    adopt_orphans()
    began = Moment.now()
    left: Sequence[str] = ()
    try:
        passed = lent if tell is None else (*lent, tell)
        parent = os.getpid()
        running.append(
            subprocess.Popen(
                command,
                stderr=stderr,
                pass_fds=passed,
                # A killed parent would leave it recording.
                preexec_fn=lambda: end_with_parent(parent),  # noqa: PLW1509 # prctl(2) only
            )
        )
        for signum in early:
            running[0].send_signal(signum)
        if tell is not None:
            os.close(tell)
        while_running()
        running[0].wait()
        if running[0].returncode < 0:
            left = end_orphans(began)
    finally:
        adopt_orphans(adopts=False)
        for signal_number in taken:
            signal.signal(signal_number, before[signal_number])
    return _Ended(pid=running[0].pid, status=running[0].returncode, left=left)


def _exit_status(ended: _Ended, arguments: Sequence[str]) -> int:
    """Return the exit status as a shell reports it; print what a killed recorder left."""
    if ended.status >= 0:
        return ended.status
    signum = -ended.status
    if signum not in _PASSED_ON:
        for staging in Path(tempfile.gettempdir()).glob(f"schedperf-{ended.pid}-*"):
            shutil.rmtree(staging, ignore_errors=True)
        said = f"the recorder was killed by {signal_name(signum)}{_say_left(arguments)}"
        if ended.left:
            names = ", ".join(dict.fromkeys(ended.left))
            said += f"; processes that the recorder left running were killed: {names}"
        click.echo(f"schedperf: error: {said}", err=True)
        warn_of_left_over()
    return 128 + signum


def _is_action(arguments: Sequence[str]) -> bool:
    return arguments[0] == "ab" and arguments[1:2] != [] and arguments[1] in AB_ACTIONS


def _boots_kernels(arguments: Sequence[str]) -> bool:
    before = itertools.takewhile(lambda word: word != "--", arguments)
    return any(word.partition("=")[0] == "--kernel" for word in before)


def _say_left(arguments: Sequence[str]) -> str:
    name, *rest = arguments
    if not COMMANDS[name].takes_command or _is_action(arguments) or _boots_kernels(arguments):
        return ""
    written = [Names(path) for path in _bundles(name, rest)]
    partial = [str(each.partial) for each in written if each.partial.exists()]
    finished = f"finished runs are in {', '.join(partial)}" if partial else "nothing was recorded"
    beside = (path for each in written for path in (each.reserve, each.manifest))
    useless = [str(path) for path in beside if path.exists()]
    remove = f" (remove {', '.join(useless)})" if useless else ""
    return f"; {finished}{remove}"


def _bundles(name: str, arguments: Sequence[str]) -> list[Path]:
    options, _ = make_parser(name, "schedperf").parse_known_args(
        list(itertools.takewhile(lambda word: word != "--", arguments))
    )
    if name == "record":
        return [options.append or options.output]
    return [setting.path for setting in read_settings(options)]


def _sentence(text: str) -> str:
    # The recorder formats its help as argparse does, this program as click does.
    return text[:1].upper() + text[1:]


def parameters(
    actions: Sequence[argparse.Action], *, takes_command: bool
) -> Iterator[click.Parameter]:
    """Yield the recorder's options as click options, each named ``_dest``."""
    for action in actions:
        yield click.Option(
            [*action.option_strings, f"_{action.dest}"],
            help=_sentence(action.help or ""),
            hidden=action.help == argparse.SUPPRESS,
            is_flag=action.nargs == 0,
            # An option whose value may be left out.
            flag_value=action.const if action.nargs == "?" else None,
            multiple=isinstance(action.default, list),
            metavar=str(action.metavar) if action.metavar else None,
            type=click.Path() if action.metavar == "FILE" else None,
        )
    if takes_command:
        yield click.Argument(
            ["_command"], nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...", required=False
        )
