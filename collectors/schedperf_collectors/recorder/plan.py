# SPDX-License-Identifier: GPL-2.0-or-later
"""Plan the runs and their order.

After the warm-up, every block contains each point once per kind of run (clean, instrumented), in
random order, so that drift of the machine affects all points equally. The order of the sides
changes from block to block (two sides: ABBA; more: a Williams design), which also cancels linear
drift.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Callable

from schedperf_collectors.contract import PLACEHOLDER
from schedperf_collectors.machine.errors import RecordError

CLEAN = "clean"
INSTRUMENTED = "instrumented"

# More runs are assumed to be a typing error: 100,000 runs of 0.1 s take three hours.
MOST_RUNS = 100_000

# `--until-decided`: fewer runs are rarely enough, and every look costs power.
FIRST_LOOK = 3
# The default budget. Detecting a change of two standard deviations takes six runs per side.
MAX_RUNS = 30

# Rounds of a recording of several sides, if no number is given: at least this many.
ROUNDS = 5
# Two sides alternate, so any number of rounds is nearly balanced; rounds are compared as pairs.
PAIR = 2

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

Point = Mapping[str, str]


@dataclass(frozen=True)
class PlannedRun:
    """One planned run.

    :param point: value of each parameter
    :param kind: CLEAN or INSTRUMENTED
    :param warmup: whether its results are not used
    :param block: index of the randomised block; 0 for warm-up runs
    :param round: index of the round, which has one run per side for each point and kind; None with
        one side
    :param side: name of the side; None with one side
    """

    point: Point
    kind: str
    warmup: bool
    block: int
    round: int | None
    side: str | None


@dataclass(frozen=True)
class Counts:
    """Runs of each point, per side.

    :param clean: runs without intrusive collectors
    :param instrumented: runs with them
    :param warmup: runs before all others that are not used
    """

    clean: int
    instrumented: int
    warmup: int


@dataclass(frozen=True)
class Turn:
    """The position of one recording in a session whose sides alternate.

    :param session: id shared by all its recordings, hexadecimal
    :param round: index of the round, which has one recording per side
    :param first_order: index of its first run among the runs of the session
    """

    session: str
    round: int
    first_order: int


def parse_point(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse ``groups=1,4,16``.

    >>> parse_point("groups=1,4,16")
    ('groups', ('1', '4', '16'))

    :raises ValueError: the text is invalid
    """
    name, equals, values_text = text.partition("=")
    values = tuple(values_text.split(","))
    if not equals or not _NAME.match(name):
        raise ValueError(f"invalid point {text!r} (expected NAME=VALUE,VALUE, e.g. groups=1,4)")
    if not all(values) or not values_text.isprintable():
        raise ValueError(
            f"invalid point {text!r}: empty or unprintable value (expected NAME=VALUE,VALUE, "
            "e.g. groups=1,4)"
        )
    if len(set(values)) < len(values):
        raise ValueError(f"invalid point {text!r}: value given twice; give each value once")
    return name, values


def cross_points(parameters: Sequence[tuple[str, tuple[str, ...]]]) -> list[dict[str, str]]:
    """Return the cartesian product of the parameters; one empty point without parameters.

    :param parameters: name and values of each
    :raises RecordError: a parameter is given twice, or there are more than :data:`MOST_RUNS` points
    """
    names = [name for name, _ in parameters]
    if len(set(names)) < len(names):
        raise RecordError("--point: parameter given twice; put all its values in one --point")
    count = math.prod(len(values) for _, values in parameters)
    if count > MOST_RUNS:
        raise RecordError(
            f"--point: {count:.0e} points (expected at most {MOST_RUNS}); give fewer values"
        )
    products = itertools.product(*(values for _, values in parameters))
    return [dict(zip(names, values)) for values in products]


def check_placeholders(template: Sequence[str], names: Sequence[str]) -> None:
    """Reject placeholders without values, and values without a placeholder.

    :param template: the command, with placeholders
    :param names: names of the parameters that have values
    :raises RecordError: there is one
    """
    used = {
        match["name"]
        for argument in template
        for match in PLACEHOLDER.finditer(argument)
        if match["name"]
    }
    for name in sorted(used - set(names)):
        raise RecordError(
            f"command: {{{name}}} has no values; add --point {name}=1,2, or write "
            f"{{{{{name}}}}} for literal braces"
        )
    for name in sorted(set(names) - used):
        raise RecordError(
            f"--point {name}: the command has no {{{name}}}; add the placeholder to the command"
        )


def fill(template: Sequence[str], point: Point) -> list[str]:
    """Return the command of one point.

    >>> fill(["hackbench", "-g", "{groups}"], {"groups": "4"})
    ['hackbench', '-g', '4']

    :raises KeyError: the point has no value for a placeholder
    """

    def replace(match: re.Match[str]) -> str:
        return "{" + match["literal"] + "}" if match["literal"] else point[match["name"]]

    return [PLACEHOLDER.sub(replace, argument) for argument in template]


