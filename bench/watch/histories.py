# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the real histories of ``../shared/data/histories``, which are not in this repository."""

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from bench.watch.rules import series_of
from schedperf.history.series import WatchedNight, WatchedSeries

HISTORIES = Path(__file__).parents[3] / "shared" / "data" / "histories"
Kind = Literal["paired", "dedicated", "hosted", "other"]

# Where each source was measured (ORIGINS.md there).
KINDS: Mapping[str, Kind] = {
    "zig": "paired",
    "mongo": "dedicated",
    "rocksdb": "dedicated",
    "tigerbeetle": "dedicated",
    "treeherder": "dedicated",
    "bsl": "hosted",
    "hyper": "hosted",
    "safetensors": "hosted",
    "mongo-spa": "other",
    "tcpd": "other",
}


def read_histories(folder: Path = HISTORIES) -> Iterator[tuple[str, WatchedSeries]]:
    """Yield the name of each source, and each of its series."""
    for source in KINDS:
        nights: dict[str, list[WatchedNight]] = {}
        with (folder / f"{source}.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                night = WatchedNight(
                    order=int(row["order"]),
                    value=_number(row["value"]),
                    reference=_number(row["ref"]),
                )
                nights.setdefault(row["series"], []).append(night)
        for name, each in nights.items():
            yield source, series_of(f"{source}/{name}", each)


def levels_of(series: WatchedSeries) -> list[float]:
    """Return the levels of the nights that have one."""
    scale = series.scale
    levels = []
    for night in series.nights:
        if night.value is not None and not scale.is_lost(night):
            reference = 0.0 if night.reference is None else scale.level(night.reference)
            levels.append(scale.level(night.value) - reference)
    return levels


def values_of(series: WatchedSeries) -> list[float]:
    """Return positive values for tools that take no logarithms.

    Those of a series of differences are moved, so that the smallest one is as large as their range.
    """
    levels = levels_of(series)
    if series.scale.is_log:
        return [math.exp(level) for level in levels]
    lowest, highest = min(levels), max(levels)
    return [level - lowest + (highest - lowest) for level in levels]


def _number(text: str) -> float | None:
    return float(text) if text else None
