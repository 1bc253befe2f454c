"""Whether time stands between the sides: runs of one side that were all made before the other's."""

from collections.abc import Sequence

from schedperf.evidence.profile.independent import counts_of, independent_of
from schedperf.stats.verdicts import FEWEST_IN_BLOCKS

ONE_AFTER_THE_OTHER = (
    "base and new were recorded one after the other: a machine that drifts looks the same; record "
    "them in turns (schedperf ab)"
)


def may_be_drift(orders: Sequence[Sequence[int]], boots: Sequence[Sequence[int]]) -> bool:
    """Say whether a drift of the machine would look like a change, as verdicts decide it.

    It would where the sides took no turns and have too few runs to tell it from a change.

    :param orders: of each side the places in time of its runs, among all runs of both sides
    :param boots: of each side the boot of each of its runs
    """
    base, new = orders
    is_blocked = max(base) < min(new) or max(new) < min(base)
    return is_blocked and min(counts_of(boots, independent_of(boots))) < FEWEST_IN_BLOCKS
