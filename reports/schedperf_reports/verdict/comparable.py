# SPDX-License-Identifier: GPL-2.0-or-later
"""Report whether the sides are comparable: equal fields, treatments, and blocking differences."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from schedperf.model.comparison import Comparison
from schedperf.model.host import Virtualisation, read_host
from schedperf.model.sides import Comparability, Difference, OptionDifference, SideSummary
from schedperf.model.text import list_some
from schedperf.model.verdict import WORKLOAD, name_differing_field
from schedperf_reports.blocks import Cell, Column, Item, Items, Table
from schedperf_reports.graphics.panels import Fold, Panel
from schedperf_reports.verdict.host_fields import format_pair, format_value
from schedperf_reports.words.quantities import MISSING
from schedperf_reports.words.rows import SEVERITY_TONES, count_of, name_side, side_prefixes

# Actionable differences come first.
SEVERITY_ORDER = ("blocking", "treatment", "noted")
# Differences that a text lists before the results, and fields that one line of a page lists.
MOST_DIFFERENCES = 12
MOST_NAMED = 4
# Fields that only repeat that the kernel differs.
SAME_KERNEL = ("kernel.version", "kernel.build_id")
# Words for the record's severities, and for a default that the kernels changed.
SEVERITY_WORDS: Mapping[str, str] = {"treatment": "expected"}
PART_OF_CHANGE = "part of the change"
# Maximum length of a value; longer ones are in the table below. A setup is shown because the user
# wrote it.
LONGEST_VALUE = 24
LONGEST_SETUP = 60
# Defaults that the second line of a report lists first.
MOST_DEFAULTS = 12
FIRST_DEFAULTS = ("sched.preempt", "sched.hz", "sched.")
# Options of the kernel's configuration that affect scheduling; a screen lists these first.
SCHEDULING_OPTION = re.compile(
    r"CONFIG_(?:PREEMPT|HZ|NO_HZ|SCHED|FAIR_GROUP|CFS|RT_GROUP|UCLAMP|NUMA|CGROUP|PSI|CPUSETS|SMP"
    r"|NR_CPUS|CPU_FREQ|CPU_IDLE|TRANSPARENT_HUGEPAGE|RCU|LOCKDEP|PROVE|DEBUG_)\w*"
)


def comparability_panel(comparison: Comparison) -> Panel:
    """Return the box that states whether the sides are comparable.

    Blocking differences come first, each with what to do, then other remarks; tables are folded.
    """
    comparability = comparison.comparability
    shown = [
        difference
        for difference in comparability.differences
        if difference.severity in SEVERITY_ORDER
    ]
    shown.sort(key=lambda difference: SEVERITY_ORDER.index(difference.severity))
    items = tuple(_items(comparison, shown))
    listed = (Items(items=items, brief=len(items)),) if items else ()
    return Panel(
        caption=f"comparable: {_answer(comparability)}",
        aside=_aside(comparability, shown),
        tone="plain" if comparability.comparable else "bad",
        brief=True,
        blocks=(*listed, _fold(comparison, shown)),
    )


def _answer(comparability: Comparability) -> str:
    if not _is_known(comparability):
        return "unknown"
    return "yes" if comparability.comparable else "NO"


def _is_known(comparability: Comparability) -> bool:
    # Tables of numbers do not record their machines, so no field was compared.
    return bool(comparability.compared) or not comparability.comparable


def _aside(comparability: Comparability, shown: Sequence[Difference]) -> str:
    if _is_known(comparability) or not shown:
        return f"{count_of(comparability.compared, 'field')} compared; differences: {_count(shown)}"
    # What could not be compared does not count as a difference.
    return "; ".join(dict.fromkeys(difference.reason for difference in shown))


def _fold(comparison: Comparison, shown: Sequence[Difference]) -> Fold:
    tables: dict[str, Table | None] = {"sides": _sides_table(comparison.sides)}
    if shown and _is_known(comparison.comparability):
        tables["differences"] = _differences_table(shown, len(comparison.sides))
    tables["equal fields"] = _equal_table(comparison)
    filled = {what: table for what, table in tables.items() if table is not None}
    *first, last = filled
    caption = f"{', '.join(first)}, and {last}" if first else last
    return Fold(caption=caption, blocks=tuple(filled.values()))


def _count(shown: Sequence[Difference]) -> str:
    # The differences are in the order of their severities.
    counts = Counter(map(word_of, shown))
    return ", ".join(f"{number} {word}" for word, number in counts.items()) or "none"


def word_of(difference: Difference) -> str:
    """Return the word for how a difference counts.

    It is ``expected`` for a treatment, or ``part of the change`` for a default that differs because
    the kernels do; otherwise the severity: ``blocking``, ``noted`` or ``ignored``.
    """
    if difference.is_part_of_change:
        return PART_OF_CHANGE
    return SEVERITY_WORDS.get(difference.severity, difference.severity)


def mark_of(difference: Difference) -> str:
    """Return the word of :func:`word_of`, with ``change`` for ``part of the change``.

    A column of a table has no room for the longer words.
    """
    return "change" if difference.is_part_of_change else word_of(difference)


def describe_treatments(comparison: Comparison) -> list[str]:
    """Return a sentence with the intended differences of each new side that has some.

    ``new differs from base: …``

    Defaults that differ because the kernels do are part of the change and are listed last.
    """
    base, *others = comparison.sides
    sentences = []
    for side in others:
        expected = [
            difference
            for difference in comparison.comparability.differences
            if difference.severity == "treatment" and difference.side == side.name
        ]
        if any(difference.path == "kernel.release" for difference in expected):
            expected = [each for each in expected if each.path not in SAME_KERNEL]
        meant = [each for each in expected if not each.is_part_of_change]
        defaults = [each for each in expected if each.is_part_of_change]
        listed = [_name(sorted(meant, key=_is_wordless))] if meant else []
        if defaults:
            named = _name(sorted(defaults, key=_default_rank), most=MOST_DEFAULTS)
            listed.append(f"{PART_OF_CHANGE}: {named}")
        if listed:
            sentences.append(
                f"{name_side(side)} differs from {name_side(base)}: {'; '.join(listed)}"
            )
    return sentences


def _default_rank(difference: Difference) -> tuple[int, bool, bool]:
    # A feature that only one of the kernels has comes after those that were toggled.
    ranks = (
        rank for rank, prefix in enumerate(FIRST_DEFAULTS) if difference.path.startswith(prefix)
    )
    is_new = None in (difference.base, difference.new)
    return next(ranks, len(FIRST_DEFAULTS)), is_new, _is_wordless(difference)


def _items(comparison: Comparison, shown: Sequence[Difference]) -> Iterator[Item]:
    yield from (
        _blocking_item(comparison, difference) for difference in _of(shown, "blocking")[:MOST_NAMED]
    )
    more = len(_of(shown, "blocking")) - MOST_NAMED
    if more > 0:
        text = f"{count_of(more, 'more field')} with blocking differences"
        yield Item(text=text, tone="bad", evidence=("environment",))
    # The verdict lists the intended differences.
    if not _of(shown, "treatment") and comparison.comparability.compared:
        # Imported results may lack the kernel, which may then differ.
        is_known = all(map(name_kernel, comparison.sides))
        what = "A/A comparison: same kernel" if is_known else "kernel not recorded"
        yield Item(text=f"{what}, no intended difference declared", tone="warning")
    noted = _of(shown, "noted")
    if noted and _is_known(comparison.comparability):
        text = f"other differences (allowed): {_name(noted)}"
        yield Item(text=text, evidence=("environment",))
    yield from _origin_items(shown)
    yield from _options_items(comparison)
    yield from _who(comparison.sides)


def _origin_items(shown: Sequence[Difference]) -> Iterator[Item]:
    unknown = [each for each in shown if each.is_part_of_change and each.origin == "unknown"]
    if unknown:
        paths = list(dict.fromkeys(each.path for each in sorted(unknown, key=_default_rank)))
        text = f"unknown whether an administrator set {list_some(paths, MOST_NAMED)}"
        detail = "the bundles do not record this, so the values are treated as kernel defaults"
        yield Item(text=text, detail=detail, tone="warning", evidence=("environment",))


def _options_items(comparison: Comparison) -> Iterator[Item]:
    prefixes = side_prefixes(comparison)
    for side in comparison.sides[1:]:
        options = options_of(comparison, side.name)
        if options:
            named = [
                f"{option.name} {option.base or 'n'} → {option.new or 'n'}" for option in options
            ]
            differ = "differs" if len(options) == 1 else "differ"
            count = count_of(len(options), "kernel config option")
            text = f"{prefixes[side.name]}{count} {differ}: {list_some(named, MOST_NAMED)}"
            yield Item(text=text, evidence=("environment",))
        elif _have_other_configs(comparison, side.name):
            text = (
                f"{prefixes[side.name]}the kernel configurations differ, but not all bundles "
                "contain the options"
            )
            yield Item(text=text, evidence=("environment",))


def options_of(comparison: Comparison, side: str) -> list[OptionDifference]:
    """Return the configuration options of a side's kernel that differ from base's.

    Those that affect scheduling come first. Options that describe the compiler, other tools or the
    build are left out.

    :param side: name of a new side
    """
    mine = [
        option
        for option in comparison.comparability.options
        if option.side == side and not option.toolchain
    ]
    return sorted(mine, key=lambda option: SCHEDULING_OPTION.match(option.name) is None)


def _have_other_configs(comparison: Comparison, side: str) -> bool:
    # Both hashes are known, but the options are not: the file is missing, or cannot be read.
    is_listed = any(option.side == side for option in comparison.comparability.options)
    return not is_listed and any(
        difference.path == "kernel.config_sha256"
        and difference.side == side
        and None not in (difference.base, difference.new)
        for difference in comparison.comparability.differences
    )


def _of(shown: Sequence[Difference], severity: str) -> list[Difference]:
    matching = [difference for difference in shown if difference.severity == severity]
    # Differences with short values, which fit into the line, come first.
    return sorted(matching, key=_is_wordless)


def _is_wordless(difference: Difference) -> bool:
    return _values(difference) == ""


def _blocking_item(comparison: Comparison, difference: Difference) -> Item:
    pair = format_pair(difference.base, difference.new)
    base, new = ("none" if text == MISSING else text for text in pair)
    # Only fields of host.json can be allowed, not a metric or a workload.
    is_field = any(difference.path.partition(".")[0] in side.host for side in comparison.sides)
    allow = f", or use --allow {difference.path}" if is_field else ""
    again = "the same one" if difference.path == WORKLOAD else "again with equal values"
    return Item(
        text=name_differing_field(difference, base, new),
        detail=f"{difference.reason}; record {again}{allow}",
        tone="bad",
        evidence=("environment",),
    )


def _name(differences: Sequence[Difference], *, most: int = MOST_NAMED) -> str:
    # Boots, and further sides, may differ in the same field.
    named = (f"{difference.path}{_values(difference)}" for difference in differences)
    return list_some(list(dict.fromkeys(named)), most)


def _values(difference: Difference) -> str:
    if difference.base is None and difference.new is None:
        return " (unknown)"
    is_command = difference.path in {"setup", "service"}
    base, new = (
        "none" if is_command and value is None else format_value(value)
        for value in (difference.base, difference.new)
    )
    longest = LONGEST_SETUP if is_command else LONGEST_VALUE
    return "" if max(len(base), len(new)) > longest else f" {base} → {new}"


def _who(sides: Sequence[SideSummary]) -> Iterator[Item]:
    machines = describe_machines(sides)
    if machines:
        yield Item(text=machines, evidence=("environment",))


def describe_machines(sides: Sequence[SideSummary]) -> str:
    """Return the machine of all sides, and their kernel if all have the same.

    Return "machines differ" in place of different machines, and "" if no side records its machine.
    """
    # Tables of numbers record no machine; the answer above states this.
    if not has_machines(sides):
        return ""
    same = shared_machine(sides)
    machine = "machines differ" if same is None else f"{same} on all sides"
    kernels = {_kernel(side) for side in sides}
    # The verdict already states that the kernels differ.
    return f"{machine}; kernel {kernels.pop()} on all sides" if len(kernels) == 1 else machine


def shared_machine(sides: Sequence[SideSummary]) -> str | None:
    """Return CPU model, CPUs and nodes in a few words; None if these differ between the sides."""
    machines = {_machine(side) for side in sides}
    return machines.pop() if len(machines) == 1 else None


def name_kernel(side: SideSummary) -> str | None:
    """Return the release of a side's kernel; None if it is not recorded."""
    return read_host(side.host).kernel.release


