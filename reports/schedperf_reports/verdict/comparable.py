# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the sides are comparable: what is equal, what differs on purpose, what blocks it."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.compare.comparability import find_rule, flatten_host
from schedperf.model.comparison import Comparability, Comparison, Difference, SideSummary
from schedperf.model.host import read_host
from schedperf_reports.blocks import Cell, Column, Item, Items, Table
from schedperf_reports.graphics.panels import Fold, Panel
from schedperf_reports.verdict.host_fields import format_pair, format_value, name_model
from schedperf_reports.words.rows import SEVERITY_TONES, count_of, name_side

# What a reader acts on comes first.
SEVERITY_ORDER = ("blocking", "treatment", "noted")
# Differences that a text lists before the results, and fields that one line of a page names.
MOST_DIFFERENCES = 12
MOST_NAMED = 4
# What says once more that the kernel is another one.
SAME_KERNEL = ("kernel.version", "kernel.build_id")
# For people, the words of the record's severities.
SEVERITY_WORDS: Mapping[str, str] = {"treatment": "expected"}
# A longer value is in the table below.
LONGEST_VALUE = 24


def comparability_panel(comparison: Comparison) -> Panel:
    """Return the box: blocking differences unmistakably first, each with what to do."""
    found = comparison.comparability
    shown = [one for one in found.differences if one.severity in SEVERITY_ORDER]
    shown.sort(key=lambda one: SEVERITY_ORDER.index(one.severity))
    items = tuple(_items(comparison, shown))
    listed = (Items(items=items, brief=len(items)),) if items else ()
    return Panel(
        caption=f"comparable: {_answer(found)}",
        aside=_aside(found, shown),
        tone="plain" if found.comparable else "bad",
        brief=True,
        blocks=(*listed, _fold(comparison, shown)),
    )


def _answer(found: Comparability) -> str:
    if not _is_known(found):
        return "unknown"
    return "yes" if found.comparable else "NO"


def _is_known(found: Comparability) -> bool:
    # Tables of numbers say nothing of their machines, which makes nobody's machines equal.
    return bool(found.compared) or not found.comparable


def _aside(found: Comparability, shown: Sequence[Difference]) -> str:
    if _is_known(found) or not shown:
        return f"{count_of(found.compared, 'field')} compared; differences: {_count(shown)}"
    # What could not be compared does not count as a difference.
    return "; ".join(dict.fromkeys(one.reason for one in shown))


def _fold(comparison: Comparison, shown: Sequence[Difference]) -> Fold:
    tables: dict[str, Table | None] = {"sides": _sides_table(comparison.sides)}
    if shown and _is_known(comparison.comparability):
        tables["differences"] = _differences_table(shown, len(comparison.sides))
    tables["equal fields"] = _equal_table(comparison)
    found = {what: table for what, table in tables.items() if table is not None}
    *first, last = found
    caption = f"{', '.join(first)}, and {last}" if first else last
    return Fold(caption=caption, blocks=tuple(found.values()))


def _count(shown: Sequence[Difference]) -> str:
    counts = (
        f"{number} {_word(severity)}"
        for severity in SEVERITY_ORDER
        if (number := sum(one.severity == severity for one in shown))
    )
    return ", ".join(counts) or "none"


def _word(severity: str) -> str:
    return SEVERITY_WORDS.get(severity, severity)


def describe_treatments(comparison: Comparison) -> list[str]:
    """Say how each new side differs from base on purpose: ``new differs from base: …``."""
    base, *others = comparison.sides
    told = []
    for side in others:
        meant = [
            one
            for one in comparison.comparability.differences
            if one.severity == "treatment" and one.side == side.name
        ]
        if any(one.path == "kernel.release" for one in meant):
            meant = [one for one in meant if one.path not in SAME_KERNEL]
        if meant:
            listed = _name(sorted(meant, key=_is_wordless))
            told.append(f"{name_side(side)} differs from {name_side(base)}: {listed}")
    return told


