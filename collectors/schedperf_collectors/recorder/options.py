"""The command lines of ``record``, ``ab`` and ``doctor``: the one definition of their options.

Whoever only wants to know the options imports nothing but this.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, NoReturn

from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.plan import FIRST_LOOK, MAX_RUNS, Turn, parse_point

_METRIC = re.compile(
    r"(?P<name>[\w.-]+)\[(?P<unit>[^\],]+),(?P<better>higher|lower)\]=(?P<regex>.+)\Z", re.DOTALL
)
_SETTING = re.compile(r"(?P<collector>\w+)\.(?P<name>\w+)=(?P<value>.*)\Z", re.DOTALL)
_TURN = re.compile(r"([0-9a-f]{1,64}),([0-9]{1,6}),([0-9]{1,12})\Z")
_TWO_DESCRIPTORS = re.compile(r"([0-9]{1,6}),([0-9]{1,6})\Z")
_HOST_PATH = re.compile(r"[a-z_]\w*(\.[\w.-]+)?\Z")

# How often each point is run unless the user says.
RUNS = 5

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

A setup is a shell script that runs in the process that then becomes the
workload: the control group, CPU mask, limits and environment that it gives
itself end with the workload. Values below /proc/sys/kernel and /proc/sys/vm,
and control groups that it makes, are restored.
"""

DOCTOR_EXAMPLES = """\
Examples:
  %(prog)s
  %(prog)s --json
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong with the command line."""
        raise RecordError(f"{message}; see {self.prog} --help")

    def options(self) -> list[argparse.Action]:
        """Return the options, for another parser or a drawing of them."""
        return [action for action in self._actions if action.dest != "help"]


@dataclass(frozen=True)
class Command:
    """One command of the recorder.

    :param examples: what its help ends with; %(prog)s stands for its name
    :param takes_command: a command to run follows after --
    """

    summary: str
    examples: str
    add_options: Callable[[argparse.ArgumentParser], None]
    takes_command: bool = True


def make_parser(name: str, prog: str) -> Parser:
    """Return the parser of one command, for what precedes its ``--``.

    :param name: a key of ``COMMANDS``
    """
    command = COMMANDS[name]
    parser = Parser(
        prog=f"{prog} {name}",
        usage=f"{prog} {name} [OPTIONS]{' -- CMD...' if command.takes_command else ''}",
        description=command.summary,
        epilog=command.examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_options(parser)
    return parser


def _add_record_options(parser: argparse.ArgumentParser) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="bundle to write: .tar, .tar.gz, .tar.xz"
    )
    target.add_argument("--append", type=Path, metavar="FILE", help="bundle that gets more runs")
    parser.add_argument("--label", type=_text, help="what this side is called [the file's name]")
    _add_until_decided(parser)
    # For programs that make several recordings in turns, each a part of one session.
    parser.add_argument("--turn", type=_turn, metavar="SESSION,ROUND,ORDER", help=argparse.SUPPRESS)
    _add_common_options(
        parser, f"runs per point; with --until-decided before the first look [{FIRST_LOOK}], else"
    )
    # Whether the user said so tells which default holds.
    parser.set_defaults(runs=None)


def _add_until_decided(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--until-decided",
        action="store_true",
        help="compare with --against after each block of runs and stop when all is decided",
    )
    add("--against", type=Path, metavar="FILE", help="bundle of the other side, recorded before")
    add(
        "--max-runs",
        type=_positive,
        metavar="N",
        help=f"runs per point after which --until-decided gives up [{MAX_RUNS}]",
    )
    # Descriptors on which questions are written and answers are read, for programs that compare.
    add("--ask-fd", type=_descriptors, metavar="READ,WRITE", help=argparse.SUPPRESS)


def _add_ab_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        metavar="PLACE",
        help="folder for base.tar and new.tar, or what precedes -base.tar and -new.tar",
    )
    for side in ("base", "new"):
        parser.add_argument(f"--{side}", type=Path, metavar="FILE", help=f"bundle of side {side}")
        parser.add_argument(
            f"--{side}-setup", default="", metavar="CMD", help="shell script that sets it up"
        )
        parser.add_argument(
            f"--{side}-teardown", default="", metavar="CMD", help="shell script after each run"
        )
        parser.add_argument(
            f"--{side}-label", type=_text, metavar="LABEL", help="what it is called"
        )
    _add_common_options(parser, "rounds, one run per point and side each")


