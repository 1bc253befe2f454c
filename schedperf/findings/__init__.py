"""Finding rules: each public module turns section data into explained facts.

::

    @finding("separated_pairs", needs=("layout",))
    def separated_pairs(sections: Mapping[str, Section]) -> Iterator[Finding]:
        ...

A rule is called only when every section that it needs is ok.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from schedperf.model import Finding, Section
from schedperf_collectors._registry import Registry

Rule = Callable[[Mapping[str, Section]], Iterator[Finding]]


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingPlugin:
    """One registered rule."""

    name: str
    needs: tuple[str, ...]
    find: Rule


registry: Registry[FindingPlugin] = Registry("schedperf.findings", "finding rule")


def finding(name: str, *, needs: tuple[str, ...]) -> Callable[[Rule], Rule]:
    """Register the decorated function as the finding rule of that name."""

    def register(find: Rule) -> Rule:
        registry.add(name, FindingPlugin(name=name, needs=needs, find=find))
        return find

    return register


def find_all(sections: Mapping[str, Section]) -> tuple[Finding, ...]:
    """Apply every rule whose sections are all there."""
    return tuple(
        found
        for rule in registry.all().values()
        if all(name in sections and sections[name].status == "ok" for name in rule.needs)
        for found in rule.find(sections)
    )
