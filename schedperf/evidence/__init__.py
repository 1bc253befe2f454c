# SPDX-License-Identifier: GPL-2.0-or-later
"""Evidence: one package per kind, which captures, compares and explains it.

``record.py`` of a package holds the records of its section. A field is annotated with its
meaning and unit; the JSON Schema is derived from them::

    class Layout(SectionData, frozen=True, kw_only=True):
        section: ClassVar[str] = "layout"
        version: ClassVar[int] = 1

        moved: Annotated[int, "variables that are on another cache line"]

The module ``section``, or a public module beside the packages, registers the analysis that looks at
all sides::

    @section(Layout)
    def layout(sides: Sequence[Side]) -> Layout:
        if nothing to look at:
            raise Absent("no System.map, kallsyms or BTF in base.tar")
        return Layout(moved=...)

Few recordings are about a second workload, or about a sched_ext scheduler. A section about such a
thing says which of them it applies to, and reports of all others do not mention it::

    @section(Load, applies=lambda side: side.bundle.load is not None)

What several sections look at, or what takes long to read, is read with ``side.once(read)``: the
function is called for the first section that asks.

The module ``findings`` registers the rules that turn this data into explained facts::

    @finding("layout_alarms", Layout)
    def layout_alarms(layout: Layout) -> Iterator[Finding]:
        ...

and those that turn it into weaknesses of the whole result::

    @caveat_rule("other_commands", Profile)
    def other_commands(profile: Profile) -> Iterator[Caveat]:
        ...

A rule is called only when its section is ok. Whatever goes wrong in it costs its own findings only.
A rule that joins several sections also sees the rows of the benchmarks::

    @joined_finding("joined")
    def joined(sections: Mapping[str, Section], rows: Sequence[Row]) -> Iterator[Finding]:
        ...
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.model.caveats import Caveat
from schedperf.model.comparison import (
    Data,
    Finding,
    Row,
    Section,
    SectionData,
    SectionStatus,
    data_of,
)
from schedperf.runs.side import Side
from schedperf_collectors.registry import Registry

# Of one side.
Applies = Callable[[Side], bool]
# Of the sides; some take what another kind of evidence measured, too.
Analysis = Callable[..., Data]
Rule = Callable[[Data], Iterator[Finding]]
CaveatRule = Callable[[Data], Iterator[Caveat]]
JoinedRule = Callable[[Mapping[str, Section], Sequence[Row]], Iterator[Finding]]


class Absent(Exception):
    """The sides hold nothing that this section could look at; the message says why."""


class SectionPlugin(Struct, frozen=True, kw_only=True):
    """One registered analysis.

    :param record: what it returns
    :param is_drawing: its data is used by drawings alone, never by findings or the verdict
    :param applies: whether a side has what it is about; None if every side may have it
    """

    record: type[SectionData]
    analyse: Callable[..., SectionData]
    is_drawing: bool = False
    applies: Applies | None = None

    def without(self, status: SectionStatus, reason: str) -> Section:
        """Return the section without data."""
        return Section.without(self.record, status, reason)


class FindingPlugin(Struct, frozen=True, kw_only=True):
    """One registered rule.

    :param is_joined: it joins what others find one by one
    """

    name: str
    find: JoinedRule
    is_joined: bool


sections: Registry[SectionPlugin] = Registry("schedperf.evidence", kind="section", module="section")
rules: Registry[FindingPlugin] = Registry(
    "schedperf.evidence", kind="finding rule", module="findings"
)


# By name; each takes all sections and yields nothing where its own is not ok.
caveat_rules: Registry[Callable[[Mapping[str, Section]], Iterator[Caveat]]] = Registry(
    "schedperf.evidence", kind="caveat rule", module="findings"
)


def section(
    record: type[Data], *, is_drawing: bool = False, applies: Applies | None = None
) -> Callable[[Analysis[Data]], Analysis[Data]]:
    """Register the decorated function as the analysis that makes this record.

    :param is_drawing: as in :class:`SectionPlugin`
    :param applies: as in :class:`SectionPlugin`
    """

    def register(analyse: Analysis[Data]) -> Analysis[Data]:
        plugin = SectionPlugin(
            record=record, analyse=analyse, is_drawing=is_drawing, applies=applies
        )
        sections.add(record.section, plugin)
        return analyse

    return register


def all_sections() -> Mapping[str, SectionPlugin]:
    """Return every analysis section, by name."""
    return sections.all()


def finding(name: str, record: type[Data]) -> Callable[[Rule[Data]], Rule[Data]]:
    """Register the decorated function as the finding rule of that name.

    :param record: what it is called with; where a comparison has none, it is not called
    """

    def register(find: Rule[Data]) -> Rule[Data]:
        def find_alone(sections: Mapping[str, Section], _: Sequence[Row]) -> Iterator[Finding]:
            data = data_of(sections, record)
            if data is not None:
                yield from find(data)

        rules.add(name, FindingPlugin(name=name, find=find_alone, is_joined=False))
        return find

    return register


def joined_finding(name: str) -> Callable[[JoinedRule], JoinedRule]:
    """Register the decorated function as the rule of that name, which joins several sections."""

    def register(find: JoinedRule) -> JoinedRule:
        rules.add(name, FindingPlugin(name=name, find=find, is_joined=True))
        return find

    return register


def caveat_rule(name: str, record: type[Data]) -> Callable[[CaveatRule[Data]], CaveatRule[Data]]:
    """Register the decorated function as the caveat rule of that name.

    :param record: what it is called with; where a comparison has none, it is not called
    """

    def register(find: CaveatRule[Data]) -> CaveatRule[Data]:
        def find_in(sections: Mapping[str, Section]) -> Iterator[Caveat]:
            data = data_of(sections, record)
            if data is not None:
                yield from find(data)

        caveat_rules.add(name, find_in)
        return find

    return register
