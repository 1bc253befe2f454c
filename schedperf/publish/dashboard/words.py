# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe changes and sizes of a series in a few words."""

from schedperf.history.questions.levels import LevelChange
from schedperf.history.questions.recent import NightResult, Recent
from schedperf.model.units import format_number, interval_of, percent, scale_for, signed

MISSING = "-"


def describe_size(size: float, recent: Recent) -> str:
    """Return a size without its sign: a percentage, or a number with its unit."""
    if recent.is_log:
        return percent(size)
    scale = scale_for(recent.series.unit, size)
    return f"{scale.format(size)} {scale.unit}".strip()


def describe_change_of(recent: Recent, night: NightResult) -> str:
    """Return the change of a night: "+6.5%", or a value with its unit; "-" for a lost one."""
    if night.change is None:
        return MISSING
    if recent.is_paired and recent.is_log:
        return signed(night.change)
    scale = scale_for(recent.series.unit, night.change)
    value = scale.format_change(night.change) if recent.is_paired else scale.format(night.change)
    return f"{value} {scale.unit}".strip()


def describe_level(change: LevelChange) -> tuple[str, str]:
    """Return a change and its 95% CI: "+6.5%" and "[+5.6%, +7.4%]"; "-" and "" if it is unknown."""
    if change.change is None:
        return MISSING, ""
    if not change.is_log:
        return format_number(change.change), ""
    if change.ci_low is None or change.ci_high is None:
        return signed(change.change), ""
    return signed(change.change), interval_of(change.ci_low, change.ci_high)
