# SPDX-License-Identifier: GPL-2.0-or-later
"""Decide whether a result regressed, also if an emulator gives it no verdict."""

from schedperf.model.rows import Row


def is_emulated(row: Row) -> bool:
    """Return whether a row's timings come from an emulator."""
    return any(caveat.code == "emulated" for caveat in row.caveats)


def is_worse(row: Row) -> bool:
    """Return whether a row regressed.

    Emulated rows have no verdict, so their CI alone decides; a mail about them is only a held
    draft.
    """
    if row.verdict == "regression":
        return True
    if not is_emulated(row) or row.ci_low is None or row.ci_high is None:
        return False
    if row.better == "lower":
        return row.ci_low > 1.0
    return row.better == "higher" and row.ci_high < 1.0
