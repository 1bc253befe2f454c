"""Report sections: each public module turns the record into blocks.

::

    @report_section("layout", title="Cache lines", order=40)
    def layout(comparison: Comparison) -> Iterator[Block]:
        ...

Sections appear by ``order``: verdict 10, benchmarks 20, scheduler 30, layout 40,
profile 50, environment 90. A section whose analysis failed yields one line that says why. Those
whose analysis found nothing to look at are one list behind the others.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from schedperf.model import Comparison
from schedperf_collectors._registry import Registry
from schedperf_reports.blocks import Block, Item, Items, Text

Describe = Callable[[Comparison], Iterator[Block]]

# Behind all analyses, before the machine and the methods.
ABSENT_ORDER = 88


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportSection:
    """One registered report section.

    :param name: also the anchor in HTML: ``#layout``
    :param is_analysis: shows the analysis of that name in :attr:`Comparison.sections`
    """

    name: str
    title: str
    order: int
    describe: Describe
    is_analysis: bool


registry: Registry[ReportSection] = Registry("schedperf_reports.sections", "report section")


def report_section(
    name: str, *, title: str, order: int, is_analysis: bool = False
) -> Callable[[Describe], Describe]:
    """Register the decorated generator as the report section of that name."""

    def register(describe: Describe) -> Describe:
        section = ReportSection(
            name=name, title=title, order=order, describe=describe, is_analysis=is_analysis
        )
        registry.add(name, section)
        return describe

    return register


def all_report_sections() -> tuple[ReportSection, ...]:
    """Return every report section in the order of the report."""
    return tuple(sorted(registry.all().values(), key=lambda section: (section.order, section.name)))


def shown_sections(comparison: Comparison) -> tuple[ReportSection, ...]:
    """Return the sections of one report; what has nothing to show is named in one of them.

    A heading for each analysis that was not asked for would hide those that were.
    """
    sections = all_report_sections()
    absent = [section for section in sections if _is_absent(section, comparison)]
    if not absent:
        return sections
    listed = ReportSection(
        name="absent",
        title="Not in this report",
        order=ABSENT_ORDER,
        describe=partial(_list_absent, absent),
        is_analysis=False,
    )
    shown = [section for section in sections if section not in absent]
    return tuple(sorted([*shown, listed], key=lambda section: section.order))


def _is_absent(section: ReportSection, comparison: Comparison) -> bool:
    found = comparison.sections.get(section.name)
    return section.is_analysis and (found is None or found.status == "absent")


def _list_absent(absent: Sequence[ReportSection], comparison: Comparison) -> Iterator[Block]:
    titles: dict[str, list[str]] = {}
    for section in absent:
        found = comparison.sections.get(section.name)
        reason = None if found is None else found.reason
        titles.setdefault(reason or "not analysed", []).append(section.title)
    # Titles have commas of their own.
    lines = [f"{'; '.join(names)}: {reason}" for reason, names in titles.items()]
    if len(lines) == 1:
        yield Text(text=lines[0], tone="muted")
    else:
        yield Items(items=tuple(Item(text=line, tone="muted") for line in lines))
