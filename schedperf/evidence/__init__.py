# SPDX-License-Identifier: GPL-2.0-or-later
"""Define how packages of evidence register their sections, findings and caveats.

Each kind of evidence is a package. Its ``record.py`` defines the records of its section. Each field
is annotated with its meaning and unit; the JSON Schema is derived from them::

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

Some sections apply to few recordings, e.g. those with a second workload or a sched_ext scheduler.
Such a section declares which sides it applies to; reports of other recordings do not mention it::

    @section(Load, applies=lambda side: side.bundle.load is not None)

A section that needs data of another kind of evidence declares it, and is called with a function
that computes it (:mod:`schedperf.evidence.needs`)::

    @section(Pelt, needs=WAKEUPS)
    def pelt(sides: Sequence[Side], count_wakeups: CountWakeups) -> Pelt:
        ...

Data that several sections use, or that take long to read, are read with ``side.once(read)``, which
caches the result.

The module ``findings`` registers the rules that derive findings from this data::

    @finding("layout_alarms", Layout)
    def layout_alarms(layout: Layout) -> Iterator[Finding]:
        ...

and the rules that derive caveats of the whole result::

    @caveat_rule("other_commands", Profile)
    def other_commands(profile: Profile) -> Iterator[Caveat]:
        ...

A rule is called only when its section is ok. An error in a finding rule affects only its own
findings; an error in a caveat rule ends the comparison. A rule that joins several sections also
takes the benchmark rows::

    @joined_finding("joined")
    def joined(sections: Mapping[str, Section], rows: Sequence[Row]) -> Iterator[Finding]:
        ...
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

from msgspec import Struct

from schedperf.evidence.needs import Function, Need
from schedperf.inputs.side import Side
from schedperf.model.caveats import Caveat
from schedperf.model.rows import Row
from schedperf.model.sections import Data, Finding, Section, SectionData, SectionStatus, data_of
from schedperf_collectors.registry import Registry

# Returns whether a section applies to a side.
Applies = Callable[[Side], bool]
# An analysis of all sides, and one that needs a function of another kind of evidence.
Analysis = Callable[[Sequence[Side]], Data]
NeedyAnalysis = Callable[[Sequence[Side], Function], Data]
Rule = Callable[[Data], Iterator[Finding]]
CaveatRule = Callable[[Data], Iterator[Caveat]]
JoinedRule = Callable[[Mapping[str, Section], Sequence[Row]], Iterator[Finding]]


class Absent(Exception):
    """The sides have no data for this section; the message is the reason."""


class SectionPlugin(Struct, frozen=True, kw_only=True):
    """One registered analysis.

    :param record: type of its result
    :param analyse: returns the result; raises :class:`Absent` if there is none
    :param reads: returns the kind of evidence whose captures it reads, e.g.
        ``schedperf.evidence.c2c``: the one that it needs data of, else its own. Sections with the
        same result are analysed one after the other in one process
    :param is_drawing: True if its data is used by drawings only, never by findings or the verdict
    :param applies: returns whether the section applies to a side; None if it applies to all
    """

    record: type[SectionData]
    analyse: Callable[[Sequence[Side]], SectionData]
    reads: Callable[[], str]
    is_drawing: bool = False
    applies: Applies | None = None

    def without(self, status: SectionStatus, reason: str) -> Section:
        """Return the section without data.

        :param status: "absent", "not-applicable" or "failed"
        :param reason: why it has no data
        """
        return Section.without(self.record, status, reason)


class FindingPlugin(Struct, frozen=True, kw_only=True):
    """One registered rule.

    :param find: yields the findings; called with all sections and the benchmark rows
    :param is_joined: True if it joins several sections
    """

    name: str
    find: JoinedRule
    is_joined: bool


sections: Registry[SectionPlugin] = Registry("schedperf.evidence", kind="section", module="section")
rules: Registry[FindingPlugin] = Registry(
    "schedperf.evidence", kind="finding rule", module="findings"
)


# By name. Each takes all sections and yields nothing if its own section is not ok.
caveat_rules: Registry[Callable[[Mapping[str, Section]], Iterator[Caveat]]] = Registry(
    "schedperf.evidence", kind="caveat rule", module="findings"
)


@overload
def section(
    record: type[Data], *, is_drawing: bool = False, applies: Applies | None = None
) -> Callable[[Analysis[Data]], Analysis[Data]]: ...


@overload
def section(
    record: type[Data],
    *,
    needs: Need[Function],
    is_drawing: bool = False,
    applies: Applies | None = None,
) -> Callable[[NeedyAnalysis[Function, Data]], NeedyAnalysis[Function, Data]]: ...


def section(
    record: type[Data],
    *,
    needs: Need[Any] | None = None,
    is_drawing: bool = False,
    applies: Applies | None = None,
) -> Callable[[Any], Any]:
    """Register the decorated function as the analysis that makes this record.

    :param needs: data of another kind of evidence; the decorated function then also takes the
        function that computes them
    :param is_drawing: as in :class:`SectionPlugin`
    :param applies: as in :class:`SectionPlugin`
    :raises DuplicatePlugin: another section has the same name; the decorator raises it
    """

    def register(analyse: Callable[..., Data]) -> Callable[..., Data]:
        def analyse_sides(sides: Sequence[Side]) -> Data:
            return analyse(sides) if needs is None else analyse(sides, needs.function)

        def reads() -> str:
            return _kind_of(analyse if needs is None else needs.function)

        plugin = SectionPlugin(
            record=record,
            analyse=analyse_sides,
            reads=reads,
            is_drawing=is_drawing,
            applies=applies,
        )
        sections.add(record.section, plugin)
        return analyse

    return register


def _kind_of(function: Callable[..., object]) -> str:
    # schedperf.evidence.KIND, or a module beside the packages.
    return ".".join(function.__module__.split(".")[:3])


def all_sections() -> Mapping[str, SectionPlugin]:
    """Return every registered section, by name.

    :raises PluginError: the plugin of another package cannot be imported, registers nothing, or has
        a name that is taken
    """
    return sections.all()


def finding(name: str, record: type[Data]) -> Callable[[Rule[Data]], Rule[Data]]:
    """Register the decorated function as a finding rule.

    :param name: name of the rule, unique among all finding rules
    :param record: type of the section data that it is called with; it is not called if a comparison
        has no such data
    :raises DuplicatePlugin: another rule has this name; the decorator raises it
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
    """Register the decorated function as a finding rule that joins several sections.

    It is called with all sections, also those without data, and the benchmark rows.

    :param name: name of the rule, unique among all finding rules
    :raises DuplicatePlugin: another rule has this name; the decorator raises it
    """

    def register(find: JoinedRule) -> JoinedRule:
        rules.add(name, FindingPlugin(name=name, find=find, is_joined=True))
        return find

    return register


def caveat_rule(name: str, record: type[Data]) -> Callable[[CaveatRule[Data]], CaveatRule[Data]]:
    """Register the decorated function as a caveat rule.

    :param name: name of the rule, unique among all caveat rules
    :param record: type of the section data that it is called with; it is not called if a comparison
        has no such data
    :raises DuplicatePlugin: another rule has this name; the decorator raises it
    """

    def register(find: CaveatRule[Data]) -> CaveatRule[Data]:
        def find_in(sections: Mapping[str, Section]) -> Iterator[Caveat]:
            data = data_of(sections, record)
            if data is not None:
                yield from find(data)

        caveat_rules.add(name, find_in)
        return find

    return register
