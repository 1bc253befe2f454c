# SPDX-License-Identifier: GPL-2.0-or-later
"""Divide a series into baseline periods: nights that can be compared with each other.

A period ends where the conditions of the measurement change, unless the level of new / reference
shows that both kernels moved together. Another reference kernel goes on if both references were
compared in one night (the chain night). If the reference kernel alone moves, the level is another
one although the new kernel is the same.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct, structs

from schedperf.history.series import Conditions, Night, scale_of

Reason = Literal["environment", "parser", "workload", "reference", "serviced", "reference-step"]

# Nights after a change of conditions that show whether both kernels moved together.
NIGHTS_TO_COMPARE = 3


class Difference(Struct, frozen=True, kw_only=True):
    """One condition that changed.

    :param before: its last recorded value; None if the reason has no values
    :param after: its value from the night on, in the same cases
    """

    reason: Reason
    before: str | None
    after: str | None


class Change(Struct, frozen=True, kw_only=True):
    """A change of the conditions of a series.

    :param order: of the first night after it
    :param is_break: whether a baseline period begins; otherwise the one before goes on
    :param shift: of the level, from before to after; None if it was not measured, e.g. without a
        reference, or with few nights before
    :param reference_shift: of the reference, if it is a step of the reference or another one; None
        for other changes
    """

    order: int
    differences: tuple[Difference, ...]
    is_break: bool
    shift: float | None
    reference_shift: float | None = None


class Period(Struct, frozen=True, kw_only=True):
    """A baseline period.

    :param first: order of its first night
    :param last: order of its last night
    :param nights: how many of its nights have a level
    :param began: the change that began it; None for the first one
    """

    first: int
    last: int
    nights: int
    began: Change | None


def find_differences(before: Conditions, night: Night) -> tuple[Difference, ...]:
    """Return what a night has changed; a condition that is not recorded is unchanged.

    :param before: the last recorded conditions
    """
    changed = [
        Difference(reason=name, before=getattr(before, name), after=getattr(night.conditions, name))
        for name in _CONDITIONS
        if None not in (getattr(before, name), getattr(night.conditions, name))
        and getattr(before, name) != getattr(night.conditions, name)
    ]
    if night.is_serviced:
        changed.append(Difference(reason="serviced", before=None, after=None))
    return tuple(changed)


_CONDITIONS: tuple[Reason, ...] = ("environment", "parser", "workload", "reference")


def merge_conditions(before: Conditions, now: Conditions) -> Conditions:
    """Return the last recorded value of each condition."""
    recorded = {name: value for name, value in structs.asdict(now).items() if value is not None}
    return structs.replace(before, **recorded)


def divide(nights: Sequence[Night], changes: Iterable[Change]) -> tuple[Period, ...]:
    """Return the baseline periods of a series, oldest first.

    :param nights: oldest first
    :param changes: those that ``watch_series`` found
    """
    scale = scale_of(nights)
    begins = {change.order: change for change in changes if change.is_break}
    parts: list[tuple[Change | None, list[Night]]] = []
    for night in nights:
        if night.order in begins or not parts:
            parts.append((begins.get(night.order), []))
        parts[-1][1].append(night)
    return tuple(
        Period(
            first=part[0].order,
            last=part[-1].order,
            nights=sum(not scale.is_lost(night) for night in part),
            began=began,
        )
        for began, part in parts
    )
