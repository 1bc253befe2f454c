# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the options of ``ab --kernel``, which boots kernels alternately."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any

from schedperf_collectors.recorder.source import read_source

BOOTS = 4
BOOT_LIMIT_S = 900.0
SETTLE_S = 120
_MOST_BOOTS = 1000
# Runs of each job of each boot have orders of their own, of at most 12 digits.
MOST_JOBS = 100
# A name is also part of a file's name; uname limits a release to 64 characters.
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}"
_RELEASE = r"[A-Za-z0-9][A-Za-z0-9._+~:@-]{0,63}"
NAME = re.compile(rf"{_NAME}\Z", re.ASCII)
RELEASE = re.compile(rf"{_RELEASE}\Z", re.ASCII)
_KERNEL = re.compile(rf"(?P<name>{_NAME})=(?P<release>{_RELEASE})\Z", re.ASCII)
_SOURCE = re.compile(rf"(?P<name>{_NAME})=(?P<text>.+)\Z", re.ASCII | re.DOTALL)
_IMAGE = re.compile(rf"(?P<name>{_NAME})=(?P<release>[^\0]*/[^\0]*)\Z")

# The form of `ssh:HOST`; IPv6 addresses are in brackets, as in URLs.
HOST = re.compile(
    r"ssh:(?P<host>(?!-)(?:[A-Za-z0-9._-]+@)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%a-z]+\]))"
    r"(?::(?P<port>[0-9]{1,5}))?\Z",
    re.ASCII,
)


def add_boot_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of boots to the parser of ``ab``."""
    add = parser.add_argument
    add(
        "--kernel",
        action="append",
        type=_kernel,
        default=[],
        metavar="NAME=REL",
        help="Boot this installed kernel (a release, e.g. 6.1.0-50-amd64).  Repeat it for two or "
        "more kernels, base first; one is enough with --append.  Needs --on or --resume.",
    )
    add(
        "--boots",
        type=_boots,
        metavar="N",
        help=f"Boot each kernel N times, alternately.  [default: {BOOTS}]",
    )
    add(
        "--jobs",
        metavar="FILE",
        help="Record in each boot the benchmarks of this file, instead of one command after --: "
        "[[job]] tables in TOML or JSON, with name, run, points, runs ... (see docs/kernels.md).",
    )
    add(
        "--boot",
        metavar="HOOK",
        help="Select kernels with auto, grub-reboot, bootctl, efibootmgr, kexec, command:PATH, or "
        "virtme-ng (guests).  [default: auto]",
    )
    add("--on", type=_host, metavar="ssh:HOST", help="Boot and record on this machine, by ssh.")
    add(
        "--resume",
        action="store_true",
        help="Boot and record on this machine; a systemd unit goes on after each boot.",
    )
    add(
        "--boot-limit",
        type=_limit,
        metavar="S",
        help=f"A boot that takes longer than S seconds has failed.  [default: {BOOT_LIMIT_S:.0f}]",
    )
    add(
        "--settle",
        type=_count,
        metavar="S",
        help="Wait after each boot until the machine is idle, at most S seconds.  "
        f"[default: {SETTLE_S}]",
    )
    add(
        "--source",
        action="append",
        type=_source,
        default=[],
        metavar="[NAME=]FILE",
        help="Store the commit of the running kernel, or that of the --kernel NAME, as this JSON "
        "file describes it: commit, subject, tree, ref ... (see docs/bundle.md).",
    )
    add(
        "--retest",
        metavar="STEP",
        help="Boot until a change that was seen is reproduced or excluded: that of a step in "
        "--store, or of a comparison (a file of compare --json).  Needs --on.",
    )
    add("--store", metavar="DIR", help="Retest a step of the history in this directory.")
    add("--result", metavar="NAME", help="Retest this result.  [default: the one that changed]")
    add(
        "--underpowered",
        action="store_true",
        help="Retest although the machine is too noisy to reproduce such a change.",
    )
    add("--power", metavar="PATH", help="Run `PATH cycle` here if the target does not answer.")
    add("--console", metavar="PATH", help="Run `PATH last` here to read the target's console.")


# Options of `ab` that are valid only with --kernel.
OF_BOOTS = (
    "kernel", "boots", "jobs", "boot", "on", "resume", "boot_limit", "settle", "retest", "store",
    "result", "underpowered", "power", "console",
)  # fmt: skip


def boots_parser() -> argparse.ArgumentParser:
    """Return a parser for the options that the recorder in each boot does not get.

    These are the options of boots, -o, -q, --ask-fd, --events, --force and --append. With
    ``parse_known_args``, the recorder's options stay unparsed.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_boot_options(parser)
    parser.add_argument("-o", "--output")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("--ask-fd")
    parser.add_argument("--events", type=int)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--append", action="store_true")
    return parser


def without_boots(arguments: Sequence[str]) -> list[str]:
    """Return the options for the recorder in each boot; see :func:`boots_parser`.

    :param arguments: all options of ``ab``, as given
    """
    return boots_parser().parse_known_args(list(arguments))[1]


def _kernel(text: str) -> tuple[str, str]:
    """Parse NAME=RELEASE, or NAME=PATH of an image for guests, which has a slash.

    :raises argparse.ArgumentTypeError: the text has another form
    """
    match = _KERNEL.match(text) or _IMAGE.match(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"invalid kernel {text!r} (expected NAME=RELEASE, e.g. new=6.1.0-50-amd64; see `ls "
            "/lib/modules`)"
        )
    return match["name"], match["release"]


def _boots(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= _MOST_BOOTS:
        raise argparse.ArgumentTypeError(
            f"invalid number {text!r} (expected 1 to {_MOST_BOOTS}, e.g. {BOOTS})"
        )
    return int(text)


def _source(text: str) -> tuple[str, Mapping[str, Any]]:
    """Parse [NAME=]FILE or [NAME=]JSON; the name is "" if it is missing.

    :raises argparse.ArgumentTypeError: the file cannot be read, or does not describe a commit
    """
    name, given = split_source(text)
    try:
        return name, read_source(given)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def split_source(text: str) -> tuple[str, str]:
    """Return the name of a kernel ("" if missing), and the file or JSON that describes it."""
    match = _SOURCE.match(text)
    return ("", text) if match is None else (match["name"], match["text"])


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text):
        raise argparse.ArgumentTypeError(f"invalid time {text!r} (expected seconds, e.g. 120)")
    return int(text)


def _host(text: str) -> str:
    if not HOST.match(text):
        raise argparse.ArgumentTypeError(
            f"invalid target {text!r} (expected ssh:HOST, e.g. ssh:root@lab1)"
        )
    return text


def _limit(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or float(text) == 0:
        raise argparse.ArgumentTypeError(f"invalid time {text!r} (expected seconds, e.g. 900)")
    return float(text)
