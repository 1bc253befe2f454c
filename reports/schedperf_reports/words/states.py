# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe in one line how much of a section changed: ``3 of 29 rows changed``."""

from msgspec import Struct


class Noted(Struct, frozen=True, kw_only=True):
    """A row that a reader should look at.

    :param anchor: the part after the # of a link to it
    :param ratio: new / base
    :param is_significant: True if the change is significant after the multiple-testing correction;
        False if only its CI, which is not corrected, excludes a ratio of 1
    """

    name: str
    anchor: str
    ratio: float
    ci_low: float
    ci_high: float
    is_significant: bool


class State(Struct, frozen=True, kw_only=True):
    """How much of a section changed, in one line.

    :param changed: number of significant changes; None if significance is unknown
    :param total: number of rows that were compared
    :param noun: noun for one row
    :param note: a limitation in a few words; "" for none
    :param noted: rows that a reader should look at
    """

    changed: int | None
    total: int
    noun: str = "row"
    note: str = ""
    noted: tuple[Noted, ...] = ()

    @property
    def text(self) -> str:
        """Format the number of changes: ``3 of 29 rows changed``."""
        count = f"{self.total} {self.noun}{'' if self.total == 1 else 's'}"
        if self.changed is None:
            return f"{count}, significance unknown"
        return f"{self.changed} of {count} changed"
