"""What a flame graph shows, as JSON: columns of equal length, one value a frame.

This is what the drawing reads, and all that it reads.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from schedperf.captures.perf_data.recording import Integers
from schedperf.profile.flame import (
    Flame,
    FrameChanges,
    count_sampled,
    largest_first,
    measure_frames,
    measure_places,
    one_sided_frames,
)
from schedperf.profile.functions import class_of
from schedperf.profile.place import Place
from schedperf.profile.sampled import Floats, Measure, unit_of_event
from schedperf.text import clean_line

SCHEMA = "schedperf/flame/1"
# Of a number that is drawn: the sixth digit of a share is far below any noise.
DIGITS = 5
# Rows of each list that stands beside the drawing.
MOST_LISTED = 40


def describe_flames(
    flames: Sequence[Flame], operation: str | None, *, took_turns: bool = True
) -> dict[str, Any]:
    """Return the data of a drawing, JSON values only.

    :param flames: one an event
    :param operation: what an operation is: "message"; None where they are not counted
    :param took_turns: false where a drift of the machine may look like a change
    """
    return {
        "schema": SCHEMA,
        "took_turns": took_turns,
        "events": [_describe(flame, operation) for flame in flames],
    }


def _describe(flame: Flame, operation: str | None) -> dict[str, Any]:
    used, numbers = _number_names(flame)
    measures: list[Measure] = ["share"]
    if operation is not None and flame.runs.has_operations:
        measures.append("operation")
    shares = measure_frames(flame, "share", "self")
    return {
        "event": clean_line(flame.runs.event),
        "unit": unit_of_event(clean_line(flame.runs.event)),
        "labels": [clean_line(label) for label in flame.runs.labels],
        "independent": flame.runs.independent,
        "counts": list(flame.runs.counts),
        "least_share": flame.least_share,
        "names": [_name(flame.places[place]) for place in used],
        "parent": flame.parent.tolist(),
        "name": numbers,
        "hidden": flame.hidden.tolist(),
        "measures": [_describe_measure(flame, measure, operation, used) for measure in measures],
        "lists": _describe_lists(flame, shares),
    }


def _number_names(flame: Flame) -> tuple[Integers, list[int]]:
    # The places that the frames have, and for each frame which; ROOT and REMAINDER stay.
    used = np.unique(flame.place[flame.place >= 0])
    numbers = np.where(flame.place >= 0, np.searchsorted(used, flame.place), flame.place)
    return used, numbers.tolist()


def _name(place: Place) -> dict[str, str | None]:
    return {
        "symbol": clean_line(place.symbol),
        "dso": clean_line(place.dso),
        "class": class_of(place),
    }


def _describe_measure(
    flame: Flame, measure: Measure, operation: str | None, used: Integers
) -> dict[str, Any]:
    frames = np.arange(len(flame))
    return {
        "measure": measure,
        "operation": operation if measure == "operation" else None,
        "inclusive": _describe_changes(measure_frames(flame, measure, "inclusive"), frames),
        "self": _describe_changes(measure_frames(flame, measure, "self"), frames),
        # Of each name, on all paths together.
        "functions": _describe_changes(measure_places(flame, measure), used),
    }


def _describe_changes(changes: FrameChanges, chosen: Integers) -> dict[str, Any]:
    if changes.columns is None or changes.new is None:
        return {"base": _numbers(changes.base[chosen])}
    columns = changes.columns
    return {
        "base": _numbers(changes.base[chosen]),
        "new": _numbers(changes.new[chosen]),
        "low": _numbers(columns.ci_low[chosen]),
        "high": _numbers(columns.ci_high[chosen]),
        "q": _numbers(columns.q[chosen]),
        "changed": np.flatnonzero(changes.changed[chosen]).tolist(),
    }


def _numbers(values: Floats) -> list[float | None]:
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def _describe_lists(flame: Flame, own: FrameChanges) -> dict[str, Any]:
    is_named = flame.place >= 0
    if own.columns is None:
        return {"hottest": largest_first(is_named & (own.base > 0.0), own.base)[:MOST_LISTED]}
    lists = dict(zip(("vanished", "appeared"), one_sided_frames(flame), strict=True))
    lists["changed"] = largest_first(is_named & own.changed, np.abs(own.columns.difference))
    shown = {name: frames[:MOST_LISTED] for name, frames in lists.items()}
    return {
        **shown,
        "counts": {name: len(frames) for name, frames in lists.items()},
        # In how many runs (or boots) the one side has what the other has in none.
        "sampled": {
            name: count_sampled(flame, side)[shown[name]].tolist()
            for side, name in enumerate(("vanished", "appeared"))
        },
    }
