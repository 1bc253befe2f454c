# SPDX-License-Identifier: GPL-2.0-or-later
"""Render why a regression is believed: first seen, retest, bisection, false alarms, the cause."""

from collections.abc import Iterator

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.units import signed
from schedperf.publish.culprit.figures import Evidence, boot_of, show_both, show_change
from schedperf.publish.culprit.record import COMMIT_DIGITS, Bisection, Measured
from schedperf.publish.mail.plain import cut, items, quote, spell, wrap
from schedperf_reports.words.rows import count_of

MOST_FINDINGS = 4
MOST_OPTIONS = 4
_LONGEST_ITEM = 220
_LONGEST_NAME = 60
_NEARLY_CERTAIN = 0.99
_SEQUENTIAL = "sequential"


def describe_grounds(evidence: Evidence) -> list[str]:
    """Return the lines that say what was done to verify the result, and what was not done.

    :raises InputError: the record has no regression, or a text is not allowed in mails
    """
    parts = [*_first_seen(evidence), *_retest(evidence), *_bisection(evidence)]
    parts += [*_switched(evidence), *_false_alarms(evidence)]
    done = f"Why we believe it: {'; '.join(parts)}." if parts else ""
    culprit = evidence.culprit
    steps = {"retest": culprit.retest, "bisection": culprit.bisection}
    missing = [name for name, step in steps.items() if step is None]
    left = f"Not done: {', '.join(missing)}." if missing else ""
    found = evidence.reasons()
    cause = "" if found else "The cause is not identified."
    config = _configuration(evidence.main, culprit.main)
    return [
        *wrap(spell(" ".join(filter(None, (done, left))), where="grounds")),
        *wrap(spell(" ".join(filter(None, (cause, config))), where=".config")),
    ]


def describe_findings(evidence: Evidence) -> list[str]:
    """Return the lines about what may explain the regression; [] if nothing was found."""
    found = evidence.reasons()
    shown = [
        cut(quote(f"{each.clause}{each.change}"), _LONGEST_ITEM) for each in found[:MOST_FINDINGS]
    ]
    left = len(found) - len(shown)
    more = [f"{left} more"] if left else []
    if not shown:
        return []
    return ["Correlated with the change; causation not shown:", *items([*shown, *more])]


def figures_of(row: Row) -> str:
    """Return the change and its CI after a comma; "" without them."""
    has_figures = None not in (row.ratio, row.ci_low, row.ci_high)
    return f", {show_both(row)}" if has_figures else ""


def _first_seen(evidence: Evidence) -> Iterator[str]:
    """Yield when the regression was first seen, and its size then."""
    culprit = evidence.culprit
    if culprit.steps:
        step = culprit.steps[0]
        change = f" ({signed(step.change)} by the nights)" if step.change is not None else ""
        yield f"first seen {cut(step.night, _LONGEST_NAME)}{change}"
        return
    if culprit.retest is None:
        return
    found = evidence.comparisons.get(culprit.retest.found)
    row = None if found is None else _row_of(found, evidence.headline())
    if found is None or row is None or row.ratio is None:
        return
    day = (found.sides[-1].created or "")[: len("2026-11-30")]
    yield f"first seen{f' {day}' if day else ''} ({show_change(row.ratio)})"


def _row_of(comparison: Comparison, row: Row) -> Row | None:
    same = [each for each in comparison.rows if each.question == row.question]
    return same[-1] if same else None


def _retest(evidence: Evidence) -> Iterator[str]:
    retest = evidence.culprit.retest
    if retest is None:
        return
    row = evidence.row_like(retest.result, evidence.headline())
    new = evidence.comparison(retest.result).sides
    where = " on new boots" if all(map(boot_of, new)) else ""
    if row is None:
        yield f"measured again{where}, but not this result"
        return
    how = f"{_SEQUENTIAL} test, " if _SEQUENTIAL in row.method else ""
    is_shown = retest.result == evidence.culprit.main
    figures = "this table" if is_shown else figures_of(row).removeprefix(", ") or "no figures"
    p = f", p = {row.q:.0e}".replace("e-0", "e-") if row.q is not None else f": {row.verdict}"
    yield f"measured again{where} ({how}{figures}{p})"


def _bisection(evidence: Evidence) -> Iterator[str]:
    bisection = evidence.culprit.bisection
    if bisection is not None:
        builds, boots = count_of(bisection.builds, "build"), count_of(bisection.boots, "boot")
        start = bisection.good[:COMMIT_DIGITS]
        yield f"bisected from {start} in {builds}, {boots}, probability {_probability(bisection)}"


def _probability(bisection: Bisection) -> str:
    if bisection.probability is None:
        return "unknown"
    # More digits would be those of a model.
    is_certain = bisection.probability >= _NEARLY_CERTAIN
    return ">= 0.99" if is_certain else f"{bisection.probability:.2f}"


def _switched(evidence: Evidence) -> Iterator[str]:
    switch = evidence.culprit.feature_switch
    row = evidence.row_like(switch.result if switch else None, evidence.headline())
    if switch is not None and row is not None:
        feature = cut(switch.feature, _LONGEST_NAME)
        yield f"scheduler feature {feature} switched on one boot: {row.verdict}{figures_of(row)}"


def _false_alarms(evidence: Evidence) -> Iterator[str]:
    for step in evidence.culprit.steps[:1]:
        if step.nights:
            nights = count_of(step.nights, "night")
            yield f"this series' false alarms here: {step.false_alarms} in {nights}"


def _configuration(comparison: Comparison, main: Measured) -> str:
    options = [
        each
        for each in comparison.comparability.options
        if each.side == main.side and not each.toolchain
    ]
    shown = [
        f"{each.name}={each.base or 'n'} -> {each.new or 'n'}" for each in options[:MOST_OPTIONS]
    ]
    left = len(options) - len(shown)
    if options:
        more = f" and {left} more" if left else ""
        text = f".config differs: {', '.join(shown)}{more}."
        return cut(spell(text, where=".config"), _LONGEST_ITEM)
    if "kernel.config_sha256" in comparison.comparability.equal:
        return ".config is the same for both."
    return "Whether .config differs is not recorded."
