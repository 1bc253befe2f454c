# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows of counted evidence as tests need them: all fields have a value that nothing depends on."""

from collections.abc import Hashable
from typing import Any

from msgspec.structs import replace

from schedperf.model.counted import RateRow


class NamedRow(RateRow, frozen=True, kw_only=True):
    """A row of some section.

    :param field: what it says of a distribution
    :param reason: why it must not be compared
    """

    name: str
    field: str
    reason: str | None

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """The name and field at the workload and point."""
        return self.side, self.workload, self.point, self.name, self.field

    @property
    def statistic(self) -> str:
        """The field."""
        return self.field

    @property
    def why_invalid(self) -> str | None:
        """The reason."""
        return self.reason


_ROW = NamedRow(
    row="new-0", side="new", workload="hackbench", point="", name="forks", field="count",
    basis="operation", unit="1/message", n_base=5, n_new=5, replication="runs", base=0.0001375,
    new=7.19e-05, ratio=0.5229, ci_low=0.4, ci_high=0.7, p=None, q=None, changed=None,
    values_base=(), values_new=(), reason=None,
)  # fmt: skip


def named_row(**changes: Any) -> NamedRow:
    """Return a row whose rate fell by half."""
    return replace(_ROW, **changes)
