# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the first screen of the HTML report from the record of a comparison."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from schedperf.model.comparison import Comparison
from schedperf.model.host import read_host
from schedperf.model.rows import Row, Verdict
from schedperf.model.sides import SideSummary
from schedperf.model.units import SIGNIFICANT_DIGITS, Scale
from schedperf.model.verdict import CHANGED, describe_mde
from schedperf_reports.blocks import Block, Graphic, Tone
from schedperf_reports.page.first_screen.drawings import (
    MOST_LINES,
    Changes,
    Strips,
    draw_changes,
    draw_sides,
    draw_strips,
    scale_of_sides,
)
from schedperf_reports.page.first_screen.labels import describe_difference, name_sides
from schedperf_reports.page.first_screen.lines import Lines, draw_lines
from schedperf_reports.page.first_screen.sentence import (
    deciding_rows,
    name_result,
    rank_sides,
    write_sentence,
)
from schedperf_reports.page.first_screen.time import TimePicture, draw_time
from schedperf_reports.page.first_screen.why import Why, explain
from schedperf_reports.results.run_figures import scale_of
from schedperf_reports.results.tails import find_distributions
from schedperf_reports.results.two_by_two import summarise
from schedperf_reports.sections import (
    CHAPTERS,
    SHORT_TITLES,
    ReportSection,
    all_report_sections,
    is_about_others,
)
from schedperf_reports.verdict.comparable import has_machines, name_kernel, shared_machine
from schedperf_reports.verdict.findings import absent_sections
from schedperf_reports.verdict.source import commits_of_sides
from schedperf_reports.words.quantities import format_change, format_interval, format_share, is_wide
from schedperf_reports.words.rows import (
    VERDICT_TONES,
    count_of,
    count_units,
    has_changed,
    has_same_data,
    is_of_one_boot_each,
    is_of_this_boot,
    name_rows,
    side_place,
    size_of_change,
)
from schedperf_reports.words.sentences import judge_sides
from schedperf_reports.words.states import State

# A larger smallest detectable change (as a fraction) only shows that there are too few runs.
LARGEST_MDE = 1.0
# Chapters with a cell at the bottom of the screen.
GLANCED = ("benchmarks", "latency", "scheduler", "profile", "memory", "environment")
# Commands of a workload, and characters of each, that one line shows.
LONGEST_WORKLOAD = 60
# Maximum length of a reason that is printed beside a step.
LONGEST_REASON = 60
# Maximum number of chapters and analyses without data that are listed by name.
MOST_ABSENT = 4
RECORDS = "schedperf rerun "
# Short forms of the verdicts.
RESULTS: Mapping[Verdict, str] = {
    "regression": "worse",
    "improvement": "better",
    "no-change": "unchanged",
    "inconclusive": "inconclusive",
    "invalid": "invalid",
}
# Texts for chapters without data: what is missing, and why.
NO_RESULT: tuple[str, str, Tone] = ("not measured", "no benchmark result was found", "muted")
NO_LATENCY: tuple[str, str, Tone] = ("not measured", "none printed, none traced", "muted")
NO_DATA: tuple[str, str, Tone] = ("not measured", "no collector data", "muted")
NO_HOST: tuple[str, str, Tone] = ("unknown", "the machines are not recorded", "muted")


class Value(Struct, frozen=True, kw_only=True):
    """The value of one side with its unit.

    :param place: index of the side's colour and shape
    """

    text: str
    place: int


class SideLine(Struct, frozen=True, kw_only=True):
    """One of several sides, with its value for the first of the deciding results.

    :param place: index of the side's colour and shape
    :param change: the change; "" for base, for an inconclusive result, and without a ratio
    :param details: interval; n, if sides differ in it; and the number of changed results of this
        side; for base the legend of these details
    """

    label: str
    place: int
    value: str
    change: str
    tone: Tone
    details: str


class Glance(Struct, frozen=True, kw_only=True):
    """One cell at the bottom of the screen: how much of a chapter changed, with a link to it.

    :param note: further text; "" for none
    :param href: name of the section that the cell links to
    """

    title: str
    text: str
    note: str
    tone: Tone
    href: str


