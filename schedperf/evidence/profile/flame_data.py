"""What a flame graph shows, as JSON: columns of equal length, one value a frame.

This is what the drawing reads, and all that it reads.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from schedperf.evidence.profile.flame import (
    LEAST_SHARE,
    Flame,
    FrameChanges,
    average_frames,
    build_flame,
    count_sampled,
    largest_first,
    measure_frames,
    measure_places,
    narrow_flame,
    one_sided_frames,
)
from schedperf.evidence.profile.parts import Part, find_parts
from schedperf.evidence.profile.sampled import Floats, Measure, unit_of_event
from schedperf.evidence.profile.stacks import StackedSamples
from schedperf.model.text import clean_line
from schedperf.perf_data.recording import Integers
from schedperf.symbols.functions import class_of
from schedperf.symbols.place import Place

# Of a number that is drawn: the fifth digit of a share is far below any noise.
DIGITS = 4
# Of the ends of an interval, and of a corrected p-value, of which nobody reads more.
INTERVAL_DIGITS = 3
# Of a part, whose samples are fewer: a thousandth of a frame's time, and of its interval what a
# pixel shows. With one more of each, all parts together are a quarter longer.
PART_DIGITS = 3
MARGIN_DIGITS = 2
Q_DIGITS = 2
# Rows of each list that stands beside the drawing.
MOST_LISTED = 40


def describe_flame(
    flame: Flame,
    operation: str | None,
    *,
    parts: Sequence[tuple[Part, Flame]] = (),
    took_turns: bool = True,
    place: str = "",
) -> dict[str, Any]:
    """Return the data of one drawing, JSON values only.

    :param operation: what an operation is: "message"; None where they are not counted
    :param parts: the same tree with the weights of parts of the samples
    :param took_turns: false where a drift of the machine may look like a change
    :param place: which workload at which point; "" where there is one only
    """
    used, numbers = _number_names(flame)
    measures: list[Measure] = ["share"]
    if operation is not None and flame.runs.has_operations:
        measures.append("operation")
    shares = measure_frames(flame, "share", "self")
    return {
        "event": clean_line(flame.runs.event),
        "place": clean_line(place),
        "unit": unit_of_event(clean_line(flame.runs.event)),
        "labels": [clean_line(label) for label in flame.runs.labels],
        "independent": flame.runs.independent,
        "counts": list(flame.runs.counts),
        "took_turns": took_turns,
        "totals": [_number(total) for total in _mean_totals(flame)],
        "least_share": flame.least_share,
        "names": [_name(flame.places[place]) for place in used],
        "parent": flame.parent.tolist(),
        "name": numbers,
        "hidden": flame.hidden.tolist(),
        "measures": [_describe_measure(flame, measure, operation, used) for measure in measures],
        "parts": [
            {
                "kind": part.kind,
                "name": clean_line(part.name),
                "measures": [
                    _describe_part(of_part, measure, operation, used) for measure in measures
                ],
            }
            for part, of_part in parts
        ],
        "lists": _describe_lists(flame, shares),
    }


def describe_stacks(
    found: StackedSamples,
    operation: str | None,
    *,
    took_turns: bool,
    least_share: float = LEAST_SHARE,
    place: str = "",
    has_parts: bool = True,
) -> dict[str, Any]:
    """Return the data of one drawing of stacks with their parts; else as :func:`describe_flame`."""
    flame = build_flame(found.stacks, least_share=least_share)
    parts = find_parts(found) if has_parts else ()
    return describe_flame(
        flame,
        operation,
        parts=[(part, narrow_flame(flame, found.narrow(part.rows))) for part in parts],
        took_turns=took_turns,
        place=place,
    )


def _mean_totals(flame: Flame) -> list[float]:
    # Of each side, all that was sampled in a run with samples.
    runs = flame.runs
    sums = np.bincount(runs.sides, runs.totals, len(runs.labels))
    means: list[float] = (sums / np.maximum(runs.sampled_runs, 1)).tolist()
    return means


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


def _describe_part(
    flame: Flame, measure: Measure, operation: str | None, used: Integers
) -> dict[str, Any]:
    # A page has up to twenty parts, so they leave out what follows: a frame's time with what it
    # called is the sum of the own times, and an interval is the change and as much either way.
    frames = np.arange(len(flame))
    functions = measure_places(flame, measure)
    return {
        "measure": measure,
        "operation": operation if measure == "operation" else None,
        "inclusive": _describe_margin(measure_frames(flame, measure, "inclusive"), frames),
        "self": _describe_means(average_frames(flame, measure), frames, PART_DIGITS),
        "functions": {
            **_describe_means(functions, used, PART_DIGITS),
            **_describe_margin(functions, used),
        },
    }


def _describe_means(
    changes: FrameChanges, chosen: Integers, digits: int = DIGITS
) -> dict[str, Any]:
    sides = {"base": changes.base, "new": changes.new}
    return {
        name: _numbers(side[chosen], digits) for name, side in sides.items() if side is not None
    }


def _describe_margin(changes: FrameChanges, chosen: Integers) -> dict[str, Any]:
    if changes.columns is None:
        return {}
    columns = changes.columns
    half = (columns.ci_high[chosen] - columns.ci_low[chosen]) / 2.0
    return {
        "margin": _numbers(half, MARGIN_DIGITS),
        "changed": np.flatnonzero(changes.changed[chosen]).tolist(),
    }


def _describe_changes(changes: FrameChanges, chosen: Integers) -> dict[str, Any]:
    means = _describe_means(changes, chosen)
    if changes.columns is None:
        return means
    columns = changes.columns
    return {
        **means,
        "low": _numbers(columns.ci_low[chosen], INTERVAL_DIGITS),
        "high": _numbers(columns.ci_high[chosen], INTERVAL_DIGITS),
        "q": _numbers(columns.q[chosen], Q_DIGITS),
        "changed": np.flatnonzero(changes.changed[chosen]).tolist(),
    }


def _numbers(values: Floats, digits: int = DIGITS) -> list[float | None]:
    return [_number(value, digits) for value in values.tolist()]


def _number(value: float, digits: int = DIGITS) -> float | None:
    if not value:
        return 0
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    # JSON writes 100 shorter than 100.0.
    return int(short) if short.is_integer() else short


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
