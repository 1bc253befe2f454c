# SPDX-License-Identifier: GPL-2.0-or-later
"""Register report sections: functions that turn the record into blocks.

::

    @report_section("layout", title="Cache lines", chapter="memory", order=10)
    def layout(comparison: Comparison) -> Iterator[Block]:
        ...

Sections appear by chapter and ``order`` in it. A section whose analysis failed yields one line with
the reason. Sections without data are listed together at the end of their chapter.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.errors import describe
from schedperf.model.sections import Data, data_of
from schedperf_collectors.registry import Origin, Registry
from schedperf_reports.blocks import Block, Item, Items, Text
from schedperf_reports.words.instruments import warn_of_instruments
from schedperf_reports.words.rows import is_of_one_boot_each
from schedperf_reports.words.states import State

Describe = Callable[[Comparison], Iterator[Block]]
Retitle = Callable[[Comparison], str]
FindState = Callable[[Comparison], State | None]

# The order of the report, and the name of each part in the list of sections.
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

# Shorter names for the cells of the first screen.
SHORT_TITLES: Mapping[str, str] = {"memory": "Memory", "environment": "Environment"}

# Printed above a section whose tests treat runs as independent, although each side has one boot.
ONE_BOOT = "one boot per side: tests in this section do not include boot-to-boot variance"

# Fewer words at the start of two reasons are shared by chance.
FEWEST_SHARED_WORDS = 4
# Sort order after all others of the chapter.
ABSENT_ORDER = 1000


class ReportSection(Struct, frozen=True, kw_only=True):
    """One registered report section.

    :param name: name, and anchor in HTML: ``#layout``
    :param chapter: one of ``CHAPTERS``
    :param order: sort key within the chapter
    :param describe: function that yields its blocks
    :param is_analysis: whether it shows the analysis of that name in :attr:`Comparison.sections`
    :param is_brief: whether a brief text includes some of its blocks
    :param retitle: function that returns its title in one report; None if the title is constant
    :param mail_rows: rows of its first table in a plain mail; 0 for none
    :param state: function that counts its changes; None if nothing is counted
    :param is_optional: whether a page leaves it out if it yields nothing
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
        """Return whether it only lists the sections of a chapter that have no data."""
        return self.order == ABSENT_ORDER


def _guard(section: ReportSection, origin: Origin) -> ReportSection:
    """Return a wrapper for another package's section whose errors name the package."""

    def describe_guarded(comparison: Comparison) -> Iterator[Block]:
        try:
            yield from section.describe(comparison)
        except Exception as error:  # noqa: BLE001 # whatever it raises
            raise origin.error(f"{section.name} fails ({describe(error)})") from None

    return replace(section, describe=describe_guarded)


registry: Registry[ReportSection] = Registry(
    "schedperf_reports.evidence",
    "schedperf_reports.results",
    "schedperf_reports.verdict",
    kind="report section",
    module="section",
    guard=_guard,
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
    """Register the decorated generator as the report section of that name.

    The parameters are those of :class:`ReportSection`.

    :raises DuplicatePlugin: another section has the name
    """

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
    """Return every report section in the order of the report.

    :raises PluginError: a section of another package cannot be used
    """
    return tuple(sorted(registry.all().values(), key=_place))


def _place(section: ReportSection) -> tuple[int, int, str]:
    return list(CHAPTERS).index(section.chapter), section.order, section.name


def shown_sections(comparison: Comparison) -> tuple[ReportSection, ...]:
    """Return the sections of one report; sections without data are merged into one per chapter.

    They are merged because the headings of many empty sections would hide those with data.
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
    # The section's title in this report, and above its blocks the caveats that apply to all of
    # them.
    title = section.retitle(comparison) if section.retitle else section.title
    warnings = (
        *_warn_of_boots(section, comparison),
        *warn_of_instruments(comparison, section.name),
    )
    if not warnings:
        return replace(section, title=title)
    return replace(
        section, title=title, describe=partial(_describe_below, warnings, section.describe)
    )


def _warn_of_boots(section: ReportSection, comparison: Comparison) -> Iterator[Block]:
    # Sections that count changes also test them.
    if section.is_analysis and section.state is not None and is_of_one_boot_each(comparison):
        yield Text(text=ONE_BOOT, tone="muted")


def _describe_below(
    above: Sequence[Block], describe: Describe, comparison: Comparison
) -> Iterator[Block]:
    yield from above
    yield from describe(comparison)


def is_about_others(section: ReportSection, comparison: Comparison) -> bool:
    """Return whether a section shows an analysis that does not apply to these recordings."""
    outcome = comparison.sections.get(section.name)
    return section.is_analysis and outcome is not None and outcome.status == "not-applicable"


def _is_absent(section: ReportSection, comparison: Comparison) -> bool:
    outcome = comparison.sections.get(section.name)
    return section.is_analysis and (outcome is None or outcome.status == "absent")


def record_of(comparison: Comparison, kind: type[Data]) -> Data | Text:
    """Return the data of an analysis; without data, a line with the reason."""
    data = data_of(comparison.sections, kind)
    if data is not None:
        return data
    section = comparison.sections.get(kind.section)
    reason = None if section is None else section.reason
    return Text(text=reason or "not analysed", tone="muted")


def _list_absent(absent: Sequence[ReportSection], comparison: Comparison) -> Iterator[Block]:
    titles: dict[str, list[str]] = {}
    ends: dict[str, list[str]] = {}
    for section in absent:
        outcome = comparison.sections.get(section.name)
        start, end = _split_reason((outcome and outcome.reason) or "not analysed")
        titles.setdefault(start, []).append(section.title)
        ends.setdefault(start, []).append(end)
    # Titles contain commas.
    lines = [
        f"{'; '.join(names)}: {start}{', '.join(dict.fromkeys(ends[start]))}"
        for start, names in titles.items()
    ]
    if len(lines) == 1:
        yield Text(text=lines[0], tone="muted")
    else:
        yield Items(items=tuple(Item(text=line, tone="muted") for line in lines))


def _split_reason(reason: str) -> tuple[str, str]:
    # Reasons that differ in the last word, which is the name of a collector, share a line.
    start, end = reason[: reason.rfind(" ") + 1], reason[reason.rfind(" ") + 1 :]
    return (start, end) if start.count(" ") >= FEWEST_SHARED_WORDS else (reason, "")