def _items(comparison: Comparison, shown: Sequence[Difference]) -> Iterator[Item]:
    yield from (_blocking_item(comparison, one) for one in _of(shown, "blocking")[:MOST_NAMED])
    more = len(_of(shown, "blocking")) - MOST_NAMED
    if more > 0:
        text = f"{count_of(more, 'more blocking field')}"
        yield Item(text=text, tone="bad", evidence=("environment",))
    # What was meant to differ stands with the verdict.
    if not _of(shown, "treatment") and comparison.comparability.compared:
        yield Item(text="same kernel and no declared difference (A/A)", tone="warning")
    noted = _of(shown, "noted")
    if noted and _is_known(comparison.comparability):
        text = f"other differences, allowed: {_name(noted)}"
        yield Item(text=text, evidence=("environment",))
    yield from _options_items(comparison)
    yield from _who(comparison.sides)


def _options_items(comparison: Comparison) -> Iterator[Item]:
    for side in comparison.sides[1:]:
        mine = [one for one in comparison.comparability.options if one.side == side.name]
        if mine:
            more = len(mine) - MOST_NAMED
            named = [f"{one.name} {one.base or 'n'} → {one.new or 'n'}" for one in mine]
            listed = ", ".join((*named[:MOST_NAMED], *((f"{more} more",) if more > 0 else ())))
            text = f"{count_of(len(mine), 'kernel config option')}: {listed}"
            yield Item(text=text, evidence=("environment",))


def _of(shown: Sequence[Difference], severity: str) -> list[Difference]:
    found = [one for one in shown if one.severity == severity]
    # Where a name says all, the value that fits a line says more.
    return sorted(found, key=_is_wordless)


def _is_wordless(one: Difference) -> bool:
    return _values(one) == ""


def _blocking_item(comparison: Comparison, one: Difference) -> Item:
    base, new = format_pair(one.base, one.new)
    # A metric or a workload is not a field of host.json, which is all that can be allowed.
    is_field = any(one.path.partition(".")[0] in side.host for side in comparison.sides)
    allow = f", or use --allow {one.path}" if is_field else ""
    return Item(
        text=f"{one.path} differs: {base} in base, {new} in {one.side}",
        detail=f"{one.reason}; record again with equal values{allow}",
        tone="bad",
        evidence=("environment",),
    )


def _name(differences: Sequence[Difference]) -> str:
    # Boots, and further sides, may differ in the same field.
    named = list(dict.fromkeys(f"{one.path}{_values(one)}" for one in differences))
    more = len(named) - MOST_NAMED
    return ", ".join((*named[:MOST_NAMED], *((f"{more} more",) if more > 0 else ())))


def _values(one: Difference) -> str:
    base, new = format_value(one.base), format_value(one.new)
    if one.base is None and one.new is None:
        return " (unknown)"
    return "" if max(len(base), len(new)) > LONGEST_VALUE else f" {base} → {new}"


def _who(sides: Sequence[SideSummary]) -> Iterator[Item]:
    told = _who_was_compared(sides)
    if told:
        yield Item(text=told, evidence=("environment",))


def _who_was_compared(sides: Sequence[SideSummary]) -> str:
    # That no side says anything, as a table of numbers, is told by the answer.
    if not _have_machines(sides):
        return ""
    machines, kernels = ({word(side) for side in sides} for word in (_machine, _kernel))
    machine = f"{machines.pop()} on all sides" if len(machines) == 1 else "machines differ"
    # That the kernels differ is the first that is said of the sides.
    return f"{machine}; kernel {kernels.pop()} on all sides" if len(kernels) == 1 else machine


def _have_machines(sides: Sequence[SideSummary]) -> bool:
    return any(side.host for side in sides)


