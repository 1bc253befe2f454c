# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe baseline periods and steps of a series in words."""

from collections.abc import Mapping

from schedperf.history.periods import Change, Difference, Reason
from schedperf.history.questions.records import Series, Step
from schedperf.model.text import clean_line
from schedperf.model.units import interval_of, signed

# Digits of a hash.
HASH_DIGITS = 12
REASONS: Mapping[Reason, str] = {
    "environment": "other settings of the machine",
    "parser": "another version of the parser",
    "workload": "other programs of the workload",
    "reference": "another reference kernel",
    "serviced": "the machine was serviced",
    "reference-step": "a step of the reference kernel",
}


def describe_series(series: Series) -> str:
    """Return workload, result, unit, direction, machine and tree of a series."""
    unit = f" in {series.unit}" if series.unit else ""
    better = f", {series.better} is better" if series.better in {"higher", "lower"} else ""
    where = [f"machine {series.machine_class}"] if series.machine_class else []
    where += [f"tree {series.tree}"] if series.tree else []
    return clean_line("; ".join((f"{series.workload}: {series.name}{unit}{better}", *where)))


def describe_change(change: Change) -> str:
    """Return what has changed, and whether a baseline period begins."""
    reasons = ", ".join(map(_describe_difference, change.differences))
    word = "begins" if change.is_break else "goes on"
    return clean_line(f"a baseline period {word}: {reasons}")


def describe_step(step: Step) -> str:
    """Return direction, change, interval and state of a step."""
    parts: list[str] = [step.direction]
    if step.change is not None:
        parts.append(signed(step.change))
    if step.ci_low is not None and step.ci_high is not None:
        parts[-1] += f" {interval_of(step.ci_low, step.ci_high)}"
    return clean_line(", ".join((*parts, step.state)))


def _describe_difference(difference: Difference) -> str:
    words = REASONS[difference.reason]
    # The other values are hashes.
    if difference.reason in {"parser", "reference"} and difference.before and difference.after:
        before, after = (each[:HASH_DIGITS] for each in (difference.before, difference.after))
        return f"{words} ({before} to {after})"
    return words
