# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the options of ``record``, ``ab``, ``exec`` and ``doctor``.

This module imports no collector, so that other programs can parse the options quickly.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, NoReturn

from schedperf_collectors.contract import ACCOUNT, LOAD
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.boot_options import add_boot_options
from schedperf_collectors.recorder.plan import FIRST_LOOK, MAX_RUNS, ROUNDS, Turn, parse_point
from schedperf_collectors.recorder.source import read_source

_METRIC = re.compile(
    r"(?P<name>[\w.-]+)\[(?P<unit>[^\],]+),(?P<better>higher|lower)\]=(?P<regex>.+)\Z", re.DOTALL
)
_SETTING = re.compile(r"(?P<collector>\w+)\.(?P<name>\w+)=(?P<value>.*)\Z", re.DOTALL)
_TURN = re.compile(r"([0-9a-f]{1,64}),([0-9]{1,6}),([0-9]{1,12})\Z")
_TWO_DESCRIPTORS = re.compile(r"([0-9]{1,6}),([0-9]{1,6})\Z")
_HOST_PATH = re.compile(r"[a-z_]\w*(\.[\w.-]+)?\Z")
# A name of a side is also part of a file's name.
_SIDE_NAME = r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}"
_SIDE_COMMAND = re.compile(rf"(?P<name>{_SIDE_NAME})=(?P<command>.*)\Z", re.DOTALL)
_MACHINE = re.compile(rf"{_SIDE_NAME}\Z", re.ASCII)
# A key is also a column of queries.
_FACT = re.compile(r"(?P<key>[a-z][a-z0-9_]{0,39})=(?P<value>.{1,200})\Z", re.ASCII)
FEATURE = re.compile(r"(?!NO_)[A-Z][A-Z0-9_]{0,63}\Z")

# See systemd.unit(5); the name of a template's instance is escaped with backslashes.
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]{0,254}\Z")
# PATH_MAX.
_LONGEST_PATH = 4096

_SLICE = re.compile(r"([0-9]{1,6})(us|ms)\Z")

# The range of setpriority(2).
LEAST_NICE = -20
MOST_NICE = 19

# Runs of each point by default.
RUNS = 5

# Options that name a server of the workload, by their names in the parser's result.
OF_SERVER = ("workload_pid", "workload_unit", "workload_cgroup")

# What `ab --probe` varies, and its default of -o.
PROBES = ("session",)
PROBE_OUTPUT = "probe"

# Words that replace the options of `ab`.
AB_ACTIONS = ("status", "stop", "continue")

RECORD_EXAMPLES = """\
Examples:
  %(prog)s -o base.tar -- hackbench -l 500 -g 2
  %(prog)s -o sweep.tar.xz -n 3 --point groups=1,2,4 \\
     -- hackbench -l 200 -g {groups}
  %(prog)s --append base.tar -n 5 -- hackbench -l 500 -g 2
  %(prog)s -o new.tar --until-decided --against base.tar \\
     --max-runs 15 -- hackbench -l 500 -g 2
  %(prog)s -o b.tar --metric 'rate[1/s,higher]=rate: ([0-9.]+)' \\
     -- ./my-benchmark
"""

AB_EXAMPLES = """\
Examples:
  %(prog)s -o autogroup \\
     --base-setup 'echo 0 > /proc/sys/kernel/sched_autogroup_enabled' \\
     --new-setup 'echo 1 > /proc/sys/kernel/sched_autogroup_enabled' \\
     -n 3 -- hackbench -l 500 -g 2
  %(prog)s --base all.tar --new one.tar --new-setup 'taskset -p 1 $$' \\
     -n 3 -- hackbench -l 200 -g 1
  %(prog)s -o nice --setup n0= --setup 'n5=renice -n 5 -p $$' \\
     --setup 'n9=renice -n 9 -p $$' --with none \\
     -- hackbench -l 200 -g 1
  %(prog)s -o lag --feature PLACE_LAG -- hackbench -l 500 -g 2
  %(prog)s -o n5 --new-setup 'renice -n 5 -p $$' --until-decided \\
     --max-runs 6 -- hackbench -l 500 -g 2
  %(prog)s -o scx --service lavd=scx_lavd -- hackbench -l 500 -g 2
  %(prog)s --probe session -- hackbench -l 500 -g 2
  %(prog)s -o night --kernel base=6.1.0-47-amd64 \\
     --kernel new=6.1.0-50-amd64 --on ssh:root@lab1 --boots 4 -n 3 \\
     -- hackbench -l 500 -g 2
  %(prog)s status
  %(prog)s stop

A setup is a shell command. It runs in the process that later executes the
workload. The cgroup, CPU mask, limits and environment that a setup
sets therefore apply to the workload only. After each run, changed sysctls and
values of debugfs (sched), transparent huge pages, cpufreq and cpuidle are
restored. Cgroups that a setup creates are removed at the end.
`stop` ends a running recording and restores what killed ones left; `status`
lists both. If several recordings are running, `stop` needs -o PREFIX. For
recordings of --kernel, both take -o PREFIX or --on; `%(prog)s continue`
goes on after an interruption, and `stop` finishes and keeps the running run
first, unless --now is given.
"""