def has_machines(sides: Sequence[SideSummary]) -> bool:
    """Return whether at least one side records its machine; a table of numbers does not."""
    return any(side.host for side in sides)


def _sides_table(sides: Sequence[SideSummary]) -> Table:
    labels = any(side.label != side.name for side in sides)
    machines = has_machines(sides)
    compared = describe_machines(sides)
    return Table(
        caption=f"{count_of(len(sides), 'side')} compared{f': {compared}' if compared else ''}",
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
    return name_kernel(side) or "unknown"


def _machine(side: SideSummary) -> str:
    host = read_host(side.host)
    cpus, nodes = host.cpu.count_online, host.topology.nodes
    model = host.cpu.model or "CPU unknown"
    parts = [model]
    if cpus:
        parts.append(count_of(cpus, "CPU"))
    elif side.imported is not None:
        parts.append("unknown number of CPUs")
    parts += [count_of(len(nodes), "node")] if nodes else []
    parts += [_emulated(host.virtualisation, model)] if host.virtualisation.emulated else []
    return ", ".join(parts)


def _emulated(machine: Virtualisation, model: str) -> str:
    # Some emulated CPUs are named after their emulator.
    return "emulated" if machine.machine in model else f"emulated ({machine.machine})"


def _runs(side: SideSummary) -> str:
    parts = ["number not recorded" if side.runs_clean is None else f"{side.runs_clean} clean"]
    parts += [f"{side.runs_instrumented} instrumented"] if side.runs_instrumented else []
    parts += [f"{side.runs_failed} failed"] if side.runs_failed else []
    parts += [f"{side.runs_discarded} discarded"] if side.runs_discarded else []
    unfinished = "" if side.complete else "; incomplete recording"
    boots = "" if side.boots is None else f", {count_of(side.boots, 'boot')}"
    return f"{' + '.join(parts)}{boots}{unfinished}"


def _differences_table(differences: Sequence[Difference], sides: int) -> Table:
    new = [Column(title="side")] if sides > 2 else []  # noqa: PLR2004 # base and one new
    # Intended differences need no reason.
    has_why = any(
        difference.severity != "treatment" or difference.is_part_of_change
        for difference in differences
    )
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
            _difference_row(difference, with_side=bool(new), with_why=has_why)
            for difference in differences
        ),
        limit=MOST_DIFFERENCES,
    )


def _difference_row(difference: Difference, *, with_side: bool, with_why: bool) -> tuple[Cell, ...]:
    base, new = format_pair(difference.base, difference.new)
    return (
        Cell(text=mark_of(difference), tone=SEVERITY_TONES[difference.severity]),
        *((Cell(text=difference.side),) if with_side else ()),
        Cell(text=difference.path),
        Cell(text=base),
        Cell(text=new),
        *((Cell(text=difference.reason, tone="muted"),) if with_why else ()),
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
    groups: dict[str, list[str]] = {}
    for path in comparison.comparability.equal:
        group, _, name = path.partition(".")
        groups.setdefault(group, []).append(name or group)
    return groups
