# SPDX-License-Identifier: GPL-2.0-or-later
"""Determine which mechanism observed each part, and which parts are comparable.

Tracepoints fire for every event, so programs at BTF and at raw tracepoints count the same events.
perf reads the same tracepoints through buffers that may overflow; its counts are comparable with
those if no event was lost. Other combinations of mechanisms are not compared.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from schedperf.evidence.placement.capture import PlacementCapture, Program
from schedperf.evidence.placement.measure import Key
from schedperf.evidence.placement.record import PARTS, Part
from schedperf.inputs.kernel.renames import newest_function
from schedperf.model.run import SideOf

# Classes of mechanisms that count the same events.
_CLASSES: Mapping[str, str] = {
    "tp_btf": "tracepoint",
    "raw_tp": "tracepoint",
    "perf": "tracepoint",
    "fentry": "fentry/fexit",
    "fexit": "fentry/fexit",
    "kprobe": "kprobe/kretprobe",
    "kretprobe": "kprobe/kretprobe",
}

# By part: the functions and tracepoints (newest names), each of which observes it.
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
# Parts whose levels the collector names; the kernel names the levels of the load balancer.
MOVE_PARTS: tuple[Part, ...] = ("fork", "exec", "wakeup", "migration", "cause")
# These level names do not depend on the source of the names.
_SAME_LEVELS = ("", "CPU", "NUMA")
_SOURCES: Mapping[str | None, str] = {
    "domains": "scheduling domains",
    "topology": "the topology in /sys",
    None: "source not recorded",
}

# Largest acceptable share of lost events in a run; more would bias a rate by more than the smallest
# relevant change.
LARGEST_LOSS = 0.01


def _names(name: str, program: Program) -> set[str]:
    # If the kernel lacks the function, only the program's name is known.
    return {newest_function(function) for function in (program.function, name) if function}


def _is_there(capture: PlacementCapture, part: Part) -> bool:
    if part == "pinned":
        return None not in (capture.answers.attempts, capture.answers.migratable)
    if part in BALANCE_PARTS:
        return getattr(capture.answers, part) is not None
    if part == "cause":
        causes = [move.cause for move in capture.moves if move.event == "migration"]
        return not causes or any(causes)
    # Zero events are implausible, because tasks of every workload are scheduled.
    return bool(capture.depth) if part == "depth" else True


def mechanism_of(capture: PlacementCapture, part: Part) -> str | None:
    """Return the mechanism that observed a part of a run; None if not measured.

    It is "tracepoint", "fentry/fexit" or "kprobe/kretprobe"; several are joined by " + ". For
    causes of migrations it begins with "bpf" or "perf" and ends with the other attached programs.
    """
    seen = sorted(
        {
            _CLASSES.get(program.mechanism, program.mechanism)
            for name, program in capture.programs.items()
            if program.mechanism and _names(name, program) & _FUNCTIONS[part]
        }
    )
    if not seen or not _is_there(capture, part):
        return None
    if part == "cause":
        # With fewer programs, causes are derived by other rules.
        seen = [capture.mechanism, *seen]
        seen += sorted(
            f"{name} ({_CLASSES.get(program.mechanism, program.mechanism)})"
            for name, program in capture.programs.items()
            if program.mechanism and not _names(name, program) & _KNOWN
        )
    return " + ".join(seen)


class Unseen(NamedTuple):
    """Why a part was not measured.

    :param what: the function or tracepoint that could not be observed; None if none was tried
    """

    what: str | None
    reason: str

    def __str__(self) -> str:
        return self.reason if self.what is None else f"{self.what}: {self.reason}"


def why_unseen(capture: PlacementCapture, part: Part) -> Unseen:
    """Return why a part of a run was not measured."""
    mine = {
        name: program
        for name, program in capture.programs.items()
        if _names(name, program) & _FUNCTIONS[part]
    }
    for name, program in mine.items():
        if not program.mechanism and program.reason:
            return Unseen(program.function or name, program.reason)
    for hidden in capture.invisible:
        if part in _parts_of(hidden.what):
            return Unseen(None if hidden.what in (part, "balance") else hidden.what, hidden.reason)
    if part == "cause" and capture.mechanism == "perf":
        return Unseen(None, "perf cannot observe the cause of a migration")
    for note in capture.notes:
        if note.startswith(f"{part}: "):
            return Unseen(None, note.removeprefix(f"{part}: "))
    if mine:
        return Unseen(None, "the BPF programs counted no events")
    return Unseen(None, "no BPF program was attached")


def _parts_of(what: str) -> set[Part]:
    # The entry names a function, a part, or "balance" for the whole load balancer.
    if what == "balance":
        return set(BALANCE_PARTS)
    return {
        part
        for part, functions in _FUNCTIONS.items()
        if what == part or newest_function(what) in functions
    }


def invisible_elsewhere(capture: PlacementCapture) -> list[tuple[str, str]]:
    """Return what is not observable on the kernel and belongs to no part, with the reason."""
    return [
        (hidden.what, hidden.reason) for hidden in capture.invisible if not _parts_of(hidden.what)
    ]


def loss_of(capture: PlacementCapture) -> str | None:
    """Return why too many events of a run were lost for a comparison; None if comparable."""
    lost = sum(capture.lost.values())
    seen = sum(move.count for move in capture.moves)
    if capture.mechanism == "perf" and lost:
        return f"perf lost at least {lost} events"
    if lost > LARGEST_LOSS * (lost + seen):
        return f"{lost} of {lost + seen} events were lost"
    return None


def refusals(base: SideOf[PlacementCapture], new: SideOf[PlacementCapture]) -> dict[Part, str]:
    """Return the parts that cannot be compared, with the reason."""
    reasons = ((part, _why_not(base, new, part)) for part in PARTS)
    return {part: reason for part, reason in reasons if reason is not None}


def has_named_level(key: Key) -> bool:
    """Return whether a row has moves at a level whose name depends on the source."""
    return key.part in MOVE_PARTS and key.level not in _SAME_LEVELS


def why_levels_differ(base: SideOf[PlacementCapture], new: SideOf[PlacementCapture]) -> str | None:
    """Return why moves are not comparable by level; None if they are."""
    sources = [{run.content.levels_from for run in side.runs} for side in (base, new)]
    if len(sources[0] | sources[1]) == 1:
        return None
    ways = [
        f"{side.name}: {' or '.join(sorted(_SOURCES[source] for source in side_sources))}"
        for side, side_sources in zip((base, new), sources, strict=True)
    ]
    return (
        f"the names of the levels come from different sources ({', '.join(ways)}); "
        "record both sides with the same collectors"
    )


def _why_not(
    base: SideOf[PlacementCapture], new: SideOf[PlacementCapture], part: Part
) -> str | None:
    seen = [_mechanisms(side, part) for side in (base, new)]
    for side, mechanisms in zip((base, new), seen, strict=True):
        if not mechanisms:
            return f"not measured on {side.name}: {why_unseen(side.runs[0].content, part)}"
    if seen[0] != seen[1] or len(seen[0]) > 1:
        ways = [
            f"{side.name}: {' or '.join(sorted(names))}"
            for side, names in zip((base, new), seen, strict=True)
        ]
        return (
            f"observed by different mechanisms ({', '.join(ways)}); "
            "record both sides with the same mechanism"
        )
    return _why_lost((base, new))


def _mechanisms(side: SideOf[PlacementCapture], part: Part) -> set[str]:
    mechanisms = (mechanism_of(run.content, part) for run in side.runs)
    return {mechanism for mechanism in mechanisms if mechanism is not None}


def _why_lost(sides: Sequence[SideOf[PlacementCapture]]) -> str | None:
    for side in sides:
        for run in side.runs:
            reason = loss_of(run.content)
            if reason is not None:
                return f"{reason} on {side.name}, in run {run.key.run} of boot {run.key.boot}"
    return None