class Next(Struct, frozen=True, kw_only=True):
    """The first of the next steps.

    :param what: what to do
    :param why: the reason; "" if it is long, or if the headline states it
    :param command: the command that records, else the first command of the step; "" for none
    :param steps: number of steps in the list
    """

    what: str
    why: str
    command: str
    steps: int


class FirstScreen(Graphic, frozen=True, kw_only=True):
    """The content of the first screen; its caption is the headline.

    :param word: the verdict
    :param conditions: conditions of the verdict, such as one boot per side; "" for none
    :param sides: base and each new side, if there are several new ones; else empty
    :param values: values of base and new, for the changed result in the headline or the only
        result; empty without such a result, and with several new sides
    :param basis: interval and n of the same result; "" with several new sides
    :param facts: workload, differences, machine, kernels and date
    :param comparable: whether the sides are comparable; None if unknown
    :param limits: the smallest detectable change, and whether this is an A/A comparison
    :param strips: runs of the only result; None with several results or new sides
    :param changes: the drawn changes; None without any
    :param lines: changed cache lines; None if there are results
    :param time: where the time of the workload's tasks went; None if it is unknown
    :param unseen: what was not measured; "" for nothing
    :param next: the first next step; None without one
    """

    word: Verdict
    tone: Tone
    conditions: str
    sides: tuple[SideLine, ...]
    values: tuple[Value, ...]
    basis: str
    facts: tuple[tuple[str, ...], ...]
    comparable: bool | None
    limits: str
    strips: Strips | None
    changes: Changes | None
    lines: Lines | None
    time: TimePicture | None
    why: Why
    unseen: str
    next: Next | None
    cells: tuple[Glance, ...]

    def cited(self) -> tuple[str, ...]:
        """Return the evidence of the reasons."""
        return tuple(reason.evidence for reason in self.why.reasons)

    @property
    def comparable_words(self) -> str:
        """Return in words whether the sides are comparable."""
        if self.comparable is None:
            return "comparability unknown"
        return (
            "✓\N{NO-BREAK SPACE}comparable"
            if self.comparable
            else "✗\N{NO-BREAK SPACE}not comparable"
        )


def draw_first_screen(
    comparison: Comparison,
    sections: Sequence[ReportSection],
    layouts: Sequence[Block] = (),
) -> FirstScreen:
    """Return the first screen of a report with these sections.

    :param layouts: blocks of the cache-line section, which is drawn if there are no results
    """
    rows = deciding_rows(comparison)
    states = dict(_states(comparison, sections))
    labels = _labels_of(comparison, rows)
    single = rows[0] if len(rows) == 1 else None
    # With several results, the headline names the one that changed most.
    told = rows[0] if rows and has_changed(comparison) else single
    several = len(comparison.sides) > 2  # noqa: PLR2004 # base and one new
    same = _rows_of_sides(comparison, rows[0]) if several and rows else []
    names = _names_of(comparison)
    time = draw_time(comparison, same or rows[:1], names)
    return FirstScreen(
        caption=write_sentence(comparison, rows),
        word=comparison.overall.verdict,
        tone=VERDICT_TONES[comparison.overall.verdict],
        conditions="; ".join(_conditions(comparison)),
        sides=tuple(_side_lines(comparison, same)) if same else (),
        values=tuple(_values(told)) if told and not same else (),
        basis=_basis(told or rows[0], has_interval=told is not None) if rows and not same else "",
        facts=tuple(filter(None, _facts(comparison, rows))) or ((),),
        comparable=_is_comparable(comparison),
        limits="; ".join(_limits(comparison, rows)),
        strips=draw_strips(single, labels) if single and not same else None,
        changes=draw_sides(same, names, len(rows) - 1) if same else draw_changes(rows, labels),
        lines=None if rows else draw_lines(layouts),
        time=time,
        why=explain(comparison, states, time),
        unseen=_unseen(comparison),
        next=_next(comparison),
        cells=tuple(_cells(comparison, sections, states)),
    )


def _states(
    comparison: Comparison, sections: Sequence[ReportSection]
) -> Iterator[tuple[str, State]]:
    for section in sections:
        state = section.state(comparison) if section.state else None
        if state is not None:
            yield section.name, state


def _names_of(comparison: Comparison) -> Mapping[str, str]:
    names = (side.name for side in comparison.sides)
    return dict(zip(names, name_sides(comparison), strict=True))


