# SPDX-License-Identifier: GPL-2.0-or-later
"""Which program saw what, on each side, and whether two sides can be compared.

A tracepoint fires for every event, so programs on BTF and on raw tracepoints count the same.
perf reads the same tracepoints through buffers that may overflow: it counts the same only where
nothing was lost. Any other two mechanisms are not compared.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from schedperf.evidence.placement.capture import PlacementCapture, Program
from schedperf.evidence.placement.measure import Key
from schedperf.evidence.placement.record import PARTS, Part
from schedperf.kernel.renames import newest_function
from schedperf.model.run import SideOf

# Mechanisms that count alike. A probe that is alone is one of a pair.
_CLASSES: Mapping[str, str] = {
    "tp_btf": "tracepoint",
    "raw_tp": "tracepoint",
    "perf": "tracepoint",
    "fentry": "fentry/fexit",
    "fexit": "fentry/fexit",
    "kprobe": "kprobe/kretprobe",
    "kretprobe": "kprobe/kretprobe",
}

# Newest names of the functions and tracepoints, any of which shows a part.
_FUNCTIONS: Mapping[Part, frozenset[str]] = {
    "fork": frozenset(("sched_wakeup_new", "sched_process_fork")),
    "exec": frozenset(("sched_process_exec",)),
    "wakeup": frozenset(("sched_wakeup", "sched_waking")),
    "migration": frozenset(("sched_migrate_task",)),
    "cause": frozenset(("sched_migrate_task",)),
    "latency": frozenset(("sched_switch",)),
    "depth": frozenset(("sched_switch",)),
    "destination": frozenset(("sched_balance_find_dst_group",)),
    "source": frozenset(("sched_balance_find_src_group",)),
    "attempts": frozenset(("sched_balance_rq",)),
    "migratable": frozenset(("can_migrate_task",)),
    "pinned": frozenset(("sched_balance_rq", "can_migrate_task")),
    "group_imbalance": frozenset(("sched_balance_rq",)),
    "timers": frozenset(("hrtimer_expire_entry", "sched_cfs_period_timer")),
}
BALANCE_PARTS: tuple[Part, ...] = (
    "destination", "source", "attempts", "pinned", "migratable", "group_imbalance",
)  # fmt: skip
_KNOWN = frozenset[str]().union(*_FUNCTIONS.values())
# Their levels are named by the collector, and those of the balancer by the kernel.
MOVE_PARTS: tuple[Part, ...] = ("fork", "exec", "wakeup", "migration", "cause")
# The same CPU and another node are called so, whatever names what is between.
_SAME_LEVELS = ("", "CPU", "NUMA")
_SOURCES: Mapping[str | None, str] = {
    "domains": "the scheduler's domains",
    "topology": "the topology in /sys",
    None: "what its captures do not record",
}

# Of all moves that programs saw, in a run: more losses would bias a rate by more than a change
# that is worth a look.
LARGEST_LOSS = 0.01


def _names(name: str, program: Program) -> set[str]:
    # A program whose function this kernel lacks is known by its own name alone.
    return {newest_function(known) for known in (program.function, name) if known}


def _is_there(found: PlacementCapture, part: Part) -> bool:
    if part == "pinned":
        return None not in (found.answers.attempts, found.answers.migratable)
    if part in BALANCE_PARTS:
        return getattr(found.answers, part) is not None
    if part == "cause":
        causes = [move.cause for move in found.moves if move.event == "migration"]
        return not causes or any(causes)
    # A workload's tasks get CPUs, whatever else they do.
    return bool(found.depth) if part == "depth" else True


def mechanism_of(found: PlacementCapture, part: Part) -> str | None:
    """Return how a part of a run was seen; None where it was not."""
    seen = sorted(
        {
            _CLASSES.get(program.mechanism, program.mechanism)
            for name, program in found.programs.items()
            if program.mechanism and _names(name, program) & _FUNCTIONS[part]
        }
    )
    if not seen or not _is_there(found, part):
        return None
    if part == "cause":
        # What is told from fewer signs is told by other rules.
        seen = [f"rules of {found.mechanism}", *seen]
        seen += sorted(
            f"{name} ({_CLASSES.get(program.mechanism, program.mechanism)})"
            for name, program in found.programs.items()
            if program.mechanism and not _names(name, program) & _KNOWN
        )
    return " and ".join(seen)


class Unseen(NamedTuple):
    """Why a part was not seen.

    :param what: the function or tracepoint that could not be observed; None where none was tried
    """

    what: str | None
    reason: str

    def __str__(self) -> str:
        return self.reason if self.what is None else f"{self.what}: {self.reason}"


def why_unseen(found: PlacementCapture, part: Part) -> Unseen:
    """Say why a part of a run was not seen."""
    mine = {
        name: program
        for name, program in found.programs.items()
        if _names(name, program) & _FUNCTIONS[part]
    }
    for name, program in mine.items():
        if not program.mechanism and program.reason:
            return Unseen(program.function or name, program.reason)
    for one in found.invisible:
        if part in _parts_of(one.what):
            return Unseen(None if one.what in (part, "balance") else one.what, one.reason)
    if part == "cause" and found.mechanism == "perf":
        return Unseen(None, "perf cannot observe what moves a task")
    for note in found.notes:
        if note.startswith(f"{part}: "):
            return Unseen(None, note.removeprefix(f"{part}: "))
    if mine:
        return Unseen(None, "its programs counted nothing")
    return Unseen(None, "no program that observes it was attached")


def _parts_of(what: str) -> set[Part]:
    # What is invisible may be named by its function, by its part, or be all of the balancer.
    if what == "balance":
        return set(BALANCE_PARTS)
    return {
        part
        for part, functions in _FUNCTIONS.items()
        if what == part or newest_function(what) in functions
    }


def invisible_elsewhere(found: PlacementCapture) -> list[tuple[str, str]]:
    """Return what else is invisible on a kernel: functions that show no part, with the reason."""
    return [(one.what, one.reason) for one in found.invisible if not _parts_of(one.what)]


def loss_of(found: PlacementCapture) -> str | None:
    """Say why a run's counts are too low to be compared; None where they are not."""
    lost = sum(found.lost.values())
    seen = sum(move.count for move in found.moves)
    if found.mechanism == "perf" and lost:
        return f"perf lost {lost} events or more"
    if lost > LARGEST_LOSS * (lost + seen):
        return f"{lost} of {lost + seen} events were lost"
    return None


