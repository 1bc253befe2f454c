# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the nights of a series as static SVG: a strip of verdicts, a timeline, a sparkline.

All texts in them are numbers and dates.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from markupsafe import Markup
from msgspec import Struct

from schedperf.history.questions.recent import NightResult, Recent, Verdict
from schedperf.model.units import format_number, signed
from schedperf.model.verdict import MARGIN

WIDTH, HEIGHT = 1000, 240
_LEFT, _TOP, _BOTTOM = 56, 8, 212
_SPARK_WIDTH, _SPARK_HEIGHT = 150, 26
# Room above and below the values, as a share of their range.
_ROOM = 0.08
_TICKS = 4
CLASSES: Mapping[Verdict, str] = {
    "worse": "worse",
    "better": "better",
    "higher": "moved",
    "lower": "moved",
    "no change": "same",
    "unclear": "unclear",
    "lost": "lost",
}


class Mark(Struct, frozen=True, kw_only=True):
    """A night at which something begins.

    :param index: of the night
    :param kind: class of the line: "worse", "better", "moved" or "break"
    :param label: one line
    """

    index: int
    kind: str
    label: str


def draw_strip(nights: Sequence[NightResult]) -> Markup:
    """Return a strip with one cell per night, coloured by its verdict."""
    parts = []
    start = 0
    for verdict, same in groupby(nights, key=lambda night: night.verdict):
        group = [*same]
        number = len(group)
        first, last = _escape(group[0].night), _escape(group[-1].night)
        dates = first if number == 1 else f"{first} to {last}"
        parts.append(
            f'<rect class="{CLASSES[verdict]}" x="{start}" y="0" width="{number}" height="10">'
            f"<title>{dates}: {verdict}</title></rect>"
        )
        start += number
    lines = f"M{'m'.join(['1 0v10'] + ['1 -10v10'] * (start - 2))}" if start > 1 else ""
    return Markup(  # noqa: S704 # of numbers and dates
        f'<svg class="strip" viewBox="0 0 {max(start, 1)} 10" preserveAspectRatio="none" '
        f'role="img" aria-label="verdict of each of the last {start} nights">{"".join(parts)}'
        f'<path d="{lines}"/></svg>'
    )


def draw_sparkline(recent: Recent) -> Markup:
    """Return a line of the last nights, for a table."""
    values = [night.change for night in recent.nights]
    known = [value for value in values if value is not None]
    if not known:
        return Markup()
    low, high = min(*known, 0.0), max(*known, 0.0)
    range_ = (high - low) or 1.0
    step = _SPARK_WIDTH / max(len(values) - 1, 1)

    def y_of(value: float) -> float:
        return _SPARK_HEIGHT - 3 - (_SPARK_HEIGHT - 6) * (value - low) / range_

    top, slope = y_of(0.0), y_of(1.0) - y_of(0.0)
    path = []
    command = "M%.1f %.1f"
    for index, value in enumerate(values):
        if value is None:
            command = "M%.1f %.1f"
            continue
        path.append(command % (step * index, top + slope * value))
        command = "L%.1f %.1f"
    zero = (
        ""
        if not recent.is_paired
        else f'<path class="zero" d="M0 {y_of(0.0):.1f}h{_SPARK_WIDTH}"/>'
    )
    return Markup(  # noqa: S704 # of numbers
        f'<svg class="spark" viewBox="0 0 {_SPARK_WIDTH} {_SPARK_HEIGHT}" width="{_SPARK_WIDTH}" '
        f'height="{_SPARK_HEIGHT}" role="img" aria-label="last {len(values)} nights">{zero}'
        f'<path d="{"".join(path)}"/></svg>'
    )


