# SPDX-License-Identifier: GPL-2.0-or-later
"""Format the levels, changes and commits of a bisection."""

from schedperf.lab.bisect.changes import Change
from schedperf.lab.bisect.tested import BootedCommit, Level
from schedperf.model.units import MISSING, format_number
from schedperf_reports.words.quantities import format_change, format_interval
from schedperf_reports.words.rows import count_of

# Smaller probabilities would be printed as 0.
LEAST_SHOWN = 0.0005
# Boots of one kernel differ by as little as 0.1%.
_DIGITS = 5
# Values between these have decimals, as many for all of one size.
_WITH_DECIMALS = (1e-4, 1e4)


def format_value(value: float) -> str:
    """Format a result of the benchmark, whose unit is unknown.

    >>> format_value(99.9), format_value(2117400.22)
    ('99.900', '2117400')
    """
    if _WITH_DECIMALS[0] <= value < _WITH_DECIMALS[1]:
        return f"{value:#.{_DIGITS}g}".rstrip(".")
    return format_number(value, _DIGITS)


def format_level_interval(level: Level | None) -> str:
    """Format the 95% CI of a level: ``[98.31, 100.85]``; "-" without one."""
    if level is None or level.ci_low is None or level.ci_high is None:
        return MISSING
    return f"[{format_value(level.ci_low)}, {format_value(level.ci_high)}]"


def describe_level(level: Level) -> str:
    """Describe a level with its 95% CI, if it has one: ``99.573 [98.31, 100.85]``."""
    interval = format_level_interval(level)
    return format_value(level.mean) + f" {interval}" * (interval != MISSING)


def describe_change(change: Change) -> str:
    """Describe a change with its 95% CI: ``-7.6% [-8.3%, -6.9%]``."""
    return f"{format_change(change.ratio)} {format_interval(change.ci_low, change.ci_high)}"


def format_probability(probability: float | None) -> str:
    """Format the probability of a commit: ``0.993``; "-" if it was not computed."""
    return MISSING if probability is None else f"{probability:.3f}"


def describe_tested(tested: BootedCommit) -> str:
    """Describe level, change from good and probability of a commit, as far as they are known."""
    facts = []
    if tested.level is not None:
        facts.append(f"level {describe_level(tested.level)}")
    if tested.change is not None:
        facts.append(f"{describe_change(tested.change)} from good")
    if tested.probability is not None:
        facts.append(f"probability {format_probability(tested.probability)}")
    return ", ".join((*facts, count_of(len(tested.boots), "boot")))
