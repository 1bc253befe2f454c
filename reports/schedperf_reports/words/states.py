# SPDX-License-Identifier: GPL-2.0-or-later
"""How much of a section changed, in one line: ``3 of 29 rows changed``."""

from msgspec import Struct


class Noted(Struct, frozen=True, kw_only=True):
    """A row that is worth a look.

    :param anchor: what stands behind the # of a link to it
    :param is_significant: False: its CI excludes no change, but not after the correction
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
    :param noun: what one of them is
    :param note: what limits it, in a few words; "" for nothing
    :param noted: rows that are worth a look, the largest changes first
    """

    changed: int | None
    total: int
    noun: str = "row"
    note: str = ""
    noted: tuple[Noted, ...] = ()

    @property
    def text(self) -> str:
        """Write it: ``3 of 29 rows changed``."""
        count = f"{self.total} {self.noun}{'' if self.total == 1 else 's'}"
        if self.changed is None:
            return f"{count}, significance unknown"
        return f"{self.changed} of {count} changed"
