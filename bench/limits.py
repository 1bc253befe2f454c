# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare what was measured with the limits that it must keep."""

from collections.abc import Iterator, Sequence

from msgspec import Struct


class Check(Struct, frozen=True, kw_only=True):
    """One limit.

    :param value: in the unit of ``limit``
    :param is_upper: whether ``limit`` is the largest allowed value; otherwise the smallest
    """

    name: str
    value: float
    limit: float
    is_upper: bool = True

    @property
    def is_kept(self) -> bool:
        """Return whether the value is within the limit."""
        return self.value <= self.limit if self.is_upper else self.value >= self.limit


def check_lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yield a line per limit."""
    for check in checks:
        result = "kept" if check.is_kept else "NOT KEPT"
        sign = "<=" if check.is_upper else ">="
        yield f"{check.name:<62} {check.value:>7.4g} {sign} {check.limit:<5g} {result}"
