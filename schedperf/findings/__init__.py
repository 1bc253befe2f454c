"""Finding rules: each public module turns section data into explained facts.

::

    @finding("layout_alarms", needs=("layout",))
    def layout_alarms(sections: Mapping[str, Section]) -> Iterator[Finding]:
        ...

A rule is called only when every section that it needs is ok. Whatever goes wrong
in it costs its own findings only.

A rule that joins what several sections say also sees the rows of the benchmarks::

    @joined_finding("joined", needs=())
    def joined(sections: Mapping[str, Section], rows: Sequence[Row]) -> Iterator[Finding]:
        ...

A finding that rests on nothing else than what one of its findings rests on is not repeated.
:mod:`schedperf.findings._ranking` says in which order they all are told.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedperf.caveats import Caveat, caveat
from schedperf.errors import describe
from schedperf.findings._ranking import rank_findings
from schedperf.model import Finding, Row, Section
from schedperf_collectors._registry import Registry

Rule = Callable[[Mapping[str, Section]], Iterator[Finding]]
JoinedRule = Callable[[Mapping[str, Section], Sequence[Row]], Iterator[Finding]]


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingPlugin:
    """One registered rule.

    :param is_joined: it joins what others find one by one
    """

    name: str
    needs: tuple[str, ...]
    find: JoinedRule
    is_joined: bool


registry: Registry[FindingPlugin] = Registry("schedperf.findings", "finding rule")


def finding(name: str, *, needs: tuple[str, ...]) -> Callable[[Rule], Rule]:
    """Register the decorated function as the finding rule of that name."""

    def register(find: Rule) -> Rule:
        def find_alone(sections: Mapping[str, Section], _: Sequence[Row]) -> Iterator[Finding]:
            return find(sections)

        registry.add(name, FindingPlugin(name=name, needs=needs, find=find_alone, is_joined=False))
        return find

    return register


def joined_finding(name: str, *, needs: tuple[str, ...]) -> Callable[[JoinedRule], JoinedRule]:
    """Register the decorated function as the rule of that name, which joins several sections."""

    def register(find: JoinedRule) -> JoinedRule:
        registry.add(name, FindingPlugin(name=name, needs=needs, find=find, is_joined=True))
        return find

    return register


def all_rules() -> Mapping[str, FindingPlugin]:
    """Return every finding rule, by name."""
    return registry.all()


def find_all(
    rules: Iterable[FindingPlugin], sections: Mapping[str, Section], rows: Sequence[Row] = ()
) -> tuple[tuple[Finding, ...], tuple[Caveat, ...]]:
    """Apply every rule whose sections are all there.

    :param rows: results of the benchmarks, for the rules that join
    :return: what the rules found, best reason first, and a caveat for each rule that failed
    """
    findings: list[Finding] = []
    caveats: list[Caveat] = []
    for rule in sorted(rules, key=lambda rule: not rule.is_joined):
        if not all(name in sections and sections[name].status == "ok" for name in rule.needs):
            continue
        try:
            found = list(rule.find(sections, rows))
            json.dumps([(one.value, one.ci) for one in found], allow_nan=False)
        except Exception as error:  # noqa: BLE001 # one rule must not cost the others
            caveats.append(caveat("failed-finding", rule=rule.name, problem=describe(error)))
        else:
            findings += [one for one in found if not _is_told(one, findings)]
    return rank_findings(findings, rows), tuple(caveats)


def _is_told(found: Finding, before: Iterable[Finding]) -> bool:
    # All that it rests on is part of what an earlier one of the side says.
    evidence = set(found.evidence)
    return any(
        evidence and evidence < set(other.evidence) and found.side == other.side for other in before
    )
