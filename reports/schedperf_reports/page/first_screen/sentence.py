# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the headline: the result (``hackbench is 21.8% slower``), or why it is inconclusive."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row, Verdict
from schedperf.model.text import list_some
from schedperf.model.units import percent
from schedperf_reports.page.first_screen.labels import name_sides
from schedperf_reports.words.quantities import format_share
from schedperf_reports.words.remarks import advise_runs
from schedperf_reports.words.rows import count_of, has_same_data, size_of_change
from schedperf_reports.words.sentences import SideVerdict, describe_verdict, judge_sides

# A longer command is not a name; its metric is.
LONGEST_NAME = 28
# Number of sides with the same verdict that a sentence names.
MOST_NAMED = 3
# Verbs for one side and for several sides; the worst verdict first.
SIDE_WORDS: Mapping[Verdict, tuple[str, str]] = {
    "regression": ("regresses", "regress"),
    "invalid": ("is not comparable", "are not comparable"),
    "inconclusive": ("is inconclusive", "are inconclusive"),
    "no-change": ("is unchanged", "are unchanged"),
    "improvement": ("improves", "improve"),
}
MIXED = ("is mixed", "are mixed")
# The reason if it is the same for all sides.
WHOLE: tuple[Verdict, ...] = ("invalid", "inconclusive")


def name_result(row: Row) -> str:
    """Return the name of a result for a sentence: ``hackbench``, ``hackbench at groups=16``.

    The name is the program for its run time, and the metric for all other results.
    """
    words: list[str] = []
    for word in row.workload.split():
        if word.startswith("-"):
            break
        words.append(word if words else word.rpartition("/")[2])
    name = " ".join(words)
    if not name or len(name) > LONGEST_NAME or not _is_its_time(row):
        name = row.metric
    return f"{name} at {row.point}" if row.point else name


def _is_its_time(row: Row) -> bool:
    return row.unit == "s" and row.better == "lower" and row.metric.endswith(" time")


def describe_change(row: Row) -> str:
    """Return a changed result as a sentence: ``hackbench is 21.8% slower``."""
    name = name_result(row)
    if row.ratio is None:
        return f"{name} is {'worse' if row.verdict == 'regression' else 'better'}"
    size = format_share(abs(row.ratio - 1.0))
    if _is_its_time(row):
        return f"{name} is {size} slower" if row.ratio > 1.0 else f"{name} takes {size} less time"
    return f"{name} is {size} {'higher' if row.ratio > 1.0 else 'lower'}"


def deciding_rows(comparison: Comparison) -> list[Row]:
    """Return the primary rows of the side that decides the verdict; without any, all its rows.

    Rows that repeat the measurement of another row are left out. Rows with the verdict come first,
    then those with the opposite verdict, and the largest change first. If several sides have the
    verdict, the side with the largest change decides.
    """
    name = rank_sides(comparison)[0].side
    # Rows that repeat the measurement of another row are left out.
    mine = [row for row in comparison.rows if row.side == name and row.same_as is None]
    rows = [row for row in mine if row.family == "primary"] or mine
    verdict = comparison.overall.verdict
    opposite = {"regression": "improvement", "improvement": "regression"}.get(verdict)
    ranks = {verdict: 0, opposite: 1}
    return sorted(rows, key=lambda row: (ranks.get(row.verdict, 2), -size_of_change(row)))


def rank_sides(comparison: Comparison) -> list[SideVerdict]:
    """Return the verdict of each new side, the worst first."""
    ranks = list(SIDE_WORDS)

    def rank(side: SideVerdict) -> tuple[int, bool, float]:
        sizes = [
            size_of_change(row)
            for row in comparison.rows
            if row.side == side.side and row.verdict == side.verdict
        ]
        return ranks.index(side.verdict), side.is_mixed, -max(sizes, default=-math.inf)

    return sorted(judge_sides(comparison), key=rank)


def write_sentence(comparison: Comparison, rows: list[Row]) -> str:
    """Write the headline.

    :param rows: rows from :func:`deciding_rows`
    """
    verdict = comparison.overall.verdict
    sides = rank_sides(comparison)
    verdicts = {side.verdict for side in sides}
    if len(sides) > 1 and rows and (len(verdicts) > 1 or not verdicts & set(WHOLE)):
        return ", ".join(_tell_sides(comparison, sides))
    if verdict == "invalid":
        return f"Not comparable: {comparison.overall.reason_short}"
    if verdict == "inconclusive":
        return f"No verdict: {_why_open(comparison, rows)}"
    if verdict == "no-change":
        return _unchanged(comparison, rows)
    changed = [row for row in rows if row.verdict == verdict]
    if not changed:
        return describe_verdict(comparison)
    said = describe_change(changed[0])
    if len(rows) > 1:
        word = "worse" if verdict == "regression" else "better"
        said = f"{len(changed)} of {len(rows)} results {word}: {said}"
    return said


def _tell_sides(comparison: Comparison, sides: Sequence[SideVerdict]) -> Iterator[str]:
    # "cluster and repair regress", "v2 is mixed"; the worst first.
    names = (side.name for side in comparison.sides)
    labels = dict(zip(names, name_sides(comparison), strict=True))
    groups: dict[tuple[str, str], list[str]] = {}
    for side in sides:
        words = MIXED if side.is_mixed else SIDE_WORDS[side.verdict]
        groups.setdefault(words, []).append(labels[side.side])
    for (one, several), named in groups.items():
        if len(named) == 1:
            counted = f" ({_count_mixed(comparison, sides)})" if one == MIXED[0] else ""
            yield f"{named[0]} {one}{counted}"
        elif len(named) > MOST_NAMED:
            yield f"{list_some(named, MOST_NAMED)} {several}"
        else:
            yield f"{', '.join(named[:-1])} and {named[-1]} {several}"


def _count_mixed(comparison: Comparison, sides: Sequence[SideVerdict]) -> str:
    mixed = next(side.side for side in sides if side.is_mixed)
    verdicts = Counter(row.verdict for row in comparison.rows if row.side == mixed)
    return f"{verdicts['regression']} worse, {verdicts['improvement']} better"


def _unchanged(comparison: Comparison, rows: list[Row]) -> str:
    if has_same_data(comparison):
        return "The sides contain the same data"
    within = " or ".join(sorted({f"±{percent(row.margin)}" for row in rows}))
    if len(rows) == 1:
        return f"{name_result(rows[0])} is unchanged, within {within}"
    return f"None of {count_of(len(rows), 'result')} changed, all within {within}"


def _why_open(comparison: Comparison, rows: list[Row]) -> str:
    open_rows = [row for row in rows if row.verdict == "inconclusive"]
    if not open_rows:
        return comparison.overall.reason_short
    reason = open_rows[0].reason_short
    advice = advise_runs(open_rows[0])
    return f"{reason}; {advice}" if advice else reason
