# SPDX-License-Identifier: GPL-2.0-or-later
"""Define records of profiles: CPU shares of functions, in total and per NUMA node, and changes.

Shares are in percent, their changes in percentage points (pp).
"""

from collections.abc import Mapping
from statistics import fmean
from typing import Annotated, ClassVar, Literal

from msgspec import Struct, field

from schedperf.model.base_new import FIRST_NEW, BaseNew
from schedperf.model.perf_event import PerfEvent
from schedperf.model.sections import MissingSide, SectionData

# In percentage points of all CPUs: five times the binomial standard error (0.02 pp) of a function
# with 0.1% of 25,000 samples, i.e. of one run of 5 s on 5 CPUs at 1 kHz.
SMALLEST_CHANGE_PP = 0.1

Independent = Literal["runs", "boots"]
Measure = Literal["share", "operation"]
Clock = Literal["hrtimer", "pmu"]
# Levels that an event may exclude, as in perf_event_attr: exclude_user ...
Level = Literal["user", "kernel", "hv", "idle", "host", "guest"]
# Default of fields that are missing in records of older versions.
NOT_RECORDED_LEVELS: BaseNew[tuple[Level, ...]] = BaseNew(base=(), new=())
NOT_RECORDED: BaseNew[int | None] = BaseNew(base=None, new=None)
PartKind = Literal["node", "cpu", "comm"]

Share = Annotated[float, "per cent"]
Shares = Mapping[int, Share]
ShareRange = tuple[Share, Share]
# With more nodes than this, only the nodes with the largest and the smallest share are listed.
MOST_NODES = 4
NodeShares = Annotated[Shares, "share of non-idle CPU time per NUMA node, in percent"]
NodeRange = Annotated[
    ShareRange | None,
    "smallest and largest share over the NUMA nodes, in percent; null if the nodes are unknown",
]


class ProfileChange(Struct, frozen=True, kw_only=True):
    """Mean of each side and their difference."""

    base: Annotated[
        float, "mean over the runs of base: a share in percent, or a cost in `cost_unit`"
    ]
    new: Annotated[float, "mean over the runs of new, in the unit of `base`"]
    change: Annotated[float, "new - base, in the unit of `base`"]
    ci_low: Annotated[float | None, "lower bound of the 95% CI of the change; null if not computed"]
    ci_high: Annotated[
        float | None, "upper bound of the 95% CI of the change; null if not computed"
    ]


class ProfileTest(ProfileChange, frozen=True, kw_only=True):
    """A change that was tested together with the other rows of the point."""

    p: Annotated[float | None, "p-value before correction; null if not tested"]
    q: Annotated[
        float | None,
        "p-value after Benjamini-Hochberg correction over the tested rows of the same workload and "
        "parameters; null if not tested (idle time, rarely sampled code, kernel code if the event "
        "may not sample it)",
    ]


class CpuShares(Struct, frozen=True, kw_only=True):
    """How the time of a function is distributed over the CPUs of a side."""

    least: Share
    largest: Share
    cpus: Annotated[int, "number of CPUs with non-idle samples"]


CpuRange = Annotated[
    CpuShares | None,
    "smallest and largest share over the CPUs, each in percent of the non-idle time of that CPU; "
    "null if the CPUs are unknown",
]


class ProfileRow(Struct, frozen=True, kw_only=True):
    """One function."""

    row: Annotated[str, "id of the row; findings refer to it as profile#ROW"]
    symbol: Annotated[
        str,
        "function, as new's symbols name it, or base's if new has none; its compiler-made parts "
        "and copies (.cold, .isra.0) and the function of its former name are included",
    ]
    name: Annotated[
        str,
        "symbol as reports name it: with the file if several rows have the symbol, and "
        "(interrupts) for code in an interrupt or softirq",
    ]
    base_symbol: Annotated[
        str | None, "name of the function in base's kernel if it was renamed; null otherwise"
    ]
    dso: Annotated[
        str,
        "[kernel], a module in brackets, or a file name; followed by (interrupts) for code in an "
        "interrupt or softirq; (other tasks) for other load",
    ]
    class_: Annotated[str | None, "function class; null for idle time"] = field(name="class")
    scheduler: Annotated[bool, "true if the function is part of kernel/sched"]
    idle: Annotated[bool, "true if the function is part of the idle loop"]
    share: Annotated[ProfileTest, "share of total CPU time, idle included, in percent"]
    changed: Annotated[
        bool, "true if the share changed significantly (q < 0.05), by 0.1 pp or more"
    ]
    cost: Annotated[
        ProfileTest | None,
        "cost per operation, in `cost_unit`; null if a run did not report the number of operations",
    ]
    base_nodes: NodeShares
    base_range: NodeRange
    base_cpus: CpuRange
    new_nodes: NodeShares
    new_range: NodeRange
    new_cpus: CpuRange
    one_node: Annotated[
        int | None, "number of the NUMA node, if the share changed on one node only; null otherwise"
    ]

    @property
    def nodes(self) -> BaseNew[Shares]:
        """The shares by NUMA node on both sides."""
        return BaseNew(base=self.base_nodes, new=self.new_nodes)

    @property
    def cpus(self) -> BaseNew[CpuShares | None]:
        """The range of shares over CPUs on both sides."""
        return BaseNew(base=self.base_cpus, new=self.new_cpus)


