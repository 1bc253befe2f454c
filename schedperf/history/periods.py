# SPDX-License-Identifier: GPL-2.0-or-later
"""Divide a series into baseline periods: nights that can be compared with each other.

A period ends where the conditions of the measurement change, unless the level of new / reference
shows that both kernels moved together. Another reference kernel goes on if both references were
compared in one night (the chain night). If the reference kernel alone moves, the level is another
one although the new kernel is the same.
"""

from typing import Literal

from msgspec import Struct, structs

from schedperf.history.series import Conditions, WatchedNight

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


def find_differences(before: Conditions, night: WatchedNight) -> tuple[Difference, ...]:
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
