# SPDX-License-Identifier: GPL-2.0-or-later
"""Format names, counts and changes of rows as words."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from schedperf.model import verdict
from schedperf.model.caveats import Caveat
from schedperf.model.comparison import Comparison
from schedperf.model.counted import Rate
from schedperf.model.rows import Better, Family, Replication, Row, Verdict
from schedperf.model.sides import Severity, SideSummary
from schedperf.model.text import join_names
from schedperf_reports.blocks import Tone
from schedperf_reports.words.quantities import (
    MISSING,
    WIDEST_INTERVAL,
    format_change,
    format_interval,
    is_wide,
    scale_for,
)

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

# The style sheet has a colour and a shape for this many sides; further ones share the last.
LAST_PLACE = 5

# base.tar and /tmp/new/x must not be replaced: they are names of files.
_BOOT = re.compile(r"\bboot (\d+)\b")
SIDE_NAME = re.compile(r"(?<![\w./-])(?:base|new\d*)(?![\w./-])")

DIRECTIONS: Sequence[Better] = ("higher", "lower")

# Metrics that a caption lists; a table with more has the direction in each row.
MOST_NAMED = 3


def count_of(number: int, noun: str) -> str:
    """Format a number with its noun: ``1 run``, ``5 runs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def merge_sides(notes: Sequence[str]) -> list[str]:
    """Merge notes that differ only in the name of the side.

    >>> merge_sides(["kallsyms of base: empty", "kallsyms of new: empty"])
    ['kallsyms of base and new: empty']
    """
    named: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        name = SIDE_NAME.search(note)
        start, end = name.span() if name else (len(note), len(note))
        sides = named.setdefault((note[:start], note[end:]), [])
        if note[start:end] not in sides:
            sides.append(note[start:end])
    return [f"{before}{join_names(sides)}{after}" for (before, after), sides in named.items()]


def merge_boots(notes: Iterable[str]) -> list[str]:
    """Merge notes that differ only in the number of the boot.

    >>> merge_boots(["base: boot 1, libc: no symbols", "base: boot 3, libc: no symbols"])
    ['base: boots 1 and 3, libc: no symbols']
    """
    numbered: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        before, *numbers, after = (
            _BOOT.split(note, maxsplit=1) if _BOOT.search(note) else (note, "")
        )
        known = numbered.setdefault((before, after), [])
        known.extend(number for number in numbers if number not in known)
    return [
        f"{before}{_name_boots(numbers)}{after}" for (before, after), numbers in numbered.items()
    ]


def _name_boots(numbers: Sequence[str]) -> str:
    if not numbers:
        return ""
    return f"boot{'s' if len(numbers) > 1 else ''} {join_names(numbers)}"


# Numbers of a caveat that name a side.
SIDE_FIELDS = ("side", "label")


def merge_caveats(caveats: Iterable[Caveat]) -> list[Caveat]:
    """Merge caveats that differ only in the side; a merged caveat names all of their sides."""
    alike: dict[str, list[Caveat]] = {}
    for caveat in caveats:
        others = {name: value for name, value in caveat.numbers.items() if name not in SIDE_FIELDS}
        alike.setdefault(f"{caveat.code} {others}", []).append(caveat)
    return [_merge_alike(group) for group in alike.values()]


def _merge_alike(caveats: Sequence[Caveat]) -> Caveat:
    numbers = dict(caveats[0].numbers)
    for field in numbers.keys() & set(SIDE_FIELDS):
        numbers[field] = join_names(dict.fromkeys(str(each.numbers[field]) for each in caveats))
    return replace(caveats[0], numbers=numbers)


def group_by_reason(
    entries: Iterable[tuple[str, str, str]],
) -> Iterator[tuple[str, str, list[str]]]:
    """Group missing items by reason, because most have the same reason on all sides.

    >>> list(group_by_reason([("base", "cycles", "no PMU"), ("new", "cycles", "no PMU")]))
    [('base and new', 'no PMU', ['cycles'])]

    :param entries: side, what is missing, and the reason
    :return: the sides in words, the reason, and what is missing there
    """
    sides: dict[tuple[str, str], list[str]] = {}
    for side, what, reason in entries:
        sides.setdefault((what, reason), []).append(side)
    whats: dict[tuple[str, str], list[str]] = {}
    for (what, reason), where in sides.items():
        whats.setdefault((join_names(dict.fromkeys(where)), reason), []).append(what)
    for (where_in_words, reason), names in whats.items():
        yield where_in_words, reason, names


