"""The JSON that speedscope opens: one sampled profile a side and event.

Format: https://www.speedscope.app/file-format-schema.json. A sample is a list of frame
numbers, outermost first, and has a weight; times are the running sums of the weights.
"""

import json
from collections.abc import Iterator, Sequence

from schedperf.evidence.profile.sampled import NANOSECOND_EVENTS, Floats
from schedperf.evidence.profile.stacks import Stacks
from schedperf.model.text import clean_line
from schedperf.symbols.place import Place
from schedperf_collectors import __version__

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope_text(events: Sequence[Stacks]) -> Iterator[str]:
    """Yield the file piece by piece: the stacks of a large recording are never one text."""
    numbers: dict[Place, int] = {}
    for stacks in events:
        for place in stacks.places:
            numbers.setdefault(place, len(numbers))
    frames = [{"name": clean_line(p.symbol), "file": clean_line(p.dso)} for p in numbers]
    head = {
        "$schema": SCHEMA,
        "exporter": f"schedperf {__version__}",
        "name": " against ".join(clean_line(label) for label in reversed(events[0].runs.labels)),
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
    }
    yield json.dumps(head)[:-1] + ', "profiles": [\n'
    profiles = [(stacks, side) for stacks in events for side in range(len(stacks.runs.labels))]
    for number, (stacks, side) in enumerate(profiles):
        yield ",\n" if number else ""
        yield from _profile(stacks, side, numbers)
    yield "\n]}\n"


def _profile(stacks: Stacks, side: int, numbers: dict[Place, int]) -> Iterator[str]:
    weights = stacks.mean_weights()[side]
    order = _left_heavy(stacks, weights)
    whole = [round(float(weights[stack])) for stack in order]
    head = {
        "type": "sampled",
        "name": clean_line(f"{stacks.runs.labels[side]}: {stacks.runs.event}"),
        # The format has no word for any other unit.
        "unit": "nanoseconds" if stacks.runs.event in NANOSECOND_EVENTS else "none",
        "startValue": 0,
        "endValue": sum(whole),
        "weights": whole,
    }
    yield json.dumps(head)[:-1] + ', "samples": ['
    own = [numbers[place] for place in stacks.places]
    for number, stack in enumerate(order):
        span = stacks.frames[stacks.starts[stack] : stacks.starts[stack + 1]]
        yield (",\n" if number else "\n") + json.dumps([own[place] for place in span])
    yield "]}"


def _left_heavy(stacks: Stacks, weights: Floats) -> list[int]:
    # Neighbours with equal frames are drawn as one box, so equal beginnings stand together.
    present = [stack for stack in range(len(stacks)) if round(float(weights[stack]))]
    starts, frames = stacks.starts, stacks.frames
    return sorted(present, key=lambda stack: frames[starts[stack] : starts[stack + 1]].tolist())
