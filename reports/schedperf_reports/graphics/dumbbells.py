# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw dumbbells: per quantity, the changes of two comparisons on one axis, joined by a line."""

from collections.abc import Iterator

from msgspec import Struct

from schedperf_reports.blocks import Graphic, Tone
from schedperf_reports.graphics.axes import Axis, linear_axis
from schedperf_reports.graphics.ratio_axis import bounded, fit_axis


class DumbbellEnd(Struct, frozen=True, kw_only=True):
    """One end of a dumbbell.

    :param value: the change, on the scale of the axis
    :param low: lower end of its 95% CI; None without one
    :param text: change and interval in words
    """

    value: float
    low: float | None
    high: float | None
    text: str


class Dumbbell(Struct, frozen=True, kw_only=True):
    """One quantity.

    :param word: what both ends mean together: "same"
    :param production: None if not measured, or without a change
    """

    name: str
    word: str
    tone: Tone
    production: DumbbellEnd | None
    micro: DumbbellEnd | None

    @property
    def ends(self) -> tuple[tuple[str, DumbbellEnd], ...]:
        """Return the ends that are known, each with its name."""
        both = (("production", self.production), ("micro", self.micro))
        return tuple((name, end) for name, end in both if end is not None)


class Span(Struct, frozen=True, kw_only=True):
    """Part of a line: position and width in percent of the axis.

    :param is_cut_low: whether it continues below the axis
    :param is_cut_high: whether it continues above the axis
    """

    left: float
    width: float
    is_cut_low: bool = False
    is_cut_high: bool = False


class Dumbbells(Graphic, frozen=True, kw_only=True):
    """One dumbbell per quantity, on one axis; the section's table has the same numbers.

    :param is_ratio: whether changes are ratios new / base, on a logarithmic axis; else differences
    """

    lines: tuple[Dumbbell, ...]
    is_ratio: bool

    @property
    def axis(self) -> Axis:
        """Return the axis of all changes; longer intervals are cut at its ends."""
        values = [end.value for line in self.lines for _, end in line.ends]
        if self.is_ratio:
            return fit_axis(values)
        return linear_axis([0.0, *values])

    def place(self, axis: Axis, value: float) -> float:
        """Return the position of a change in percent of the axis."""
        return axis.place(bounded(value) if self.is_ratio else value)

    def zero(self, axis: Axis) -> float:
        """Return the position of no change."""
        return axis.place(1.0 if self.is_ratio else 0.0)

    def joint(self, axis: Axis, line: Dumbbell) -> Span | None:
        """Return the line between both ends; None with one end."""
        places = [self.place(axis, end.value) for _, end in line.ends]
        if len(places) < 2:  # noqa: PLR2004 # two ends
            return None
        return Span(left=min(places), width=round(max(places) - min(places), 2))

    def bars(self, axis: Axis, line: Dumbbell) -> Iterator[tuple[str, Span]]:
        """Yield the CI of each end that has one."""
        for name, end in line.ends:
            if end.low is not None and end.high is not None:
                low, high = self.place(axis, end.low), self.place(axis, end.high)
                yield (
                    name,
                    Span(
                        left=low,
                        width=round(high - low, 2),
                        is_cut_low=end.low < axis.low,
                        is_cut_high=end.high > axis.high,
                    ),
                )

    @property
    def has_cuts(self) -> bool:
        """Return whether any CI is longer than the axis."""
        axis = self.axis
        bars = (bar for line in self.lines for _, bar in self.bars(axis, line))
        return any(bar.is_cut_low or bar.is_cut_high for bar in bars)

    def shows_change(self) -> bool:
        """Return whether any quantity has a change."""
        return any(line.tone != "muted" for line in self.lines)
