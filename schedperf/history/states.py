# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the states of a step, from the first suspicion to its end, and which may follow."""

from collections.abc import Mapping
from typing import Literal, get_args

from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, list_some

StepState = Literal[
    "suspected",
    "not reproduced",
    "reproduced",
    "range known",
    "first bad known",
    "reported",
    "answered",
    "fixed",
    "accepted",
    "stale",
    "invalid",
]
STATES: tuple[StepState, ...] = get_args(StepState)

_ENDS: tuple[StepState, ...] = ("fixed", "accepted", "invalid", "stale")
_SEARCHED: tuple[StepState, ...] = ("range known", "first bad known", "reported")
# What is not a key is the end.
_NEXT: Mapping[str, tuple[StepState, ...]] = {
    "suspected": ("reproduced", "not reproduced", *_ENDS),
    "not reproduced": ("reproduced", "invalid"),
    "reproduced": (*_SEARCHED, *_ENDS),
    "range known": (*_SEARCHED[1:], *_ENDS),
    "first bad known": (*_SEARCHED[2:], *_ENDS),
    "reported": ("answered", *_ENDS),
    "answered": _ENDS,
    "stale": ("answered", "fixed", "accepted", "invalid"),
}


def is_open(state: str) -> bool:
    """Return whether anything is left to be done about a step in this state."""
    return state not in {*_ENDS, "not reproduced"}


def may_follow(before: str, after: StepState) -> bool:
    """Return whether a state may follow the one that a step has."""
    return after in _NEXT.get(before, ())


def check_next(step: str, before: str, after: StepState) -> None:
    """Check that a state may follow the one that a step has.

    :param step: its identity, for the message
    :raises InputError: it cannot follow
    """
    if not may_follow(before, after):
        allowed = _NEXT.get(before, ())
        expected = list_some(allowed, len(allowed)) or "none, because it is closed"
        raise InputError(
            f"step {clean_line(step)}: {after!r} cannot follow {clean_line(before)!r} (expected "
            f"{expected}); `schedperf history why` shows its decisions"
        )