def refusals(base: SideOf[PlacementCapture], new: SideOf[PlacementCapture]) -> dict[Part, str]:
    """Return the parts that cannot be compared, with the reason."""
    found = ((part, _why_not(base, new, part)) for part in PARTS)
    return {part: reason for part, reason in found if reason is not None}


def has_named_level(key: Key) -> bool:
    """Say whether a number is of moves at a level whose name depends on what names the levels."""
    return key.part in MOVE_PARTS and key.level not in _SAME_LEVELS


def why_levels_differ(base: SideOf[PlacementCapture], new: SideOf[PlacementCapture]) -> str | None:
    """Say why moves cannot be compared level by level; None where they can."""
    sources = [{run.content.levels_from for run in side.runs} for side in (base, new)]
    if len(sources[0] | sources[1]) == 1:
        return None
    ways = [
        f"{side.name} by {' or '.join(sorted(_SOURCES[one] for one in found))}"
        for side, found in zip((base, new), sources, strict=True)
    ]
    return f"levels of migrations have different names: {', '.join(ways)}; record both alike"


def _why_not(
    base: SideOf[PlacementCapture], new: SideOf[PlacementCapture], part: Part
) -> str | None:
    seen = [_mechanisms(side, part) for side in (base, new)]
    for side, mechanisms in zip((base, new), seen, strict=True):
        if not mechanisms:
            return f"not measured on {side.name}: {why_unseen(side.runs[0].content, part)}"
    if seen[0] != seen[1] or len(seen[0]) > 1:
        ways = [
            f"{side.name} by {' or '.join(sorted(one))}"
            for side, one in zip((base, new), seen, strict=True)
        ]
        return f"observed by different mechanisms: {', '.join(ways)}; record both alike"
    return _why_lost((base, new))


def _mechanisms(side: SideOf[PlacementCapture], part: Part) -> set[str]:
    found = (mechanism_of(run.content, part) for run in side.runs)
    return {one for one in found if one is not None}


def _why_lost(sides: Sequence[SideOf[PlacementCapture]]) -> str | None:
    for side in sides:
        for run in side.runs:
            reason = loss_of(run.content)
            if reason is not None:
                return f"{side.name}: {reason} in run {run.key.run} of boot {run.key.boot}"
    return None
