"""Analysis sections: each public module looks at all sides and returns plain data.

::

    SCHEMA = {"type": "object", "required": [...], "properties": {...}}

    @section("layout", version=1, schema=SCHEMA)
    def layout(sides: Sequence[Side]) -> Data:
        if nothing to look at:
            raise Absent("no System.map, kallsyms or BTF in base.tar")
        return {...}

The data is JSON values only (dict, list, str, int, float, bool, None): it goes
into ``Comparison.sections`` and out as JSON, unchanged. The schema is a JSON
Schema of exactly that data and is published with the record's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from schedperf.sides import Side
from schedperf_collectors._registry import Registry

Data = Mapping[str, object]
Analysis = Callable[[Sequence[Side]], Data]


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


registry: Registry[SectionPlugin] = Registry("schedperf.sections", "section")


def section(
    name: str, *, version: int, schema: Mapping[str, object]
) -> Callable[[Analysis], Analysis]:
    """Register the decorated function as the analysis of that name."""

    def register(analyse: Analysis) -> Analysis:
        schema_id = f"schedperf/section/{name}/{version}"
        plugin = SectionPlugin(name=name, schema_id=schema_id, schema=schema, analyse=analyse)
        registry.add(name, plugin)
        return analyse

    return register


def all_sections() -> Mapping[str, SectionPlugin]:
    """Return every analysis section, by name."""
    return registry.all()
