# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows of the section energy as tests of reports need them."""

from typing import Any

from msgspec.structs import replace

from schedperf.evidence.energy.record import EnergyRow

_ROW = EnergyRow(
    row="new-0", side="new", workload="hackbench -g {groups}", point="groups=4",
    domain="package-0", kind="package", basis="operation", unit="J/message", n_base=5, n_new=5,
    replication="runs", base=0.00225, new=0.002538, ratio=1.128, ci_low=1.12, ci_high=1.136,
    p=0.001, q=0.002, changed=True, values_base=(), values_new=(),
)  # fmt: skip


def energy_row(**changes: Any) -> EnergyRow:
    """Return a row of package-0, whose energy per message rose by 12.8%."""
    return replace(_ROW, **changes)