class Compared(Protocol):
    """The sample sizes of two compared sides, with their unit."""

    @property
    def n_base(self) -> int: ...
    @property
    def n_new(self) -> int: ...
    @property
    def replication(self) -> Replication: ...


def count_compared(compared: Compared) -> str:
    """Format the sample sizes: ``8+8 runs``, ``3+3 boots``, ``8 pairs``."""
    return verdict.count_units(compared.n_base, compared.n_new, compared.replication)


def common_direction(rows: Sequence[Row]) -> Better | None:
    """Return the better direction of all rows; None if they differ."""
    directions = {row.better for row in rows}
    return directions.pop() if len(directions) == 1 else None


def describe_directions(rows: Sequence[Row]) -> str | None:
    """State which direction is better: ``lower is better (higher for sched/pipe operations)``.

    Return None if each row must state its own direction: directions differ, and more than
    ``MOST_NAMED`` metrics would have to be named, or the direction of some rows is unknown.
    """
    if any(row.better == "unknown" for row in rows):
        # Rows with and without a direction each state theirs.
        return name_direction("unknown") if common_direction(rows) else None
    metrics = {
        better: list(dict.fromkeys(row.metric for row in rows if row.better == better))
        for better in DIRECTIONS
    }
    fewer, more = sorted(DIRECTIONS, key=lambda better: len(metrics[better]))
    if len(metrics[fewer]) > MOST_NAMED:
        return None
    others = f" ({fewer} for {', '.join(metrics[fewer])})" if metrics[fewer] else ""
    return f"{name_direction(more)}{others}"


def name_direction(better: Better) -> str:
    """State which direction is better: ``lower is better``, ``better direction unknown``."""
    return "better direction unknown" if better == "unknown" else f"{better} is better"


def name_side(side: SideSummary) -> str:
    """Return the name of a side: ``new``, or the label that the user gave it."""
    return label_of(side.name, side.label)


def label_of(name: str, label: str) -> str:
    """Return the label of a side; its name if the label is the role of another side.

    Bundles may be labelled base or new, whatever their position among several sides.

    >>> label_of("new2", "new"), label_of("new2", "cluster")
    ('new2', 'cluster')
    """
    is_third = name not in ("base", "new")
    return name if is_third and SIDE_NAME.fullmatch(label) else label


def side_prefixes(comparison: Comparison) -> Mapping[str, str]:
    """Return the prefix of texts about each side: ``"cluster: "``; "" if only one is compared."""
    several = len(comparison.sides) > 2  # noqa: PLR2004 # base and one new
    return {side.name: f"{name_side(side)}: " if several else "" for side in comparison.sides}


def name_with_role(side: SideSummary) -> str:
    """Return the label of a side with its role in the tables: ``cluster (new2)``; ``new2``."""
    called = name_side(side)
    return called if called == side.name else f"{called} ({side.name})"


def side_place(name: str) -> int:
    """Return the index of a side's colour and shape: base 0, new 1, … up to ``LAST_PLACE``.

    >>> side_place("new2")
    2
    """
    if name in ("base", "new"):
        return int(name == "new")
    number = name.removeprefix("new")
    return min(int(number), LAST_PLACE) if number.isdecimal() else LAST_PLACE


def name_rows(rows: Sequence[Row]) -> dict[int, str]:
    """Return a short unique name for each row, by its index: ``hackbench time at groups=4``.

    If two rows would have the same name, it includes the command.
    """
    short = [f"{row.metric} at {row.point}" if row.point else row.metric for row in rows]
    many = Counter((row.side, name) for row, name in zip(rows, short, strict=True))
    return {
        index: f"{name} ({row.workload})" if many[row.side, name] > 1 else name
        for index, (row, name) in enumerate(zip(rows, short, strict=True))
    }


def count_values(row: Row) -> str:
    """Format the sample size of a row without its unit: ``5+5``; ``6`` pairs; ``unknown``."""
    return verdict.count_values(row.n_base, row.n_new, row.replication)


