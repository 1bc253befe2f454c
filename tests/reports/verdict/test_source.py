# SPDX-License-Identifier: GPL-2.0-or-later
"""The commits of the kernels, in the sentences of all formats."""

from typing import Any

from schedperf.model.comparison import Comparison
from schedperf.model.sides import GitSource
from schedperf_reports.formats import Options
from schedperf_reports.formats.lkml import lkml
from schedperf_reports.formats.text import text
from schedperf_reports.page.first_screen.screen import draw_first_screen
from schedperf_reports.sections import shown_sections
from schedperf_reports.verdict.source import (
    LONGEST_SUBJECT,
    commits_of_sides,
    describe_source,
    format_commit,
)
from tests.reports.comparison_records import make_comparison, make_side

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def make_source(**changes: Any) -> GitSource:
    values: dict[str, Any] = {
        "commit": COMMIT,
        "subject": "sched/fair: Place tasks by their lag",
        "tree": "https://git.example.org/linux.git",
        "ref": "sched/core",
        "author": None,
        "committed": None,
        "describe": None,
        "dirty": False,
    }
    return GitSource(**values | changes)


def compare(*sources: GitSource | None) -> Comparison:
    names = ("base", "new", "new2", "new3", "new4")
    sides = [make_side(name, source=source) for name, source in zip(names, sources, strict=False)]
    return make_comparison(sides=tuple(sides))


def test_a_commit_is_named_as_in_kernel_changelogs() -> None:
    said = 'commit 0123456789ab ("sched/fair: Place tasks by their lag")'
    assert format_commit(make_source()) == said
    assert format_commit(make_source(subject=None)) == "commit 0123456789ab"
    changed = make_source(patches=("a", "b"), dirty=True, describe="v6.12-1-g0123456789ab")
    assert describe_source(changed) == (
        f"{said} of https://git.example.org/linux.git sched/core, v6.12-1-g0123456789ab, "
        "with 2 patches, with uncommitted changes"
    )


def test_hostile_subjects_stay_one_short_line() -> None:
    said = format_commit(make_source(subject="a\r\nBcc: \u202eb\x1b[31m" + "x" * 10_000))
    assert said.isprintable()
    assert len(said) <= LONGEST_SUBJECT + 40


def test_each_side_has_its_commit_and_equal_ones_are_one_line() -> None:
    other = make_source(commit="f" * 40, subject=None)
    assert list(commits_of_sides(compare(None, None))) == []
    assert list(commits_of_sides(compare(None, other))) == ["new: commit ffffffffffff"]
    assert list(commits_of_sides(compare(other, other))) == ["all sides: commit ffffffffffff"]
    many = [make_source(commit=digit * 40, subject=None) for digit in "01234"]
    assert list(commits_of_sides(compare(*many))) == [
        "base: commit 000000000000",
        "new4: commit 444444444444",
    ]


def test_all_formats_show_the_commits() -> None:
    comparison = compare(
        make_source(), make_source(commit="f" * 40, subject="sched: Gr\u00f6\u00dfe")
    )
    for draw in (lkml, text):
        joined = " ".join(draw(comparison, Options(width=80, colour=False)).split())
        assert 'base: commit 0123456789ab ("sched/fair: Place tasks by their lag")' in joined
        assert "new: commit ffffffffffff" in joined
    mail = lkml(comparison, Options(width=80, colour=False))
    assert mail.isascii()
    assert "https://git.example.org/linux.git" in mail
    screen = draw_first_screen(comparison, shown_sections(comparison))
    facts = [fact for line in screen.facts for fact in line]
    assert 'base: commit 0123456789ab ("sched/fair: Place tasks by their lag")' in facts
