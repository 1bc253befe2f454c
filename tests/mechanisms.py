# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparisons with known changes of the parts of the time account."""

from collections.abc import Iterable
from typing import Any

from schedperf.evidence.account.record import AccountRow
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from tests.account_records import account_of, account_row
from tests.reports.comparison_records import make_comparison, make_row

# From 40 us to 60 us per message, significant.
UP: dict[str, Any] = {}
# Halved.
DOWN: dict[str, Any] = {"new": 20e-6, "ratio": 0.5, "ci_low": 0.4, "ci_high": 0.6}
# Not significant, and narrow; or too wide to exclude a change.
STILL: dict[str, Any] = {
    "new": 40.4e-6, "ratio": 1.01, "ci_low": 0.98, "ci_high": 1.04, "q": 0.6, "changed": False,
}  # fmt: skip
WIDE: dict[str, Any] = {**STILL, "new": 50e-6, "ratio": 1.25, "ci_low": 0.8, "ci_high": 1.9}


def measured(rows: Iterable[AccountRow], **changes: Any) -> Comparison:
    """Return a comparison with these rows of the time account."""
    data = account_of(*rows, **changes)
    row = make_row(workload="hackbench -g {groups}", point="groups=4")
    return make_comparison(rows=(row,), sections={"account": Section.of(data)})


def rows_of(**kinds: dict[str, Any]) -> list[AccountRow]:
    """Return a row per kind, with its change."""
    return [account_row(kind, **change) for kind, change in kinds.items()]  # type: ignore[arg-type]