def count_units(row: Row) -> str:
    """Format the sample size of a row with its unit: ``5+5 runs``, ``6 pairs``, ``unknown``."""
    return verdict.count_units(row.n_base, row.n_new, row.replication)


def describe_n(row: Row) -> str:
    """Format the sample size of a row: ``n = 5+5 runs``, ``n unknown``."""
    number = count_units(row)
    return f"n {number}" if number == verdict.UNKNOWN else f"n = {number}"


def count_changes(rows: Sequence[Rate]) -> str:
    """State how many rates changed, and how many may have drifted.

    ``2 of 40 rows changed significantly``; ``one run per side: significance unknown``
    """
    drifted = sum(row.changed is None and row.p is not None for row in rows)
    if all(row.changed is None for row in rows) and not drifted:
        return f"{_why_untested(rows)}: significance unknown"
    changed = sum(bool(row.changed) for row in rows)
    text = f"{changed} of {count_of(len(rows), 'row')} changed significantly"
    if not drifted:
        return text
    verb = "differs" if drifted == 1 else "differ"
    return f"{text}; {drifted} more {verb}, but may be drift: the sides were not interleaved"


def _why_untested(rows: Sequence[Rate]) -> str:
    if all(max(row.n_base, row.n_new) <= 1 for row in rows):
        return "one run per side"
    # Without any variance, a test is not possible.
    sides = [values for row in rows for values in (row.values_base, row.values_new)]
    is_equal = all(len(values) > 1 and len({*values}) == 1 for values in sides)
    return "equal values in all runs of a side" if is_equal else "too few runs per side"


def describe_change(row: Row) -> str:
    """Format the change of a row: ``+37.2% [+35.0%, +39.5%] (n = 5+5 runs, lower is better)``.

    Without a ratio, both values are printed: ``0 ms -> 4 ms``.
    """
    basis = f"({describe_n(row)}, {name_direction(row.better)})"
    if row.ratio is None:
        return f"{_value(row, row.base)} -> {_value(row, row.new)} {basis}"
    if row.ci_low is None or row.ci_high is None:
        return f"{format_change(row.ratio)} {basis}"
    interval = format_interval(row.ci_low, row.ci_high)
    if is_wide(row.ci_low, row.ci_high):
        interval = f"(95% CI too wide: factor of more than {WIDEST_INTERVAL:g})"
    return f"{format_change(row.ratio)} {interval} {basis}"


def _value(row: Row, value: float | None) -> str:
    scale = scale_for(row.unit, row.base, row.new)
    return MISSING if value is None else f"{scale.format(value)} {scale.unit}".rstrip()


def size_of_change(row: Row) -> float:
    """Return the size of a row's change as a ratio of 1 or more; 0 without a ratio."""
    # A ratio of 2 and of 1/2 are equally far from 1.
    return max(row.ratio, 1.0 / row.ratio) if row.ratio else 0.0


def has_changed(comparison: Comparison) -> bool:
    """Return whether the verdict is a regression or an improvement."""
    return comparison.overall.verdict in ("regression", "improvement")


def has_same_data(comparison: Comparison) -> bool:
    """Return whether all sides contain identical data."""
    return len({side.digest for side in comparison.sides}) == 1


def is_of_this_boot(comparison: Comparison) -> bool:
    """Return whether the verdict applies to one boot only, because a side has a single boot.

    False if there is no verdict: the comparison is inconclusive or invalid.
    """
    is_decided = comparison.overall.verdict in ("regression", "improvement", "no-change")
    return is_decided and any(caveat.code == "one-boot" for caveat in comparison.caveats)


def is_of_one_boot_each(comparison: Comparison) -> bool:
    """Return whether a side and base have one boot each, and these are two different boots."""
    return any(caveat.code == "boot-sd" for caveat in comparison.caveats)


def count_verdicts(rows: Sequence[Row], family: Family) -> str:
    """Count a family's verdicts: ``3 results: 1 regression, 2 no-change``; ``1 result``.

    A single result has its verdict in its row.
    """
    verdicts = [row.verdict for row in rows if row.family == family]
    counts = Counter(verdicts)
    number = count_of(len(verdicts), "result" if family == "primary" else f"{family} result")
    if len(verdicts) == 1:
        return number
    return (
        f"{number}: {', '.join(f'{counts[name]} {name}' for name in VERDICT_TONES if counts[name])}"
    )
