# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the layouts of two or more kernels: what moved, why, and whether it matters.

::

    layout = analyse_kernels([load_kernel(base), load_kernel(new)])
    layout.comparisons[0].alarms[0].claim

The first kernel is base, and each other one is compared with it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from schedperf.evidence.layout.advice import advise_alarm, advise_hot, count_hot, find_hot
from schedperf.evidence.layout.cotenancy import MOST_STRUCT_PAIRS, PairBudget, check_line_bytes
from schedperf.evidence.layout.model import Kernel
from schedperf.evidence.layout.ranking import rank_of
from schedperf.evidence.layout.record import (
    Layout,
    LayoutAlarm,
    LayoutComparison,
    LayoutCounts,
    LayoutKernel,
    LayoutLines,
    LayoutMissingUnit,
    Origin,
    UnitKind,
)
from schedperf.evidence.layout.unit_pairs import UnitPair, compare_pair, unit_record
from schedperf.evidence.layout.windows import draw_windows
from schedperf.inputs.side import side_name
from schedperf.model.base_new import FIRST_NEW
from schedperf.model.errors import InputError
from schedperf.model.sections import MissingSide

KINDS: tuple[UnitKind, ...] = ("percpu", "struct", "globals")
# Line size of x86-64, most arm64 and riscv machines, assumed if unknown.
USUAL_LINE_BYTES = 64
# Fewest kernels that can be compared.
FEWEST_KERNELS = 2
_ENDIAN = {None: None, False: "little-endian", True: "big-endian"}
# Largest number of reasons in a message; if nothing is comparable, each unit has one.
MOST_REASONS = 3

# Number of contended memory samples (HITM, or peer snoops on Arm), by side, unit and entry.
Hitm = Mapping[str, Mapping[str, Mapping[str, int]]]


class _Compared(NamedTuple):
    # One new kernel against base.
    side: str
    label: str
    pairs: list[UnitPair]
    missing: list[LayoutMissingUnit]


def analyse_kernels(
    kernels: Sequence[Kernel],
    *,
    line_bytes: int | None = None,
    kinds: Collection[UnitKind] = KINDS,
    structs: Sequence[str] = (),
    hot: Sequence[str] = (),
    hitm: Hitm | None = None,
    sides: Sequence[str] | None = None,
    missing: Sequence[MissingSide] = (),
) -> Layout:
    """Compare every kernel with the first one.

    :param kernels: two or more
    :param line_bytes: cache line size; None for the size that the kernels were compiled for, else
        that of the hardware, else 64
    :param kinds: kinds of units to compare
    :param structs: names of structs to compare, "rq" or "union NAME"; empty for all that were
        loaded
    :param hot: the user's hot set: variables, and fields like "rq.nr_running"
    :param hitm: number of contended memory samples by new side, unit and entry; they take
        precedence over the table of hot variables. None if not sampled
    :param sides: roles of the kernels; None for "base", "new", "new2" …
    :param missing: sides without a kernel
    :raises InputError: fewer than two kernels are given, the architectures differ, the kernels have
        no common unit, a name in ``hot`` is unknown, the line size is invalid, or a unit exceeds
        the limits on entries or pairs
    """
    if len(kernels) < FEWEST_KERNELS:
        raise InputError(
            f"layout: {len(kernels)} kernel given (expected at least {FEWEST_KERNELS}); give "
            "another "
            "kernel"
        )
    used, origin = choose_line_bytes(kernels, line_bytes)
    roles = sides or [side_name(number) for number in range(len(kernels))]
    unit_names = _wanted(kernels, kinds, structs)
    base, news = kernels[0], list(zip(roles, kernels, strict=True))[1:]
    for _, new in news:
        check_comparable(base, new, unit_names)
    compared = [
        _compare((side, new), base, unit_names, used, (hitm or {}).get(side)) for side, new in news
    ]
    hot_names = find_hot(hot, [pair for comparison in compared for pair in comparison.pairs])
    lines = describe_lines(kernels, used, origin, roles)
    return Layout(
        line_bytes=lines,
        kernels=tuple(map(describe_kernel, roles, kernels)),
        comparisons=tuple(_comparison(comparison, hot_names, used) for comparison in compared),
        notes=tuple(note_lines(lines)),
        windows=draw_windows(roles, kernels, [comparison.pairs for comparison in compared]),
        missing=tuple(missing),
    )