def _sides_table(sides: Sequence[SideSummary]) -> Table:
    labels = any(side.label != side.name for side in sides)
    machines = _have_machines(sides)
    told = _who_was_compared(sides)
    return Table(
        caption=f"{count_of(len(sides), 'side')} compared{f': {told}' if told else ''}",
        columns=(
            Column(title="side"),
            Column(title="bundle", code=True),
            *((Column(title="label", code=True),) if labels else ()),
            *((Column(title="kernel", priority=1, code=True),) if machines else ()),
            *((Column(title="machine", priority=1),) if machines else ()),
            Column(title="runs", priority=1),
        ),
        rows=tuple(
            (
                Cell(text=side.name),
                Cell(text=side.path),
                *((Cell(text=side.label),) if labels else ()),
                *((Cell(text=_kernel(side)), Cell(text=_machine(side))) if machines else ()),
                Cell(text=_runs(side)),
            )
            for side in sides
        ),
    )


def _kernel(side: SideSummary) -> str:
    return read_host(side.host).kernel.release or "unknown"


def _machine(side: SideSummary) -> str:
    host = read_host(side.host)
    cpus, nodes = host.cpu.count_online, host.topology.nodes
    parts = [name_model(host.cpu.model or "CPU unknown")]
    parts += [] if cpus is None else [f"{cpus} CPUs"]
    parts += [count_of(len(nodes), "node")] if nodes else []
    return ", ".join(parts)


def _runs(side: SideSummary) -> str:
    parts = ["number not recorded" if side.runs_clean is None else f"{side.runs_clean} clean"]
    parts += [f"{side.runs_instrumented} instrumented"] if side.runs_instrumented else []
    parts += [f"{side.runs_failed} failed"] if side.runs_failed else []
    unfinished = "" if side.complete else "; incomplete recording"
    boots = "" if side.boots is None else f", {count_of(side.boots, 'boot')}"
    return f"{' + '.join(parts)}{boots}{unfinished}"


def _differences_table(differences: Sequence[Difference], sides: int) -> Table:
    new = [Column(title="side")] if sides > 2 else []  # noqa: PLR2004 # base and one new
    # Why a treatment differs is said by the caption.
    has_why = any(one.severity != "treatment" for one in differences)
    why = [Column(title="why", priority=4)] if has_why else []
    return Table(
        caption=f"{count_of(len(differences), 'difference')} between the sides: "
        f"{_count(differences)}",
        columns=(
            Column(title="counts as"),
            *new,
            Column(title="field", code=True),
            Column(title="base", code=True),
            Column(title="new", code=True),
            *why,
        ),
        rows=tuple(
            _difference_row(one, with_side=bool(new), with_why=has_why) for one in differences
        ),
        limit=MOST_DIFFERENCES,
    )


def _difference_row(one: Difference, *, with_side: bool, with_why: bool) -> tuple[Cell, ...]:
    base, new = format_pair(one.base, one.new)
    return (
        Cell(text=_word(one.severity), tone=SEVERITY_TONES[one.severity]),
        *((Cell(text=one.side),) if with_side else ()),
        Cell(text=one.path),
        Cell(text=base),
        Cell(text=new),
        *((Cell(text=one.reason, tone="muted"),) if with_why else ()),
    )


def _equal_table(comparison: Comparison) -> Table | None:
    groups = _equal_fields(comparison)
    if not groups:
        return None
    number = sum(map(len, groups.values()))
    return Table(
        caption=f"{count_of(number, 'field')} equal on all sides, by group of host.json",
        columns=(
            Column(title="group", code=True),
            Column(title="equal", align="right"),
            Column(title="fields", code=True),
        ),
        rows=tuple(
            (Cell(text=group), Cell(text=str(len(names))), Cell(text=", ".join(names)))
            for group, names in groups.items()
        ),
        limit=0,
    )


def _equal_fields(comparison: Comparison) -> dict[str, list[str]]:
    # What the gate looked at and found equal: neither ignored nor listed as a difference.
    differing = {one.path for one in comparison.comparability.differences}
    hosts = [flatten_host(side.host) for side in comparison.sides if side.host]
    paths = dict.fromkeys(path for host in hosts for path in host)
    groups: dict[str, list[str]] = {}
    for path in paths if len(hosts) == len(comparison.sides) else ():
        if path not in differing and find_rule(path).severity != "ignored":
            group, _, name = path.partition(".")
            groups.setdefault(group, []).append(name or group)
    return groups
