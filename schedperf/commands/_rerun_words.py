# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the commands in a bundle with the recorder's own parser.

A bundle is untrusted. Only options that describe how to record are taken from it, word by word;
options of files, and those that other programs add, are left out, and no file is opened.
"""

import os
import shlex
from argparse import Action
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, cast

from msgspec import Struct

from schedperf.compare.advice.recorded import GUEST_MARK, Program, program_of, read_program
from schedperf.inputs.bundle.open import Bundle
from schedperf_collectors.contract import format_template
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.options import OF_SERVER, make_parser
from schedperf_collectors.recorder.plan import check_placeholders, cross_points

# Options with which each recording is repeated, by their names in the parser's result.
KEPT = frozenset({
    "collectors", "left_out", "instrumented", "warmup", "point", "load", "metric", "set",
    "pelt_loader", "timeout", "machine", "shareable", *OF_SERVER,
})  # fmt: skip
# Largest number of commands, since each needs a parser of its own.
MOST_COMMANDS = 200
GUEST_OPTIONS = ("cpus", "nodes", "threads", "memory", "kernel_args", "setup")
OF_BOOTS = (
    "kernel", "on", "resume", "boot", "boots", "runs", "boot_limit", "settle", "power", "console",
    "feature", "setup", "teardown", "service",
)  # fmt: skip
# Options of `schedperf vm` that `record` does not have, without its flags.
_OF_VM = ("kernel", "boots", "accel", "hung_after", *GUEST_OPTIONS[:-1])
_FLAGS = ("shareable", "resume")
# Parameters of a guest's kernel that virtme-ng or schedperf put there.
GUEST_PARAMETERS = (
    *("nr_open", "console", "earlyprintk", "quiet", "loglevel", "panic"),
    *("rootfstype", "rootflags", "raid", "ro", "rw", "init"),
)


class Option(Struct, frozen=True):
    """One given option.

    :param dest: its name in the parser's result
    :param name: its first spelling: ``--metric``
    :param value: as it was given; None for a flag
    """

    dest: str
    name: str
    value: str | None

    @property
    def words(self) -> tuple[str, ...]:
        """Return the option as words of a command line."""
        return (self.name,) if self.value is None else option_words(self.name, self.value)


class Given(Struct, frozen=True, kw_only=True):
    """One recording's command.

    :param options: those that belong to the recording or its boots, in the given order
    :param teardowns: shell commands that run after each run, by side; "" for all sides
    :param workload: the command, with placeholders: ("hackbench", "-g", "{groups}")
    """

    program: Program
    options: tuple[Option, ...]
    teardowns: tuple[tuple[str, str], ...]
    workload: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the name of the workload in the rows of the comparison."""
        return format_template(self.workload)

    def values(self, dest: str) -> list[str]:
        """Return the values of an option, in the given order."""
        return [each.value for each in self.options if each.dest == dest and each.value is not None]

    def last(self, dest: str) -> str | None:
        """Return the last value of an option, which is the one that counts; None without one."""
        return next(reversed(self.values(dest)), None)

    def names(self, dest: str) -> tuple[str, ...] | None:
        """Return the names in the last value of an option; None without one."""
        value = self.last(dest)
        return None if value is None else tuple(filter(None, value.split(",")))

    def words(self, dests: Iterable[str]) -> list[str]:
        """Return the words of these options."""
        kept = (option.words for option in self.options if option.dest in dests)
        return [word for words in kept for word in words]

    def teardown(self, sides: Collection[str | None]) -> str:
        """Return the command that ran after the runs of a side; "" if there is none.

        :param sides: names of the side: that of ``ab``, and that of its setting; None for unknown
        """
        return next((text for name, text in self.teardowns if not name or name in sides), "")


def option_words(name: str, value: str | None) -> tuple[str, ...]:
    """Return the words of an option with its value; () if the value is None or ""."""
    if not value:
        return ()
    # A value that begins with a dash would be read as an option.
    return (f"{name}={value}",) if value.startswith("-") else (name, value)


def read_given(bundle: Bundle) -> tuple[Given, ...]:
    """Return the commands that recorded a bundle, each once.

    :raises RecordError: there are more than 200, or as in :func:`parse_command`
    :raises ValueError: as in :func:`parse_command`
    """
    given = dict.fromkeys(each.command for each in bundle.recordings)
    commands = list(given) or list(_of_manifest(bundle))
    if len(commands) > MOST_COMMANDS:
        raise RecordError(f"{len(commands)} different commands, expected at most {MOST_COMMANDS}")
    # Runs that the same command added, e.g. after a reboot, are repeated by one command.
    return tuple(dict.fromkeys(map(parse_command, commands)))


