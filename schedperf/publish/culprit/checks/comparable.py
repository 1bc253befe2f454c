# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``comparable``: nothing but the kernel differs between the sides."""

from schedperf.model.sides import Difference
from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.culprit.record import Check

_SCHED_EXT = "sched.sched_ext"


def check(evidence: Evidence) -> Check:
    """Fail for invalid rows, differences other than the kernel, and imported or unknown machines.

    Differences of severity "noted" do not count, except those of sched_ext.

    :raises InputError: the main comparison is missing
    """
    main, side = evidence.main, evidence.culprit.main.side
    differences = [each for each in main.comparability.differences if each.side == side]
    blocking = next((each.path for each in differences if each.severity == "blocking"), None)
    invalid = [row for row in main.rows if row.side == side and row.verdict == "invalid"]
    imported = next((each.imported for each in main.sides if each.imported), None)
    changed = next((each.path for each in differences if _is_not_of_the_kernel(each)), None)
    sched_ext = any(each.path.startswith(_SCHED_EXT) for each in differences)
    return Check.of(
        "comparable",
        f"{blocking} differs: make it equal, then record again" if blocking else None,
        f"{len(invalid)} invalid results: record again ({invalid[0].reason_short})"
        if invalid
        else None,
        "sched_ext is loaded on one side: unload it" if sched_ext else None,
        f"{changed} differs, too: make it equal, then record again" if changed else None,
        f"imported from {imported}: the machines cannot be compared" if imported else None,
        None if main.comparability.comparable else "the sides are not comparable",
        None
        if main.comparability.compared
        else "the machines are not recorded, so they cannot be compared: record with schedperf",
    )


def _is_not_of_the_kernel(difference: Difference) -> bool:
    """Return whether the difference was made on purpose and is not the kernel, e.g. a setting."""
    is_of_kernel = difference.path.startswith("kernel.") or difference.is_part_of_change
    return difference.severity == "treatment" and not is_of_kernel
