# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the interval plot: one line per result, its interval against the margin.

The lines are HTML elements with positions in percent of the axis, not an image: they can be read,
printed and followed without scripting, and a script only sorts them like the table.
"""

import math
from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct

from schedperf.model.rows import Better, Verdict
from schedperf_reports.blocks import Graphic, Tone
from schedperf_reports.graphics.axes import Axis, Tick
from schedperf_reports.graphics.ratio_axis import bounded, fit_axis
from schedperf_reports.words.anchors import anchor_id
from schedperf_reports.words.quantities import MISSING, format_change, format_interval
from schedperf_reports.words.rows import VERDICT_TONES

# An interval that extends beyond this ratio or its inverse is cut and marked, unless a change is
# farther: uninformative intervals must not compress the others.
FARTHEST_END = 4.0

# With at least this many lines, they are in a scrolling box, so that the table below stays near.
MOST_LINES_IN_VIEW = 30

# Percent of the width that the text of a tick takes.
LEAST_GAP = 11.0

# The mark of a verdict; its shape is distinctive without colour.
SHAPES: Mapping[Verdict, str] = {
    "regression": "diamond",
    "improvement": "diamond",
    "no-change": "dot",
    "inconclusive": "ring",
    "invalid": "cross",
}


class IntervalLine(Struct, frozen=True, kw_only=True):
    """One line of the plot.

    :param name: name of the result
    :param row: the index of its row in the table
    :param anchor: anchor of that row, as in ``Table.anchors``
    :param verdict: verdict; None for a mean of several results
    :param ratio: new / base, with its 95% CI; None if missing
    :param margin: half-width of the equivalence band as a fraction; None without one
    :param mark: the better direction in words, if lines differ in it: "lower is better"; else ""
    """

    name: str
    row: int
    anchor: str
    verdict: Verdict | None
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    margin: float | None
    mark: str = ""

    @property
    def word(self) -> str:
        """Return the verdict; for a mean, "geomean"."""
        return self.verdict or "geomean"

    @property
    def tone(self) -> Tone:
        """Return the tone of the verdict."""
        return "plain" if self.verdict is None else VERDICT_TONES[self.verdict]

    @property
    def shape(self) -> str:
        """Return the shape of the mark."""
        return "square" if self.verdict is None else SHAPES[self.verdict]

    @property
    def change(self) -> str:
        """Format the change in percent; "no ratio" if it is missing."""
        return "no ratio" if self.ratio is None else format_change(self.ratio)

    @property
    def interval(self) -> str:
        """Return the interval in percent; "" without one."""
        text = format_interval(self.ci_low, self.ci_high)
        return "" if text == MISSING else text

    def ends(self) -> list[float]:
        """Return the ratios that the axis must contain: both ends of the band, and the change."""
        band = [] if self.margin is None else [1.0 + self.margin, 1.0 / (1.0 + self.margin)]
        return [*band, *([] if self.ratio is None else [self.ratio])]


class Bar(Struct, frozen=True, kw_only=True):
    """Part of a line: its position and its width, in percent of the axis.

    :param is_cut_left: whether it continues beyond the left edge
    :param is_cut_right: whether it continues beyond the right edge
    """

    left: float
    width: float
    is_cut_left: bool = False
    is_cut_right: bool = False


class Intervals(Graphic, frozen=True, kw_only=True):
    """The lines of one table, in its order.

    :param better: better direction of all lines; None if they differ
    """

    lines: tuple[IntervalLine, ...]
    better: Better | None

    @property
    def axis(self) -> Axis:
        """Return the axis of all lines."""
        ends = [end for line in self.lines for end in line.ends()]
        limit = max(FARTHEST_END, *(math.exp(abs(math.log(bounded(end)))) for end in ends))
        reaching = [
            end for line in self.lines for end in (line.ci_low, line.ci_high) if end is not None
        ]
        # An uninformative interval would compress the informative ones.
        reached = [end for end in reaching if 1.0 / limit <= end <= limit]
        if reaching and not reached:
            reached = [1.0 / limit, limit]
        return fit_axis([*ends, *reached])

    @property
    def directions(self) -> tuple[str, str]:
        """Return the meaning of the left and of the right end of the axis: "better" or "worse".

        Both texts are empty if the better direction is unknown, or not the same for all lines.
        """
        if self.better == "lower":
            return "better", "worse"
        return ("worse", "better") if self.better == "higher" else ("", "")

    @property
    def is_long(self) -> bool:
        """Return whether the lines scroll in a box."""
        return len(self.lines) > MOST_LINES_IN_VIEW

    def ticks(self, axis: Axis) -> tuple[Tick, ...]:
        """Return the ticks of the axis, without minor ones if these have no room.

        Every second tick is minor; the tick at a change of 0 never is.
        """
        zero = next(number for number, (ratio, _) in enumerate(axis.ticks) if ratio == 1.0)
        ticks = [
            Tick(
                place=axis.place(ratio),
                text=text,
                is_zero=number == zero,
                is_minor=(number - zero) % 2 == 1,
            )
            for number, (ratio, text) in enumerate(axis.ticks)
        ]
        # Equal steps in percent become narrower to the right.
        is_crowded = any(
            after.place - before.place < LEAST_GAP for before, after in pairwise(ticks)
        )
        return tuple(tick for tick in ticks if not (is_crowded and tick.is_minor))

    def target(self, section: str, line: IntervalLine) -> str:
        """Return the element id of a line's row in the table of a section."""
        return anchor_id(section, line.anchor)

    def bar(self, axis: Axis, line: IntervalLine) -> Bar | None:
        """Return the bar of a line's CI; None without a CI."""
        if line.ci_low is None or line.ci_high is None:
            return None
        left, right = axis.place(line.ci_low), axis.place(line.ci_high)
        return Bar(
            left=left,
            width=round(right - left, 2),
            is_cut_left=line.ci_low < axis.low,
            is_cut_right=line.ci_high > axis.high,
        )

    def band(self, axis: Axis, line: IntervalLine) -> Bar | None:
        """Return the equivalence band of a line; None without a margin.

        The band is symmetric on the logarithmic axis, as the test is on logarithms.
        """
        if line.margin is None:
            return None
        left, right = axis.place(1.0 / (1.0 + line.margin)), axis.place(1.0 + line.margin)
        return Bar(left=left, width=round(right - left, 2))
