"""Finding rules: each public module turns section data into explained facts.

::

    @finding("layout_alarms", needs=("layout",))
    def layout_alarms(sections: Mapping[str, Section]) -> Iterator[Finding]:
        ...

A rule is called only when every section that it needs is ok. Whatever goes wrong
in it costs its own findings only.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from schedperf.caveats import Caveat, caveat
from schedperf.errors import describe
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


def all_rules() -> Mapping[str, FindingPlugin]:
    """Return every finding rule, by name."""
    return registry.all()


def find_all(
    rules: Iterable[FindingPlugin], sections: Mapping[str, Section]
) -> tuple[tuple[Finding, ...], tuple[Caveat, ...]]:
    """Apply every rule whose sections are all there.

    :return: what the rules found, and a caveat for each rule that failed
    """
    findings: list[Finding] = []
    caveats: list[Caveat] = []
    for rule in rules:
        if not all(name in sections and sections[name].status == "ok" for name in rule.needs):
            continue
        try:
            found = list(rule.find(sections))
            json.dumps([(one.value, one.ci) for one in found], allow_nan=False)
        except Exception as error:  # noqa: BLE001 # one rule must not cost the others
            caveats.append(caveat("failed-finding", rule=rule.name, problem=describe(error)))
        else:
            findings += found
    return tuple(findings), tuple(caveats)
