# SPDX-License-Identifier: GPL-2.0-or-later
"""The interval plot: each result of a table as a line, its interval against the margin.

The lines are elements of the page, placed in per cent of the axis, and not a picture: they can
be read, printed and followed without scripting, and a script need only sort them as the table is.
"""

import math
from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct

from schedperf.model.comparison import Better, Verdict
from schedperf_reports.blocks import Graphic, Tone
from schedperf_reports.graphics.axes import Axis, Tick
from schedperf_reports.graphics.ratio_axis import bounded, fit_axis
from schedperf_reports.words.anchors import anchor_id
from schedperf_reports.words.rows import VERDICT_TONES
from schedperf_reports.words.units import MISSING, format_change, format_interval

# An interval that reaches beyond this ratio and its inverse is cut, with a mark, unless a change is
# farther: one that says nothing must not press those that do into a point.
FARTHEST_END = 4.0

# From here on the lines have a box of their own to scroll in, so that the table below stays near.
MOST_LINES_IN_VIEW = 30

# Per cent of the width that the text of a tick takes.
LEAST_GAP = 11.0

# The mark of a verdict; the shape alone tells them apart.
SHAPES: Mapping[Verdict, str] = {
    "regression": "diamond",
    "improvement": "diamond",
    "no-change": "dot",
    "inconclusive": "ring",
    "invalid": "cross",
}


class IntervalLine(Struct, frozen=True, kw_only=True):
    """One line of the plot.

    :param name: of the result
    :param row: the number of its row in the table
    :param anchor: of that row, as in ``Table.anchors``
    :param verdict: None for a mean of several results
    :param ratio: new / base, with its 95% CI; None where there is none
    :param margin: half-width of the equivalence band as a fraction; None without one
    :param mark: of the direction that is better, where lines differ in it: "^"
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
        """The verdict; of a mean what mean it is."""
        return self.verdict or "geomean"

    @property
    def tone(self) -> Tone:
        """How the verdict is coloured."""
        return "plain" if self.verdict is None else VERDICT_TONES[self.verdict]

    @property
    def shape(self) -> str:
        """The mark's shape."""
        return "square" if self.verdict is None else SHAPES[self.verdict]

    @property
    def change(self) -> str:
        """The change in per cent."""
        return "no ratio" if self.ratio is None else format_change(self.ratio)

    @property
    def interval(self) -> str:
        """The interval in per cent; "" without one."""
        text = format_interval(self.ci_low, self.ci_high)
        return "" if text == MISSING else text

    def ends(self) -> list[float]:
        """Return the ratios of the mark and of the band."""
        band = [] if self.margin is None else [1.0 + self.margin, 1.0 / (1.0 + self.margin)]
        return [*band, *([] if self.ratio is None else [self.ratio])]


class Bar(Struct, frozen=True, kw_only=True):
    """Part of a line, in per cent of the axis.

    :param is_cut_left: whether it goes on beyond the left edge
    """

    left: float
    width: float
    is_cut_left: bool = False
    is_cut_right: bool = False


class Intervals(Graphic, frozen=True, kw_only=True):
    """The lines of one table, in its order.

    :param better: which direction of all lines is better; None where they differ
    """

    lines: tuple[IntervalLine, ...]
    better: Better | None

    @property
    def axis(self) -> Axis:
        """What all lines are drawn on."""
        ends = [end for line in self.lines for end in line.ends()]
        limit = max(FARTHEST_END, *(math.exp(abs(math.log(bounded(end)))) for end in ends))
        reaching = [
            end for line in self.lines for end in (line.ci_low, line.ci_high) if end is not None
        ]
        # An interval that says nothing would press those that say something together.
        reached = [end for end in reaching if 1.0 / limit <= end <= limit]
        if reaching and not reached:
            reached = [1.0 / limit, limit]
        return fit_axis([*ends, *reached])

    @property
    def directions(self) -> tuple[str, str]:
        """What the left and the right end of the axis mean; empty where lines differ."""
        if self.better is None:
            return "", ""
        return ("better", "worse") if self.better == "lower" else ("worse", "better")

    @property
    def is_long(self) -> bool:
        """Whether the lines scroll in a box."""
        return len(self.lines) > MOST_LINES_IN_VIEW

    def ticks(self, axis: Axis) -> tuple[Tick, ...]:
        """Return the marks of the axis; no change, which always is one of them, is never minor."""
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
        # Steps of equal per cents become narrower to the right.
        is_crowded = any(
            after.place - before.place < LEAST_GAP for before, after in pairwise(ticks)
        )
        return tuple(tick for tick in ticks if not (is_crowded and tick.is_minor))

    def target(self, section: str, line: IntervalLine) -> str:
        """Return the id of a line's row."""
        return anchor_id(section, line.anchor)

    def bar(self, axis: Axis, line: IntervalLine) -> Bar | None:
        """Return the interval of a line; None without one."""
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
        """Return the equivalence band of a line: symmetric on this scale, as the test is."""
        if line.margin is None:
            return None
        left, right = axis.place(1.0 / (1.0 + line.margin)), axis.place(1.0 + line.margin)
        return Bar(left=left, width=round(right - left, 2))
