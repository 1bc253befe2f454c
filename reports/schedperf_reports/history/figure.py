# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the Plotly figure of a series of a history, for notebooks and dashboards."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import plotly.graph_objects as go

from schedperf.history.questions.records import Step
from schedperf.history.questions.timeline import Timeline
from schedperf.model.errors import InputError
from schedperf.model.units import signed
from schedperf.model.verdict import MARGIN
from schedperf_reports.figures import (
    FRAME_HEIGHT,
    PANEL_HEIGHT,
    SIDE_COLOURS,
    VERDICT_COLOURS,
    spell,
)
from schedperf_reports.history.words import describe_change, describe_series, describe_step

_COLOURS = {"worse": VERDICT_COLOURS["regression"], "better": VERDICT_COLOURS["improvement"]}
# The background of every second baseline period.
_SHADE = "#f2f3f4"
_TICKS = 8
# With more steps, their labels would cover each other.
_MOST_LABELS = 6


def draw_timeline(timeline: Timeline) -> go.Figure:
    """Draw new / reference of each night, or the value of a series without references.

    Backgrounds are baseline periods, dashed lines are steps with their states; the equivalence
    margin is drawn around the level of the reference kernel.

    :raises InputError: no night has a value
    """
    if not timeline.analysed.measured:
        raise InputError("figure: the series has no night with a value; add nights")
    figure = go.Figure(_nights(timeline))
    for shape in _periods(timeline):
        figure.add_shape(shape)
    positions = {night.position: index for index, night in enumerate(timeline.nights)}
    shown = [step for step in timeline.steps if step.position in positions]
    for step in shown:
        _add_step(figure, step, positions[step.position], has_label=len(shown) <= _MOST_LABELS)
    figure.add_trace(_marks(timeline, shown, positions))
    if timeline.analysed.is_paired and timeline.analysed.is_log:
        figure.add_hrect(y0=-100 * MARGIN, y1=100 * MARGIN, opacity=0.12, line_width=0)
    ticks = _ticks(len(timeline.nights))
    figure.update_xaxes(
        title_text="night",
        range=[-1, len(timeline.nights)],
        tickvals=ticks,
        ticktext=[spell(timeline.nights[index].night) for index in ticks],
    )
    figure.update_yaxes(**_axis(timeline))
    figure.update_layout(
        title_text=spell(describe_series(timeline.series)),
        yaxis2={"overlaying": "y", "range": [0, 1], "visible": False},
        height=FRAME_HEIGHT + PANEL_HEIGHT,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom"},
        template="plotly_white",
    )
    return figure


def _nights(timeline: Timeline) -> go.Scatter:
    return go.Scatter(
        x=list(range(len(timeline.nights))),
        y=[_shown(timeline, value) for value in timeline.analysed.values],
        mode="lines+markers",
        connectgaps=False,
        name="new / reference" if timeline.analysed.is_paired else "value",
        marker={"color": SIDE_COLOURS[1], "size": 5},
        line={"width": 1},
        hovertext=[spell(f"{night.night} {night.revision}") for night in timeline.nights],
    )


def _shown(timeline: Timeline, value: float | None) -> float | None:
    """Return a value as the axis has it."""
    if value is None or not timeline.analysed.is_log:
        return value
    return 100.0 * math.expm1(value) if timeline.analysed.is_paired else math.exp(value)


def _axis(timeline: Timeline) -> dict[str, str]:
    unit = spell(timeline.series.unit)
    if not timeline.analysed.is_paired:
        # Steps of equal ratios have equal heights.
        scale = "log" if timeline.analysed.is_log else "linear"
        return {"title_text": unit or "value", "type": scale}
    if timeline.analysed.is_log:
        return {"title_text": "change of new from reference", "ticksuffix": "%"}
    return {"title_text": f"new - reference{f', {unit}' if unit else ''}"}


def _ticks(nights: int) -> list[int]:
    """Return about as many indexes of nights as names have room."""
    return list(range(0, nights, max(1, nights // _TICKS)))


def _periods(timeline: Timeline) -> Iterator[dict[str, object]]:
    """Yield the background of every second baseline period."""
    breaks = {change.order for change in timeline.changes if change.is_break}
    starts = [index for index, night in enumerate(timeline.nights) if night.position in breaks]
    bounds = pairwise((0, *starts, len(timeline.nights)))
    for number, (first, last) in enumerate(bounds):
        if number % 2:
            yield {
                "type": "rect",
                "yref": "paper",
                "x0": first - 0.5,
                "x1": last - 0.5,
                "y0": 0,
                "y1": 1,
                "fillcolor": _SHADE,
                "line": {"width": 0},
                "layer": "below",
            }


def _add_step(figure: go.Figure, step: Step, index: int, *, has_label: bool) -> None:
    size = step.direction if step.change is None else signed(step.change)
    figure.add_vline(
        x=index - 0.5,
        line_dash="dash",
        line_color=_COLOURS.get(step.direction, SIDE_COLOURS[0]),
        annotation={"text": spell(size), "bgcolor": "white"} if has_label else None,
    )


def _marks(timeline: Timeline, steps: Sequence[Step], positions: dict[int, int]) -> go.Scatter:
    """Return what can be pointed at: changes of conditions, and steps with their decisions."""
    at = [
        (positions[change.order], describe_change(change))
        for change in timeline.changes
        if change.order in positions
    ]
    for step in steps:
        decided = [each for each in timeline.decisions if each.step_id == step.id]
        words = "; ".join(f"{each.at} {each.state}: {each.reason}" for each in decided)
        at.append((positions[step.position], f"{describe_step(step)}. {words}"))
    return go.Scatter(
        x=[index - 0.5 for index, _ in at],
        y=[0.0] * len(at),
        yaxis="y2",
        mode="markers",
        marker={"symbol": "triangle-up", "color": SIDE_COLOURS[2], "size": 9},
        name="steps and conditions",
        hovertext=[spell(words) for _, words in at],
        hoverinfo="text",
    )
