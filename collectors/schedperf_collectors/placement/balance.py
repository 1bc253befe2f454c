# SPDX-License-Identifier: GPL-2.0-or-later
"""Count the load balancer's decisions with the programs of ``balance.bpf.c``.

Four functions of ``kernel/sched/fair.c`` are probed: at their exits by fexit if the kernel
supports it (load_balance() also at its entry, by fentry), otherwise at entry and exit by kprobes. A
function that the compiler inlined or cloned with other arguments cannot be probed and is listed
under "invisible".
"""

from __future__ import annotations

import contextlib
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Callable

from schedperf_collectors.bpf.libbpf import (
    BpfObject,
    Candidate,
    Loaded,
    NothingWorks,
    Programs,
    load_what_works,
)
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.bpf.probes import group_refusals
from schedperf_collectors.contract import SYMBOLS_LIMIT_BYTES, Unavailable
from schedperf_collectors.machine.btf import function_arguments
from schedperf_collectors.machine.kernel_files import KernelFunctions, find_functions
from schedperf_collectors.machine.system import System
from schedperf_collectors.placement.machine import Machine

FIRST_KEY = struct.pack("=I", 0)
# The mechanisms at entry and exit. fexit also receives the arguments, so only an attempt, which
# collects the events inside it, needs a program at its entry.
PAIRS = (("fentry", "fexit"), ("kprobe", "kretprobe"))
SIDES = ("enter", "leave")
WITH_ENTRY = "attempt"
# A kernel usually has at most six levels (SMT, CLS, MC, PKG, two of NUMA); machines with more NUMA
# distances have a few more.
LEVELS = 10
# Size limit of the table of counts, which stores every count once per possible CPU.
COUNTS_LIMIT_BYTES = 32 << 20
LEAST_ENTRIES = 256

# What "some_pinned" of tasks means if the start of an attempt is not probed.
UNKNOWN_SETTER = (
    "calls that found LBF_SOME_PINNED already set are counted as if they had set it, because "
    "load-balancing attempts are not probed"
)

Blind = dict[str, str]


# Functions that also decide, but are not probed: static, with one caller, and therefore inlined.
INLINED = (("sched_balance_find_dst_cpu", "find_idlest_cpu"), ("detach_tasks",))
# struct balance_key and struct balance_value of balance.bpf.c.
KEY = struct.Struct("=QHHBBBx")
VALUE = struct.Struct("=5Q16s")
KEPT_LOCAL = 0xFFFE
_IDLENESS = ("busy", "idle", "newidle")

_Row = dict[str, object]


class Balance:
    """The attached programs; there may be none.

    :ivar programs: "programs" of placement.json: mechanism, function and reason of each
    :ivar invisible: "invisible" of placement.json: decisions that are not measured, and why
    :ivar lost: number of lost events by kind, without zeros; empty before :meth:`read`
    """

    def __init__(
        self,
        loaded: BpfObject | None,
        programs: Programs,
        invisible: list[Blind],
        machine: Machine,
    ) -> None:
        self.programs = programs
        self.invisible = invisible
        self.lost: dict[str, int] = {}
        self._loaded = loaded
        self._machine = machine

    def open_gate(self) -> None:
        """Start counting.

        :raises Unavailable: the kernel refuses
        """
        if self._loaded:
            self._loaded.set_gate(is_open=True)

    def close_gate(self) -> None:
        """Stop counting.

        :raises Unavailable: the kernel refuses
        """
        if self._loaded:
            self._loaded.set_gate(is_open=False)

    def read(self) -> dict[str, list[_Row] | None] | None:
        """Return the "balance" of placement.json; None if no program is attached.

        :raises Unavailable: the kernel refuses to read a map
        """
        if self._loaded is None:
            return None
        counts = read_counts(self._loaded.map("balance_counts").items(), self._machine)
        full = self._loaded.map("balance_lost").read(FIRST_KEY) or b""
        self.lost = {
            "balance decisions that did not fit into the BPF map": sum(
                struct.unpack(f"={len(full) // 8}Q", full)
            ),
            "balance decisions for CPUs that came online during the run": sum(
                counted.count for key, counted in counts.items() if is_nowhere(key)
            ),
            **{f"calls of {name}": n for name, n in self._loaded.misses().items()},
        }
        self.lost = {name: count for name, count in self.lost.items() if count}
        seen = {decision.name for decision in DECISIONS if is_watched(self.programs, decision.name)}
        located = {key: counted for key, counted in counts.items() if not is_nowhere(key)}
        return describe_balance(located, seen)

    def close(self) -> None:
        """Detach the programs."""
        if self._loaded:
            self._loaded.close()


