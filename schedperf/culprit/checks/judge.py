# SPDX-License-Identifier: GPL-2.0-or-later
"""Make the result of a check from the problems that it found."""

from schedperf.culprit.record import Check


def judge(name: str, *problems: str | None) -> Check:
    """Return a check: passed without a problem, else with the first problem as the reason."""
    reason = next((problem for problem in problems if problem), "")
    return Check(name=name, passed=not reason, reason=reason)
