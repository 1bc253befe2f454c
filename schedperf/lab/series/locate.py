# SPDX-License-Identifier: GPL-2.0-or-later
"""Locate the commit of a series that changes a result, by a bisection that records few commits."""

from collections.abc import Callable, Sequence

from msgspec import Struct


class Located(Struct, frozen=True, kw_only=True):
    """The range of commits in which a change lies.

    :param before: index of the last commit without the change
    :param after: index of the first commit with it
    :param reason: why the range is not smaller; "" if the commits are neighbours
    """

    before: int
    after: int
    reason: str = ""


def locate(
    commits: int,
    record: Callable[[Sequence[int]], bool],
    change: Callable[[int, int], float],
) -> Located | None:
    """Bisect a series whose ends are recorded; return None if the ends do not differ.

    :param commits: number of commits in the series
    :param record: function that records the commits of three indices interleaved; it returns false
        if the middle one does not build or boot
    :param change: function that returns the size of the significant change between two recorded
        commits, 0.0 if there is none
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
    """Record the commit nearest to the middle that builds and boots; return its index.

    :return: None if no commit between the two does
    """
    centre = (low + high) // 2
    inside = sorted(range(low + 1, high), key=lambda index: (abs(index - centre), index))
    return next((index for index in inside if record((low, index, high))), None)
