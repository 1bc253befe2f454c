# SPDX-License-Identifier: GPL-2.0-or-later
"""Check the false alarms and the detections of the watch against limits."""

from collections.abc import Iterable, Iterator, Mapping

from bench.limits import Check
from bench.watch.measure import OURS, Detection, Quiet, RealScore, of_kind

# Per 1,000 series-years, in each simulated noise.
MOST_FALSE = 20.0
# Share of steps of this size that are found within 14 nights, by the sd of boots; normal noise.
GATED_CHANGE = 0.05
LEAST_SOON: Mapping[float, float] = {0.012: 0.98, 0.02: 0.95}
# Per 1,000 points of real series.
MOST_STRAY = 1.0


def check_simulated(quiet: Iterable[Quiet], detections: Iterable[Detection]) -> Iterator[Check]:
    """Yield the checks of what was simulated for the watch of this project."""
    for each in quiet:
        if each.tool == OURS:
            name = f"false alarms / 1,000 series-years, {each.noise}, sd {each.sd:.1%}"
            yield Check(name=name, value=each.rate, limit=MOST_FALSE)
    for found in detections:
        cell = found.cell
        is_gated = (found.tool, cell.noise, cell.change) == (OURS, "normal", GATED_CHANGE)
        if is_gated and cell.sd in LEAST_SOON:
            name = f"{cell.change:+.0%} found within 14 nights, sd {cell.sd:.1%}"
            yield Check(name=name, value=found.soon, limit=LEAST_SOON[cell.sd], is_upper=False)


def check_real(scores: Mapping[str, RealScore]) -> Iterator[Check]:
    """Yield the checks of the scores of this project on real series, by source."""
    paired = of_kind(scores, "paired")
    yield Check(name="stray / 1,000 points, paired", value=paired.stray_rate, limit=MOST_STRAY)
    machines = of_kind(scores, "paired", "dedicated")
    name = "stray / 1,000 points, all dedicated machines"
    yield Check(name=name, value=machines.stray_rate, limit=MOST_STRAY)
