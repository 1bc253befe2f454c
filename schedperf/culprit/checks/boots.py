# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``boots``: at least four boots per side, interleaved."""

from schedperf.culprit.figures import Evidence, is_interleaved
from schedperf.culprit.record import Check

LEAST_BOOTS = 4
_CAVEATS = {
    "one-boot": "one boot: boot-to-boot variance is unknown",
    "blocks": "the sides were not interleaved: drift confounds the comparison",
    "unbalanced": "the order of the sides is not balanced",
}


def check(evidence: Evidence) -> Check:
    """Fail with fewer than four boots per side, or if drift may explain the change."""
    row = evidence.headline()
    main = evidence.main
    sides = evidence.main_sides
    fewest = min((side.boots for side in sides if side.boots is not None), default=None)
    codes = {each.code for each in (*row.caveats, *main.caveats)}
    found = next((text for code, text in _CAVEATS.items() if code in codes), None)
    needed = f"(expected at least {LEAST_BOOTS} per side): record more with --boots"
    if fewest is None or any(side.boots is None for side in sides):
        return Check.of("boots", f"number of boots not recorded {needed}")
    few = f"{fewest} boot{'s' * (fewest != 1)} {needed}" if fewest < LEAST_BOOTS else None
    again = f"{found}; record again, interleaved, with --boots" if found else None
    unknown = is_interleaved(evidence.main, [row]) is None
    order = "order of the runs not recorded: record with schedperf ab" if unknown else None
    return Check.of("boots", few, again, order)
