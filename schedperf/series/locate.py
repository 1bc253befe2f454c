# SPDX-License-Identifier: GPL-2.0-or-later
"""Locate between which two commits a result changes, recording as few commits as possible."""

from collections.abc import Callable, Sequence

from msgspec import Struct


class Located(Struct, frozen=True, kw_only=True):
    """Where a change lies.

    :param before: index of the last commit without the change
    :param after: index of the first commit with it
    :param reason: why it is not located more closely; "" if the commits are neighbours
    """

    before: int
    after: int
    reason: str = ""


def locate(
    commits: int,
    record: Callable[[Sequence[int]], bool],
    change: Callable[[int, int], float],
) -> Located | None:
    """Bisect a series whose ends are recorded; None if they do not differ.

    :param record: records commits interleaved; false if the middle one does not build or boot
    :param change: size of the significant change between two recorded commits, 0.0 if there is none
    """
    low, high = 0, commits - 1
    if not change(low, high):
        return None
    while high - low > 1:
        middle = _record_between(low, high, record)
        if middle is None:
            return Located(before=low, after=high, reason="no commit between them builds and boots")
        first, second = change(low, middle), change(middle, high)
        if not first and not second:
            return Located(
                before=low, after=high, reason="the change is not significant in either half"
            )
        # If both halves changed, the larger change is followed.
        low, high = (low, middle) if first >= second else (middle, high)
    return Located(before=low, after=high)


def _record_between(low: int, high: int, record: Callable[[Sequence[int]], bool]) -> int | None:
    """Record the commit nearest to the middle that builds and boots; return its index."""
    centre = (low + high) // 2
    inside = sorted(range(low + 1, high), key=lambda index: (abs(index - centre), index))
    return next((index for index in inside if record((low, index, high))), None)
