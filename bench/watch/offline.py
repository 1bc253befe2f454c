# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge alarms with hindsight: which steps of a series are evident, which alarms are stray.

At each night, the median of up to 30 nights before it is compared with that of up to 30 nights from
it on; both sides need 10. The noise is the root mean square of the robust standard deviations of
both sides. A change is *evident* if it is at least 2% (nothing in a series of differences), and 2
standard deviations; nights in a row that show one are one step, at the night that leaves the
smallest absolute deviations.

An alarm is *stray* if no night within 5 of the place that it names shows a change in its direction
of at least half of that, 1% and 1 standard deviation, both by the 30 nights and by the 10 nights on
each side: the former shows that it lasted, the latter that it is there.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.watch.nightly import Found
from schedperf.history.watch.place import robust_sd

SIDE = 30
FEWEST = 10
EVIDENT_SHARE = 0.02
EVIDENT_SDS = 2.0
NEAR = 5
# As a multiple of an evident change.
STRAY = 0.5
# An evident step is found if there is an alarm in its direction up to so many nights later.
DELAY = 30


class Size(NamedTuple):
    """A change at a night as a multiple of an evident one, with its sign.

    :param lasting: by up to 30 nights on each side
    :param local: by 10 nights on each side
    """

    lasting: float
    local: float


# What each night shows; None with few nights on a side.
Hindsight = Sequence[Size | None]


def look_back(levels: Sequence[float], *, is_log: bool) -> Hindsight:
    """Return what the nights of a finished series show, shape (nights,)."""
    return [
        _size(levels, night, is_log=is_log) if FEWEST <= night <= len(levels) - FEWEST else None
        for night in range(len(levels))
    ]


def evident_steps(levels: Sequence[float], hindsight: Hindsight) -> Iterator[tuple[int, bool]]:
    """Yield the first night of the new level of each evident step, and whether it is larger."""
    for first, last, rises in _runs(hindsight):
        begin, end = max(0, first - SIDE), last + SIDE
        near = np.asarray(levels[begin:end])
        place = min(range(first, last + 1), key=lambda night: _deviations(near, night - begin))
        yield place, rises


def is_stray(found: Found, hindsight: Hindsight) -> bool | None:
    """Return whether an alarm has no lasting change near the place that it names.

    :return: None if no night near it can be judged, because the series begins or ends there
    """
    near = hindsight[max(0, found.place - NEAR) : found.place + NEAR + 1]
    sign = 1.0 if found.rises else -1.0
    sizes = [min(sign * size.lasting, sign * size.local) for size in near if size is not None]
    return max(sizes) < STRAY if sizes else None


def detections(
    places: Sequence[tuple[int, bool]], alarms: Sequence[Found]
) -> Iterator[Found | None]:
    """Yield the first alarm about each evident step, or None.

    :param places: of the steps, with their directions
    """
    for place, rises in places:
        yield next(
            (
                alarm
                for alarm in alarms
                if alarm.rises == rises and place - 1 <= alarm.night <= place + DELAY
            ),
            None,
        )


def _size(levels: Sequence[float], night: int, *, is_log: bool) -> Size:
    """Return what a night shows; both sides have 10 nights or more."""
    before, after = levels[max(0, night - SIDE) : night], levels[night : night + SIDE]
    sd = math.sqrt((robust_sd(before) ** 2 + robust_sd(after) ** 2) / 2.0)
    evident = max(EVIDENT_SHARE if is_log else 0.0, EVIDENT_SDS * sd)
    changes = (
        median(after) - median(before),
        median(after[:FEWEST]) - median(before[-FEWEST:]),
    )
    return Size(*(_multiple(change, evident) for change in changes))


def _multiple(change: float, evident: float) -> float:
    if change == 0.0:
        return 0.0
    # Without noise, every change is evident.
    return change / evident if evident else math.copysign(math.inf, change)


def _runs(hindsight: Hindsight) -> Iterator[tuple[int, int, bool]]:
    """Yield the first and last night of each run that shows an evident change, and its direction.

    Runs of one direction are joined across gaps of less than ``FEWEST`` nights.
    """
    nights = [
        (night, size.lasting > 0.0)
        for night, size in enumerate(hindsight)
        if size is not None and abs(size.lasting) >= 1.0
    ]
    run: list[int] = []
    rises = False
    for night, is_rise in nights:
        if run and (is_rise != rises or night - run[-1] > FEWEST):
            yield run[0], run[-1], rises
            run = []
        run.append(night)
        rises = is_rise
    if run:
        yield run[0], run[-1], rises


def _deviations(levels: NDArray[np.float64], split: int) -> float:
    parts = levels[:split], levels[split:]
    return float(sum(np.abs(part - np.median(part)).sum() for part in parts))
