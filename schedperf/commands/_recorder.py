# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the recorder as a separate process with the system's Python.

Distribution packages such as bcc are installed for the system's Python only, so the recorder never
runs inside this process.
"""

import argparse
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import click
from msgspec import Struct

from schedperf.commands._answers import answering
from schedperf.commands._collector_names import CollectorNames
from schedperf.commands._left_over import warn_of_left_over
from schedperf.commands._zipapp import write_zipapp
from schedperf.model.errors import InputError
from schedperf_collectors.contract import temporary_prefix
from schedperf_collectors.machine.errors import LARGER_TMPDIR, OUT_OF_SPACE, RecordError, explain
from schedperf_collectors.machine.orphans import (
    Moment,
    adopt_orphans,
    end_orphans,
    end_with_parent,
)
from schedperf_collectors.machine.process import signal_name
from schedperf_collectors.recorder.bundle import Names
from schedperf_collectors.recorder.jobs import read_jobs
from schedperf_collectors.recorder.options import AB_ACTIONS, COMMANDS, make_parser
from schedperf_collectors.recorder.recover import count_finished
from schedperf_collectors.recorder.sides import read_settings

_SYSTEM_PYTHON = "/usr/bin/python3"
_IS_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 9))"
# An interpreter that takes longer than this to print its version is considered broken.
_VERSION_LIMIT_S = 10.0

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Invoke = Callable[[Sequence[str]], int]

# What shells complete, by the placeholder of the value in the help.
_TYPES: Mapping[str, click.ParamType[str]] = {
    "FILE": click.Path(),
    "NAMES": CollectorNames(),
    "COLLECTORS": CollectorNames(words=()),
}


class _Ended(Struct, frozen=True, kw_only=True):
    """How the recorder ended.

    :param status: exit status; -N after signal N
    :param left: names of the processes that a killed recorder left running, and that were then
        killed
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


def run_recorder(arguments: Sequence[str]) -> int:
    """Run `record` or `ab`; answer the recorder's questions, and draw its progress on a terminal.

    :param arguments: name of the command, and its arguments
    :return: its exit status; 128 + N after signal N
    :raises InputError: the recorder's file cannot be written, or the file of --jobs is invalid
    """
    arguments = _with_read_jobs(arguments)
    # An action is a word after the name.
    names = 1 + _is_action(arguments)
    rest = arguments[names:]
    with _zipapp() as program, answering() as lent:
        command = [*program, *arguments[:names], "--ask-fd", f"{lent[0]},{lent[1]}"]
        # `ab status` and `ab stop` have no progress, and `ab --kernel` prints lines.
        has_progress = not (_is_action(arguments) or _boots_kernels(arguments))
        if has_progress and sys.stderr.isatty():
            return _exit_status(_draw(command, rest, lent), arguments)
        return _exit_status(_wait([*command, *rest], lent=lent), arguments)


def _draw(command: Sequence[str], rest: Sequence[str], lent: Sequence[int]) -> _Ended:
    """Run the recorder, and draw its progress.

    :param rest: its arguments as given
    """
    read_fd, tell = os.pipe()
    with (
        os.fdopen(read_fd, encoding="utf-8") as events,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="backslashreplace") as last,
    ):
        # Imported here: importing rich takes 30 ms, which would slow down --help.
        from schedperf.commands._live import draw  # noqa: PLC0415

        ended = _wait(
            [*command, "--events", str(tell), *rest],
            stderr=last.fileno(),
            lent=lent,
            tell=tell,
            while_running=lambda: draw(events),
        )
        # The recorder's own last line is printed here, after the bar is gone.
        last.seek(0)
        click.echo(last.read(), err=True, nl=False)
    return ended


def run_doctor(arguments: Sequence[str]) -> int:
    """Run the recorder's doctor, which has no progress to draw; return its exit status.

    :raises InputError: the recorder's file cannot be written
    """
    with _zipapp() as program:
        command = ["doctor", *arguments]
        return _exit_status(_wait([*program, *command]), command)


