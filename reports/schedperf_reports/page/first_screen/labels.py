# SPDX-License-Identifier: GPL-2.0-or-later
"""Label sides by what differs between them: ``depth 0``, ``depth 8``; ``tip``."""

import os.path

from schedperf.model.comparison import Comparison
from schedperf.model.sides import Difference, SideSummary
from schedperf_reports.verdict.comparable import SAME_KERNEL
from schedperf_reports.verdict.host_fields import format_value
from schedperf_reports.words.rows import SIDE_NAME, name_side

# Longer values are not used as labels.
LONGEST_LABEL = 28
KERNEL = "kernel.release"
# Fields that the recorder was given, and longer fields that repeat another field.
WORDY = ("setup", "service", "workload", "cgroup.path", *SAME_KERNEL)


def name_sides(comparison: Comparison) -> tuple[str, ...]:
    """Return a label for each side, base first: the user's, else what differs, else its name.

    All labels are of the same kind: if the user labelled any side, or if the sides do not differ
    from base in one short field, all have their names.
    """
    others = comparison.sides[1:]
    names = tuple(map(name_side, comparison.sides))
    if any(SIDE_NAME.fullmatch(side.label) is None for side in comparison.sides):
        return names
    found = [find_difference(comparison, side) for side in others]
    differences = [difference for difference in found if difference is not None]
    if len(differences) < len(others) or len({each.path for each in differences}) > 1:
        return names
    values = [differences[0].base, *(each.new for each in differences)]
    labels = tuple(_label(differences[0].path, [format_value(value) for value in values]))
    return labels if len(set(labels)) == len(names) else names


def find_difference(comparison: Comparison, side: SideSummary) -> Difference | None:
    """Return the intended difference of a side from base whose values are short enough for labels.

    The kernel release comes first. Return None if there is no such difference.
    """
    fitting = [
        difference
        for difference in comparison.comparability.differences
        if difference.severity == "treatment"
        and difference.side == side.name
        and difference.path not in WORDY
        and _is_short(difference)
    ]
    fitting.sort(key=lambda each: (each.path != KERNEL, each.is_part_of_change))
    return fitting[0] if fitting else None


def _is_short(difference: Difference) -> bool:
    values = (format_value(value) for value in (difference.base, difference.new))
    return all(len(value) <= LONGEST_LABEL for value in values)


def _label(path: str, values: list[str]) -> list[str]:
    if path == KERNEL:
        # Compare whole parts between dashes: 6.1.192-tip and 6.1.192-cluster are tip and cluster.
        shared = os.path.commonprefix(values)  # noqa: RUF071 # of texts, not of paths
        shared = shared[: shared.rfind("-") + 1]
        cut = [value.removeprefix(shared) for value in values]
        return cut if all(cut) else values
    return [f"{path.rpartition('.')[2]} {value}" for value in values]


def describe_difference(comparison: Comparison) -> str:
    """Return what differs between base and the new sides.

    ``cgroup depth 0 → 8``, ``kernel 6.12.0-tip → 6.12.0-cluster, 6.12.0-repair``

    Return "" if the first new side has no intended difference with short values.
    """
    first = find_difference(comparison, comparison.sides[1])
    if first is None:
        return ""
    found = [find_difference(comparison, side) for side in comparison.sides[1:]]
    values = [format_value(each.new) for each in found if each and each.path == first.path]
    words = "kernel" if first.path == KERNEL else first.path.replace(".", " ")
    return f"{words} {format_value(first.base)} → {', '.join(dict.fromkeys(values))}"
