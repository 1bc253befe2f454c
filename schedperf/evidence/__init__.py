"""Evidence: one package per kind, which captures, compares and explains it.

The module ``section`` of a package, or a public module beside the packages, registers the analysis
that looks at all sides and returns plain data::

    SCHEMA = {"type": "object", "required": [...], "properties": {...}}

    @section("layout", version=1, schema=SCHEMA)
    def layout(sides: Sequence[Side]) -> Data:
        if nothing to look at:
            raise Absent("no System.map, kallsyms or BTF in base.tar")
        return {...}

The data is JSON values only (dict, list, str, int, float, bool, None): it goes
into ``Comparison.sections`` and out as JSON, unchanged. The schema is a JSON
Schema of exactly that data and is published with the record's.

The module ``findings`` registers the rules that turn this data into explained facts::

    @finding("layout_alarms", needs=("layout",))
    def layout_alarms(sections: Mapping[str, Section]) -> Iterator[Finding]:
        ...

A rule is called only when every section that it needs is ok. Whatever goes wrong
in it costs its own findings only. A rule that joins what several sections say also sees the rows of
the benchmarks::

    @joined_finding("joined", needs=())
    def joined(sections: Mapping[str, Section], rows: Sequence[Row]) -> Iterator[Finding]:
        ...
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedperf.model.comparison import Finding, Row, Section
from schedperf_collectors.registry import Registry

Data = Mapping[str, object]
# Of the sides; some take what another kind of evidence measured, too.
Analysis = Callable[..., Data]
Rule = Callable[[Mapping[str, Section]], Iterator[Finding]]
JoinedRule = Callable[[Mapping[str, Section], Sequence[Row]], Iterator[Finding]]


class Absent(Exception):
    """The sides hold nothing that this section could look at; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SectionPlugin:
    """One registered analysis.

    :param schema_id: ``schedperf/section/layout/1``
    :param schema: JSON Schema of the data it returns
    """

    name: str
    schema_id: str
    schema: Mapping[str, object]
    analyse: Analysis


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingPlugin:
    """One registered rule.

    :param is_joined: it joins what others find one by one
    """

    name: str
    needs: tuple[str, ...]
    find: JoinedRule
    is_joined: bool


sections: Registry[SectionPlugin] = Registry("schedperf.evidence", kind="section", module="section")
rules: Registry[FindingPlugin] = Registry(
    "schedperf.evidence", kind="finding rule", module="findings"
)


def section(
    name: str, *, version: int, schema: Mapping[str, object]
) -> Callable[[Analysis], Analysis]:
    """Register the decorated function as the analysis of that name."""

    def register(analyse: Analysis) -> Analysis:
        schema_id = f"schedperf/section/{name}/{version}"
        plugin = SectionPlugin(name=name, schema_id=schema_id, schema=schema, analyse=analyse)
        sections.add(name, plugin)
        return analyse

    return register


def all_sections() -> Mapping[str, SectionPlugin]:
    """Return every analysis section, by name."""
    return sections.all()


def finding(name: str, *, needs: tuple[str, ...]) -> Callable[[Rule], Rule]:
    """Register the decorated function as the finding rule of that name."""

    def register(find: Rule) -> Rule:
        def find_alone(sections: Mapping[str, Section], _: Sequence[Row]) -> Iterator[Finding]:
            return find(sections)

        rules.add(name, FindingPlugin(name=name, needs=needs, find=find_alone, is_joined=False))
        return find

    return register


def joined_finding(name: str, *, needs: tuple[str, ...]) -> Callable[[JoinedRule], JoinedRule]:
    """Register the decorated function as the rule of that name, which joins several sections."""

    def register(find: JoinedRule) -> JoinedRule:
        rules.add(name, FindingPlugin(name=name, needs=needs, find=find, is_joined=True))
        return find

    return register