def start(machine: Machine, system: System | None = None) -> Balance:
    """Attach all programs that the kernel accepts; they count from :meth:`Balance.open_gate` on.

    Errors are not raised; the result contains them.

    :param system: None for this machine
    """
    system = system or System()
    names = [name for each in DECISIONS for name in each.functions]
    try:
        symbols = find_functions(system, [*names, *(name for each in INLINED for name in each)])
        btf = system.bytes("/sys/kernel/btf/vmlinux", SYMBOLS_LIMIT_BYTES)
        functions, invisible = choose_functions(symbols, function_arguments(btf, names))
    except Unavailable as error:
        blind = [_blind(each.functions[0], error.reason) for each in DECISIONS]
        return Balance(None, {}, blind, machine)
    loaded, programs = _attach(machine, functions)
    for name, function in functions.items():
        if not is_watched(programs, name):
            invisible.append(_blind(function, _refusal(programs, name)))
    if is_watched(programs, "migratable") and not is_watched(programs, WITH_ENTRY):
        invisible.append(_blind("LBF_SOME_PINNED", UNKNOWN_SETTER))
    return Balance(loaded, programs, invisible, machine)


def choose_functions(
    symbols: KernelFunctions, arguments: Mapping[str, int]
) -> tuple[dict[str, str], list[Blind]]:
    """Return the function that makes each decision in this kernel, by the decision's name.

    The second value lists the functions that cannot be probed, with reasons.

    :param arguments: number of arguments of each function in BTF
    """
    functions: dict[str, str] = {}
    invisible: list[Blind] = []
    for decision in DECISIONS:
        name = symbols.first(decision.functions)
        if name is None:
            invisible.append(_absent(symbols, decision.functions))
        elif name not in arguments:
            invisible.append(_blind(name, "not in the kernel's BTF"))
        elif arguments[name] != decision.arguments:
            invisible.append(_blind(name, _unexpected_arguments(arguments[name], decision)))
        else:
            functions[decision.name] = name
    invisible += [_absent(symbols, each) for each in INLINED if symbols.first(each) is None]
    return functions, invisible


def candidates(functions: Mapping[str, str], pair: tuple[str, str]) -> list[Candidate]:
    """Return the programs for one pair of mechanisms.

    :param functions: the kernel's function by decision
    :param pair: mechanisms at entry and exit, one of PAIRS
    """
    return [
        Candidate(f"{name}_{side}", f"{name}_{mechanism}", mechanism, function)
        for name, function in functions.items()
        for side, mechanism in zip(SIDES, pair)
        if mechanism != "fentry" or name == WITH_ENTRY
    ]


def is_watched(programs: Programs, decision: str) -> bool:
    """Return whether all programs that a decision needs are attached."""
    sides = [programs[slot] for slot in _slots(decision) if slot in programs]
    return bool(sides) and all(side["mechanism"] is not None for side in sides)


def _attach(machine: Machine, functions: Mapping[str, str]) -> tuple[BpfObject | None, Programs]:
    trampolines, probes = (candidates(functions, pair) for pair in PAIRS)
    try:
        try:
            loaded = _load(machine, trampolines)
        except NothingWorks as refused:
            loaded = _load_probes(machine, probes, refused.programs)
    except NothingWorks as refused:
        return None, refused.programs
    except Unavailable as error:
        return None, {each.slot: _refused(error.reason) for each in probes}
    return loaded.object, loaded.programs


def _load_probes(machine: Machine, probes: Sequence[Candidate], refused: Programs) -> Loaded:
    """Load kprobes after fentry and fexit were rejected.

    :param refused: the rejected programs of fentry and fexit, with reasons
    :raises NothingWorks: kprobes are rejected too; each program has the reasons of both pairs
    """
    try:
        return _load(machine, probes)
    except NothingWorks as error:
        reasons = {}
        for slot in error.programs:
            # A decision needs both programs, so they share one reason: that of the exit, which
            # every pair has.
            last = f"{slot.rpartition('_')[0]}_{SIDES[-1]}"
            reasons[slot] = group_refusals(
                {
                    "/".join(pair): _without_mechanism(str(programs[last]["reason"]))
                    for pair, programs in zip(PAIRS, (refused, error.programs))
                }
            )
        error.programs.update((slot, _refused(reason)) for slot, reason in reasons.items())
        raise


