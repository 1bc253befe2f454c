# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the result of a check."""

from schedperf.publish.culprit.record import Check


def failure(check: Check) -> str:
    """Return why a check failed."""
    assert not check.passed, f"{check.name} passed"
    assert check.reason
    assert "\n" not in check.reason
    return check.reason