def _labels_of(comparison: Comparison, rows: Sequence[Row]) -> tuple[str, str]:
    labels = _names_of(comparison)
    first = comparison.sides[0].name
    new = rows[0].side if rows else comparison.sides[1].name
    return labels[first], labels[new]


def _rows_of_sides(comparison: Comparison, row: Row) -> list[Row]:
    """Return the rows of all sides for the same result, the worst side first."""
    result = row.workload, row.point, row.metric
    rows = {
        each.side: each
        for each in comparison.rows
        if (each.workload, each.point, each.metric) == result
    }
    return [rows[side.side] for side in rank_sides(comparison) if side.side in rows]


def _conditions(comparison: Comparison) -> Iterator[str]:
    several = len(comparison.sides) > 2  # noqa: PLR2004 # base and one new
    # With several sides, the headline names the mixed ones, and their lines count the results.
    if not several and any(side.is_mixed for side in judge_sides(comparison)):
        yield "mixed: some results better, some worse"
    interaction = summarise(comparison.two_by_two)
    if interaction:
        yield interaction
    if has_same_data(comparison):
        yield "same data: equal digests"
    elif is_of_this_boot(comparison):
        yield "one boot per side: boot-to-boot variance unknown"
    elif has_changed(comparison) and is_of_one_boot_each(comparison):
        yield "one boot per side"


def _side_lines(comparison: Comparison, rows: Sequence[Row]) -> Iterator[SideLine]:
    labels = _names_of(comparison)
    counts = {count_units(row) for row in rows}
    scale = scale_of_sides(rows)
    # If all sides have the same number of runs, it is printed once.
    base = comparison.sides[0]
    yield SideLine(
        label=labels[base.name],
        place=side_place(base.name),
        value=_padded(scale, rows[0].base),
        change="",
        tone="plain",
        details=", ".join(["[95% CI]", *([_n_text(rows[0])] if len(counts) == 1 else [])]),
    )
    for row in rows[:MOST_LINES]:
        is_open = row.verdict == "inconclusive"
        n = _n_text(row) if len(counts) > 1 else ""
        yield SideLine(
            label=labels[row.side],
            place=side_place(row.side),
            value=_padded(scale, row.new),
            change="" if is_open or row.ratio is None else format_change(row.ratio),
            tone=VERDICT_TONES[row.verdict],
            details=", ".join(
                filter(None, (_interval_text(row), n, _count_results(comparison, row)))
            ),
        )


def _count_results(comparison: Comparison, shown: Row) -> str:
    """Count the results of a side: ``1 of 3 worse, 2 better, most -7.0% at groups=1``.

    :param shown: row whose change is printed before the text
    """
    rows = [row for row in comparison.rows if row.side == shown.side and row.same_as is None]
    primary = [row for row in rows if row.family == "primary"] or rows
    if not primary:
        return ""
    counts = Counter(row.verdict for row in primary)
    if len(primary) == 1:
        return RESULTS[primary[0].verdict]
    said = [verdict for verdict in CHANGED if counts[verdict]]
    first, *others = said or [max(counts, key=lambda verdict: counts[verdict])]
    parts = [f"{counts[first]} of {len(primary)} {RESULTS[first]}"]
    parts += [f"{counts[verdict]} {RESULTS[verdict]}" for verdict in others]
    most = max((row for row in primary if row.verdict in said), key=size_of_change, default=None)
    if most is not None and most is not shown and most.ratio is not None:
        parts.append(f"most {format_change(most.ratio)} at {most.point or most.metric}")
    return ", ".join(parts)


def _values(row: Row) -> Iterator[Value]:
    for name, value in (("base", row.base), (row.side, row.new)):
        yield Value(text=_value(scale_of(row), value), place=side_place(name))


def _value(scale: Scale, value: float | None) -> str:
    return f"{scale.format(value)} {scale.unit}".rstrip()


def _padded(scale: Scale, value: float | None) -> str:
    """Format a value with trailing zeros for a column: ``1.000 s`` below ``0.8005 s``."""
    text = scale.format(value)
    whole = text.lstrip("-").partition(".")[0]
    decimals = SIGNIFICANT_DIGITS - len(whole.lstrip("0"))
    if value is not None and whole.isdecimal() and decimals > 0:
        text = f"{value / scale.factor:.{decimals}f}"
    return f"{text} {scale.unit}".rstrip()


