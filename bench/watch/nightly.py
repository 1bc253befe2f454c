# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a rule for finished series every night, on what is known then.

It has only the standard library, because it also runs in the environment of the other tools.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

# As many nights as this project's watch looks at.
LONGEST = 90
FEWEST = 10


class Found(NamedTuple):
    """A lasting change, by the indices of nights.

    :param night: the night that found it
    :param place: the first night of the new level
    """

    night: int
    place: int
    rises: bool


# Returns the index of the first change in a window, or None.
Rule = Callable[[Sequence[float]], int | None]


def run_nightly(rule: Rule, values: Sequence[float]) -> Iterator[Found]:
    """Yield what a rule finds in the last 90 nights, or in those since the last change.

    :param values: shape (nights,)
    """
    begin = 0
    for night in range(len(values)):
        start = max(begin, night + 1 - LONGEST)
        window = values[start : night + 1]
        if len(window) >= FEWEST and (index := rule(window)):
            rises = fmean(window[index:]) > fmean(window[:index])
            begin = start + index
            yield Found(night, begin, rises)
