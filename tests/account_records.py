# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows and points of the section account as tests of findings and reports need them."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from schedperf.evidence.account.record import (
    Account,
    AccountPoint,
    AccountRow,
    AccountSide,
    Contributed,
    DividedKind,
    DividedPoint,
    DividedRow,
    Kind,
    OtherLoad,
    OtherLoadRow,
    Part,
    PartChange,
    SampledWaiting,
    SubPart,
    SubPartChange,
)
from schedperf.model.counted import RateRow

_ROW = AccountRow(
    row="new-0", side="new", workload="hackbench -g {groups}", point="groups=4", kind="waiting",
    basis="operation", unit="s/message", n_base=5, n_new=5, replication="runs", base=40e-6,
    new=60e-6, ratio=1.5, ci_low=1.4, ci_high=1.6, p=0.001, q=0.002, changed=True, values_base=(),
    values_new=(),
)  # fmt: skip
_AT = {"side": "new", "workload": _ROW.workload, "point": _ROW.point}
# Times of base and new per message, of a recording that cannot tell exiting tasks.
TIMES: dict[Part, tuple[float, float]] = {
    "user": (5e-6, 5e-6),
    "system": (35e-6, 36e-6),
    "waiting": (40e-6, 60e-6),
    "blocked": (20e-6, 19e-6),
}


def account_row(kind: Kind = "waiting", **changes: Any) -> AccountRow:
    """Return a row of a kind, which rose from 40 us to 60 us per message."""
    return replace(_ROW, kind=kind, **changes)


def sampled_row(**changes: Any) -> SampledWaiting:
    """Return a lower bound that rose from 40 us to 60 us per message, of 90% of the CPU time."""
    rate = {name: getattr(_ROW, name) for name in RateRow.__struct_fields__}
    bound = SampledWaiting(
        **{**rate, "row": "sampled-new-0"}, coverage_base=0.89, coverage_new=0.91
    )
    return replace(bound, **changes)


def account_point(parts: Sequence[Part] = tuple(TIMES), **changes: Any) -> AccountPoint:
    """Return a point with these parts of ``TIMES``; the others were not measured."""
    whole = sum(TIMES[part][0] for part in parts)
    point = AccountPoint(
        **_AT,
        basis="operation",
        unit="s/message",
        n_base=5,
        n_new=5,
        replication="runs",
        all=_change(None, whole, sum(TIMES[part][1] for part in parts), whole),
        parts=tuple(_change(part, *TIMES[part], whole) for part in parts),
        missing=tuple(part for part in TIMES if part not in parts),
    )
    return replace(point, **changes)


def _change(part: Part | None, base: float, new: float, whole: float) -> PartChange:
    value = (new - base) / whole
    return PartChange(
        part=part, base=base, new=new, contribution=value, ci_low=value - 0.02,
        ci_high=value + 0.02,
    )  # fmt: skip


def divided_row(kind: DividedKind = "preempted", **changes: Any) -> DividedRow:
    """Return a row of a reason, of which tasks waited longer: 40 us -> 60 us per message."""
    fields = {name: getattr(_ROW, name) for name in _ROW.__struct_fields__}
    return DividedRow(**{**fields, "row": f"new-divided-{kind}", "kind": kind, **changes})


def divided_point(
    parts: Mapping[SubPart, float], missing: tuple[SubPart, ...] = (), **changes: Any
) -> DividedPoint:
    """Return a point of which reasons contribute these fractions; they have been 10 us before."""
    point = DividedPoint(
        **_AT, basis="operation", unit="s/message", n_base=3, n_new=3, replication="runs",
        parts=tuple(
            SubPartChange(
                part=part, base=10e-6, new=10e-6 + value * 100e-6, contribution=value,
                ci_low=value - 0.05, ci_high=value + 0.05,
            )
            for part, value in parts.items()
        ),
        missing=missing,
    )  # fmt: skip
    return replace(point, **changes)


def other_load(
    base: float, new: float, *used: tuple[str, float, float], **changes: Any
) -> dict[str, Any]:
    """Return fields of :class:`Account`: the CPU time of all others together, and of commands.

    :param base: CPU time of all together in s per second, as are the others
    :param used: command, time of base, and of new
    """
    at = {**_AT, **changes}
    rate = {name: getattr(_ROW, name) for name in RateRow.__struct_fields__}
    total = Contributed(
        base=base, new=new, contribution=new - base, ci_low=new - base, ci_high=new - base
    )
    row = OtherLoadRow(**{**rate, "row": "new-others-0", "basis": "time", **at}, of_busy=total)
    commands = tuple(
        OtherLoad(**at, command=command, base=of_base, new=of_new)
        for command, of_base, of_new in used
    )
    return {"others": commands, "other_load": (row,)}


def account_of(*rows: AccountRow, **changes: Any) -> Account:
    """Return the section with these rows and one point."""
    data = Account(
        sides=tuple(
            AccountSide(
                side=side, runs=5, kind="clean", measured=5, lost=0, left_out=0, unresolved=0
            )
            for side in ("base", "new")
        ),
        points=(account_point(),), rows=rows, sampled=(), others=(), notes=(),
    )  # fmt: skip
    return replace(data, **changes)