def _basis(row: Row, *, has_interval: bool) -> str:
    interval = _interval_text(row) if has_interval else ""
    return ", ".join(filter(None, (f"95% CI {interval}" if interval else "", _n_text(row))))


def _interval_text(row: Row) -> str:
    if row.ci_low is None:
        return ""
    if is_wide(row.ci_low, row.ci_high):
        return "too wide"
    return format_interval(row.ci_low, row.ci_high).replace(" ", "\N{NO-BREAK SPACE}")


def _n_text(row: Row) -> str:
    return f"n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{count_units(row)}"


def _facts(comparison: Comparison, rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    names = list(dict.fromkeys(row.workload for row in rows if row.workload))
    ran = names[0] if names else ""
    if len(ran) > LONGEST_WORKLOAD:
        ran = f"{ran[:LONGEST_WORKLOAD]}…"
    more = f", {len(names) - 1} more" if len(names) > 1 else ""
    yield tuple(filter(None, (f"{ran}{more}", describe_difference(comparison))))
    yield from ((text,) for text in commits_of_sides(comparison))
    yield tuple(filter(None, (*_machine(comparison.sides), _date(comparison.sides))))


def _machine(sides: Sequence[SideSummary]) -> Iterator[str]:
    if has_machines(sides):
        yield shared_machine(sides) or "machines differ"
    releases = [read_host(side.host).kernel.release for side in sides]
    # The differences are already printed.
    if releases[0] and len(set(releases)) == 1:
        yield f"Linux {releases[0]}"


def _date(sides: Sequence[SideSummary]) -> str:
    days = sorted({side.created[:10] for side in sides if side.created})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def _is_comparable(comparison: Comparison) -> bool | None:
    comparability = comparison.comparability
    if not comparability.compared and comparability.comparable:
        return None
    return comparability.comparable


def _limits(comparison: Comparison, rows: Sequence[Row]) -> Iterator[str]:
    changes = [row.mde for row in rows if row.mde is not None]
    if changes and max(changes) <= LARGEST_MDE:
        yield describe_mde(format_share(max(changes)))
    elif changes:
        yield "smallest detectable change above 100%"
    is_known = comparison.comparability.compared and all(map(name_kernel, comparison.sides))
    differences = comparison.comparability.differences
    if is_known and not any(difference.severity == "treatment" for difference in differences):
        yield "A/A comparison: no intended difference"


def _unseen(comparison: Comparison) -> str:
    absent = list(_name_absent(comparison))
    # The cell of the profile says the same.
    clauses = [
        each.clause
        for each in comparison.findings
        if each.bearing == "unseen" and each.rule != "hotter_symbols"
    ]
    more = len(absent) - MOST_ABSENT
    names = ", ".join(absent[:MOST_ABSENT]) + (f" and {more} more" if more > 0 else "")
    parts = [names] if absent else []
    return "; ".join((*parts, *dict.fromkeys(clauses)))


def _name_absent(comparison: Comparison) -> Iterator[str]:
    # A chapter without any analysis is listed by its name; the environment also has other content.
    absent = absent_sections(comparison)
    missing = Counter(section.chapter for section in absent)
    analyses = Counter(
        section.chapter
        for section in all_report_sections()
        if section.is_analysis
        and section.name in comparison.sections
        and not is_about_others(section, comparison)
    )
    for chapter, sections in groupby(absent, key=lambda section: section.chapter):
        if missing[chapter] == analyses[chapter] and chapter != "environment":
            yield SHORT_TITLES.get(chapter, CHAPTERS[chapter])
        else:
            yield from (section.title for section in sections)


def _next(comparison: Comparison) -> Next | None:
    if not comparison.next_steps:
        return None
    first = comparison.next_steps[0]
    # Without a verdict, the headline already contains the reason.
    has_verdict = comparison.overall.verdict not in ("inconclusive", "invalid")
    records = [command for command in first.commands if command.startswith(RECORDS)]
    commands = records or list(first.commands)
    return Next(
        what=f"{first.what[:1].upper()}{first.what[1:]}",
        why=first.why if has_verdict and len(first.why) <= LONGEST_REASON else "",
        command=commands[0] if commands else "",
        steps=len(comparison.next_steps),
    )


def _cells(
    comparison: Comparison, sections: Sequence[ReportSection], states: Mapping[str, State]
) -> Iterator[Glance]:
    for chapter in GLANCED:
        mine = [section for section in sections if section.chapter == chapter]
        if mine:
            text, note, tone = _glance(comparison, chapter, mine, states)
            title = SHORT_TITLES.get(chapter, CHAPTERS[chapter])
            href = _first_with_data(comparison, mine, states)
            yield Glance(title=title, text=text, note=note, tone=tone, href=href)


def _first_with_data(
    comparison: Comparison, sections: Sequence[ReportSection], states: Mapping[str, State]
) -> str:
    # A chapter may begin with results that the workload did not print.
    is_printed = sections[0].chapter != "latency" or _count_distributions(comparison)
    known = [section.name for section in sections if section.name in states]
    return sections[0].name if is_printed or not known else known[0]


def _glance(
    comparison: Comparison,
    chapter: str,
    sections: Sequence[ReportSection],
    states: Mapping[str, State],
) -> tuple[str, str, Tone]:
    if chapter == "benchmarks":
        return _results(comparison)
    if chapter == "environment":
        return _differences(comparison)
    mine = [states[section.name] for section in sections if section.name in states]
    if chapter == "latency":
        return _latencies(comparison, mine)
    return _merge(mine) if mine else NO_DATA


def _latencies(comparison: Comparison, traced: Sequence[State]) -> tuple[str, str, Tone]:
    number = _count_distributions(comparison)
    printed = count_of(number, "distribution")
    if not traced:
        return (printed, "", "plain") if number else NO_LATENCY
    text, note, tone = _merge(traced)
    return text, ", ".join(filter(None, (note, f"{printed} printed" if number else ""))), tone


def _count_distributions(comparison: Comparison) -> int:
    names = name_rows(comparison.rows)
    return len(find_distributions([(names[at], row) for at, row in enumerate(comparison.rows)]))


def _merge(states: Sequence[State]) -> tuple[str, str, Tone]:
    known = [state.changed for state in states if state.changed is not None]
    total = sum(state.total for state in states)
    note = ", ".join(filter(None, (state.note for state in states)))
    if not known:
        return "significance unknown", note, "plain"
    tone: Tone = "bad" if sum(known) else "plain"
    return f"{sum(known)} of {total} changed", note, tone


def _results(comparison: Comparison) -> tuple[str, str, Tone]:
    rows = [row for row in comparison.rows if row.family == "primary"] or list(comparison.rows)
    if not rows:
        return NO_RESULT
    counts = Counter(row.verdict for row in rows)
    first, *others = (verdict for verdict in RESULTS if counts[verdict])
    note = ", ".join(f"{counts[verdict]} {RESULTS[verdict]}" for verdict in others)
    return f"{counts[first]} of {len(rows)} {RESULTS[first]}", note, VERDICT_TONES[first]


def _differences(comparison: Comparison) -> tuple[str, str, Tone]:
    comparability = comparison.comparability
    if not comparability.compared:
        return NO_HOST
    paths = {each.path for each in comparability.differences if each.severity != "ignored"}
    blocking = {each.path for each in comparability.differences if each.severity == "blocking"}
    note = f"{len(blocking)} blocking" if blocking else ""
    return f"{len(paths)} of {comparability.compared} differ", note, "bad" if blocking else "plain"


def title_of(comparison: Comparison) -> str:
    """Return the title of the browser tab: ``hackbench +21.8% · cgroup depth 0 → 8 · 6.18.44``."""
    rows = deciding_rows(comparison)
    verdict = comparison.overall.verdict
    parts: list[str] = [verdict]
    if rows and has_changed(comparison):
        parts = [f"{name_result(rows[0])} {format_change(rows[0].ratio)}"]
    elif rows:
        parts = [f"{name_result(rows[0])} {RESULTS[verdict]}"]
    labels = name_sides(comparison)
    several = len(labels) > 2  # noqa: PLR2004 # base and one new
    difference = "" if several else describe_difference(comparison)
    parts.append(difference or f"{', '.join(labels[1:])} vs {labels[0]}")
    releases = {read_host(side.host).kernel.release for side in comparison.sides}
    if len(releases) == 1:
        parts += filter(None, releases)
    return " · ".join(parts)
