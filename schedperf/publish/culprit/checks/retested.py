# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``retested``: the regression was measured again on separate boots."""

from schedperf.model.worse import is_worse
from schedperf.publish.culprit.figures import Evidence, boot_of
from schedperf.publish.culprit.record import Check, Retest

LARGEST_P = 0.01


def check(evidence: Evidence) -> Check:
    """Fail without a retest on other, recorded boots that finds the regression with p < 0.01.

    The p value is the corrected one. The comparison that first showed the regression must be given,
    so that its boots are known.

    :raises InputError: the record has no regression, or the comparison of the retest is missing
    """
    retest = evidence.culprit.retest
    if retest is None:
        return Check.of("retested", "not retested: measure good and bad again on fresh boots")
    return Check.of("retested", _same_boots(evidence, retest), _result(evidence, retest))


def _same_boots(evidence: Evidence, retest: Retest) -> str | None:
    found = evidence.comparisons.get(retest.found)
    again = evidence.comparison(retest.result)
    if found is None:
        return "the comparison that first showed the regression is not given: name its file"
    digests = {side.digest for side in found.sides} & {side.digest for side in again.sides}
    if digests:
        return "the retest uses boots of the first detection: record new ones"
    if not all(map(boot_of, again.sides)):
        return "boots of the retest not recorded: record it with schedperf"
    return None


def _result(evidence: Evidence, retest: Retest) -> str | None:
    row = evidence.row_like(retest.result, evidence.headline())
    if row is None:
        return "the retest did not measure this result: run the same benchmark"
    if not is_worse(row):
        return f"not reproduced: the retest is {row.verdict}"
    if row.q is None or row.q >= LARGEST_P:
        p = "unknown" if row.q is None else f"{row.q:.2g}"
        return f"the retest has p = {p} (expected below {LARGEST_P:g}): record more boots"
    return None