DOCTOR_EXAMPLES = """\
Examples:
  %(prog)s
  %(prog)s -v
  %(prog)s --json
  %(prog)s --boot --kernel 6.1.0-47-amd64 --kernel 6.1.0-50-amd64
  %(prog)s --boot --prove
"""


EXEC_EXAMPLES = """\
Examples:
  %(prog)s --slice 3ms -- hackbench -l 500 -g 2
  schedperf record -o mix.tar -n 3 --with none --point slice=1ms,10ms \\
     -- %(prog)s --slice {slice} -- hackbench -l 200 -g 1

The command replaces this process, and its children inherit the attributes.
An attribute that the kernel does not support is an error.
"""


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors as one line."""

    def error(self, message: str) -> NoReturn:
        """Raise an error of the command line, instead of ending the program.

        :raises RecordError: always
        """
        raise RecordError(f"{message}; see {self.prog} --help")

    def options(self) -> list[argparse.Action]:
        """Return the options except --help, for use by another parser."""
        return [action for action in self._actions if action.dest != "help"]


@dataclass(frozen=True)
class Command:
    """One command of the recorder.

    :param summary: one sentence for its help
    :param examples: text at the end of its help; %(prog)s is its name
    :param add_options: adds its options to a parser
    :param takes_command: whether a command line follows after --
    """

    summary: str
    examples: str
    add_options: Callable[[argparse.ArgumentParser], None]
    takes_command: bool = True


def make_parser(name: str, prog: str, *, is_untrusted: bool = False) -> Parser:
    """Return the parser of one command, for the arguments before ``--``.

    :param name: a key of ``COMMANDS``
    :param prog: name of the program, for help and errors
    :param is_untrusted: for options that a bundle contains: there is no --help, which would print
        text and end the program; the caller replaces the types of options that open files
    """
    command = COMMANDS[name]
    parser = Parser(
        prog=f"{prog} {name}",
        usage=f"{prog} {name} [OPTIONS]{' -- CMD...' if command.takes_command else ''}",
        description=command.summary,
        epilog=command.examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        # Help would be printed, and would end the program.
        add_help=not is_untrusted,
    )
    command.add_options(parser)
    return parser


def _add_record_options(parser: argparse.ArgumentParser) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="Write this bundle (.tar, .tar.gz or .tar.xz).",
    )
    target.add_argument(
        "--append", type=Path, metavar="FILE", help="Add runs to this existing bundle."
    )
    parser.add_argument(
        "--label",
        type=_text,
        help="Set the name of this side in reports.  [default: the file's name]",
    )
    parser.add_argument(
        "--setup",
        default="",
        metavar="CMD",
        help=(
            "Run this shell command before each run, in the process that later executes the "
            "workload; changed settings are restored after the run."
        ),
    )
    parser.add_argument(
        "--teardown",
        default="",
        metavar="CMD",
        help="Run this shell command after each run.",
    )
    parser.add_argument(
        "--service",
        default="",
        metavar="CMD",
        help="Run this program during each run: start it before the setup, wait until it is ready "
        "(a sched_ext scheduler: enabled), and stop it with SIGINT after the run.",
    )
    parser.add_argument(
        "--source",
        type=_fails_as_type(read_source),
        metavar="FILE",
        help="Store the commit of the running kernel, as this JSON file describes it: commit, "
        "subject, tree, ref ... (see docs/bundle.md).",
    )
    parser.add_argument(
        "--until-decided",
        action="store_true",
        help=(
            "Compare with --against after each block of runs and stop when no primary result is "
            "inconclusive."
        ),
    )
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="Compare with the runs in this bundle."
    )
    _add_max_runs(parser, "runs")
    _add_common_options(
        parser,
        f"Record N runs per combination of --point values.  [default: {RUNS}; {FIRST_LOOK} with "
        "--until-decided]",
    )
    # None means that the user gave no value; the default then depends on other options.
    parser.set_defaults(runs=None)


def _add_max_runs(parser: argparse.ArgumentParser, units: str) -> None:
    parser.add_argument(
        "--max-runs",
        type=_positive,
        metavar="N",
        help=(
            f"Stop --until-decided after N {units} per combination of --point values.  "
            f"[default: {MAX_RUNS}]"
        ),
    )


def _add_ab_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-o",
        "--output",
        metavar="PREFIX",
        help="Write PREFIX-NAME.tar for each side (base and new, or the names given to --setup), "
        f"or NAME.tar if PREFIX is a directory.  [default with --probe: {PROBE_OUTPUT}]",
    )
    add(
        "--setup",
        action="append",
        type=_side_command,
        default=[],
        metavar="NAME=CMD",
        help="Record a side NAME, with the shell command that applies its setting.  Repeat it for "
        "two or more sides, base first.  An empty CMD leaves the machine as it is.",
    )
    add(
        "--teardown",
        action="append",
        type=_side_command,
        default=[],
        metavar="NAME=CMD",
        help="Run this shell command after each run of the side NAME.",
    )
    add(
        "--service",
        action="append",
        type=_side_command,
        default=[],
        metavar="NAME=CMD",
        help="Run this program during each run of the side NAME: start it before the setup, wait "
        "until it is ready (a sched_ext scheduler: enabled), and stop it with SIGINT after the "
        "run.  A single NAME is compared with the side base, which has no service.",
    )
    add(
        "--feature",
        type=_feature,
        metavar="NAME",
        help="Compare the scheduler feature NAME switched off (side NO_NAME) and on (side NAME).",
    )
    add(
        "--probe",
        choices=PROBES,
        metavar="session",
        help="Does the result depend on where the shell runs?  Record the command in this shell's "
        "cgroup and in the root cgroup, each with autogroup on and off, and print one table.",
    )
    for side in ("base", "new"):
        add(f"--{side}", type=Path, metavar="FILE", help=f"Write the {side} side to this bundle.")
        add(
            f"--{side}-setup",
            default="",
            metavar="CMD",
            help=f"Apply the {side} setting with this shell command before each {side} run.",
        )
        add(
            f"--{side}-teardown",
            default="",
            metavar="CMD",
            help=f"Run this shell command after each {side} run.",
        )
        add(
            f"--{side}-label",
            type=_text,
            metavar="LABEL",
            help=f"Set the name of the {side} side in reports.  [default: the file's name]",
        )
    add(
        "--append",
        action="store_true",
        help="Add the runs to the bundles that exist, e.g. after booting again; with --kernel, add "
        "the boots.",
    )
    add(
        "--until-decided",
        action="store_true",
        help=(
            "Compare the two sides after each round and stop when no primary result is "
            "inconclusive."
        ),
    )
    _add_max_runs(parser, "rounds")
    add_boot_options(parser)
    _add_common_options(
        parser,
        "Record N rounds, each with one run per side and combination of --point values.  "
        f"[default: {ROUNDS}; {FIRST_LOOK} with --until-decided; three or more sides: the next "
        "number with a balanced order]",
    )
    # None means that the default depends on the number of sides.
    parser.set_defaults(runs=None)


def _add_common_options(parser: argparse.ArgumentParser, what_n_is: str) -> None:
    add = parser.add_argument
    add("-n", "--runs", type=_positive, default=RUNS, metavar="N", help=what_n_is)
    add(
        "--instrumented",
        type=_count,
        metavar="N",
        help=(
            "Add N runs with intrusive collectors per combination of --point values; these runs "
            "are not used for the verdict.  "
            "[default: as many as -n]"
        ),
    )
    add(
        "--warmup",
        type=_count,
        default=1,
        metavar="N",
        help=(
            "First make N warm-up runs per combination of --point values; these runs are not "
            "evaluated.  [default: 1]"
        ),
    )
    add(
        "--point",
        action="append",
        type=_fails_as_type(parse_point),
        default=[],
        metavar="NAME=V,V",
        help=(
            "Run the command with each value of {NAME}.  Repeat --point for more parameters; a "
            "point is one combination of values."
        ),
    )
    add(
        "--with",
        dest="collectors",
        type=_names,
        default=["default"],
        metavar="NAMES",
        help="Select collectors, e.g. default,bpf_pelt, or none (host only).  [default: default]",
    )
    add(
        "--without",
        dest="left_out",
        type=_names,
        default=[],
        metavar="COLLECTORS",
        help="Leave out collectors that are used by default, e.g. account.",
    )
    # For programs that choose collectors for their users: collectors that cannot run are left out.
    add("--try", dest="attempted", type=_names, default=[], help=argparse.SUPPRESS)
    add(
        "--vary",
        action="append",
        type=_host_path,
        default=[],
        metavar="PATH",
        help="Declare a field of host.json as an intended difference, e.g. sched.autogroup.",
    )
    add(
        "--with-load",
        dest="load",
        type=_load,
        metavar="CMD",
        help="Run this command beside the workload during each run; it may have placeholders. Its "
        "results are shown, but not used for the verdict.",
    )
    _add_server_options(parser)
    add(
        "--metric",
        action="append",
        type=_metric,
        default=[],
        metavar="RULE",
        help="Read a number from the output: NAME[UNIT,higher|lower]=REGEX.",
    )
    add(
        "--set",
        action="append",
        type=_setting,
        default=[],
        metavar="COLLECTOR.NAME=VALUE",
        help="Set an option of a collector, e.g. schedstat.enable=1.",
    )
    add(
        "--kernel-files",
        metavar="FOLDER",
        help="Read System.map and config of the running kernel from this directory.",
    )
    add(
        "--pelt-loader",
        choices=("auto", "libbpf", "bcc"),
        metavar="NAME",
        help=(
            "Load the programs of bpf_pelt with libbpf, bcc or auto (libbpf, then bcc).  "
            "[default: auto]"
        ),
    )
    add(
        "--timeout", type=_seconds, metavar="S", help="Kill a run that takes longer than S seconds."
    )
    add(
        "--seed",
        type=_count,
        metavar="N",
        help="Set the seed of the run order.  [default: random, stored in the bundle]",
    )
    # For the program that contains the analysis and answers questions of the recorder.
    add("--ask-fd", type=descriptors, metavar="READ,WRITE", help=argparse.SUPPRESS)
    # For programs that alternate between several recordings of one session.
    add("--turn", type=_turn, metavar="SESSION,ROUND,ORDER", help=argparse.SUPPRESS)
    add(
        "--factor",
        action="append",
        type=_side_command,
        default=[],
        metavar="NAME=LEVEL",
        help=argparse.SUPPRESS,
    )
    # For `ab stop`: the recording ends before the next run if this file exists.
    add("--stop-file", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    # For `ab --retest`: stored in the bundle of each boot.
    add("--retest-plan", type=_object, metavar="JSON", help=argparse.SUPPRESS)
    # For programs that record for their users: the command that the user gave.
    add("--recorded-as", type=_words, metavar="JSON", help=argparse.SUPPRESS)
    add(
        "--machine",
        type=_machine,
        metavar="NAME",
        help="Store a name for machines of this kind, e.g. epyc-2s; it becomes part of the "
        "machine class that reports show.",
    )
    add(
        "--fact",
        action="append",
        type=_fact,
        default=[],
        metavar="KEY=VALUE",
        help="Store a fact about the recording, e.g. rack=b12; `schedperf history` makes it a "
        "column of queries.",
    )
    add(
        "--shareable",
        action="store_true",
        help="Leave kernel addresses out (symbols, profiles), so that all users may read the "
        "bundle.  [default: only root may read the bundles of root]",
    )
    add("--force", action="store_true", help="Replace existing files.")
    _add_display_options(parser)


def _add_server_options(parser: argparse.ArgumentParser) -> None:
    for name, kind, metavar, where in (
        ("pid", _positive, "PID", "this process and its descendants"),
        ("unit", _unit, "NAME", "this systemd unit"),
        ("cgroup", _cgroup, "PATH", "this cgroup"),
    ):
        parser.add_argument(
            f"--workload-{name}",
            action="append",
            type=kind,
            default=[],
            metavar=metavar,
            help=f"Account for the tasks of {where}, too: a server of the workload that was "
            "started before, e.g. a database.",
        )


def _add_display_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="Print only warnings and errors."
    )
    # File descriptor for JSON lines instead of text; for programs that draw the progress.
    parser.add_argument("--events", type=int, metavar="FD", help=argparse.SUPPRESS)


def _add_exec_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--nice",
        type=_nice,
        metavar="N",
        help="Set the nice value, -20 to 19.",
    )
    parser.add_argument(
        "--slice",
        type=_slice,
        metavar="TIME",
        help="Set the slice of the fair class, e.g. 3ms (100us to 100ms, Linux 6.12 or later).",
    )
    parser.add_argument(
        "--latency-nice",
        type=_nice,
        metavar="N",
        help="Set latency-nice, -20 to 19 (only with patches that are not in mainline Linux).",
    )


def _add_doctor_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help=(
            "Print each collector's requirements and overhead, and the full reason and fix for "
            "each failure."
        ),
    )
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    parser.add_argument(
        "--set",
        action="append",
        type=_setting,
        default=[],
        metavar="COLLECTOR.NAME=VALUE",
        help="Set an option of a collector, e.g. schedstat.enable=1.",
    )
    parser.add_argument(
        "--boot",
        nargs="?",
        const="auto",
        metavar="HOOK",
        help=(
            "Check instead that kernels can be booted alternately with this hook: auto, "
            "grub-reboot, bootctl, efibootmgr, kexec or command:PATH. [default: auto]"
        ),
    )
    parser.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="REL",
        help="With --boot: a kernel to check; repeatable. [default: the kernel booted by default]",
    )
    parser.add_argument(
        "--prove",
        action="store_true",
        help=(
            "With --boot: select the kernel for the next boot only; after a reboot, doctor --boot "
            "prints whether the boot consumed this selection."
        ),
    )


# Options that other programs add to those of the user.
_ADDED = (
    "--ask-fd", "--events", "--factor", "--recorded-as", "--retest-plan", "--stop-file", "--try",
    "--turn",
)  # fmt: skip


def without_added(arguments: Sequence[str]) -> list[str]:
    """Return the options that a user gave, without those that other programs added."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in _ADDED:
        parser.add_argument(option)
    return parser.parse_known_args(list(arguments))[1]


