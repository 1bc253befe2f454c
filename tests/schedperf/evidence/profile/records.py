# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of what the comparison of profiles found, each a function with usual values."""

from typing import Any

from msgspec.structs import replace

from schedperf.evidence.profile.record import (
    CpuShares,
    ExplainedChange,
    MovedFunction,
    OtherCommand,
    OtherCommands,
    Profile,
    ProfileChange,
    ProfileClassRow,
    ProfileComparison,
    ProfileEvent,
    ProfileOperations,
    ProfilePoint,
    ProfileRow,
    ProfileTest,
)
from schedperf.model.base_new import BaseNew
from schedperf.model.perf_event import parse_event
from schedperf.model.sections import Section

SHARE = ProfileTest(base=8.5, new=16.25, change=7.75, ci_low=7.0, ci_high=8.5, p=0.001, q=0.004)
COST = ProfileTest(
    base=850.0, new=1700.0, change=850.0, ci_low=800.0, ci_high=900.0, p=0.001, q=0.004
)
UNKNOWN: dict[str, Any] = dict.fromkeys(("ci_low", "ci_high", "p", "q"))
CPUS = CpuShares(least=6.5, largest=21.0, cpus=192)


def make_row(symbol: str = "update_cfs_group", **chosen: Any) -> ProfileRow:
    """Return a function of the scheduler that changed, on two nodes."""
    row = ProfileRow(
        row=symbol,
        symbol=symbol,
        name=symbol,
        base_symbol=None,
        dso="[kernel]",
        class_="PELT",
        scheduler=True,
        idle=False,
        share=SHARE,
        changed=True,
        cost=COST,
        base_nodes={0: 7.73, 1: 13.15},
        base_range=(7.73, 13.15),
        base_cpus=CPUS,
        new_nodes={0: 12.68, 1: 20.22},
        new_range=(12.68, 20.22),
        new_cpus=CPUS,
        one_node=None,
    )
    return replace(row, **chosen)


def make_idle_row() -> ProfileRow:
    """Return the function in which the idle task waits, seen on one node of base alone."""
    return make_row(
        "default_idle",
        class_=None,
        scheduler=False,
        idle=True,
        share=replace(SHARE, **UNKNOWN),
        cost=replace(COST, **UNKNOWN),
        changed=False,
        base_nodes={0: 0.0},
        base_range=(0.0, 0.0),
        base_cpus=None,
        new_nodes={},
        new_range=None,
        new_cpus=None,
    )


def make_class_row(**chosen: Any) -> ProfileClassRow:
    """Return a class of functions that changed."""
    row = ProfileClassRow(
        row="class:PELT",
        class_="PELT",
        share=SHARE,
        changed=True,
        cost=COST,
        base_nodes={0: 7.73, 1: 13.15},
        base_range=(7.73, 13.15),
        new_nodes={0: 12.68, 1: 20.22},
        new_range=(12.68, 20.22),
        functions=(MovedFunction(symbol="update_cfs_group", name="update_cfs_group", change=7.75),),
    )
    return replace(row, **chosen)


def make_explained(**chosen: Any) -> ExplainedChange:
    """Return three functions that are most of a change."""
    explained = ExplainedChange(
        symbols=("update_cfs_group", "update_load_avg", "reweight_entity"),
        names=("update_cfs_group", "update_load_avg", "reweight_entity"),
        change=1200.0,
        part=0.71,
        ci_low=0.6,
        ci_high=0.83,
        reason=None,
    )
    return replace(explained, **chosen)


def make_others(share: float, command: str = "cc1") -> OtherCommands:
    """Return one other command."""
    return OtherCommands(share=share, commands=(OtherCommand(command=command, share=share),))


def make_point(**chosen: Any) -> ProfilePoint:
    """Return a point with a function that changed, idle time, and a class."""
    point = ProfilePoint(
        workload="hackbench -g {groups}",
        point="groups=4",
        runs=BaseNew(base=5, new=6),
        independent="runs",
        took_turns=True,
        cautions=(),
        others=BaseNew(base=make_others(1.0, "perf"), new=None),
        samples=BaseNew(base=1000, new=2000),
        lost=BaseNew(base=0, new=0),
        throttled=BaseNew(base=0, new=0),
        losses=BaseNew(base=None, new=None),
        busy=ProfileChange(base=87.66, new=99.5, change=11.84, ci_low=11.0, ci_high=12.5),
        operations=ProfileOperations(unit="message", exact=True, base=40e3, new=40e3),
        cost_unit="ns per message",
        cost_reason=None,
        busy_cost=ProfileChange(base=10e3, new=12e3, change=2e3, ci_low=1.9e3, ci_high=2.1e3),
        rows=(make_row(), make_idle_row()),
        classes=(make_class_row(),),
        explained=make_explained(),
        symbols=7,
    )
    return replace(point, **chosen)


def make_event(*points: ProfilePoint, **chosen: Any) -> ProfileEvent:
    """Return an event that sees code that runs with interrupts off; one point unless chosen."""
    event = ProfileEvent(
        event="cycles",
        perf_event=BaseNew(base=parse_event("cycles:P"), new=parse_event("cycles:P")),
        unit="cycles",
        clock=BaseNew(base="pmu", new="pmu"),
        nmi=BaseNew(base=True, new=True),
        precise=BaseNew(base=0, new=0),
        emulated=BaseNew(base=False, new=False),
        blind=BaseNew(base=False, new=False),
        blind_reason=BaseNew(base="NMI", new="NMI"),
        remedy=None,
        caveats=(),
        points=points or (make_point(),),
    )
    return replace(event, **chosen)


def make_compared(*events: ProfileEvent, **chosen: Any) -> ProfileComparison:
    """Return one side against base; one event unless chosen."""
    compared = ProfileComparison(
        side="new", events=events or (make_event(),), notes=("base: the copy is partial",)
    )
    return replace(compared, **chosen)


def make_profile(*events: ProfileEvent, **compared: Any) -> Profile:
    """Return the record of one new side."""
    return Profile(comparisons=(make_compared(*events, **compared),), missing=())


def with_event(**chosen: Any) -> Profile:
    """Return the record of one new side with something else in its event."""
    return make_profile(make_event(**chosen))


def with_point(**chosen: Any) -> Profile:
    """Return the record of one new side with something else in its point."""
    return with_event(points=(make_point(**chosen),))


def profile_section(*events: ProfileEvent, **compared: Any) -> Section:
    """Return the same as a section of a comparison."""
    data = make_profile(*events, **compared)
    return Section.of(data)
