"""What the load balancer decided: the programs of ``balance.bpf.c`` and what they counted.

Four functions of ``kernel/sched/fair.c`` are watched: at their exits by fexit where the kernel
takes that, else at entry and exit by kprobes. A function that the compiler has inlined or cloned
with other arguments cannot be seen, and is said to be invisible.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Mapping, Sequence
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
from schedperf_collectors.bpf.refusals import say_refusals
from schedperf_collectors.contract import SYMBOLS_LIMIT_BYTES, Unavailable
from schedperf_collectors.machine.btf import function_arguments
from schedperf_collectors.machine.kernel_functions import KernelFunctions, find_functions
from schedperf_collectors.machine.system import System
from schedperf_collectors.placement.balance_rows import (
    DECISIONS,
    IDLENESS,
    VALUE,
    Row,
    describe_balance,
    is_nowhere,
    read_counts,
)
from schedperf_collectors.placement.machine import Machine, set_gate

FIRST_KEY = struct.pack("=I", 0)
# The mechanisms at entry and exit. The exit that fexit sees has the arguments, so only an attempt,
# which collects what happens in it, needs its entry.
PAIRS = (("fentry", "fexit"), ("kprobe", "kretprobe"))
SIDES = ("enter", "leave")
WITH_ENTRY = "attempt"
# Six levels are the most that a kernel builds itself (SMT, CLS, MC, PKG, two of NUMA); machines
# with more kinds of NUMA distance have a few more.
LEVELS = 10
# What the table of counts may take: it holds every count once for each possible CPU.
COUNTS_LIMIT_BYTES = 32 << 20
LEAST_ENTRIES = 256

# What "some_pinned" of tasks means where the beginning of an attempt is not seen.
UNKNOWN_SETTER = "calls that found it set count as calls that set it: attempts are not seen"

Blind = dict[str, str]


# Functions that decide, too, but are not watched: static, with one caller, and therefore inlined.
INLINED = (("sched_balance_find_dst_cpu", "find_idlest_cpu"), ("detach_tasks",))


class Balance:
    """The programs while they are attached.

    :ivar programs: of each its mechanism, function and reason, as placement.json has it
    :ivar invisible: what cannot be seen here, likewise
    :ivar lost: what could not be counted; complete once :meth:`read` was called
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
        """Begin to count."""
        if self._loaded:
            set_gate(self._loaded, is_open=True)

    def close_gate(self) -> None:
        """Count no more."""
        if self._loaded:
            set_gate(self._loaded, is_open=False)

    def read(self) -> dict[str, list[Row] | None] | None:
        """Return what placement.json has under "balance"; None where nothing can be seen.

        :raises Unavailable: the kernel refuses to say what was counted
        """
        if self._loaded is None:
            return None
        counts = read_counts(self._loaded.map("balance_counts").items(), self._machine)
        full = self._loaded.map("balance_lost").read(FIRST_KEY) or b""
        self.lost = {
            "balance decisions without room": sum(struct.unpack(f"={len(full) // 8}Q", full)),
            "balance decisions of unknown cpus": sum(
                found.count for key, found in counts.items() if is_nowhere(key)
            ),
            **{f"calls of {name}": n for name, n in self._loaded.misses().items()},
        }
        self.lost = {name: count for name, count in self.lost.items() if count}
        seen = {decision.name for decision in DECISIONS if is_watched(self.programs, decision.name)}
        known = {key: found for key, found in counts.items() if not is_nowhere(key)}
        return describe_balance(known, seen)

    def close(self) -> None:
        """Detach the programs."""
        if self._loaded:
            self._loaded.close()


def start(machine: Machine, system: System | None = None) -> Balance:
    """Attach what can be attached; the gate is still closed.

    What the kernel refuses is told by the result, not raised.
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
    """Return which function makes each decision on this kernel, and those that cannot be seen.

    :param arguments: of each function that BTF has, how many it takes
    """
    functions: dict[str, str] = {}
    invisible: list[Blind] = []
    for decision in DECISIONS:
        name = symbols.first(decision.functions)
        if name is None:
            invisible.append(_absent(symbols, decision.functions))
        elif name not in arguments:
            invisible.append(_blind(name, "not among the kernel's types (BTF)"))
        elif arguments[name] != decision.arguments:
            invisible.append(_blind(name, f"it has {arguments[name]} arguments on this kernel"))
        else:
            functions[decision.name] = name
    invisible += [_absent(symbols, each) for each in INLINED if symbols.first(each) is None]
    return functions, invisible


def candidates(functions: Mapping[str, str], pair: tuple[str, str]) -> list[Candidate]:
    """Return how the functions are watched by one pair of mechanisms.

    :param functions: of each decision the kernel's function
    """
    return [
        Candidate(f"{name}_{side}", f"{name}_{mechanism}", mechanism, function)
        for name, function in functions.items()
        for side, mechanism in zip(SIDES, pair)
        if mechanism != "fentry" or name == WITH_ENTRY
    ]


def is_watched(programs: Programs, decision: str) -> bool:
    """Say whether all programs that a decision needs are attached."""
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
    """Load kprobes; where they are refused, too, each program has the reasons of both."""
    try:
        return _load(machine, probes)
    except NothingWorks as error:
        reasons = {}
        for slot in error.programs:
            # Both programs of a decision work or neither is of use, so they have one reason: that
            # of the one that every pair has.
            last = f"{slot.rpartition('_')[0]}_{SIDES[-1]}"
            reasons[slot] = say_refusals(
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
        entries = table_entries(len(machine.known_nodes), machine.possible)
        loading.resize("balance_counts", entries)

    return prepare


def _slots(decision: str) -> tuple[str, ...]:
    return tuple(f"{decision}_{side}" for side in SIDES)


def table_entries(nodes: int, possible: int) -> int:
    """Return how many counts the table has room for: all that may be, within the limit."""
    # Destinations: fork or not, from each node to each or none; sources and tasks: idleness times
    # answer; attempts: idleness on each node.
    a_level = 2 * nodes * (nodes + 1) + 2 * 2 * len(IDLENESS) + len(IDLENESS) * nodes
    affordable = COUNTS_LIMIT_BYTES // (VALUE.size * possible)
    return max(LEAST_ENTRIES, min(LEVELS * a_level, affordable))


def _absent(symbols: KernelFunctions, names: Sequence[str]) -> Blind:
    # The name of which a copy was left is that of this kernel.
    name = next((each for each in names if each in symbols.copies), names[-1])
    return _blind(name, symbols.why_missing(name))


def _refusal(programs: Programs, decision: str) -> str:
    reasons = (programs[slot]["reason"] for slot in _slots(decision) if slot in programs)
    return next(filter(None, reasons), "not attached")


def _blind(what: str, reason: str) -> Blind:
    return {"what": what, "reason": reason}