@contextlib.contextmanager
def _zipapp() -> Iterator[list[str]]:
    """Write the recorder's file; yield the command that runs it.

    :raises InputError: the file cannot be written, e.g. because the file system is full
    """
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        path = Path(folder, "schedperf")
        try:
            write_zipapp(path)
        except OSError as error:
            remedy = (
                LARGER_TMPDIR if error.errno in OUT_OF_SPACE else "set TMPDIR to another directory"
            )
            raise InputError(f"{Path(folder).parent}: {explain(error)}; {remedy}") from error
        # Isolated, because PYTHONPATH is meant for this program, and the other Python may be older.
        yield [system_python(), "-I", str(path)]


def system_python() -> str:
    """Return the path of the system's Python, which has the distribution's packages.

    If it is missing, does not work or is older than 3.9, return the path of this Python.
    """
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
    """Run a command to its end and forward signals, so that the recorder finishes its bundle.

    Processes that a killed recorder leaves running, such as its workload, are killed too.

    :param stderr: descriptor for its stderr; None for this process's
    :param lent: descriptors that it inherits
    :param tell: descriptor that it inherits and that this process closes; None if there is none
    :param while_running: called once after its start
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
                # If the parent is killed, the recorder must not go on recording.
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
        said = f"the recorder was killed by {signal_name(signum)}{_describe_kept_runs(arguments)}"
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


def _with_read_jobs(arguments: Sequence[str]) -> list[str]:
    """Replace the file of --jobs by its tables as JSON, since the recorder's Python may be old.

    :raises InputError: the file cannot be read, or is invalid
    """
    words = list(arguments)
    end = [*words, "--"].index("--")
    for i, word in enumerate(words[:end]):
        option, equals, value = word.partition("=")
        if option == "--jobs" and (equals or i + 1 < end):
            index, before = (i, "--jobs=") if equals else (i + 1, "")
            try:
                tree, _ = read_jobs(value if equals else words[index])
            except RecordError as error:
                raise InputError(str(error)) from error
            words[index] = f"{before}{json.dumps(tree)}"
    return words


def _describe_kept_runs(arguments: Sequence[str]) -> str:
    name, *rest = arguments
    if not COMMANDS[name].takes_command or _is_action(arguments) or _boots_kernels(arguments):
        return ""
    written = [Names(path) for path in _bundles(name, rest)]
    kept = [str(each.partial) for each in written if count_finished(each.path)]
    finished = f"finished runs are in {', '.join(kept)}" if kept else "no run was finished"
    # Finished runs are recovered with the manifest beside them.
    useless = [
        str(path)
        for each in written
        for path in (each.partial, each.manifest)
        if str(each.partial) not in kept and os.path.lexists(path)
    ]
    remove = f" (remove {', '.join(useless)})" if useless else ""
    return f"; {finished}{remove}"


def probed_bundles(arguments: Sequence[str]) -> list[Path]:
    """Return the bundles that ``ab --probe`` has written; [] for other commands and with --quiet.

    :param arguments: name of the command, and its arguments
    """
    if _is_action(arguments):
        return []
    options = _before_command(arguments[0], arguments[1:])
    return (
        [each.path for each in read_settings(options)]
        if options.probe and not options.quiet
        else []
    )


def _bundles(name: str, arguments: Sequence[str]) -> list[Path]:
    options = _before_command(name, arguments)
    if name == "record":
        return [options.append or options.output]
    return [setting.path for setting in read_settings(options)]


def _before_command(name: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options before the command that is recorded."""
    before = list(itertools.takewhile(lambda word: word != "--", arguments))
    return make_parser(name, "schedperf").parse_known_args(before)[0]


def _sentence(text: str) -> str:
    # The recorder formats its help as argparse does, this program as click does.
    return text[:1].upper() + text[1:]


def parameters(
    actions: Sequence[argparse.Action], *, takes_command: bool
) -> Iterator[click.Parameter]:
    """Yield the recorder's options as click options, named "_" plus their ``dest``.

    :param takes_command: whether to add the argument ``_command``
    """
    for action in actions:
        yield click.Option(
            [*action.option_strings, f"_{action.dest}"],
            help=_sentence(action.help or ""),
            hidden=action.help == argparse.SUPPRESS,
            is_flag=action.nargs == 0,
            # The value of this option is optional.
            flag_value=action.const if action.nargs == "?" else None,
            multiple=isinstance(action.default, list),
            metavar=str(action.metavar) if action.metavar else None,
            type=_TYPES.get(str(action.metavar)),
        )
    if takes_command:
        yield click.Argument(
            ["_command"], nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...", required=False
        )
