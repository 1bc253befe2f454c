# SPDX-License-Identifier: GPL-2.0-or-later
"""Series of nights, made for the tests of schedperf.history."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from schedperf.history.series import Conditions, SeriesKey, WatchedNight, WatchedSeries
from schedperf.model.rows import Better

KEY = SeriesKey(
    machine_class="epyc-2s-3f2a", tree="tip", workload="hackbench", point="-g 16", metric="time"
)


def series(
    nights: Iterable[WatchedNight], *, key: SeriesKey = KEY, better: Better = "lower"
) -> WatchedSeries:
    """Return a series of seconds."""
    return WatchedSeries(key=key, unit="s", better=better, nights=tuple(nights))


def paired(
    logs: Sequence[float], references: Sequence[float] | None = None, **conditions: str
) -> list[WatchedNight]:
    """Return nights whose new / reference has these logarithms.

    :param references: values of the reference [default: 10 in each night]
    :param conditions: those of all nights
    """
    of_nights = references or [10.0] * len(logs)
    return [
        WatchedNight(
            order=order,
            value=reference * math.exp(log),
            reference=reference,
            conditions=Conditions(**conditions),
        )
        for order, (log, reference) in enumerate(zip(logs, of_nights, strict=True))
    ]


def unpaired(values: Iterable[float | None]) -> list[WatchedNight]:
    """Return nights without a reference."""
    return [
        WatchedNight(order=order, value=value, reference=None) for order, value in enumerate(values)
    ]


def noise(nights: int, *, sd: float = 0.01, seed: int = 1) -> list[float]:
    """Return normal values around 0."""
    return list(map(float, np.random.default_rng(seed).normal(0.0, sd, nights)))


def with_step(logs: Iterable[float], place: int, size: float) -> list[float]:
    """Return logarithms that are larger from an index on."""
    return [log + (size if index >= place else 0.0) for index, log in enumerate(logs)]
