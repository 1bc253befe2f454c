# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``culprit``: the first bad commit is known, a revert was tried, alignment was examined."""

from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.culprit.record import Check, Revert

LEAST_PROBABILITY = 0.95


def check(evidence: Evidence) -> Check:
    """Fail for a range of commits, without a certain bisection, or without a revert.

    A bisection is certain if its first bad commit has a probability of at least 0.95, and it was
    distinguished from the commits before and after it. A revert must restore the result, or be
    impossible.

    If only the cache-line layout changed, the check also fails without a rebuild with forced
    alignment, because the regression may be an artefact. Any result of the rebuild passes: the mail
    states it.

    :raises InputError: the record has no regression, or a comparison is missing
    """
    culprit = evidence.culprit
    if culprit.is_range:
        return Check.of("culprit", "the first bad commit is unknown: bisect the range")
    bisection = culprit.bisection
    if bisection is None:
        return Check.of("culprit", "not bisected: how the commit was found is not recorded")
    probability = bisection.probability
    uncertain = None
    if probability is None or probability < LEAST_PROBABILITY:
        shown = "unknown" if probability is None else f"{probability:.2f}"
        uncertain = (
            f"probability of the first bad commit {shown} (expected at least "
            f"{LEAST_PROBABILITY:g}): bisect with more boots"
        )
    neighbours = None
    if not bisection.neighbours_tested:
        neighbours = "the commits before and after it were not distinguished: give them more boots"
    return Check.of(
        "culprit", uncertain, neighbours, _revert(evidence, culprit.revert), _alignment(evidence)
    )


def _revert(evidence: Evidence, revert: Revert | None) -> str | None:
    if revert is None or (revert.result is None and not revert.impossible):
        return "no revert: measure it, or record why it is impossible"
    if revert.impossible:
        return None
    row = evidence.row_like(revert.result, evidence.headline())
    if row is None:
        return "the revert was measured with another benchmark: run this one"
    if row.verdict not in ("no-change", "improvement"):
        return f"the revert does not restore the result ({row.verdict}): check the commit"
    return None


def _alignment(evidence: Evidence) -> str | None:
    aligned = evidence.row_like(evidence.culprit.forced_alignment, evidence.headline())
    if aligned is None and evidence.has_only_layout():
        return (
            "only the cache-line layout changed: measure both kernels with forced alignment "
            "(schedperf culprit add --forced-alignment)"
        )
    return None