def collectors_of_options(options: argparse.Namespace) -> Mapping[str, str]:
    """Return the collectors that options other than ``--with`` add: the option by name."""
    added = {LOAD: "--with-load"} if options.load else {}
    for name in OF_SERVER:
        if getattr(options, name):
            added[ACCOUNT] = f"--{name.replace('_', '-')}"
    return added


def is_side_name(text: str) -> bool:
    """Return whether a name is valid for a side of ``ab``."""
    return re.fullmatch(_SIDE_NAME, text) is not None


def _fails_as_type(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a function for ``type`` of argparse, which then prints the text of a ValueError."""

    def checked(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return checked


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"invalid number {text!r} (expected 0, 1, 2 …)")
    return int(text)


def _positive(text: str) -> int:
    if _count(text) == 0:
        raise argparse.ArgumentTypeError("invalid number '0' (expected 1 or more)")
    return int(text)


def descriptors(text: str) -> tuple[int, int]:
    """Parse the file descriptors of ``--ask-fd``: to read answers from and write questions to.

    :raises argparse.ArgumentTypeError: the text has another form
    """
    match = _TWO_DESCRIPTORS.match(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"invalid fd pair {text!r} (expected two numbers, e.g. 5,6)"
        )
    return int(match[1]), int(match[2])


def _turn(text: str) -> Turn:
    match = _TURN.match(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"invalid turn {text!r} (expected SESSION,ROUND,ORDER, e.g. 3f,0,7)"
        )
    return Turn(session=match[1], round=int(match[2]), first_order=int(match[3]))


def _nice(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,2}", text) or not LEAST_NICE <= int(text) <= MOST_NICE:
        raise argparse.ArgumentTypeError(
            f"invalid value {text!r} (expected {LEAST_NICE} to {MOST_NICE}, e.g. 5)"
        )
    return int(text)


def _slice(text: str) -> int:
    match = _SLICE.match(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"invalid time {text!r} (expected a number with us or ms, e.g. 3ms)"
        )
    return int(match[1]) * {"us": 1000, "ms": 1_000_000}[match[2]]


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,9})?", text) or float(text) == 0:
        raise argparse.ArgumentTypeError(f"invalid time {text!r} (expected seconds, e.g. 30)")
    return float(text)


def _text(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(
            f"invalid name {text!r} (expected printable text, e.g. tip)"
        )
    return text


def _side_command(text: str) -> tuple[str, str]:
    match = _SIDE_COMMAND.match(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"invalid side {text!r} (expected NAME=CMD, NAME having at most 64 letters, digits and "
            "_ . + -, e.g. 'nice5=renice -n 5 -p $$')"
        )
    return match["name"], match["command"]


def _machine(text: str) -> str:
    if not _MACHINE.match(text):
        raise argparse.ArgumentTypeError(
            f"invalid name {text[:80]!r} (expected at most 64 letters, digits and _ . + -, e.g. "
            "epyc-2s)"
        )
    return text


def _fact(text: str) -> tuple[str, str]:
    match = _FACT.match(text)
    if not match or not text.isprintable():
        raise argparse.ArgumentTypeError(
            f"invalid fact {text[:80]!r} (expected KEY=VALUE, KEY having at most 40 small letters, "
            "digits and _, e.g. rack=b12)"
        )
    return match["key"], match["value"]


def _feature(text: str) -> str:
    if not FEATURE.match(text):
        raise argparse.ArgumentTypeError(
            f"invalid scheduler feature {text!r} (expected its name without NO_, e.g. PLACE_LAG)"
        )
    return text


def _unit(text: str) -> str:
    if not _UNIT.match(text):
        raise argparse.ArgumentTypeError(
            f"invalid unit {text[:80]!r} (expected a name, e.g. postgresql.service)"
        )
    return text


def _cgroup(text: str) -> str:
    if not text.startswith("/") or not text.isprintable() or len(text) > _LONGEST_PATH:
        raise argparse.ArgumentTypeError(
            f"invalid cgroup {text[:80]!r} (expected an absolute path, e.g. "
            "/system.slice/postgresql.service)"
        )
    return text


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _words(text: str) -> list[str]:
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise argparse.ArgumentTypeError(f"invalid JSON {text!r} (expected a list of strings)")
    return words


def _object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"invalid JSON {text!r} (expected an object)")
    return value


def _host_path(text: str) -> str:
    if not _HOST_PATH.match(text):
        raise argparse.ArgumentTypeError(
            f"invalid field {text!r} (expected a field of host.json, e.g. sched.autogroup)"
        )
    return text


def _load(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {str(error).lower()}; quote it") from error
    if not words or "\0" in text:
        raise argparse.ArgumentTypeError(
            f"invalid command {text!r} (expected a command, e.g. 'stress-ng --cpu 2')"
        )
    return text


def _metric(text: str) -> Mapping[str, str]:
    match = _METRIC.match(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"invalid metric rule {text!r} (expected NAME[UNIT,higher]=REGEX, e.g. "
            "rate[1/s,higher]=rate: (.*))"
        )
    try:
        groups = re.compile(match["regex"]).groups
    except (re.error, RecursionError, OverflowError) as error:
        raise argparse.ArgumentTypeError(
            f"invalid regular expression {match['regex']!r}: {error}"
        ) from error
    if groups == 0:
        raise argparse.ArgumentTypeError(
            f"no capturing group in {match['regex']!r} (expected the number in parentheses, e.g. "
            "'rate: ([0-9.]+)')"
        )
    return match.groupdict()


def _setting(text: str) -> tuple[str, str, str]:
    match = _SETTING.match(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"invalid setting {text!r} (expected COLLECTOR.NAME=VALUE, e.g. schedstat.enable=1)"
        )
    return match["collector"], match["name"], match["value"]


COMMANDS: Mapping[str, Command] = {
    "record": Command(
        "Record runs of a command into a bundle.", RECORD_EXAMPLES, _add_record_options
    ),
    "ab": Command(
        "Record two or more settings of this machine, interleaved.",
        AB_EXAMPLES,
        _add_ab_options,
    ),
    "exec": Command(
        "Run a command with a nice value, slice or latency-nice.", EXEC_EXAMPLES, _add_exec_options
    ),
    "doctor": Command(
        "Try every collector here; print failures, reasons and fixes.",
        DOCTOR_EXAMPLES,
        _add_doctor_options,
        takes_command=False,
    ),
}