def describe_lines(
    kernels: Sequence[Kernel], used: int, origin: Origin, roles: Sequence[str]
) -> LayoutLines:
    """Return the line size used for the comparison, and the kernels with another size.

    :param used: line size in bytes
    :param origin: source of the line size
    :param roles: roles of the kernels: "base", "new" …
    """
    return LayoutLines(used=used, from_=origin, differs=tuple(_differing(roles, kernels, used)))


def note_lines(lines: LayoutLines) -> Iterator[str]:
    """Yield a note if a side has other cache line sizes, and one if the size is assumed."""
    if lines.differs:
        yield f"compared with {lines.used}-byte cache lines, but {', '.join(lines.differs)}"
    if lines.from_ == "assumed":
        yield f"the cache line size is not recorded; {lines.used} bytes are assumed"


def describe_kernel(side: str, kernel: Kernel) -> LayoutKernel:
    """Return the description of one kernel.

    :param side: its role: "base", "new" …
    """
    return LayoutKernel(
        side=side,
        label=kernel.label,
        machine=kernel.machine,
        pointer_bytes=kernel.pointer_bytes,
        line_bytes=kernel.line_bytes,
        unknown=tuple(
            LayoutMissingUnit(unit=unit, reason=reason) for unit, reason in kernel.unknown.items()
        ),
        notes=kernel.notes,
    )


def check_comparable(base: Kernel, new: Kernel, unit_names: Iterable[str] | None = None) -> None:
    """Refuse kernels of different architectures, or without a common unit.

    :param unit_names: names of units, at least one of which must be common; None for any unit
    :raises InputError: machine, pointer size or byte order are known to differ; or there is nothing
        to compare
    """
    facts = (
        (base.machine, new.machine, "architecture {}"),
        (base.pointer_bytes, new.pointer_bytes, "{}-byte pointers"),
        (_ENDIAN[base.is_big_endian], _ENDIAN[new.is_big_endian], "{} byte order"),
    )
    for of_base, of_new, words in facts:
        if None not in {of_base, of_new} and of_base != of_new:
            raise InputError(
                f"{new.label} has {words.format(of_new)}, but {base.label} has "
                f"{words.format(of_base)}; compare kernels of one architecture"
            )
    asked = list(base.units) if unit_names is None else list(unit_names)
    if not any(name in base.units and name in new.units for name in asked):
        reasons = [reason for name in asked for reason in _why_not(name, base, new)]
        why = "; ".join(list(dict.fromkeys(reasons))[:MOST_REASONS]) or "nothing requested"
        raise InputError(
            f"{base.label} and {new.label} have no section or struct in common ({why}); give "
            "files of the same type, e.g. a System.map of each kernel"
        )


def choose_line_bytes(kernels: Sequence[Kernel], given: int | None) -> tuple[int, Origin]:
    """Return the line size to use, in bytes, and its source.

    The size that a kernel was compiled for has precedence over the hardware's, because alignments
    in the kernel use it. If the kernels differ, the first one with a known size counts.

    :param given: size that the user gave; None if not given
    :return: the size, and "given", "compile_time", "hardware" or "assumed"
    :raises InputError: the given or recorded size is invalid
    """
    if given is not None:
        check_line_bytes(given)
        return given, "given"
    lines = [kernel.line_bytes for kernel in kernels]
    candidates: list[tuple[int | None, Origin]] = [
        (recorded.compile_time, "compile_time") for recorded in lines
    ]
    candidates += [(recorded.hardware, "hardware") for recorded in lines]
    for size, origin in candidates:
        if size is not None:
            check_line_bytes(size)
            return size, origin
    return USUAL_LINE_BYTES, "assumed"


