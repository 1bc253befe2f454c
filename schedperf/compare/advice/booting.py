# SPDX-License-Identifier: GPL-2.0-or-later
"""Read from untrusted options how ``ab --kernel`` booted the kernels of a recording."""

import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from msgspec import Struct

from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.boot_options import BOOT_LIMIT_S, BOOTS, SETTLE_S
from schedperf_collectors.recorder.options import make_parser
from schedperf_collectors.recorder.sides import read_settings
from schedperf_collectors.recorder.source import format_source

# JSON of one line, which may have the name of a kernel before it.
_SOURCE = re.compile(r"(?:[A-Za-z0-9_.+-]{1,64}=)?\{")
# Begins the name of a hook that is a program of the user.
COMMAND = "command:"


class Booting(Struct, frozen=True, kw_only=True):
    """The boots of a recording, and the settings that each boot records.

    :param words: options of kernels, target, hook and settings
    :param names: of the bundles, without suffix, base first
    :param target: "ssh:root@lab1"; None for a machine that boots itself
    :param boots: per kernel
    :param runs: of a point in each boot; None for the default
    :param programs: files on the controller that boot, power-cycle and read the console
    """

    words: tuple[str, ...]
    names: tuple[str, ...]
    target: str | None
    boots: int
    runs: int | None
    programs: tuple[str, ...]


def parse_booted(words: Sequence[str]) -> Namespace:
    """Parse the options of ``ab --kernel`` that a bundle has.

    :raises RecordError: the recorder does not take them
    """
    check_sources(words)
    options: Namespace = make_parser("ab", "schedperf").parse_args(["-o", "again/", *words])
    return options


def check_sources(words: Sequence[str]) -> None:
    """Refuse options of a bundle whose ``--source`` is a file, which reading them would open.

    :raises RecordError: it is a file
    """
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        option, _, value = word.partition("=")
        given = value or following
        if option == "--source" and not _SOURCE.match(given):
            raise RecordError(f"--source {given[:40]!a}: a file (expected JSON)")


def read_booting(options: Namespace) -> Booting:
    """Return what the options say about boots.

    :raises RecordError: they contradict each other
    :raises ValueError: they boot no kernel
    """
    if not options.kernel or (options.on is None) == (not options.resume):
        raise ValueError("ab without --kernel, or without --on and --resume")
    settings = _settings(options)
    kernels = [name for name, _ in options.kernel]
    hook = options.boot or ""
    own = hook.removeprefix(COMMAND) if hook.startswith(COMMAND) else None
    return Booting(
        words=tuple(_words(options)),
        names=tuple(
            f"{kernel}-{setting}" if setting else kernel
            for kernel in kernels
            for setting in settings or [""]
        ),
        target=options.on,
        boots=options.boots or BOOTS,
        runs=options.runs,
        programs=tuple(path for path in (own, options.power, options.console) if path),
    )


def _settings(options: Namespace) -> list[str]:
    if not (options.setup or options.service or options.feature or options.teardown):
        return []
    return [str(setting.name) for setting in read_settings(options)]


def _words(options: Namespace) -> Iterator[str]:
    for name, release in options.kernel:
        yield from ("--kernel", f"{name}={release}")
    yield from option_words("--on", options.on) if options.on else ["--resume"]
    yield from option_words("--boot", options.boot or "")
    if options.boot_limit not in (None, BOOT_LIMIT_S):
        yield from option_words("--boot-limit", f"{options.boot_limit:g}")
    if options.settle not in (None, SETTLE_S):
        yield from option_words("--settle", str(options.settle))
    for name, source in options.source:
        yield from ("--source", f"{name}={format_source(source)}")
    yield from option_words("--power", options.power or "")
    yield from option_words("--console", options.console or "")
    yield from option_words("--feature", options.feature or "")
    for name in ("setup", "teardown", "service"):
        for side, command in getattr(options, name):
            yield from option_words(f"--{name}", f"{side}={command}")


def option_words(name: str, value: str) -> list[str]:
    """Return an option with its value; [] for ""."""
    # A value that begins with a dash would be read as an option.
    if not value:
        return []
    return [f"{name}={value}"] if value.startswith("-") else [name, value]
