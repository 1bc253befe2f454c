# SPDX-License-Identifier: GPL-2.0-or-later
"""Report runs that are too short to measure, with the loop count of longer ones."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from schedperf.commands._rerun_commands import Command, show_word
from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf_collectors.contract import format_template, point_key

# Below this run time, start and end of the processes are a large part of a run.
SHORTEST_S = 1.0
LONG_ENOUGH_S = 5.0
# Significant digits of a loop count.
DIGITS = 2


class _Loops(Struct, frozen=True, kw_only=True):
    """The option of a benchmark that sets its number of loops.

    :param options: the first is used where the command has none of them
    :param default: loops without the option
    """

    options: tuple[str, ...]
    default: int


# By the first words of the command.
_PROGRAMS: Mapping[tuple[str, ...], _Loops] = {
    ("hackbench",): _Loops(options=("-l", "--loops"), default=100),
    ("perf", "bench", "sched", "messaging"): _Loops(options=("-l", "--nr_loops"), default=100),
    ("perf", "bench", "sched", "pipe"): _Loops(options=("-l", "--loop"), default=1_000_000),
}


def short_run_warnings(commands: Sequence[Command]) -> Iterator[str]:
    """Yield one line for each command whose runs, in the bundles that it wrote, are below 1 s.

    :raises InputError: a bundle cannot be read
    """
    for command in commands:
        # The runs of several jobs are not distinguished here.
        paths = command.paths if command.workload else ()
        times = [_shortest_run(path, command) for path in paths]
        shortest = min((time for time in times if time is not None), default=None)
        if shortest is not None and shortest < SHORTEST_S:
            yield _say(command, shortest)


def _shortest_run(path: str, command: Command) -> float | None:
    """Return the median time of the clean runs of the fastest point, in the last boot, in s.

    :return: None if that boot has no clean run of the command's workload
    :raises InputError: the bundle cannot be read
    """
    bundle: Bundle = open_bundle(Path(path))
    name = format_template(command.workload)
    times: dict[str, list[float]] = {}
    for run in bundle.boots[-1].runs if bundle.boots else ():
        is_clean = run.kind == "clean" and not run.warmup and run.succeeded
        if run.workload == name and is_clean and run.wall_s is not None:
            times.setdefault(point_key(dict(run.point)), []).append(run.wall_s)
    return min(map(median, times.values()), default=None)


def _say(command: Command, seconds: float) -> str:
    what = " ".join(map(show_word, command.workload))
    problem = f"a run of `{what}` takes {seconds:.2g} s (expected at least {SHORTEST_S:g} s)"
    longer = lengthen(command.workload, LONG_ENOUGH_S / max(seconds, 1e-3))
    if longer is None:
        factor = math.ceil(LONG_ENOUGH_S / max(seconds, 1e-3))
        return f"{problem}; make a new recording with {factor} times the work per run"
    again = replace(command, before=tuple(_renamed(command)), workload=longer)
    return f"{problem}; record runs of {LONG_ENOUGH_S:g} s with: {again.show()}"


def _renamed(command: Command) -> Iterator[str]:
    """Yield the options with new bundle names: a longer workload is a different workload."""
    for word in command.before:
        path = PurePath(word)
        if word in command.paths:
            yield str(path.with_name(f"{path.stem}-long.tar"))
        elif command.name == "vm" and word == str(PurePath(command.paths[0]).parent):
            yield f"{word}-long"
        else:
            yield "-o" if word == "--append" else word


def lengthen(words: Sequence[str], factor: float) -> tuple[str, ...] | None:
    """Return the command with more loops, rounded up to two significant digits.

    It is None if the benchmark is unknown, or if its number of loops is a placeholder.

    :param factor: by which the number of loops is multiplied

    >>> lengthen(["hackbench", "-l", "50"], 62.5)
    ('hackbench', '-l', '3200')
    """
    for begin, loops in _PROGRAMS.items():
        if (PurePath(words[0]).name, *words[1 : len(begin)]) == begin:
            return _with_loops(words, len(begin), loops, factor)
    return None


def _with_loops(
    words: Sequence[str], begin: int, loops: _Loops, factor: float
) -> tuple[str, ...] | None:
    for index, word in enumerate(words[begin:], begin):
        name, equals, value = word.partition("=")
        if name in loops.options and equals:
            number = _scale(value, factor)
            return None if number is None else _replaced(words, index, f"{name}={number}")
        if word in loops.options and index + 1 < len(words):
            number = _scale(words[index + 1], factor)
            return None if number is None else _replaced(words, index + 1, number)
    number = _scale(str(loops.default), factor)
    return (*words[:begin], loops.options[0], str(number), *words[begin:])


def _replaced(words: Sequence[str], index: int, word: str) -> tuple[str, ...]:
    return (*words[:index], word, *words[index + 1 :])


def _scale(text: str, factor: float) -> str | None:
    # A placeholder has several values.
    if not text.isdecimal():
        return None
    number = int(text) * factor
    unit = 10 ** max(math.floor(math.log10(max(number, 1))) - DIGITS + 1, 0)
    return str(math.ceil(number / unit) * unit)
