# SPDX-License-Identifier: GPL-2.0-or-later
"""Run Otava, PELT or jumpavg on series: a program for the environment that has these packages.

packages.py TOOL < [[VALUE, ...], ...] > [[[NIGHT, PLACE, RISES], ...], ...]
"""

import json
import math
import sys
from collections.abc import Sequence

import numpy as np
import ruptures
from jumpavg import classify
from otava.analysis import compute_change_points

from bench.watch.nightly import Rule, run_nightly


def otava() -> Rule:
    """Return the rule of Otava with its defaults: windows of 50, p < 0.001."""

    def rule(values: Sequence[float]) -> int | None:
        points, _ = compute_change_points(list(values))
        return min((int(point.index) for point in points), default=None)

    return rule


def pelt(factor: float) -> Rule:
    """Return the rule of PELT for means, with a penalty of ``factor`` times log(n)."""

    def rule(series: Sequence[float]) -> int | None:
        values = np.asarray(series)
        # Differences of neighbours, so that steps do not count as noise.
        sd = 1.4826 * float(np.median(np.abs(np.diff(values)))) / math.sqrt(2.0)
        sd = sd or float(values.std())
        if sd == 0.0:
            return None
        # Its C implementation.
        search = ruptures.KernelCPD(kernel="linear", min_size=3, jump=1)
        places = search.fit(values[:, None] / sd).predict(pen=factor * math.log(len(values)))
        return int(places[0]) if len(places) > 1 else None

    return rule


def jumpavg() -> Rule:
    """Return the rule of jumpavg with its defaults: groups of the shortest description."""

    def rule(values: Sequence[float]) -> int | None:
        groups = classify(list(values))
        return len(groups[0]) if len(groups) > 1 else None

    return rule


def make_rule(tool: str) -> Rule:
    """Return the rule of a tool."""
    if tool == "otava":
        return otava()
    if tool == "jumpavg":
        return jumpavg()
    return pelt(float(tool.removeprefix("pelt-")))


def main() -> None:
    """Read series, and write what the tool finds in each."""
    rule = make_rule(sys.argv[1])
    json.dump([list(run_nightly(rule, values)) for values in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
