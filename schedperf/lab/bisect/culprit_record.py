# SPDX-License-Identifier: GPL-2.0-or-later
"""Convert a finished search to the bisection of the record about its first bad commit."""

from collections.abc import Mapping

from schedperf.lab.bisect.document import BisectDocument, NamedCommit, Status
from schedperf.model.errors import InputError
from schedperf.publish.culprit.record import COMMIT_DIGITS, Bisection, BisectionStep

_UNTESTABLE = "reason not recorded"
_UNFINISHED: Mapping[Status, str] = {
    "more-boots": "the search is not over (expected a named commit, and no boots to make); make "
    "the boots that `schedperf bisect next` asks for, or add --final",
    "no-change": "good and bad do not differ (expected a named commit); name other ends",
    "withheld": "no commit is named (expected the first bad commit); make more boots",
}


def convert_to_record(document: BisectDocument, bad: str, where: str) -> Bisection:
    """Return the bisection of a record: effort, steps, and the probability of its bad commit.

    :param bad: hash of the bad commit of the record
    :param where: file, for messages
    :raises InputError: the search is not over, or does not name this commit
    """
    if (problem := _UNFINISHED.get(document.status)) is not None:
        raise InputError(f"{where}: {problem}")
    named = _find_named(document, bad, where)
    tested = _tested(document)
    return Bisection(
        good=document.good.hash,
        bad=document.bad.hash,
        steps=(*tested, *_untestable(document)),
        builds=len(tested),
        boots=document.boots,
        probability=named.probability,
        # The check boots both, so they are distinguished unless commits between them cannot be.
        neighbours_tested=len(named.commits) == 1,
    )


def _find_named(document: BisectDocument, bad: str, where: str) -> NamedCommit:
    hashes = [each.commits[-1].hash for each in document.named]
    if bad not in hashes:
        names = ", ".join(each[:COMMIT_DIGITS] for each in hashes) or "no commit"
        raise InputError(
            f"{where}: names {names} (expected {bad[:COMMIT_DIGITS]}, the bad commit of the "
            "record); give the bisection that names it"
        )
    return document.named[hashes.index(bad)]


def _tested(document: BisectDocument) -> list[BisectionStep]:
    """Return a step per tested commit; the ends of a branch may be commits of the range, too."""
    parts = (document.tested, *(branch.tested for branch in document.branches))
    steps: dict[str, BisectionStep] = {}
    for each in (tested for part in parts for tested in part):
        change = each.change
        step = BisectionStep(
            commit=each.commit.hash,
            boots=len(each.boots),
            probability=each.probability,
            position=each.position,
            change=None if change is None else change.ratio - 1.0,
            ci_low=None if change is None else change.ci_low - 1.0,
            ci_high=None if change is None else change.ci_high - 1.0,
        )
        steps.setdefault(step.commit, step)
    return [*steps.values()]


def _untestable(document: BisectDocument) -> list[BisectionStep]:
    return [
        BisectionStep(
            commit=each.hash,
            boots=document.not_used.get(each.hash, 0),
            probability=None,
            untestable=document.reasons.get(each.hash, _UNTESTABLE),
        )
        for each in document.untestable
    ]
