# SPDX-License-Identifier: GPL-2.0-or-later
"""Apply every finding rule, and drop findings that repeat an earlier one.

A finding is dropped if an earlier finding of the same side has all of its evidence and more. Rules
that join several sections are applied first. :mod:`schedperf.compare.why.ranking` orders the
findings.
"""

import importlib
import json
from collections.abc import Iterable, Mapping, Sequence

from schedperf.compare.why.ranking import rank_findings
from schedperf.evidence import FindingPlugin, rules
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.errors import describe
from schedperf.model.rows import Row
from schedperf.model.sections import Finding, Section

# The rules of this package combine several kinds of evidence.
JOINED = "schedperf.compare.why.joined"


def all_rules() -> Mapping[str, FindingPlugin]:
    """Return every finding rule, by name."""
    importlib.import_module(JOINED)
    return rules.all()


def find_all(
    plugins: Iterable[FindingPlugin], sections: Mapping[str, Section], rows: Sequence[Row] = ()
) -> tuple[tuple[Finding, ...], tuple[Caveat, ...]]:
    """Apply every rule; a rule whose section has no data finds nothing.

    :param rows: results of the benchmarks, for rules that combine evidence
    :return: the findings, most relevant first, and a caveat for each rule that failed
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
    # All of its evidence belongs to an earlier finding of the same side.
    evidence = set(finding.evidence)
    return any(
        evidence and evidence < set(earlier.evidence) and finding.side == earlier.side
        for earlier in before
    )
