# SPDX-License-Identifier: GPL-2.0-or-later
"""Define how a side looks in all charts: colour, marker and line."""

from collections.abc import Iterable, Mapping
from typing import Any

from schedperf_reports.rates.side_means import SideMean
from schedperf_reports.words.rows import side_place

# By ``side_place``, which knows no more sides than these; the first is a square everywhere.
SYMBOLS = ("square", "circle", "diamond", "triangle-up", "pentagon", "star")

# Of a chart of means: who is who stands above it.
MEANS_LAYOUT: Mapping[str, Any] = {
    "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
    "margin": {"l": 8, "r": 16, "t": 28, "b": 44},
    "hovermode": "x",
}


def side_colour(name: str) -> str:
    """Return the page's colour of a side."""
    return f"var(--side-{side_place(name)})"


def side_symbol(name: str) -> str:
    """Return the shape of a side's marks."""
    return SYMBOLS[side_place(name)]


def side_dash(name: str) -> str:
    """Return how a side's line is drawn: only base's is solid."""
    return "solid" if side_place(name) == 0 else "dash"


def draw_means(
    name: str, points: Iterable[tuple[float | str, SideMean | None]], factor: float
) -> dict[str, Any]:
    """Return a line through the means of a side, each with its interval as a bar.

    :param points: where on the horizontal axis, and the mean there; what has none is left out
    :param factor: of the unit that is drawn, in the means' own one
    """
    measured = [(x, mean) for x, mean in points if mean is not None]
    colour = side_colour(name)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [x for x, _ in measured],
        "y": [mean.mean / factor for _, mean in measured],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [0 if m.high is None else (m.high - m.mean) / factor for _, m in measured],
            "arrayminus": [0 if m.low is None else (m.mean - m.low) / factor for _, m in measured],
            "color": colour,
        },
        "marker": {"symbol": side_symbol(name), "size": 8, "color": colour},
        "line": {"color": colour, "dash": side_dash(name)},
    }