def _load(machine: Machine, ways: Sequence[Candidate]) -> Loaded:
    with contextlib.ExitStack() as stack:
        loaded = load_what_works(read_object("balance"), "balance", ways, _preparation(machine))
        stack.callback(loaded.object.close)
        machine.publish(loaded.object)
        stack.pop_all()
    return loaded


def _without_mechanism(reason: str) -> str:
    return reason.partition(": ")[2] or reason


def _refused(reason: str) -> dict[str, str | None]:
    return {"mechanism": None, "function": None, "reason": reason}


def _preparation(machine: Machine) -> Callable[[BpfObject], None]:
    def prepare(loading: BpfObject) -> None:
        machine.prepare(loading)
        entries = table_entries(len(machine.groups), machine.possible)
        loading.resize("balance_counts", entries)

    return prepare


def _slots(decision: str) -> tuple[str, ...]:
    return tuple(f"{decision}_{side}" for side in SIDES)


def table_entries(nodes: int, possible: int) -> int:
    """Return the number of entries of the table of counts.

    It is the number of possible keys with :data:`LEVELS` levels, as far as
    :data:`COUNTS_LIMIT_BYTES` allow, but at least :data:`LEAST_ENTRIES`.

    :param nodes: number of groups of CPUs, see :attr:`Machine.groups`
    :param possible: number of possible CPUs
    """
    # Destinations: fork or not, from each node to each or none; sources and tasks: idleness times
    # answer; attempts: idleness on each node.
    a_level = 2 * nodes * (nodes + 1) + 2 * 2 * len(_IDLENESS) + len(_IDLENESS) * nodes
    affordable = COUNTS_LIMIT_BYTES // (VALUE.size * possible)
    return max(LEAST_ENTRIES, min(LEVELS * a_level, affordable))


def _absent(symbols: KernelFunctions, names: Sequence[str]) -> Blind:
    # If a copy remained, its name is the one that this kernel uses.
    name = next((each for each in names if each in symbols.copies), names[-1])
    return _blind(name, symbols.why_missing(name))


def _refusal(programs: Programs, decision: str) -> str:
    reasons = (programs[slot]["reason"] for slot in _slots(decision) if slot in programs)
    return next(filter(None, reasons), "not attached")


def _unexpected_arguments(count: int, decision: _Decision) -> str:
    return f"has {count} arguments in this kernel (expected {decision.arguments})"


def _blind(what: str, reason: str) -> Blind:
    return {"what": what, "reason": reason}


@dataclass(frozen=True)
class _Decision:
    """One function of the balancer.

    :param name: name of its programs, and of its value in ``enum decision``
    :param functions: its names, the newest kernel's first
    :param arguments: number of arguments; with another number, it is a different function
    :param part: key in the "balance" of placement.json
    """

    name: str
    functions: tuple[str, ...]
    arguments: int
    part: str


# In the order of enum decision of balance.bpf.c. "sched/balancing: Rename ..." (v6.10).
DECISIONS = (
    _Decision(
        "destination", ("sched_balance_find_dst_group", "find_idlest_group"), 3, "destination"
    ),
    _Decision("source", ("sched_balance_find_src_group", "find_busiest_group"), 1, "source"),
    _Decision("attempt", ("sched_balance_rq", "load_balance"), 5, "attempts"),
    _Decision("migratable", ("can_migrate_task",), 2, "migratable"),
)


@dataclass(frozen=True)
class Counts:
    """The counts of one :class:`Key`; a count that a decision does not have is 0.

    :param count: number of decisions
    :param pulled: "attempt": tasks that were moved
    :param some_pinned: "attempt": attempts that ended with LBF_SOME_PINNED; "migratable": calls
        that set it
    :param all_pinned: "attempt": attempts that ended with LBF_ALL_PINNED
    :param imbalance: "attempt": attempts with sgc->imbalance set for their own group in the parent
        domain; "destination": decisions with sgc->imbalance set for the local group
    """

    count: int
    pulled: int
    some_pinned: int
    all_pinned: int
    imbalance: int

    def plus(self, addend: Counts) -> Counts:
        """Return the sums of both."""
        return Counts(*(mine + its for mine, its in zip(astuple(self), astuple(addend))))