def _of_manifest(bundle: Bundle) -> Iterator[tuple[str, ...]]:
    """Yield commands for a bundle of a recorder that did not store them, e.g. of the examples."""
    given = {entry.workload: entry.options for entry in bundle.rerun}
    # The options apply to one side, like those of `record`.
    program = "vm" if read_program(bundle) == "vm" else "record"
    rules = [f"--metric={r.name}[{r.unit},{r.better}]={r.regex}" for r in bundle.metric_rules]
    for name in bundle.workload:
        values: dict[str, dict[str, None]] = {}
        # Runs are in random order, but warm-up runs are in the order of the values.
        for run in bundle.runs:
            for parameter, value in run.point.items() if run.workload == name else ():
                values.setdefault(parameter, {})[value] = None
        points = [f"--point={parameter}={','.join(each)}" for parameter, each in values.items()]
        guest = _guest_options(bundle) if program == "vm" and name not in given else ()
        options = (*given.get(name, ()), *guest, *points, *rules)
        yield ("schedperf", program, "-o", "again.tar", *options, "--", *shlex.split(name))


def _guest_options(bundle: Bundle) -> Iterator[str]:
    host = bundle.boots[0].host
    parameters = [
        word
        for word in (host.kernel.cmdline or "").split()
        if word.partition("=")[0] not in GUEST_PARAMETERS and not word.startswith(GUEST_MARK)
    ]
    memory = host.memory.total_bytes
    sizes = {
        "cpus": host.cpu.count_online,
        "nodes": None if host.topology.nodes is None else len(host.topology.nodes),
        # The kernel keeps a few percent for itself.
        "memory": None if memory is None else f"{-(-memory // (1 << 30))}G",
        "kernel-args": " ".join(parameters),
    }
    yield from (f"--{option}={value}" for option, value in sizes.items() if value)


def parse_command(command: Sequence[str]) -> Given:
    """Parse one command of a bundle.

    :raises RecordError: the command does not record a workload, or the recorder rejects it
    :raises ValueError: a word contains a lone surrogate, or a shell cannot split ``--load``
    """
    program = program_of(command)
    end = [*command, "--"].index("--")
    before, workload = command[2:end], tuple(command[end + 1 :])
    if program is None or not workload:
        raise RecordError("the recorded command is none of record, ab and vm with a workload")
    check_words(command)
    given: list[Option] = []
    parser = make_parser(
        "record" if program == "vm" else command[1], "schedperf", is_untrusted=True
    )
    if program == "vm":
        before = ("-o", "again.tar", *before)
        for name in _OF_VM:
            parser.add_argument(f"--{name.replace('_', '-')}", default="")
        parser.add_argument("--add-boots", action="store_true")
    for action in parser.options():
        action.type = _keep_in(given, action)
    options = parser.parse_args(list(before))
    given += [Option(flag, f"--{flag}", None) for flag in _FLAGS if getattr(options, flag, False)]
    check_placeholders(
        [*workload, *shlex.split(options.load or "")], [name for name, _ in options.point]
    )
    cross_points(options.point)
    more = {"vm": GUEST_OPTIONS, "boots": OF_BOOTS}.get(program, ())
    return Given(
        program=program,
        options=tuple(option for option in given if option.dest in {*KEPT, *more}),
        teardowns=tuple(_teardowns(given, has_sides=command[1] == "ab")),
        workload=workload,
    )


def check_words(words: Iterable[str]) -> None:
    """Reject words that cannot be arguments of a program.

    :raises RecordError: a word has a NUL character
    :raises ValueError: a word contains a lone surrogate
    """
    for word in words:
        if b"\0" in os.fsencode(word):
            raise RecordError("the command contains a NUL character")


def _keep_in(given: list[Option], action: Action) -> Callable[[str], Any]:
    """Return an option type that parses a value as the recorder does, and records it as given.

    :param given: receives the option with the text of its value
    """
    # The file of a commit is not read; the bundle has the commit.
    check = cast("Callable[[str], Any]", (action.dest != "source" and action.type) or str)

    def keep(text: str) -> Any:
        value = check(text)
        # Defaults are checked, too.
        if text:
            given.append(Option(action.dest, action.option_strings[0], text))
        return value

    return keep


def _teardowns(given: Sequence[Option], *, has_sides: bool) -> Iterator[tuple[str, str]]:
    for option in given:
        side, _, part = option.dest.rpartition("_")
        if part == "teardown" and option.value is not None:
            name, _, command = option.value.partition("=")
            yield (name, command) if has_sides and not side else (side, option.value)