def _add_common_options(parser: argparse.ArgumentParser, what_n_is: str) -> None:
    add = parser.add_argument
    add("-n", "--runs", type=_positive, default=RUNS, metavar="N", help=f"{what_n_is} [{RUNS}]")
    add(
        "--instrumented",
        type=_count,
        metavar="N",
        help="how many more with intrusive collectors, which never gate a verdict [as many]",
    )
    add("--warmup", type=_count, default=1, metavar="N", help="runs first that do not count [1]")
    add(
        "--point",
        action="append",
        type=_fails_as_type(parse_point),
        default=[],
        metavar="NAME=V,V",
        help="values for {NAME} in the command; several make all combinations",
    )
    add(
        "--with",
        dest="collectors",
        type=_names,
        default=["default"],
        metavar="NAMES",
        help="collectors, by name: a,b or default or none [default]",
    )
    add(
        "--vary",
        action="append",
        type=_host_path,
        default=[],
        metavar="PATH",
        help="path of host.json that is meant to differ: sched.autogroup",
    )
    add(
        "--metric",
        action="append",
        type=_metric,
        default=[],
        metavar="RULE",
        help="NAME[UNIT,higher|lower]=REGEX: number to find in the output",
    )
    add(
        "--set",
        action="append",
        type=_setting,
        default=[],
        metavar="COLLECTOR.NAME=VALUE",
        help="setting of a collector",
    )
    add(
        "--kernel-files",
        metavar="FOLDER",
        help="folder with the running kernel's System.map and config",
    )
    add(
        "--pelt-loader",
        choices=("auto", "libbpf", "bcc"),
        metavar="NAME",
        help="what loads the programs of bpf_pelt: auto, libbpf or bcc [auto: libbpf, else bcc]",
    )
    add("--timeout", type=_seconds, metavar="S", help="kill a run that lasts longer, in s")
    add("--seed", type=_count, metavar="N", help="for the order of the runs [random, recorded]")
    add("--force", action="store_true", help="replace files that exist")
    _add_display_options(parser)


def _add_display_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="warnings and errors only")
    # Descriptor for JSON lines instead of text; for programs that draw the progress.
    parser.add_argument("--events", type=int, metavar="FD", help=argparse.SUPPRESS)


def _add_doctor_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--set",
        action="append",
        type=_setting,
        default=[],
        metavar="COLLECTOR.NAME=VALUE",
        help="setting of a collector",
    )


def _fails_as_type(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Let argparse print the text of a ValueError, not the name of the function."""

    def checked(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return checked


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number; write 0, 1, 2 …")
    return int(text)


def _positive(text: str) -> int:
    if _count(text) == 0:
        raise argparse.ArgumentTypeError("0 runs measure nothing; write 1 or more")
    return int(text)


def _descriptors(text: str) -> tuple[int, int]:
    match = _TWO_DESCRIPTORS.match(text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no pair of descriptors; write 5,6")
    return int(match[1]), int(match[2])


def _turn(text: str) -> Turn:
    match = _TURN.match(text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no turn; write SESSION,ROUND,ORDER: 3f,0,7")
    return Turn(session=match[1], round=int(match[2]), first_order=int(match[3]))


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,9})?", text) or float(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write seconds such as 30")
    return float(text)


def _text(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is empty or not printable; write a word")
    return text


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _host_path(text: str) -> str:
    if not _HOST_PATH.match(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no path of host.json; write one such as sched.autogroup"
        )
    return text


def _metric(text: str) -> Mapping[str, str]:
    match = _METRIC.match(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no rule; write NAME[UNIT,higher]=REGEX: rate[1/s,higher]=rate: (.*)"
        )
    try:
        groups = re.compile(match["regex"]).groups
    except (re.error, RecursionError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{match['regex']!r} is no regex: {error}") from error
    if groups == 0:
        raise argparse.ArgumentTypeError(
            f"{match['regex']!r} has no group; put the number into parentheses"
        )
    return match.groupdict()


def _setting(text: str) -> tuple[str, str, str]:
    match = _SETTING.match(text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no setting; write COLLECTOR.NAME=VALUE")
    return match["collector"], match["name"], match["value"]


COMMANDS: Mapping[str, Command] = {
    "record": Command(
        "Record runs of a command into a bundle.", RECORD_EXAMPLES, _add_record_options
    ),
    "ab": Command(
        "Record two settings of this machine in turns, into two bundles.",
        AB_EXAMPLES,
        _add_ab_options,
    ),
    "doctor": Command(
        "Try every collector; say what fails here, why, and what mends it.",
        DOCTOR_EXAMPLES,
        _add_doctor_options,
        takes_command=False,
    ),
}