@dataclass(frozen=True)
class Key:
    """A decision and its node, level and idleness; see balance.bpf.c.

    :param decision: "destination", "source", "attempt" or "migratable"
    :param level: name of the scheduling domain; ``level N`` if the kernel keeps no names
    :param from_node: node of the CPU that decides; None if the CPU was not online when the run
        began; without meaning for "source" and "migratable"
    :param to_node: "destination": node of the group; None if its CPU was not online when the run
        began, or if the local group was kept; without meaning for other decisions
    :param is_local: whether the local group was kept
    :param idle: "busy", "idle" or "newidle"; without meaning for "destination"
    :param yes: "destination": it was a fork; "source": a group was found; "migratable": the task
        may be moved; False for "attempt"
    """

    decision: str
    level: str
    from_node: int | None
    to_node: int | None
    is_local: bool
    idle: str
    yes: bool


def is_nowhere(key: Key) -> bool:
    """Return whether a decision concerned a CPU that was offline when the run began.

    Only destinations and attempts have CPUs.
    """
    if key.decision == "destination" and key.to_node is None and not key.is_local:
        return True
    return key.decision in {"destination", "attempt"} and key.from_node is None


def describe_balance(counts: Mapping[Key, Counts], seen: set[str]) -> dict[str, list[_Row] | None]:
    """Return counts as placement.json has them under "balance".

    :param seen: names of the decisions that are watched; the parts of the others are None
    """
    makers = {
        "destination": _destination_row,
        "source": _source_row,
        "attempt": _attempt_row,
        "migratable": _migratable_row,
    }
    parts: dict[str, list[_Row] | None] = {
        decision.part: [
            makers[decision.name](key, counted)
            for key, counted in sorted(counts.items(), key=repr)
            if key.decision == decision.name
        ]
        if decision.name in seen
        else None
        for decision in DECISIONS
    }
    imbalance: Counter[str] = Counter()
    for key, counted in counts.items():
        if key.decision == "attempt" and counted.imbalance:
            imbalance[key.level] += counted.imbalance
    parts["group_imbalance"] = (
        [{"level": level, "count": count} for level, count in sorted(imbalance.items())]
        if "attempt" in seen
        else None
    )
    return parts


def _destination_row(key: Key, counted: Counts) -> _Row:
    return {
        "level": key.level,
        "from_node": key.from_node,
        "to_node": key.to_node,
        "fork": key.yes,
        "count": counted.count,
        "imbalanced": counted.imbalance,
    }


def _source_row(key: Key, counted: Counts) -> _Row:
    answer = "found" if key.yes else "balanced"
    return {"level": key.level, "idle": key.idle, "answer": answer, "count": counted.count}


def _attempt_row(key: Key, counted: Counts) -> _Row:
    return {
        "level": key.level,
        "idle": key.idle,
        "node": key.from_node,
        "count": counted.count,
        "pulled": counted.pulled,
        "some_pinned": counted.some_pinned,
        "all_pinned": counted.all_pinned,
    }


def _migratable_row(key: Key, counted: Counts) -> _Row:
    return {
        "level": key.level,
        "idle": key.idle,
        "answer": key.yes,
        "some_pinned": counted.some_pinned,
        "count": counted.count,
    }


def read_counts(items: Iterable[tuple[bytes, bytes]], machine: Machine) -> dict[Key, Counts]:
    """Return the counts in the map, summed over CPUs and over domains of the same name."""
    totals: dict[Key, Counts] = {}
    for packed, values in items:
        level, from_node, to_node, decision, idle, yes = KEY.unpack(packed)
        *columns, names = zip(*VALUE.iter_unpack(values))
        # Only the CPU that created the entry wrote the name.
        name = max(names).partition(b"\0")[0].decode("utf-8", "replace")
        key = Key(
            decision=DECISIONS[decision].name,
            level=name or f"level {level}",
            from_node=machine.node_at(from_node),
            to_node=None if to_node == KEPT_LOCAL else machine.node_at(to_node),
            is_local=to_node == KEPT_LOCAL,
            idle=_IDLENESS[idle],
            yes=bool(yes),
        )
        counts = Counts(*map(sum, columns))
        totals[key] = totals[key].plus(counts) if key in totals else counts
    return totals
