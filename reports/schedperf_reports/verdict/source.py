# SPDX-License-Identifier: GPL-2.0-or-later
"""The commits that the kernels were built from, where the sides state them."""

from collections.abc import Iterator

from schedperf.model.comparison import Comparison, GitSource, SideSummary
from schedperf.model.text import clean_line
from schedperf_reports.words.rows import name_side

# So many digits name a commit of the kernel.
COMMIT_DIGITS = 12
LONGEST_SUBJECT = 100
# Of a longer series, its ends.
MOST_SIDES = 3


def say_commit(source: GitSource) -> str:
    """Return a commit in the kernel's form: ``commit 0123456789ab ("subject")``."""
    return f"{_name(source)}{_changes(source)}"


def say_source(source: GitSource) -> str:
    """Return a commit with its tree, branch and changes."""
    names = " ".join(filter(None, (source.tree, source.ref)))
    place = f" of {clean_line(names)}" if names else ""
    described = "" if source.describe is None else f", {clean_line(source.describe)}"
    return f"{_name(source)}{place}{described}{_changes(source)}"


def say_commits(comparison: Comparison) -> Iterator[str]:
    """Yield the commit of each side, or one line if all have the same; of many sides the ends."""
    sides = [side for side in comparison.sides if side.source is not None]
    sources = {side.source for side in sides}
    if len(sources) == 1 and len(sides) == len(comparison.sides):
        yield from (f"all sides: {say_commit(source)}" for source in sources if source is not None)
        return
    yield from (_of_side(side) for side in (sides if len(sides) <= MOST_SIDES else _ends(sides)))


def _ends(sides: list[SideSummary]) -> list[SideSummary]:
    return [sides[0], sides[-1]]


def _of_side(side: SideSummary) -> str:
    return f"{name_side(side)}: {'' if side.source is None else say_commit(side.source)}"


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
