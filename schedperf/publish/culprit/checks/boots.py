# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``boots``: at least four boots per side, interleaved."""

from collections.abc import Sequence

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.verdict import describe_boot_sd
from schedperf.publish.culprit.figures import Evidence, is_interleaved
from schedperf.publish.culprit.record import Check

LEAST_BOOTS = 4
_CAVEATS = {
    "one-boot": "one boot: boot-to-boot variance is unknown",
    "blocks": "the sides were not interleaved, so a change may be drift",
    "unbalanced": "the order of the sides is not balanced",
}


def check(evidence: Evidence) -> Check:
    """Fail for an unknown number of boots or fewer than four per side, or if order may matter.

    Order may matter if the sides were not interleaved, their order was not balanced, or the order
    of the runs is not recorded.

    :raises InputError: the record has no regression, or its comparison is missing
    """
    row = evidence.headline()
    sides = evidence.main_sides
    fewest = min((side.boots for side in sides if side.boots is not None), default=None)
    found = _find_weakness(row, evidence.main, [side.name for side in sides])
    needed = f"(expected at least {LEAST_BOOTS} per side): record more with --boots"
    if fewest is None or any(side.boots is None for side in sides):
        return Check.of("boots", f"number of boots not recorded {needed}")
    few = f"{fewest} boot{'s' * (fewest != 1)} {needed}" if fewest < LEAST_BOOTS else None
    again = f"{found}; record again, interleaved, with --boots" if found else None
    unknown = is_interleaved(evidence.main, [row]) is None
    order = "order of the runs not recorded: record with schedperf ab" if unknown else None
    return Check.of("boots", few, again, order)


def _find_weakness(row: Row, main: Comparison, sides: Sequence[str]) -> str | None:
    if row.boot_sd is not None:
        return f"one boot per side: {describe_boot_sd(row.boot_sd)}"
    codes = {
        each.code
        for each in (*row.caveats, *main.caveats)
        if each.numbers.get("side") in (None, *sides)
    }
    return next((text for code, text in _CAVEATS.items() if code in codes), None)
