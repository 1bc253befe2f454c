# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw two histograms as mirrored bars: base grows to the left, new to the right.

A bin shows its difference only if it is significant.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from schedperf.model.counted import Bins
from schedperf_reports.blocks import Block, Graphic
from schedperf_reports.words.quantities import format_number, format_share
from schedperf_reports.words.rows import count_compared, count_of, side_place

# The values of ``changed`` in the record.
NOISE_WORDS: Mapping[bool | None, str] = {
    True: "significant",
    False: "not significant",
    None: "significance unknown",
}


class MirrorBin(Struct, frozen=True, kw_only=True):
    """One bin.

    :param label: its lower edge: "512 ns"
    :param base: share of the events of base, 0 to 1; None if not recorded
    :param new: the same for new
    :param difference: new - base with its 95% CI in words, in percentage points; "" if it is
        unknown or not significant
    :param title: all numbers in words
    """

    label: str
    base: float | None
    new: float | None
    difference: str
    title: str


class Mirror(Graphic, frozen=True, kw_only=True):
    """Histograms of two sides over the same bins.

    :param sides: names of base and of new
    :param what: label of the bins: "a call takes"
    :param totals: number of events of each side, in words
    :param words: blocks with the same content in words
    """

    what: str
    sides: tuple[str, str]
    totals: tuple[str, str]
    bins: tuple[MirrorBin, ...]
    words: tuple[Block, ...]

    def shows_change(self) -> bool:
        """Return whether a bin has a printed difference."""
        return any(drawn.difference for drawn in self.bins)

    def plain(self) -> tuple[Block, ...]:
        """Return the same content in words."""
        return self.words

    @property
    def place(self) -> int:
        """Return the index of the new side's colour and shape."""
        return side_place(self.sides[1])

    def part(self, share: float | None) -> float:
        """Return the length of a bar relative to the longest bar, 0 to 1; 0 for None."""
        shares = [value for drawn in self.bins for value in (drawn.base, drawn.new) if value]
        return round((share or 0.0) / max(shares), 3) if shares else 0.0

    def share(self, share: float | None) -> str:
        """Format the number beside a bar."""
        return format_share(share)


def mirror_bins(bins: Bins, labels: Sequence[str]) -> tuple[MirrorBin, ...]:
    """Return the bins of two compared histograms.

    :param labels: labels of the lower edges, shape (bins,)
    """
    return tuple(_bin(bins, index, label) for index, label in enumerate(labels))


def _bin(bins: Bins, index: int, label: str) -> MirrorBin:
    base, new, changed = bins.base[index], bins.new[index], bins.changed[index]
    said = f"from {label}: base {format_share(base)}, new {format_share(new)}"
    difference = ""
    if base is not None and new is not None:
        points = f"{_points(new - base)} pp"
        low, high = bins.ci_low[index], bins.ci_high[index]
        if low is not None and high is not None:
            points += f" [{_points(low)}, {_points(high)}]"
        said += f", difference {points}, {NOISE_WORDS[changed]}"
        difference = points if changed else ""
    return MirrorBin(label=label, base=base, new=new, difference=difference, title=said)


def _points(share: float) -> str:
    # Percentage points; a second digit only below 1.
    points = 100.0 * share
    rounded = round(points, 1 if abs(points) >= 1.0 else 2)
    return f"{'+' if rounded > 0.0 else ''}{format_number(rounded)}"


def describe_bins(bins: Bins, labels: Sequence[str], what: str) -> str:
    """State how many bins changed significantly, and which of them changed most.

    :param labels: labels of the lower edges, shape (bins,)
    :param what: the events that are counted in the bins, in plural: "calls"
    """
    runs = count_compared(bins)
    marked = [index for index, changed in enumerate(bins.changed) if changed]
    if all(changed is None for changed in bins.changed):
        return f"significance unknown ({runs})"
    if not marked:
        return f"no bin changed significantly ({runs})"
    most = max(marked, key=lambda index: abs((bins.new[index] or 0.0) - (bins.base[index] or 0.0)))
    base, new = format_share(bins.base[most]), format_share(bins.new[most])
    return (
        f"{len(marked)} of {count_of(len(labels), 'bin')} changed significantly ({runs}); the "
        f"largest change is in the bin from {labels[most]}, {base} -> {new} of the {what}"
    )
