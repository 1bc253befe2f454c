# SPDX-License-Identifier: GPL-2.0-or-later
"""Check whether a record and its comparisons are sufficient for a mail to a public list.

Each module checks one condition. Checks of the mail itself are in
``schedperf.publish.mail.checks``.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from schedperf.model.errors import InputError
from schedperf.publish.culprit.checks import boots, comparable, culprit, hardware, retested, size
from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.culprit.record import Check, Culprit

# In the order in which people read them.
CHECKS: Mapping[str, Callable[[Evidence], Check]] = {
    "retested": retested.check,
    "boots": boots.check,
    "hardware": hardware.check,
    "culprit": culprit.check,
    "size": size.check,
    "comparable": comparable.check,
}


def check_evidence(evidence: Evidence) -> tuple[Check, ...]:
    """Return the results of all checks; a check that raises InputError fails with its message."""
    return tuple(_run(name, check, evidence) for name, check in CHECKS.items())


def with_checks(evidence: Evidence) -> Culprit:
    """Return the record with the results of its checks."""
    return replace(evidence.culprit, checks=check_evidence(evidence))


def _run(name: str, check: Callable[[Evidence], Check], evidence: Evidence) -> Check:
    try:
        return check(evidence)
    except InputError as error:
        return Check.of(name, str(error))
