# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the commits that the kernels were built from, if the sides record them."""

from collections.abc import Iterator

from schedperf.model.comparison import Comparison
from schedperf.model.sides import GitSource, SideSummary
from schedperf.model.text import clean_line
from schedperf_reports.words.rows import name_side

# Digits that identify a commit of the kernel.
COMMIT_DIGITS = 12
LONGEST_SUBJECT = 100
# Of a longer series, only the ends are listed.
MOST_SIDES = 3


def format_commit(source: GitSource) -> str:
    """Format a commit in the kernel's style: ``commit 0123456789ab ("subject")``."""
    return f"{_name(source)}{_changes(source)}"


def describe_source(source: GitSource) -> str:
    """Format a commit with its tree, its branch or tag, its description by git, and its changes."""
    names = " ".join(filter(None, (source.tree, source.ref)))
    place = f" of {clean_line(names)}" if names else ""
    described = "" if source.describe is None else f", {clean_line(source.describe)}"
    return f"{_name(source)}{place}{described}{_changes(source)}"


def commits_of_sides(comparison: Comparison) -> Iterator[str]:
    """Yield a line with the commit of each side that records one.

    If all sides have the same commit, yield one line; of more than ``MOST_SIDES``, yield those of
    the first and of the last side.
    """
    sides = [side for side in comparison.sides if side.source is not None]
    sources = {side.source for side in sides}
    if len(sources) == 1 and len(sides) == len(comparison.sides):
        yield from (
            f"all sides: {format_commit(source)}" for source in sources if source is not None
        )
        return
    yield from (_of_side(side) for side in (sides if len(sides) <= MOST_SIDES else _ends(sides)))


def _ends(sides: list[SideSummary]) -> list[SideSummary]:
    return [sides[0], sides[-1]]


def _of_side(side: SideSummary) -> str:
    return f"{name_side(side)}: {'' if side.source is None else format_commit(side.source)}"


def _name(source: GitSource) -> str:
    subject = "" if source.subject is None else f' ("{_shorten(source.subject)}")'
    return f"commit {source.commit[:COMMIT_DIGITS]}{subject}"


def _changes(source: GitSource) -> str:
    count = len(source.patches)
    patches = f", with {count} {'patch' if count == 1 else 'patches'}" if count else ""
    return f"{patches}{', with uncommitted changes' if source.dirty else ''}"


def _shorten(subject: str) -> str:
    line = clean_line(subject)
    return line if len(line) <= LONGEST_SUBJECT else f"{line[:LONGEST_SUBJECT]}…"
