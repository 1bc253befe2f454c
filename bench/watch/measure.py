# SPDX-License-Identifier: GPL-2.0-or-later
"""Count the alarms of this project's watch and of other tools, on simulated and on real series."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import median

import numpy as np
from msgspec import Struct

from bench.watch import rules
from bench.watch.environment import TOOLS, run_packaged
from bench.watch.histories import KINDS, Kind, levels_of, values_of
from bench.watch.nightly import Found
from bench.watch.offline import Hindsight, detections, evident_steps, is_stray, look_back
from bench.watch.worlds import CLEAN_NIGHTS, STEP_NIGHTS, Floats, Noise, add_step, simulate
from schedperf.history.series import WatchedNight, WatchedSeries

OURS = "schedperf"
NIGHTS_PER_YEAR = 365
# Each simulated series lasts so long.
YEARS = 4
SOON = 14

# Levels of series without lost nights, shape (series, nights).
Finder = Callable[[Sequence[WatchedSeries]], list[list[Found]]]


class Quiet(Struct, frozen=True, kw_only=True):
    """False alarms of a tool in series without a change.

    :param years: number of simulated series-years
    """

    tool: str
    noise: Noise
    sd: float
    alarms: int
    years: int

    @property
    def rate(self) -> float:
        """Return false alarms per 1,000 series-years."""
        return 1000.0 * self.alarms / self.years


class Cell(Struct, frozen=True, kw_only=True):
    """A simulated step.

    :param sd: standard deviation of boots
    """

    noise: Noise
    sd: float
    change: float


class Detection(Struct, frozen=True, kw_only=True):
    """What a tool finds of a step.

    :param soon: share of series with an alarm within 14 nights, the first one of which counts as 1
    :param delay: median of the nights until the alarm; None if there is none
    :param near: share of the alarms that name the right night or a neighbour; None in the same case
    :param alarms: number of series with an alarm after the step, and none before
    """

    tool: str
    cell: Cell
    soon: float
    delay: float | None
    near: float | None
    alarms: int


class RealScore(Struct, frozen=True, kw_only=True):
    """Alarms of a tool in real series.

    :param points: nights with a level
    :param stray: alarms without a lasting change
    :param unjudged: alarms too close to an end of their series
    :param evident: number of evident steps
    :param found: number of those with an alarm within 30 nights
    :param delays: nights until these alarms
    :param near: number of these alarms that name the right night or a neighbour
    """

    points: int
    alarms: int
    stray: int
    unjudged: int
    evident: int
    found: int
    delays: tuple[int, ...]
    near: int

    @property
    def stray_rate(self) -> float:
        """Return stray alarms per 1,000 points."""
        return 1000.0 * self.stray / self.points

    @property
    def delay(self) -> float | None:
        """Return the median delay; None if no evident step was found."""
        return median(self.delays) if self.delays else None


def finders(*, packaged: bool) -> Mapping[str, Finder]:
    """Return the tools by name, this project's first.

    :param packaged: whether to include those of the other environment
    """
    own: dict[str, Finder] = {
        OURS: lambda series: [rules.watch(each) for each in series],
        "Perfherder's rule": lambda series: [[*rules.perfherder(values_of(s))] for s in series],
        "rustc's fence": lambda series: [[*rules.rustc_fence(values_of(s))] for s in series],
    }
    others = {tool: partial(_run_packaged, tool) for tool in TOOLS} if packaged else {}
    return {**own, **others}


def count_false_alarms(tool: str, noise: Noise, sd: float, years: int, seed: int) -> Quiet:
    """Return how many alarms a tool raises without a change."""
    series = math.ceil(years / YEARS)
    generator = np.random.default_rng(seed)
    levels = simulate(noise, series, YEARS * NIGHTS_PER_YEAR, sd, generator)
    found = finders(packaged=True)[tool](_as_series(levels, f"{noise} {sd} {seed}"))
    alarms = sum(map(len, found))
    return Quiet(tool=tool, noise=noise, sd=sd, alarms=alarms, years=series * YEARS)


def measure_detection(tool: str, cell: Cell, series: int, seed: int) -> Detection:
    """Return how soon a tool finds a step of this size, after 60 clean nights."""
    generator = np.random.default_rng(seed)
    clean = simulate(cell.noise, series, CLEAN_NIGHTS + STEP_NIGHTS, cell.sd, generator)
    stepped = _as_series(add_step(clean, cell.change), f"{cell} {seed}")
    first = [found[0] for found in finders(packaged=True)[tool](stepped) if found]
    alarms = [found for found in first if found.night >= CLEAN_NIGHTS]
    delays = [found.night - CLEAN_NIGHTS + 1 for found in alarms]
    near = sum(abs(found.place - CLEAN_NIGHTS) <= 1 for found in alarms)
    return Detection(
        tool=tool,
        cell=cell,
        soon=sum(delay <= SOON for delay in delays) / series,
        delay=median(delays) if delays else None,
        near=near / len(alarms) if alarms else None,
        alarms=len(alarms),
    )


def measure_histories(
    tool: str, histories: Sequence[tuple[str, WatchedSeries]]
) -> Mapping[str, RealScore]:
    """Return the score of a tool for each source of real series."""
    found = finders(packaged=True)[tool]([series for _, series in histories])
    scores: dict[str, RealScore] = {}
    for (source, series), alarms in zip(histories, found, strict=True):
        levels = levels_of(series)
        score = _score(levels, look_back(levels, is_log=series.scale.is_log), alarms)
        scores[source] = add_scores([scores[source], score] if source in scores else [score])
    return scores


def of_kind(scores: Mapping[str, RealScore], *kinds: Kind) -> RealScore:
    """Return the sum of the scores of some kinds of sources."""
    return add_scores([score for source, score in scores.items() if KINDS[source] in kinds])


def add_scores(scores: Sequence[RealScore]) -> RealScore:
    """Return the sum of scores."""

    def total(values: Iterable[int]) -> int:
        return sum(values)

    return RealScore(
        points=total(score.points for score in scores),
        alarms=total(score.alarms for score in scores),
        stray=total(score.stray for score in scores),
        unjudged=total(score.unjudged for score in scores),
        evident=total(score.evident for score in scores),
        found=total(score.found for score in scores),
        delays=tuple(delay for score in scores for delay in score.delays),
        near=total(score.near for score in scores),
    )


def _run_packaged(tool: str, series: Sequence[WatchedSeries]) -> list[list[Found]]:
    return run_packaged(tool, [values_of(each) for each in series])


def _as_series(levels: Floats, name: str) -> list[WatchedSeries]:
    return [
        rules.series_of(
            f"{name} {index}",
            [
                WatchedNight(order=order, value=math.exp(level), reference=1.0)
                for order, level in enumerate(row.tolist())
            ],
        )
        for index, row in enumerate(levels)
    ]


def _score(levels: Sequence[float], hindsight: Hindsight, alarms: Sequence[Found]) -> RealScore:
    judged = [is_stray(found, hindsight) for found in alarms]
    steps = list(evident_steps(levels, hindsight))
    hits = [
        (found.night - place + 1, abs(found.place - place) <= 1)
        for (place, _), found in zip(steps, detections(steps, alarms), strict=True)
        if found is not None
    ]
    return RealScore(
        points=len(levels),
        alarms=len(alarms),
        stray=sum(each is True for each in judged),
        unjudged=sum(each is None for each in judged),
        evident=len(steps),
        found=len(hits),
        delays=tuple(delay for delay, _ in hits),
        near=sum(is_near for _, is_near in hits),
    )
