"""Report sections: each public module turns the record into blocks.

::

    @report_section("layout", title="Cache lines", order=40)
    def layout(comparison: Comparison) -> Iterator[Block]:
        ...

Sections appear by ``order``: verdict 10, benchmarks 20, scheduler 30, layout 40,
profile 50, environment 90. A section whose analysis is absent yields one line that says why.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from schedperf.model import Comparison
from schedperf_collectors._registry import Registry
from schedperf_reports.blocks import Block

Describe = Callable[[Comparison], Iterator[Block]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportSection:
    """One registered report section.

    :param name: also the anchor in HTML: ``#layout``
    """

    name: str
    title: str
    order: int
    describe: Describe


registry: Registry[ReportSection] = Registry("schedperf_reports.sections", "report section")


def report_section(name: str, *, title: str, order: int) -> Callable[[Describe], Describe]:
    """Register the decorated generator as the report section of that name."""

    def register(describe: Describe) -> Describe:
        registry.add(name, ReportSection(name=name, title=title, order=order, describe=describe))
        return describe

    return register


def all_report_sections() -> tuple[ReportSection, ...]:
    """Return every report section in the order of the report."""
    return tuple(sorted(registry.all().values(), key=lambda section: (section.order, section.name)))