def fill_options(
    options: Mapping[str, Mapping[str, str]], point: Point
) -> dict[str, dict[str, str]]:
    """Return the options of collectors at one point; unknown names in braces stay unchanged.

    >>> fill_options({"load": {"command": "nice -n {nice} awk '{print}'"}}, {"nice": "5"})
    {'load': {'command': "nice -n 5 awk '{print}'"}}
    """

    def replace(match: re.Match[str]) -> str:
        if match["literal"]:
            return "{" + match["literal"] + "}"
        return point.get(match["name"], match[0])

    return {
        collector: {name: PLACEHOLDER.sub(replace, value) for name, value in values.items()}
        for collector, values in options.items()
    }


def plan_record(points: Sequence[Point], counts: Counts, seed: int) -> list[PlannedRun]:
    """Plan the runs of one side.

    :param seed: seed of the random order
    :raises RecordError: there are more than MOST_RUNS
    """

    def one(point: Point, kind: str, block: int, *, warmup: bool) -> list[PlannedRun]:
        return [PlannedRun(point, kind, warmup, block, None, None)]

    return _plan(points, counts, seed, one)


def plan_ab(
    points: Sequence[Point], counts: Counts, seed: int, sides: Sequence[str]
) -> list[PlannedRun]:
    """Plan the runs of several sides, each round in an order of :func:`orders`.

    :param seed: seed of the random order of points and kinds
    :param sides: names of the sides, base first
    :raises RecordError: there are more than MOST_RUNS
    """
    sequences = williams(len(sides))

    def of_round(point: Point, kind: str, block: int, *, warmup: bool) -> list[PlannedRun]:
        order = sequences[block % len(sequences)]
        return [PlannedRun(point, kind, warmup, block, block, sides[side]) for side in order]

    return _plan(points, counts, seed, of_round)


def williams(sides: int) -> list[tuple[int, ...]]:
    """Return the orders of a Williams design: each side is first, second … equally often.

    Each side also follows each other side equally often. An even number of sides has as many
    orders as sides, an odd one twice as many. Each order is followed by its mirror image, which
    cancels linear drift.

    :param sides: number of sides, at least 2
    :return: orders, each with the index of every side

    Source: E. J. Williams, Experimental designs balanced for the estimation of residual effects of
    treatments, Australian Journal of Scientific Research A 2 (1949).

    >>> williams(2)
    [(0, 1), (1, 0)]
    >>> ["".join("ABC"[side] for side in order) for order in williams(3)]
    ['ABC', 'CBA', 'BCA', 'ACB', 'CAB', 'BAC']
    """
    # 0, 1, N - 1, 2, N - 2 …
    first = [(i + 1) // 2 if i % 2 else -(i // 2) for i in range(sides)]
    found: dict[tuple[int, ...], None] = {}
    for shift in range(sides):
        order = tuple((side + shift) % sides for side in first)
        # For an even number of sides, the mirror images are already among the orders.
        found[order] = found[order[::-1]] = None
    return list(found)


def orders(sides: int, rounds: int) -> list[tuple[int, ...]]:
    """Return the order of the sides in each round, by index; two sides: ABBA."""
    return list(itertools.islice(itertools.cycle(williams(sides)), rounds))


def balanced_rounds(sides: int, at_least: int) -> int:
    """Return the smallest number of rounds, at least ``at_least``, that balances the orders.

    Each order of :func:`williams` is then used equally often.

    >>> balanced_rounds(3, 5), balanced_rounds(4, 5), balanced_rounds(3, 7)
    (6, 8, 12)
    """
    cycle = len(williams(sides))
    return -(-at_least // cycle) * cycle


def _plan(
    points: Sequence[Point],
    counts: Counts,
    seed: int,
    runs_of: Callable[..., list[PlannedRun]],
) -> list[PlannedRun]:
    generator = random.Random(seed)  # noqa: S311 # an order, not a secret
    plan: list[PlannedRun] = []
    for _ in range(counts.warmup):
        for point in points:
            plan += runs_of(point, CLEAN, 0, warmup=True)
    for block in range(max(counts.clean, counts.instrumented)):
        cells = [(point, CLEAN) for point in points if block < counts.clean]
        cells += [(point, INSTRUMENTED) for point in points if block < counts.instrumented]
        generator.shuffle(cells)
        for point, kind in cells:
            plan += runs_of(point, kind, block, warmup=False)
    if len(plan) > MOST_RUNS:
        raise RecordError(f"{len(plan)} runs planned (expected at most {MOST_RUNS}); lower -n")
    return plan
