"""Histograms of two sides, bin by bin: which bins to show, and how sure their difference is.

A few events that took very long would make all other bins coarse, so the last bins are joined to
an open one; and neighbours are joined until there are few enough to read.
"""

from collections.abc import Sequence

from schedperf.model.counted import Bins
from schedperf.model.run import Captured
from schedperf.stats.counted.grids import compare_places

# Bins of a drawing; more are joined.
MOST_BINS = 24
# Of the events of a side: the last bin has at least so many of them.
FEWEST_LAST = 0.005


# What runs counted in each bin, shape (bins,) each.
BinnedRuns = Sequence[Captured[Sequence[int]]]
# Numbers of the first and of the last bin that are joined to one.
Joined = tuple[int, int]


def compare_bins(
    base: BinnedRuns,
    new: BinnedRuns,
    edges: Sequence[float],
    *,
    is_comparable: bool = True,
    is_trimmed: bool = True,
) -> Bins:
    """Compare the share of the events that is in each bin.

    :param base: runs of one side, all with as many bins
    :param edges: the lower one of each bin, shape (bins,); the last bin is open
    :param is_comparable: False: shares only, and nothing is said of their difference
    :param is_trimmed: rare bins at the end are joined to one that is open; else all are kept, and
        the last one ends where a turn ends
    """
    sides = (base, new)
    sums = [_sum(side) for side in sides]
    joined = _join(_range(sums) if is_trimmed else (0, len(edges) - 1))
    before, after = ([run.having(_shares(run.content, joined)) for run in side] for side in sides)
    grid = compare_places(before, after, range(len(joined)), is_comparable=is_comparable)
    return Bins(
        low=tuple(edges[first] for first, _ in joined),
        high=(*(edges[last + 1] for _, last in joined[:-1]), None),
        events_base=sum(sums[0]),
        events_new=sum(sums[1]),
        **grid.as_fields(),
    )


def _sum(side: BinnedRuns) -> list[int]:
    return [sum(column) for column in zip(*(run.content for run in side), strict=True)]


def _range(sums: Sequence[Sequence[int]]) -> Joined:
    # From the first bin that has any to the last one behind which there is next to nothing.
    known = [side for side in sums if any(side)]
    first = min(next(place for place, count in enumerate(side) if count) for side in known)
    last = first
    for place in range(first, len(known[0])):
        if max(sum(side[place:]) / sum(side) for side in known) >= FEWEST_LAST:
            last = place
    return first, last


def _join(found: Joined) -> list[Joined]:
    first, last = found
    each = -(-(last - first + 1) // MOST_BINS)
    return [(low, min(low + each - 1, last)) for low in range(first, last + 1, each)]


def _shares(counts: Sequence[int], joined: Sequence[Joined]) -> dict[int, float]:
    # The last one has all that comes behind it; a run without events has no shares.
    total = sum(counts)
    ends = [last for _, last in joined[:-1]] + [len(counts) - 1]
    return {
        place: sum(counts[first : end + 1]) / total
        for place, ((first, _), end) in enumerate(zip(joined, ends, strict=True))
        if total
    }