def ends_of_nodes(shares: BaseNew[Shares]) -> tuple[int, int] | None:
    """Return the nodes with the largest and the smallest share, by the mean of base and new.

    None if no node is known on both sides.

    >>> ends_of_nodes(BaseNew(base={0: 13.0, 1: 20.0, 2: 2.0}, new={0: 8.0, 1: 12.0, 2: 3.0}))
    (1, 2)
    """
    means = {
        node: fmean((shares.base[node], shares.new[node]))
        for node in shares.base.keys() & shares.new.keys()
    }
    if not means:
        return None
    ranked = sorted(means, key=lambda node: (-means[node], node))
    return ranked[0], ranked[-1]


class MovedFunction(Struct, frozen=True, kw_only=True):
    """A function whose share changed in the direction of its class."""

    symbol: str
    name: Annotated[str, "symbol as reports name it, see `name` of the rows"]
    change: Annotated[float, "change in the share, in percentage points"]


class ProfileClassRow(Struct, frozen=True, kw_only=True):
    """All functions of one class."""

    row: Annotated[str, "id of the row; findings refer to it as profile#ROW"]
    class_: str = field(name="class")
    share: Annotated[ProfileTest, "share of total CPU time, idle included, in percent"]
    changed: Annotated[
        bool, "true if the share changed significantly (q < 0.05), by 0.1 pp or more"
    ]
    cost: Annotated[
        ProfileTest | None,
        "cost per operation, in `cost_unit`; null if a run did not report the number of operations",
    ]
    base_nodes: NodeShares
    base_range: NodeRange
    new_nodes: NodeShares
    new_range: NodeRange
    functions: Annotated[
        tuple[MovedFunction, ...],
        "functions of the class with the largest changes in the direction of the class total",
    ]

    @property
    def nodes(self) -> BaseNew[Shares]:
        """The shares by NUMA node on both sides."""
        return BaseNew(base=self.base_nodes, new=self.new_nodes)


class ExplainedChange(Struct, frozen=True, kw_only=True):
    """The fraction of the change of CPU time per operation that a few functions account for."""

    symbols: Annotated[
        tuple[str, ...], "functions that account for the change, largest change first"
    ]
    names: Annotated[tuple[str, ...], "`symbols` as reports name them, see `name` of the rows"]
    change: Annotated[float, "change in the summed cost of `symbols`, in `cost_unit`"]
    part: Annotated[
        float | None,
        "ratio of `change` to the change in the total cost without idle time and other load "
        "(1: the whole change); null if unknown",
    ]
    ci_low: Annotated[float | None, "lower bound of the 95% CI of `part` (Fieller)"]
    ci_high: Annotated[float | None, "upper bound of the 95% CI of `part`"]
    reason: Annotated[str | None, "reason why `part` is unknown; null if `part` is known"]


class OtherCommand(Struct, frozen=True, kw_only=True):
    """A command that is not the workload."""

    command: str
    share: Share


class OtherCommands(Struct, frozen=True, kw_only=True):
    """Samples of commands that are not the workload."""

    share: Annotated[
        float, "share of the event count, idle excluded, in percent; mean over the runs"
    ]
    commands: tuple[OtherCommand, ...]


# Commands that a sentence on other load names, and their smallest share of the busy time (percent).
MOST_NAMED_COMMANDS = 3
LEAST_NAMED_PERCENT = 0.5


def list_commands(others: BaseNew[OtherCommands | None]) -> list[str]:
    """Return the commands with the largest changes, with their shares of the busy time.

    A side has a "-" for a command that is not among its largest ones.

    >>> python = OtherCommands(share=31.0, commands=(OtherCommand(command="python3", share=31.0),))
    >>> list_commands(BaseNew(base=None, new=python))
    ['python3 - -> 31%']
    """
    base, new = (
        {each.command: each.share for each in side.commands} if side is not None else {}
        for side in others
    )
    names = [
        name
        for name in dict.fromkeys((*new, *base))
        if max(base.get(name, 0.0), new.get(name, 0.0)) >= LEAST_NAMED_PERCENT
    ]
    names.sort(key=lambda name: -abs(new.get(name, 0.0) - base.get(name, 0.0)))
    return [
        f"{name} {_whole_percent(base.get(name))} -> {_whole_percent(new.get(name))}"
        for name in names[:MOST_NAMED_COMMANDS]
    ]


def _whole_percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0f}%"


