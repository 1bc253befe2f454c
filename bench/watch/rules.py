# SPDX-License-Identifier: GPL-2.0-or-later
"""Find lasting changes by this project's watch, and by documented rules of two other projects."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.watch.nightly import Found
from schedperf.history.series import SeriesKey, WatchedNight, WatchedSeries
from schedperf.history.watch.nights import watch_series

Floats = NDArray[np.float64]

# Perfherder (treeherder/perf/alerts.py, and mozilla.github.io/treeherder): a linearly weighted
# window back and one forward.
PERFHERDER_FEWEST_BACK = 12
PERFHERDER_MOST_BACK = 24
PERFHERDER_FORWARD = 12
PERFHERDER_T = 7.0
PERFHERDER_SHARE = 0.02

# rustc-perf (docs/comparison-analysis.md): the fence of the changes between earlier artifacts.
RUSTC_CHANGES = 30
RUSTC_FEWEST = 10
RUSTC_IQRS = 3.0


def series_of(name: str, nights: Sequence[WatchedNight]) -> WatchedSeries:
    """Return a series with a name."""
    key = SeriesKey(machine_class="", tree="", workload=name, point="", metric="value")
    return WatchedSeries(key=key, unit="", better="unknown", nights=tuple(nights))


def watch(series: WatchedSeries) -> list[Found]:
    """Return the alarms of the watch of this project; nights without a level are not counted."""
    scale = series.scale
    measured = [night.order for night in series.nights if not scale.is_lost(night)]
    index = {order: position for position, order in enumerate(measured)}
    return [
        Found(index[alarm.found], index[alarm.place], alarm.rises)
        for alarm in watch_series(series).alarms
    ]


def perfherder(values: Sequence[float]) -> Iterator[Found]:
    """Yield a change where t exceeds 7, and that of both neighbours; 12 nights later.

    The window before it has 12 to 24 nights: one more for each night without a large t.
    """
    numbers = np.asarray(values)
    t = np.zeros(len(numbers))
    quiet = 0
    for place in range(1, len(numbers)):
        reach = min(max(quiet, PERFHERDER_FEWEST_BACK), PERFHERDER_MOST_BACK)
        # The night next to the place counts most.
        before = numbers[max(0, place - reach) : place][::-1]
        t[place] = _weighted_t(before, numbers[place : place + PERFHERDER_FORWARD])
        quiet = 0 if abs(t[place]) > PERFHERDER_T else quiet + 1
    sizes = np.abs(t)
    for place in range(PERFHERDER_FEWEST_BACK, len(numbers) - PERFHERDER_FORWARD):
        is_peak = sizes[place] >= sizes[place - 1] and sizes[place] >= sizes[place + 1]
        if sizes[place] > PERFHERDER_T and is_peak:
            before = numbers[place - PERFHERDER_FEWEST_BACK : place].mean()
            after = numbers[place : place + PERFHERDER_FORWARD].mean()
            if abs(after / before - 1.0) >= PERFHERDER_SHARE:
                yield Found(place + PERFHERDER_FORWARD, place, bool(after > before))


def _weighted_t(before: Floats, after: Floats) -> float:
    means, variances = [], []
    for window in (before, after):
        weights = np.linspace(1.0, 1.0 / len(window), len(window))
        means.append(float(np.average(window, weights=weights)))
        squares = float(((window - means[-1]) ** 2).sum())
        variances.append(squares / max(1, len(window) - 1) / len(window))
    difference = means[1] - means[0]
    if difference == 0.0:
        return 0.0
    total = sum(variances)
    return math.inf if total == 0.0 else difference / math.sqrt(total)


def rustc_fence(values: Sequence[float]) -> Iterator[Found]:
    """Yield a change from one night to the next beyond Q3 + 3 IQR of the sizes of earlier ones."""
    numbers = np.asarray(values)
    changes = np.diff(numbers) / numbers[:-1]
    for index in range(RUSTC_FEWEST, len(changes)):
        earlier = np.abs(changes[max(0, index - RUSTC_CHANGES) : index])
        first, third = np.quantile(earlier, (0.25, 0.75))
        if abs(changes[index]) > third + RUSTC_IQRS * (third - first):
            yield Found(index + 1, index + 1, bool(changes[index] > 0.0))
