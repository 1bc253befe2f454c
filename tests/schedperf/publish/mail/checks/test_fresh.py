# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``fresh``: a superseded series (LKP), a fixed or an old commit is held."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from schedperf.publish.culprit.record import Commit, Culprit, Links
from schedperf.publish.mail.checks.context import Answer
from schedperf.publish.mail.checks.fresh import check
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.checks.cases import make_context
from tests.schedperf.publish.mail.records import make_culprit, make_evidence, make_row, no_change

POSTED = make_culprit(merged=False, links=Links(posted="20261101.1@kernel.example"))


def answering(answer: Answer) -> Callable[[str], Answer]:
    return lambda _message_id: answer


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (answering("yes"), "newer version of the series: measure that one"),
        (answering("unknown"), "does not have the patch, or does not answer"),
        (None, "set patches in mail.toml"),
    ],
)
def test_a_series_may_be_superseded(ask: Callable[[str], Answer] | None, said: str) -> None:
    context = make_context(make_evidence(culprit=POSTED), has_newer_version=ask)
    assert said in failure(check(context))


def test_the_newest_version_passes() -> None:
    assert check(
        make_context(make_evidence(culprit=POSTED), has_newer_version=answering("no"))
    ).passed


def dated(date: str | None) -> Culprit:
    culprit = make_culprit()
    return replace(culprit, bad=replace(culprit.bad, committed=date))


@pytest.mark.parametrize(
    ("culprit", "said"),
    [
        (dated("2026-07-30T12:00:00+00:00"), "committed 120 days ago"),
        (dated("yesterday"), "invalid"),
        (dated(None), "not recorded"),
        (make_culprit(tip=None), "the newest kernel of the tree was not measured"),
        (make_culprit(fixed_by=Commit(commit="f" * 40, subject="Fix it")), "fixed by ffffffffffff"),
    ],
)
def test_what_is_held(culprit: Culprit, said: str) -> None:
    assert said in failure(check(make_context(make_evidence(culprit=culprit))))


def test_the_tree_undoes_the_commit() -> None:
    assert "by eeeeeeeeeeee" in failure(check(make_context(undone_by=["e" * 40])))
    assert "--repo" in failure(check(make_context(undone_by=None)))


def test_the_tip_is_no_longer_slow() -> None:
    evidence = make_evidence()
    tip = evidence.culprit.tip
    assert tip is not None
    comparison = replace(evidence.comparison(tip), rows=(no_change(),))
    evidence = replace(evidence, comparisons={**evidence.comparisons, comparison.id: comparison})
    assert make_row().question == no_change().question
    assert "is no-change" in failure(check(make_context(evidence)))
