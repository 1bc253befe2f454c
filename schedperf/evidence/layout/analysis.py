"""Two or more kernels' layouts compared, as data: what moved, why, and whether it can matter.

::

    data = analyse_kernels([load_kernel(base), load_kernel(new)])
    data["comparisons"][0]["alarms"][0]["claim"]

The first kernel is base, and each other one is compared with it. The data is JSON values only and
is what ``schedperf layout`` and the section "layout" of a comparison hold; its JSON Schema is that
section's.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from schedperf.evidence.layout._advised import advise_alarm, advise_hot, find_hot, hot_plain
from schedperf.evidence.layout._drawn import draw_windows
from schedperf.evidence.layout._plain import (
    MOST_LISTED,
    Plain,
    alarm_plain,
    rank_of,
    rows_of_alarms,
    unit_plain,
)
from schedperf.evidence.layout._unit_pairs import UnitPair, compare_pair
from schedperf.evidence.layout.cotenancy import check_line_bytes
from schedperf.evidence.layout.model import Kernel, UnitKind
from schedperf.evidence.layout.ranking import Alarm
from schedperf.model.errors import InputError
from schedperf.runs.side import FIRST_NEW, side_name

KINDS: tuple[UnitKind, ...] = ("percpu", "struct", "globals")
# x86-64, most of arm64 and riscv: what is assumed when nothing says.
USUAL_LINE_BYTES = 64
# Two are the fewest that can be compared.
FEWEST_KERNELS = 2
# Reasons that one message lists; where nothing can be compared each unit has one.
MOST_REASONS = 3

# Memory samples that hit a modified line: by side, unit and entry.
Hitm = Mapping[str, Mapping[str, Mapping[str, int]]]


class _Compared(NamedTuple):
    # One new kernel against base.
    side: str
    label: str
    pairs: list[UnitPair]
    missing: list[Plain]


def analyse_kernels(
    kernels: Sequence[Kernel],
    *,
    line_bytes: int | None = None,
    kinds: Collection[UnitKind] = KINDS,
    structs: Sequence[str] = (),
    hot: Sequence[str] = (),
    hitm: Hitm | None = None,
    sides: Sequence[str] | None = None,
) -> Plain:
    """Compare every kernel with the first one.

    :param kernels: two or more
    :param line_bytes: length of a cache line; None: what the kernels were compiled for, else what
        their hardware has, else 64
    :param kinds: of units to compare
    :param structs: names of those to compare: "rq"; empty: all that the kernels hold
    :param hot: a hot set of one's own: variables, and fields as "rq.nr_running"
    :param hitm: memory samples of new kernels; they outrank the table of hot variables
    :param sides: roles of the kernels; None: "base", "new", "new2" …
    :raises InputError: kernels of different architectures, nothing that two of them have, a name of
        ``hot`` that none has, or a line that no cache has
    """
    if len(kernels) < FEWEST_KERNELS:
        raise InputError(f"layout: {len(kernels)} kernel to compare; give two or more")
    used, origin = choose_line_bytes(kernels, line_bytes)
    roles = sides or [side_name(number) for number in range(len(kernels))]
    wanted = _wanted(kernels, kinds, structs)
    base, news = kernels[0], list(zip(roles, kernels, strict=True))[1:]
    for _, new in news:
        check_comparable(base, new, wanted)
    compared = [
        _compare((side, new), base, wanted, used, (hitm or {}).get(side)) for side, new in news
    ]
    hot_names = find_hot(hot, [pair for one in compared for pair in one.pairs])
    return {
        **kernels_plain(kernels, used, origin, roles),
        "comparisons": [_comparison_plain(one, hot_names, used) for one in compared],
        "windows": draw_windows(roles, kernels, [one.pairs for one in compared]),
    }


def kernels_plain(
    kernels: Sequence[Kernel], used: int, origin: str, roles: Sequence[str] | None = None
) -> Plain:
    """Return what is known of the kernels and their lines: "line_bytes", "kernels", "notes".

    :param used: by which lines they are looked at, in bytes
    :param origin: where that comes from
    :param roles: None: "base", "new", "new2" …
    """
    roles = roles or [side_name(number) for number in range(len(kernels))]
    differing = list(_differing(roles, kernels, used))
    notes = []
    if differing:
        notes.append(f"compared by {used}-byte lines, but {', '.join(differing)}")
    if origin == "assumed":
        notes.append(f"nothing says how long a cache line is; {used} bytes are assumed")
    return {
        "line_bytes": {"used": used, "from": origin, "differs": differing},
        "kernels": [_kernel_plain(*named) for named in zip(roles, kernels, strict=True)],
        "notes": notes,
    }


def check_comparable(base: Kernel, new: Kernel, wanted: Iterable[str] | None = None) -> None:
    """Refuse kernels whose layouts differ because their architectures do, or that share no unit.

    :param wanted: names of the units of which both need one; None: any
    :raises InputError: other machines, pointers or byte orders, as far as they are known; or there
        is nothing to compare
    """
    facts = (
        (base.machine, new.machine, "{}"),
        (base.pointer_bytes, new.pointer_bytes, "{}-byte pointers"),
        (base.is_big_endian, new.is_big_endian, "big-endian: {}"),
    )
    for one, other, words in facts:
        if None not in {one, other} and one != other:
            raise InputError(
                f"{new.label}: {words.format(other)}, but {base.label} has {words.format(one)}; "
                "compare kernels of one architecture"
            )
    asked = list(base.units) if wanted is None else list(wanted)
    if not any(name in base.units and name in new.units for name in asked):
        reasons = [reason for name in asked for reason in _why_not(name, base, new)]
        why = "; ".join(list(dict.fromkeys(reasons))[:MOST_REASONS]) or "nothing was asked for"
        raise InputError(f"{base.label} and {new.label}: no layout that both have: {why}")


def choose_line_bytes(kernels: Sequence[Kernel], given: int | None) -> tuple[int, str]:
    """Return by which lines to compare, in bytes, and where that comes from.

    What a kernel was compiled for comes before what its hardware has: its alignments are made for
    that.

    :return: "given", "compile_time", "hardware" or "assumed" second
    :raises InputError: a given size that no cache has
    """
    if given is not None:
        check_line_bytes(given)
        return given, "given"
    for origin in ("compile_time", "hardware"):
        for kernel in kernels:
            size: int | None = getattr(kernel.line_bytes, origin)
            if size is not None:
                check_line_bytes(size)
                return size, origin
    return USUAL_LINE_BYTES, "assumed"


def _wanted(
    kernels: Sequence[Kernel], kinds: Collection[UnitKind], structs: Sequence[str]
) -> list[str]:
    # Names of units, per-CPU section first, globals last.
    called = [name if " " in name else f"struct {name}" for name in structs]
    known = (name for kernel in kernels for name in (*kernel.units, *kernel.unknown))
    inner = called or [name for name in known if name not in {"percpu", "globals"}]
    names = {"percpu": ["percpu"], "struct": list(dict.fromkeys(inner)), "globals": ["globals"]}
    return [name for kind in KINDS if kind in kinds for name in names[kind]]


def _compare(
    named: tuple[str, Kernel],
    base: Kernel,
    wanted: Iterable[str],
    line_bytes: int,
    hitm: Mapping[str, Mapping[str, int]] | None,
) -> _Compared:
    side, new = named
    prefix = "" if side == FIRST_NEW else f"{side}/"
    pairs, missing = [], list[Plain]()
    for name in wanted:
        one, other = base.units.get(name), new.units.get(name)
        if one is None or other is None:
            missing.append({"unit": name, "reason": "; ".join(_why_not(name, base, new))})
            continue
        samples = None if hitm is None else hitm.get(name, {})
        pairs.append(compare_pair(one, other, line_bytes, samples, prefix))
    return _Compared(side, new.label, pairs, missing)


def _why_not(name: str, base: Kernel, new: Kernel) -> Iterator[str]:
    for kernel in (base, new):
        if name not in kernel.units:
            reason = kernel.unknown.get(name, "was not read")
            yield reason if kernel.label in reason else f"{kernel.label}: {reason}"


def _comparison_plain(
    compared: _Compared, hot: Mapping[str, Sequence[str]], line_bytes: int
) -> Plain:
    alarms = _ranked(compared.pairs)
    units = [
        unit_plain(pair.change, pair.units, pair.ranking, pair.spans, pair.prefix)
        for pair in compared.pairs
    ]
    mine = [(pair, hot[pair.name]) for pair in compared.pairs if pair.name in hot]
    advice, notes = advise_alarm(alarms, line_bytes)
    own_advice, own_notes = advise_hot(mine, line_bytes)
    return {
        "side": compared.side,
        "label": compared.label,
        "is_unchanged": all(pair.change.is_unchanged for pair in compared.pairs),
        "alarms": [
            alarm_plain(alarm, row, pair.spans, pair.change)
            for alarm, row, pair in alarms[:MOST_LISTED]
        ],
        "regained": _regained_plain(compared.pairs),
        "hot": [hot_plain(pair, names, line_bytes) for pair, names in mine],
        "advice": [*advice, *own_advice],
        "units": units,
        "missing": compared.missing,
        "counts": {
            "units": len(units),
            "unchanged_units": sum(pair.change.is_unchanged for pair in compared.pairs),
            "alarms": len(alarms),
            "unknown_heat": sum(len(pair.ranking.unknown_heat) for pair in compared.pairs),
        },
        "notes": [*notes, *own_notes],
    }


def _regained_plain(pairs: Iterable[UnitPair]) -> list[Plain]:
    return [
        {
            "unit": pair.name,
            "names": list(one.names),
            "effect": one.effect,
            "reference": one.reference,
        }
        for pair in pairs
        for one in pair.ranking.regained
    ]


def _ranked(pairs: Iterable[UnitPair]) -> list[tuple[Alarm, str, UnitPair]]:
    # Best evidence first over all units; of equals those of the per-CPU section.
    found = [
        (alarm, row, pair)
        for pair in pairs
        for alarm, row in zip(
            pair.ranking.alarms, rows_of_alarms(pair.prefix, pair.ranking.alarms), strict=True
        )
    ]

    return sorted(found, key=lambda one: rank_of(one[0]))


def _kernel_plain(side: str, kernel: Kernel) -> Plain:
    return {
        "side": side,
        "label": kernel.label,
        "machine": kernel.machine,
        "pointer_bytes": kernel.pointer_bytes,
        "line_bytes": {
            "compile_time": kernel.line_bytes.compile_time,
            "hardware": kernel.line_bytes.hardware,
        },
        "unknown": [{"unit": unit, "reason": reason} for unit, reason in kernel.unknown.items()],
        "notes": list(kernel.notes),
    }


def _differing(roles: Sequence[str], kernels: Sequence[Kernel], used: int) -> Iterator[str]:
    for side, kernel in zip(roles, kernels, strict=True):
        for what, size in (
            ("is compiled for", kernel.line_bytes.compile_time),
            ("has hardware with", kernel.line_bytes.hardware),
        ):
            if size not in {None, used}:
                yield f"{side} {what} {size}"
