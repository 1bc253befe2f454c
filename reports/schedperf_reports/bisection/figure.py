# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the Plotly figure of a bisection, for notebooks and dashboards."""

from collections.abc import Mapping

import plotly.graph_objects as go

from schedperf.lab.bisect.document import BisectDocument, Status
from schedperf.model.errors import InputError
from schedperf_reports.bisection.levels import level_axis, used_values
from schedperf_reports.bisection.words import describe_tested
from schedperf_reports.figures import FRAME_HEIGHT, PANEL_HEIGHT, SIDE_COLOURS, spell

# The only kind of figure of a bisection.
KIND = "bisect"
_TITLES: Mapping[Status, str] = {
    "named": "first bad commit",
    "more-boots": "more boots are needed",
    "no-change": "good and bad do not differ",
    "withheld": "no commit is named",
}


def draw_bisection(document: BisectDocument, kind: str) -> go.Figure:
    """Draw the levels of the tested commits with their 95% CIs, in the order of history.

    Lines mark the named commits.

    :raises InputError: the kind is not ``KIND``, or no boot is used
    """
    if kind != KIND:
        raise InputError(f"figure: unknown kind {kind!r} of a bisection (expected {KIND!r})")
    axis = level_axis(document.tested)
    if axis is None:
        raise InputError(f"figure {kind!r}: no commit has a used boot; add boots")
    figure = go.Figure([_levels(document), _boots(document)])
    for index in document.steps_in(document.tested):
        figure.add_vline(
            x=index - 0.5,
            line_dash="dot",
            annotation_text=document.tested[index].commit.short,
        )
    names = [each.commit.short for each in document.tested]
    figure.update_xaxes(
        title_text="tested commits, oldest first",
        type="category",
        categoryorder="array",
        categoryarray=names,
    )
    figure.update_yaxes(title_text="value, 95% CI", range=[axis.low, axis.high])
    figure.update_layout(
        title_text=spell(_title(document)),
        height=FRAME_HEIGHT + PANEL_HEIGHT,
        template="plotly_white",
    )
    return figure


def _levels(document: BisectDocument) -> go.Scatter:
    shown = [(each, each.level) for each in document.tested if each.level is not None]
    levels = [level for _, level in shown]
    return go.Scatter(
        x=[each.commit.short for each, _ in shown],
        y=[level.mean for level in levels],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [_distance(level.ci_high, level.mean) for level in levels],
            "arrayminus": [_distance(level.mean, level.ci_low) for level in levels],
        },
        mode="markers",
        name="level",
        marker={"color": SIDE_COLOURS[1], "size": 9},
        hovertext=[spell(f"{each.commit.subject}: {describe_tested(each)}") for each, _ in shown],
    )


def _boots(document: BisectDocument) -> go.Scatter:
    used = [(each.commit.short, value) for each in document.tested for value in used_values(each)]
    return go.Scatter(
        x=[name for name, _ in used],
        y=[value for _, value in used],
        mode="markers",
        name="boots",
        marker={"color": SIDE_COLOURS[0], "size": 5, "opacity": 0.6},
    )


def _distance(high: float | None, low: float | None) -> float | None:
    return None if high is None or low is None else high - low


def _title(document: BisectDocument) -> str:
    names = (f"{each.commits[-1].short} {each.commits[-1].subject}" for each in document.named)
    return ": ".join(filter(None, (_TITLES[document.status], "; ".join(names))))
