# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of one cache line on both sides, as tests change them."""

from typing import Any

from msgspec.structs import replace

from schedperf.evidence.c2c.record import (
    C2c,
    C2cAccess,
    C2cChange,
    C2cCommand,
    C2cComparison,
    C2cLineRow,
    C2cNode,
    C2cPoint,
    C2cSeen,
    C2cSymbol,
    C2cTotals,
)
from schedperf.model.base_new import BaseNew
from schedperf.model.perf_event import parse_event

CHANGE = C2cChange(
    samples=BaseNew(base=93, new=12),
    base=3.1,
    base_low=2.5,
    base_high=3.8,
    new=0.4,
    new_low=0.2,
    new_high=0.7,
    ratio=0.129,
    ratio_low=0.067,
    ratio_high=0.23,
    difference=-2.7,
    difference_low=-3.4,
    difference_high=-2.0,
    p=1e-9,
    q=2e-9,
    least_ratio=1.45,
    changed=True,
)
NOTHING = C2cChange(samples=BaseNew(base=0, new=0))
ACCESS = C2cAccess(
    offset=0,
    size=8,
    name="task_group.load_avg",
    grade="A",
    reads=93,
    writes=40,
    local=0,
    remote=93,
    readers="0-3,8",
    writers="1",
    nodes=(
        C2cNode(node=0, reads=90, writes=40, local=0, remote=90),
        C2cNode(node=1, reads=3, writes=0, local=0, remote=3),
    ),
    symbols=(
        C2cSymbol(symbol="update_cfs_group", samples=90, writes=0),
        C2cSymbol(symbol="update_load_avg", samples=43, writes=40),
        C2cSymbol(symbol="attach_entity_cfs_rq", samples=2, writes=2),
    ),
    commands=(
        C2cCommand(command="hackbench", samples=130),
        C2cCommand(command="kworker/0:1", samples=2),
        C2cCommand(command="swapper", samples=1),
    ),
)
UNNAMED = replace(ACCESS, offset=8, size=None, name=None, grade=None, writes=0, writers="")
SEEN = C2cSeen(
    key="task_group+0x100",
    copies=1,
    stores=40,
    records=226,
    loads=186,
    double_counted=93,
    sharing="true",
    false_share=0.0,
    accesses=(ACCESS, UNNAMED),
)
LINE = C2cLineRow(
    row="task_group.load_avg",
    name="task_group.load_avg",
    names=("task_group.load_avg",),
    unmatched=None,
    remote=CHANGE,
    local=NOTHING,
    base=SEEN,
    new=replace(SEEN, sharing="false", key="task_group+0x140"),
)
POINT = C2cPoint(
    workload="hackbench -g {groups}",
    point="groups=4",
    runs=BaseNew(base=3, new=4),
    observable=BaseNew(base="hitm", new="hitm"),
    events=BaseNew(base=("cpu/mem-loads/P",), new=("cpu/mem-loads/P",)),
    perf_events=BaseNew(
        base=(parse_event("cpu/mem-loads/P"),), new=(parse_event("cpu/mem-loads/P"),)
    ),
    period=BaseNew(base=1000, new=1000),
    store_period=BaseNew(base=1000, new=1000),
    ldlat=BaseNew(base=30, new=30),
    line_bytes=BaseNew(base=64, new=64),
    samples=BaseNew(base=1000, new=2000),
    reason=None,
    unit="message",
    per=1000,
    model="negative binomial",
    phi=0.04,
    replication="runs",
    least_ratio=1.45,
    totals=C2cTotals(remote=CHANGE, local=NOTHING, stores=NOTHING),
    lines=(LINE,),
    seen=5,
    seen_unmatched=BaseNew(base=0, new=0),
    notes=("base: who wrote a line cannot be seen", "new: who wrote a line cannot be seen"),
)


def with_point(**point: Any) -> C2c:
    """Return the section with its only point, of which some facts are others."""
    compared = C2cComparison(side="new", points=(replace(POINT, **point),), notes=())
    return C2c(comparisons=(compared,), missing=())


DATA = with_point()


def unmatched(side: str, number: int) -> C2cLineRow:
    """Return a line that one side alone has and that cannot be found again on the other."""
    is_of_base = side == "base"
    samples = BaseNew(base=7 if is_of_base else None, new=None if is_of_base else 7)
    change = C2cChange(samples=samples)
    return replace(
        LINE,
        row=f"0xffff88800000{number:02x}00",
        name=None,
        unmatched="addresses differ between boots",
        remote=change,
        local=change,
        base=LINE.base if is_of_base else None,
        new=None if is_of_base else LINE.new,
    )
