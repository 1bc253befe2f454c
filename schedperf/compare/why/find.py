# SPDX-License-Identifier: GPL-2.0-or-later
"""Apply every finding rule, and drop findings that repeat an earlier one.

A finding that rests on nothing else than what an earlier one rests on is not repeated.
:mod:`schedperf.compare.why.ranking` orders them.
"""

import importlib
import json
from collections.abc import Iterable, Mapping, Sequence

from schedperf.compare.why.ranking import rank_findings
from schedperf.evidence import FindingPlugin, rules
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.comparison import Finding, Row, Section
from schedperf.model.errors import describe

# Its rules join what several kinds of evidence say.
JOINED = "schedperf.compare.why.joined"


def all_rules() -> Mapping[str, FindingPlugin]:
    """Return every finding rule, by name."""
    importlib.import_module(JOINED)
    return rules.all()


def find_all(
    plugins: Iterable[FindingPlugin], sections: Mapping[str, Section], rows: Sequence[Row] = ()
) -> tuple[tuple[Finding, ...], tuple[Caveat, ...]]:
    """Apply every rule whose sections are all there.

    :param rows: results of the benchmarks, for the rules that join
    :return: what the rules found, best reason first, and a caveat for each rule that failed
    """
    findings: list[Finding] = []
    caveats: list[Caveat] = []
    for rule in sorted(plugins, key=lambda rule: not rule.is_joined):
        try:
            candidates = list(rule.find(sections, rows))
            json.dumps([(finding.value, finding.ci) for finding in candidates], allow_nan=False)
        except Exception as error:  # noqa: BLE001 # one rule must not cost the others
            caveats.append(caveat("failed-finding", rule=rule.name, problem=describe(error)))
        else:
            findings += [finding for finding in candidates if not _is_covered(finding, findings)]
    return rank_findings(findings, rows), tuple(caveats)


def _is_covered(finding: Finding, before: Iterable[Finding]) -> bool:
    # All of its evidence is part of an earlier finding of the same side.
    evidence = set(finding.evidence)
    return any(
        evidence and evidence < set(earlier.evidence) and finding.side == earlier.side
        for earlier in before
    )
