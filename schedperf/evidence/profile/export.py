# SPDX-License-Identifier: GPL-2.0-or-later
"""Export call stacks for other viewers: folded lines, and speedscope's JSON.

Weights are means over the runs of a side that sampled the event, in the unit of the event, rounded
to integers. All stacks are exported, without a size limit, unless their weight is rounded to 0.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from schedperf.evidence.profile.flame_record import SPEEDSCOPE_SCHEMA
from schedperf.evidence.profile.samples import Floats
from schedperf.evidence.profile.stack_hash import chunks_of
from schedperf.evidence.profile.stacks import Stacks
from schedperf.model.place import Place
from schedperf.model.text import clean_line
from schedperf_collectors import __version__

_UNNAMED = "[unnamed]"
# Number of lines per write.
_LINES = 4096


def _folded_text(events: Sequence[Stacks]) -> Iterator[str]:
    """Yield one line per stack, in the format of FlameGraph's stackcollapse and difffolded.

    The format is ``a;b;c 12`` for one side and ``a;b;c 12 17`` for two, base first; numbers are in
    whole units of the event. With several events, the outermost frame is the name of the event. The
    lines of an event are sorted; each string has up to ``_LINES`` lines.
    """
    for stacks in events:
        prefix = (_frame_text(stacks.runs.event),) if len(events) > 1 else ()
        lines, sums = _sums(stacks, prefix)
        counts = np.rint(sums).astype(np.int64).T.tolist()
        texts = sorted(
            f"{line} {' '.join(map(str, count))}\n"
            for line, count in zip(lines, counts, strict=True)
            if any(count)
        )
        for start in range(0, len(texts), _LINES):
            yield "".join(texts[start : start + _LINES])


def _frame_text(name: str) -> str:
    """Replace semicolons by colons and remove control characters; ``[unnamed]`` if nothing is left.

    >>> _frame_text("operator;(\\x1b[0m\\nint)")
    'operator:([0m int)'
    """
    return clean_line(name).replace(";", ":") or _UNNAMED


def _sums(stacks: Stacks, prefix: tuple[str, ...]) -> tuple[list[str], Floats]:
    """Return the distinct lines, and their mean weights, shape (sides, lines)."""
    # Functions with the same name in different files become one frame, so stacks may become equal.
    names = [_frame_text(location.symbol) for location in stacks.places]
    numbers: dict[str, int] = {}
    line_of: list[int] = []
    for first, last in chunks_of(stacks.starts):
        begin = stacks.starts[first]
        frames = [names[index] for index in stacks.frames[begin : stacks.starts[last]].tolist()]
        bounds = (stacks.starts[first : last + 1] - begin).tolist()
        line_of += [
            numbers.setdefault(";".join((*prefix, *frames[low:high])), len(numbers))
            for low, high in pairwise(bounds)
        ]
    weights = stacks.mean_weights()
    sums = [np.bincount(np.array(line_of, np.int64), side, len(numbers)) for side in weights]
    return list(numbers), np.array(sums)


def _speedscope_text(events: Sequence[Stacks]) -> Iterator[str]:
    """Yield the file in pieces, so that large recordings are never one string.

    The file has one sampled profile for each event and each side that sampled it. A sample is a
    list of frame numbers, outermost first, and has a weight; times are the running sums of the
    weights.
    """
    numbers: dict[Place, int] = {}
    for stacks in events:
        for location in stacks.places:
            numbers.setdefault(location, len(numbers))
    frames = [{"name": clean_line(p.symbol), "file": clean_line(p.dso)} for p in numbers]
    head = {
        "$schema": SPEEDSCOPE_SCHEMA,
        "exporter": f"schedperf {__version__}",
        "name": " against ".join(clean_line(label) for label in reversed(events[0].runs.labels)),
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
    }
    yield json.dumps(head)[:-1] + ', "profiles": [\n'
    # An event that a side did not sample has no profile.
    profiles = [
        (stacks, side)
        for stacks in events
        for side, weights in enumerate(stacks.mean_weights())
        if weights.any()
    ]
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
        # The format has no other units.
        "unit": "nanoseconds" if stacks.runs.unit == "ns" else "none",
        "startValue": 0,
        "endValue": sum(whole),
        "weights": whole,
    }
    yield json.dumps(head)[:-1] + ', "samples": ['
    own = [numbers[location] for location in stacks.places]
    for number, stack in enumerate(order):
        span = stacks.frames[stacks.starts[stack] : stacks.starts[stack + 1]]
        yield (",\n" if number else "\n") + json.dumps([own[index] for index in span])
    yield "]}"


def _left_heavy(stacks: Stacks, weights: Floats) -> list[int]:
    # Sorted, because adjacent stacks with equal frames are drawn as one box.
    present = [stack for stack in range(len(stacks)) if round(float(weights[stack]))]
    starts, frames = stacks.starts, stacks.frames
    return sorted(present, key=lambda stack: frames[starts[stack] : starts[stack + 1]].tolist())


# By format name: the function that yields the file in pieces from the stacks of each event.
EXPORTS: Mapping[str, Callable[[Sequence[Stacks]], Iterable[str]]] = {
    "folded": _folded_text,
    "speedscope": _speedscope_text,
}