class ProfileOperations(Struct, frozen=True, kw_only=True):
    """Operations of the benchmark per run, mean of the runs."""

    unit: str
    exact: bool
    base: float
    new: float


class ProfilePoint(Struct, frozen=True, kw_only=True):
    """One event at one point of a workload."""

    workload: str
    point: str
    runs: BaseNew[int]
    independent: Annotated[Independent, "unit of replication"]
    took_turns: Annotated[bool, "false if drift may confound the comparison"]
    cautions: Annotated[tuple[str, ...], "caveats, one sentence each"]
    others: Annotated[
        BaseNew[OtherCommands | None],
        "other load: samples of tasks that do not belong to the workload, without interrupts and "
        "softirqs; null if the recordings do not tell which tasks are the workload's",
    ]
    samples: Annotated[BaseNew[int], "number of samples, all runs together"]
    lost: Annotated[
        BaseNew[int],
        "number of records lost by the kernel, of any type and event, all runs together",
    ]
    lost_samples: Annotated[
        BaseNew[int | None],
        "number of lost samples of the event, all runs together; null if a recording does not "
        "count them by event",
    ] = NOT_RECORDED
    throttled: Annotated[BaseNew[int], "number of times that the kernel throttled the event"]
    losses: Annotated[
        BaseNew[str | None],
        "`lost_samples`, `lost` and `throttled` as a sentence; null if all are 0",
    ]
    busy: Annotated[ProfileChange, "CPU utilization: non-idle share of total CPU time, in percent"]
    operations: ProfileOperations | None
    cost_unit: Annotated[
        str | None,
        "unit of the costs, e.g. ns per message; null if the number of operations is unknown",
    ]
    cost_reason: Annotated[
        str | None, "reason why costs per operation are unknown; null if they are known"
    ]
    busy_cost: ProfileChange | None
    rows: tuple[ProfileRow, ...]
    classes: tuple[ProfileClassRow, ...]
    explained: Annotated[
        ExplainedChange | None,
        "functions that account for the change in cost; null if no function changed significantly "
        "in the direction of the total",
    ]
    symbols: Annotated[int, "number of symbols with samples in base or new"]


class ProfileEvent(Struct, frozen=True, kw_only=True):
    """One event, which code it can sample, and the points at which it was sampled."""

    event: str
    perf_event: Annotated[
        BaseNew[PerfEvent],
        "event as passed to the kernel",
    ]
    unit: Annotated[str, "unit of the sample periods"]
    clock: Annotated[
        BaseNew[Clock | None],
        "trigger of a sample: a timer or the PMU; null for tracepoints and other software events",
    ]
    nmi: Annotated[
        BaseNew[bool | None],
        "true if the event also samples code that runs with interrupts off (NMI); null if unknown",
    ]
    precise: Annotated[
        BaseNew[int], "precise level of the event, 0 (arbitrary skid) to 3 (no skid)"
    ]
    emulated: Annotated[
        BaseNew[bool | None], "true if an emulator provides the counter; null if unknown"
    ]
    blind: Annotated[
        BaseNew[bool | None],
        "true if the event cannot sample code that runs with interrupts off; null if unknown",
    ]
    blind_reason: BaseNew[str]
    remedy: Annotated[
        str | None, "how to measure code with interrupts off; null if the event samples it"
    ]
    excluded: Annotated[
        BaseNew[tuple[Level, ...]],
        "privilege levels that the event does not count; code that runs at these levels has no "
        "samples",
    ] = NOT_RECORDED_LEVELS
    caveats: tuple[str, ...]
    points: tuple[ProfilePoint, ...]

    @property
    def sees_kernel(self) -> bool:
        """Whether both sides sample code that runs with interrupts off."""
        return all(blind is False for blind in self.blind)


class ProfileComparison(Struct, frozen=True, kw_only=True):
    """The profiles of one new side, compared with base."""

    side: str
    events: tuple[ProfileEvent, ...]
    notes: tuple[str, ...]


class Profile(SectionData, frozen=True, kw_only=True):
    """Which functions have a larger or smaller share of CPU time in new than in base."""

    section: ClassVar[str] = "profile"
    version: ClassVar[int] = 3
    table: ClassVar[str] = "comparisons.events.points.rows"
    collector: ClassVar[str] = "perf_profile"

    comparisons: tuple[ProfileComparison, ...]
    missing: tuple[MissingSide, ...]


def explained_anchor(side: str, event: "ProfileEvent", point: "ProfilePoint") -> str:
    """Return the evidence id of the part of a change that a few functions account for."""
    return _anchor(side, f"explained:{event.event}/{point.workload}/{point.point}")


def blind_anchor(side: str, event: "ProfileEvent") -> str:
    """Return the evidence id of the code that an event cannot sample."""
    return _anchor(side, f"blind:{event.event}")


def _anchor(side: str, what: str) -> str:
    # Ids of further new sides begin with the side, including ids without a row.
    return what if side == FIRST_NEW else f"{side}/{what}"
