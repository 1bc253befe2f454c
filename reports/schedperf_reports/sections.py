# SPDX-License-Identifier: GPL-2.0-or-later
"""Report sections: each public module turns the record into blocks.

::

    @report_section("layout", title="Cache lines", chapter="memory", order=10)
    def layout(comparison: Comparison) -> Iterator[Block]:
        ...

Sections appear by chapter and ``order`` in it. A section whose analysis failed yields one line that
says why. Those of a chapter whose analysis found nothing to look at are one list at its end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.comparison import Comparison, Data, data_of
from schedperf_collectors.registry import Registry
from schedperf_reports.blocks import Block, Item, Items, Text
from schedperf_reports.words.instruments import warn_of_instruments
from schedperf_reports.words.states import State

Describe = Callable[[Comparison], Iterator[Block]]
Retitle = Callable[[Comparison], str]
FindState = Callable[[Comparison], State | None]

# The order of the report, and what its list of sections calls each part.
CHAPTERS: Mapping[str, str] = {
    "verdict": "Verdict",
    "benchmarks": "Benchmarks",
    "latency": "Latency",
    "scheduler": "Scheduler",
    "profile": "Profile",
    "memory": "Memory and layout",
    "environment": "Environment and methods",
    "raw": "Raw data",
}

# Their names in a cell of the first screen, where these are shorter.
SHORT_TITLES: Mapping[str, str] = {"memory": "Memory", "environment": "Environment"}

# Behind all others of its chapter.
ABSENT_ORDER = 1000


class ReportSection(Struct, frozen=True, kw_only=True):
    """One registered report section.

    :param name: also the anchor in HTML: ``#layout``
    :param chapter: one of ``CHAPTERS``
    :param is_analysis: shows the analysis of that name in :attr:`Comparison.sections`
    :param retitle: says its title in one report; None where that is always the same
    :param is_brief: a text of one screen has some of its blocks
    :param mail_rows: rows of its first table that a plain mail has; 0: none
    :param state: counts its changes; None where nothing is counted
    :param is_optional: a page leaves it out where it yields nothing
    """

    name: str
    title: str
    chapter: str
    order: int
    describe: Describe
    is_analysis: bool
    is_brief: bool = False
    retitle: Retitle | None = None
    mail_rows: int = 0
    state: FindState | None = None
    is_optional: bool = False

    @property
    def is_absent(self) -> bool:
        """Whether it only names what a report lacks."""
        return self.order == ABSENT_ORDER


registry: Registry[ReportSection] = Registry(
    "schedperf_reports.evidence",
    "schedperf_reports.results",
    "schedperf_reports.verdict",
    kind="report section",
    module="section",
)


def report_section(
    name: str,
    *,
    title: str,
    chapter: str,
    order: int,
    is_analysis: bool = False,
    is_brief: bool = False,
    retitle: Retitle | None = None,
    mail_rows: int = 0,
    state: FindState | None = None,
    is_optional: bool = False,
) -> Callable[[Describe], Describe]:
    """Register the decorated generator as the report section of that name."""

    def register(describe: Describe) -> Describe:
        section = ReportSection(
            name=name,
            title=title,
            chapter=chapter,
            order=order,
            describe=describe,
            is_analysis=is_analysis,
            is_brief=is_brief,
            retitle=retitle,
            mail_rows=mail_rows,
            state=state,
            is_optional=is_optional,
        )
        registry.add(name, section)
        return describe

    return register


def all_report_sections() -> tuple[ReportSection, ...]:
    """Return every report section in the order of the report."""
    return tuple(sorted(registry.all().values(), key=_place))


def _place(section: ReportSection) -> tuple[int, int, str]:
    return list(CHAPTERS).index(section.chapter), section.order, section.name


def shown_sections(comparison: Comparison) -> tuple[ReportSection, ...]:
    """Return the sections of one report; what has nothing to show is named once a chapter.

    A heading for each analysis that was not asked for would hide those that were.
    """
    sections = [
        section for section in all_report_sections() if not is_about_others(section, comparison)
    ]
    absent = [section for section in sections if _is_absent(section, comparison)]
    shown = [_fit(section, comparison) for section in sections if section not in absent]
    for chapter in dict.fromkeys(section.chapter for section in absent):
        missing = [section for section in absent if section.chapter == chapter]
        shown.append(
            ReportSection(
                name=f"absent-{chapter}",
                title=f"{CHAPTERS[chapter]}: not in this report",
                chapter=chapter,
                order=ABSENT_ORDER,
                describe=partial(_list_absent, missing),
                is_analysis=False,
            )
        )
    return tuple(sorted(shown, key=_place))


def _fit(section: ReportSection, comparison: Comparison) -> ReportSection:
    # Its title in this report, and over its blocks what weakens all of them.
    title = section.retitle(comparison) if section.retitle else section.title
    warnings = tuple(warn_of_instruments(comparison, section.name))
    if not warnings:
        return replace(section, title=title)
    return replace(
        section, title=title, describe=partial(_describe_below, warnings, section.describe)
    )


def _describe_below(
    above: Sequence[Block], describe: Describe, comparison: Comparison
) -> Iterator[Block]:
    yield from above
    yield from describe(comparison)


def is_about_others(section: ReportSection, comparison: Comparison) -> bool:
    """Return whether the recordings have nothing of what an analysis is about."""
    outcome = comparison.sections.get(section.name)
    return section.is_analysis and outcome is not None and outcome.status == "not-applicable"


def _is_absent(section: ReportSection, comparison: Comparison) -> bool:
    outcome = comparison.sections.get(section.name)
    return section.is_analysis and (outcome is None or outcome.status == "absent")


def record_of(comparison: Comparison, kind: type[Data]) -> Data | Text:
    """Return what an analysis found; where it found nothing, the line that says why."""
    data = data_of(comparison.sections, kind)
    if data is not None:
        return data
    section = comparison.sections.get(kind.section)
    reason = None if section is None else section.reason
    return Text(text=reason or "not analysed", tone="muted")


def _list_absent(absent: Sequence[ReportSection], comparison: Comparison) -> Iterator[Block]:
    titles: dict[str, list[str]] = {}
    for section in absent:
        outcome = comparison.sections.get(section.name)
        reason = None if outcome is None else outcome.reason
        titles.setdefault(reason or "not analysed", []).append(section.title)
    # Titles have commas of their own.
    lines = [f"{'; '.join(names)}: {reason}" for reason, names in titles.items()]
    if len(lines) == 1:
        yield Text(text=lines[0], tone="muted")
    else:
        yield Items(items=tuple(Item(text=line, tone="muted") for line in lines))
