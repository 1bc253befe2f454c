"""Rows and verdicts in words that know which direction is worse."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Protocol

from schedperf.model.comparison import (
    Better,
    Comparison,
    Family,
    Replication,
    Row,
    Severity,
    SideSummary,
    Verdict,
)
from schedperf.model.counted import Rate
from schedperf.stats import verdicts
from schedperf_reports.blocks import Tone
from schedperf_reports.words.units import format_size, format_size_interval, scale_for

VERDICT_TONES: Mapping[Verdict, Tone] = {
    "regression": "bad",
    "improvement": "good",
    "no-change": "plain",
    "inconclusive": "warning",
    "invalid": "warning",
}
SEVERITY_TONES: Mapping[Severity, Tone] = {
    "treatment": "strong",
    "blocking": "bad",
    "noted": "warning",
    "ignored": "muted",
}

SIDE_LETTERS = {"base": "A", "new": "B"}
SIDE_NUMBERS = {str(number) for number in range(2, len(ascii_uppercase))}
# The style sheet has a colour and a shape for this many sides; further ones share the last.
LAST_PLACE = 5

# base.tar and /tmp/new/x are names of something else.
SIDE_NAME = re.compile(r"(?<![\w./-])(?:base|new\d*)(?![\w./-])")

# What marks a direction in tables.
DIRECTIONS: Mapping[Better, str] = {"higher": "^", "lower": "v"}


def count_of(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 run``, ``5 runs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def merge_sides(notes: Sequence[str]) -> list[str]:
    """Say once what was said of several sides in the same words.

    >>> merge_sides(["kallsyms of base: empty", "kallsyms of new: empty"])
    ['kallsyms of base and new: empty']
    """
    named: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        found = SIDE_NAME.search(note)
        start, end = found.span() if found else (len(note), len(note))
        told = named.setdefault((note[:start], note[end:]), [])
        if note[start:end] not in told:
            told.append(note[start:end])
    return [f"{before}{' and '.join(told)}{after}" for (before, after), told in named.items()]


class Compared(Protocol):
    """What two sides were compared on: units of both, and what they are."""

    @property
    def n_base(self) -> int: ...
    @property
    def n_new(self) -> int: ...
    @property
    def replication(self) -> Replication: ...


def count_compared(found: Compared) -> str:
    """Say what was compared: ``8 + 8 runs``, ``3 + 3 boots``, and of pairs ``8 rounds``."""
    if found.replication == "rounds":
        return count_of(found.n_base, "round")
    return f"{found.n_base} + {found.n_new} {found.replication}"


def legend_of(rows: Sequence[Row]) -> str:
    """Explain the marks of the directions that occur: ``v lower is better``."""
    occurring = {row.better for row in rows}
    return ", ".join(
        f"{mark} {better} is better" for better, mark in DIRECTIONS.items() if better in occurring
    )


def side_letter(name: str) -> str:
    """Return the letter of a side: base is A, new is B, new2 is C …"""
    if name in SIDE_LETTERS:
        return SIDE_LETTERS[name]
    number = name.removeprefix("new")
    return ascii_uppercase[int(number)] if number in SIDE_NUMBERS else "?"


def side_title(name: str) -> str:
    """Return letter and name of a side: ``A base``."""
    return f"{side_letter(name)} {name}"


def name_side(side: SideSummary) -> str:
    """Return letter and label of a side: ``B new``, ``B cluster``."""
    return f"{side_letter(side.name)} {label_of(side.name, side.label)}"


def label_of(name: str, label: str) -> str:
    """Return what a side is called: its label, unless that is what another side is called.

    Bundles call themselves base or new, whichever place they have among several.

    >>> label_of("new2", "new"), label_of("new2", "cluster")
    ('new2', 'cluster')
    """
    is_third = name not in SIDE_LETTERS
    return name if is_third and SIDE_NAME.fullmatch(label) else label


def side_place(name: str) -> int:
    """Return which colour and shape a side has: base 0, new 1, new2 2 … up to ``LAST_PLACE``.

    >>> side_place("new2")
    2
    """
    letter = side_letter(name)
    return min(ascii_uppercase.index(letter), LAST_PLACE) if letter != "?" else LAST_PLACE


def name_rows(rows: Sequence[Row]) -> dict[int, str]:
    """Return a short name for each row, by its place: ``hackbench time at groups=4``.

    Where two rows would be called the same, the command tells them apart.
    """
    short = [f"{row.metric} at {row.point}" if row.point else row.metric for row in rows]
    many = Counter((row.side, name) for row, name in zip(rows, short, strict=True))
    return {
        place: f"{name} ({row.workload})" if many[row.side, name] > 1 else name
        for place, (row, name) in enumerate(zip(rows, short, strict=True))
    }


def count_values(row: Row) -> str:
    """Write how many independent values each side has: ``5+5``, ``?+?`` where nobody says."""
    return verdicts.count_values(row.n_base, row.n_new, row.replication)


def count_units(row: Row) -> str:
    """Write how many independent values a row rests on: ``5+5 runs``, ``6 rounds``."""
    return verdicts.count_units(row.n_base, row.n_new, row.replication)


def count_changes(rows: Sequence[Rate]) -> str:
    """Say how many rates changed and what cannot be said: ``2 of 40 rows changed beyond noise``."""
    drifted = sum(row.changed is None and row.p is not None for row in rows)
    if all(row.changed is None for row in rows) and not drifted:
        return "one run a side cannot tell a change from noise, so none is read as one"
    changed = sum(bool(row.changed) for row in rows)
    text = f"{changed} of {count_of(len(rows), 'row')} changed beyond noise"
    if not drifted:
        return text
    return (
        f"{text}; {drifted} more differ, but may have drifted: the sides did not take turns, and "
        "have less than 10 runs each"
    )


def describe_change(row: Row) -> str:
    """Say how far a row moved: `` is 37.2 % longer (95 % interval 35.0 % to 39.5 %, 5+5 runs)``.

    It follows the row's name; what has no ratio is no "is": ``: 0 before and 4 ms after``.
    """
    if (row.n_base, row.n_new) == (None, None):
        number = "number of runs not given"
    else:
        number = count_units(row)
    if row.ratio is None:
        scale = scale_for(row.unit, row.base, row.new)
        values = f"{scale.format(row.base)} before and {scale.format(row.new)} {scale.unit}"
        return f": {values.rstrip()} after ({number})"
    size = f" is {format_size(row.ratio)} {_comparative(row)}"
    if row.ci_low is None or row.ci_high is None:
        return f"{size} ({number})"
    interval = format_size_interval(row.ci_low, row.ci_high)
    return f"{size} (95 % interval {interval}, {number})"


def _comparative(row: Row) -> str:
    assert row.ratio is not None
    is_up = row.ratio >= 1.0
    if row.unit == "s" and row.better == "lower":
        return "longer" if is_up else "shorter"
    quality = "better" if is_up == (row.better == "higher") else "worse"
    if row.unit == "s":
        return f"{'longer' if is_up else 'shorter'}, which is {quality}"
    return f"{'higher' if is_up else 'lower'}, which is {quality}"


def size_of_change(row: Row) -> float:
    """Return how far a row moved, by which the largest change comes last; 0 without a ratio."""
    # A ratio of 2 and of 1/2 are equally far from 1.
    return max(row.ratio, 1.0 / row.ratio) if row.ratio else 0.0


def has_changed(comparison: Comparison) -> bool:
    """Say whether the verdict is that something changed."""
    return comparison.overall.verdict in ("regression", "improvement")


def has_same_data(comparison: Comparison) -> bool:
    """Say whether all sides hold the very same captures, so that nothing was measured twice."""
    return len({side.digest for side in comparison.sides}) == 1


def is_of_this_boot(comparison: Comparison) -> bool:
    """Say whether something is decided, though one boot of a side cannot show how boots differ."""
    is_decided = comparison.overall.verdict in ("regression", "improvement", "no-change")
    return is_decided and any(one.code == "one-boot" for one in comparison.caveats)


def count_verdicts(rows: Sequence[Row], family: Family) -> str:
    """Count a family's verdicts: ``3 primary results: 1 regression, 2 no-change``."""
    verdicts = [row.verdict for row in rows if row.family == family]
    counts = Counter(verdicts)
    listed = ", ".join(f"{counts[name]} {name}" for name in VERDICT_TONES if counts[name])
    return f"{count_of(len(verdicts), f'{family} result')}: {listed}"