def _wanted(
    kernels: Sequence[Kernel], kinds: Collection[UnitKind], structs: Sequence[str]
) -> list[str]:
    # Names of units, per-CPU section first, globals last.
    called = [name if " " in name else f"struct {name}" for name in structs]
    unit_names = (name for kernel in kernels for name in (*kernel.units, *kernel.unknown))
    inner = called or [name for name in unit_names if name not in {"percpu", "globals"}]
    names = {"percpu": ["percpu"], "struct": list(dict.fromkeys(inner)), "globals": ["globals"]}
    return [name for kind in KINDS if kind in kinds for name in names[kind]]


def _compare(
    named: tuple[str, Kernel],
    base: Kernel,
    unit_names: Iterable[str],
    line_bytes: int,
    hitm: Mapping[str, Mapping[str, int]] | None,
) -> _Compared:
    side, new = named
    prefix = "" if side == FIRST_NEW else f"{side}/"
    pairs, missing = [], list[LayoutMissingUnit]()
    budget = PairBudget(MOST_STRUCT_PAIRS)
    for name in unit_names:
        base_unit, new_unit = base.units.get(name), new.units.get(name)
        if base_unit is None or new_unit is None:
            reason = "; ".join(_why_not(name, base, new))
            missing.append(LayoutMissingUnit(unit=name, reason=reason))
            continue
        samples = None if hitm is None else hitm.get(name, {})
        shared = budget if base_unit.kind == "struct" else None
        pairs.append(compare_pair(base_unit, new_unit, line_bytes, samples, prefix, budget=shared))
    return _Compared(side, new.label, pairs, missing)


def _why_not(name: str, base: Kernel, new: Kernel) -> Iterator[str]:
    for kernel in (base, new):
        if name not in kernel.units:
            reason = kernel.unknown.get(name, "was not read")
            yield reason if kernel.label in reason else f"{kernel.label}: {reason}"


def _comparison(
    compared: _Compared, hot: Mapping[str, Sequence[str]], line_bytes: int
) -> LayoutComparison:
    pairs = compared.pairs
    alarms = _ranked(pairs)
    mine = [(pair, hot[pair.name]) for pair in pairs if pair.name in hot]
    advice, notes = advise_alarm(alarms, line_bytes)
    own_advice, own_notes = advise_hot(mine, line_bytes)
    unchanged = sum(pair.change.is_unchanged for pair in pairs)
    return LayoutComparison(
        side=compared.side,
        label=compared.label,
        is_unchanged=unchanged == len(pairs),
        alarms=tuple(alarm for alarm, _ in alarms),
        regained=tuple(unit_set for pair in pairs for unit_set in pair.ranking.regained),
        hot=tuple(count_hot(pair, names, line_bytes) for pair, names in mine),
        advice=(*advice, *own_advice),
        units=tuple(map(unit_record, pairs)),
        missing=tuple(compared.missing),
        counts=LayoutCounts(
            units=len(pairs),
            unchanged_units=unchanged,
            alarms=len(alarms),
            unknown_heat=sum(len(pair.ranking.unknown_heat) for pair in pairs),
        ),
        notes=(*notes, *own_notes),
    )


def _ranked(pairs: Iterable[UnitPair]) -> list[tuple[LayoutAlarm, UnitPair]]:
    # Best evidence first over all units; for equal evidence, the per-CPU section first.
    alarms = [(alarm, pair) for pair in pairs for alarm in pair.ranking.alarms]
    return sorted(alarms, key=lambda ranked: rank_of(ranked[0]))


def _differing(roles: Sequence[str], kernels: Sequence[Kernel], used: int) -> Iterator[str]:
    for side, kernel in zip(roles, kernels, strict=True):
        for what, size in (
            ("is compiled for", kernel.line_bytes.compile_time),
            ("has hardware with", kernel.line_bytes.hardware),
        ):
            if size not in {None, used}:
                yield f"{side} {what} {size}-byte lines"