def draw_timeline(recent: Recent, marks: Sequence[Mark]) -> Markup:
    """Return the timeline of a series: level and 95% CI of each night, the margin, and marks."""
    known = [
        value
        for night in recent.nights
        for value in (night.change, night.low, night.high)
        if value is not None
    ]
    if not known:
        return Markup()
    is_ratio = recent.is_paired and recent.is_log
    ends = (-MARGIN, MARGIN) if is_ratio else (0.0,) * recent.is_paired
    low, high = min(*known, *ends), max(*known, *ends)
    room = _ROOM * (high - low) or abs(high) or 1.0
    scale = _Scale(low - room, high + room, len(recent.nights))
    parts = [*_background(recent, scale, is_ratio=is_ratio), *_points(recent.nights, scale)]
    parts += [
        f'<path class="mark {mark.kind}" d="M{scale.x(mark.index) - scale.step / 2:.1f} {_TOP}'
        f'V{_BOTTOM}"/>'
        for mark in marks
    ]
    return Markup(  # noqa: S704 # of numbers and dates
        f'<svg class="timeline" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{_name(recent)}; the table below has the numbers">{"".join(parts)}</svg>'
    )


class _Scale:
    """Where nights and values are drawn."""

    def __init__(self, low: float, high: float, nights: int) -> None:
        self.low, self.high = low, high
        self.step = (WIDTH - _LEFT) / max(nights, 1)

    def x(self, index: int) -> float:
        return _LEFT + self.step * (index + 0.5)

    def y(self, value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * (value - self.low) / (self.high - self.low)


def _background(recent: Recent, scale: _Scale, *, is_ratio: bool) -> Iterator[str]:
    if is_ratio:
        top, bottom = scale.y(MARGIN), scale.y(-MARGIN)
        yield (
            f'<rect class="margin" x="{_LEFT}" y="{top:.1f}" width="{WIDTH - _LEFT}" '
            f'height="{bottom - top:.1f}"/>'
        )
    if recent.is_paired:
        yield f'<path class="zero" d="M{_LEFT} {scale.y(0.0):.1f}H{WIDTH}"/>'
    for number in range(_TICKS + 1):
        value = scale.low + (scale.high - scale.low) * number / _TICKS
        text = signed(value) if is_ratio else format_number(value, 3)
        y = min(max(scale.y(value), _TOP + 8), _BOTTOM)
        yield f'<text class="end" x="{_LEFT - 6}" y="{y:.1f}">{text}</text>'
    nights = recent.nights
    for index in sorted({0, *range(0, len(nights), max(1, len(nights) // 6))}):
        name = nights[index].night
        short = name[5:10] if len(name) >= 10 else name  # noqa: PLR2004 # of 2026-11-30
        yield f'<text x="{scale.x(index):.1f}" y="{HEIGHT - 8}">{_escape(short)}</text>'


def _points(nights: Sequence[NightResult], scale: _Scale) -> Iterator[str]:
    bars: dict[str, list[float]] = {}
    points: dict[str, list[float]] = {}
    zero, slope, x = scale.y(0.0), scale.y(1.0) - scale.y(0.0), scale.x(0)
    for night in nights:
        if night.change is not None:
            name = CLASSES[night.verdict]
            points.setdefault(name, []).extend((x, zero + slope * night.change))
            if night.low is not None and night.high is not None:
                ends = (x, zero + slope * night.low, zero + slope * night.high)
                bars.setdefault(name, []).extend(ends)
        x += scale.step
    # One path per colour: a page with 100 elements of their own is three times as large.
    for name, numbers in bars.items():
        path = ("M%d %dV%d" * (len(numbers) // 3)) % tuple(numbers)
        yield f'<path class="ci {name}" d="{path}"/>'
    for name, numbers in points.items():
        path = ("M%d %dh0" * (len(numbers) // 2)) % tuple(numbers)
        yield f'<path class="point {name}" d="{path}"/>'


def _name(recent: Recent) -> str:
    what = "change of new from reference" if recent.is_paired else "value of the new kernel"
    return f"{what}, with 95% CI, of {len(recent.nights)} nights"


def _escape(text: str) -> str:
    # Dates and numbers of builds are the only texts of drawings; others are left out.
    return text if text.replace("-", "").isalnum() and text.isascii() else ""
