"""Folded stacks: one line a stack, as stackcollapse and difffolded of FlameGraph write them.

``a;b;c 12`` of one side, ``a;b;c 12 17`` of two, base first; numbers are whole units of
the event. Of several events each one's name is the outermost frame.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from schedperf.evidence.profile.sampled import Floats
from schedperf.evidence.profile.stacks import Stacks
from schedperf.model.text import clean_line

UNNAMED = "[unnamed]"


def folded_text(events: Sequence[Stacks]) -> Iterator[str]:
    """Yield the lines, sorted as those of the original tools."""
    for stacks in events:
        prefix = (frame_text(stacks.runs.event),) if len(events) > 1 else ()
        for line, weights in sorted(_sums(stacks, prefix).items()):
            counts = [round(float(weight)) for weight in weights]
            if any(counts):
                yield f"{line} {' '.join(map(str, counts))}\n"


def frame_text(name: str) -> str:
    """Return a name as it can stand between semicolons on one line.

    >>> frame_text("operator;(\\x1b[0m\\nint)")
    'operator:([0m int)'
    """
    return clean_line(name).replace(";", ":") or UNNAMED


def _sums(stacks: Stacks, prefix: tuple[str, ...]) -> dict[str, Floats]:
    # Functions of one name in two files become one frame, and so their stacks one line.
    names = [frame_text(place.symbol) for place in stacks.places]
    weights = stacks.mean_weights()
    sums: defaultdict[str, Floats] = defaultdict(lambda: np.zeros(len(stacks.runs.labels)))
    for stack in range(len(stacks)):
        span = stacks.frames[stacks.starts[stack] : stacks.starts[stack + 1]]
        sums[";".join((*prefix, *(names[place] for place in span)))] += weights[:, stack]
    return sums
