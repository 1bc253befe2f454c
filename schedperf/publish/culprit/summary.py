# SPDX-License-Identifier: GPL-2.0-or-later
"""Format a record about a first bad commit as text: all its fields, and what is missing."""

from collections.abc import Iterator

from schedperf.model.rows import Row
from schedperf.model.text import clean_line
from schedperf.model.units import signed
from schedperf.model.verdict import count_units
from schedperf.publish.culprit.figures import (
    ID_DIGITS,
    Evidence,
    day_of,
    describe_bisection,
    describe_effect,
    describe_place,
    name_machine,
    show_both,
)
from schedperf.publish.culprit.record import COMMIT_DIGITS, Commit, Culprit, Elsewhere, Measured

_LABEL_COLUMNS = 18
# Names in the summary for fields that are null until something is measured.
_MEASURABLE = {
    "retest": "retest",
    "tip": "tip",
    "revert": "revert",
    "feature_switch": "feature switch",
    "forced_alignment": "forced alignment",
    "a_a": "A/A",
    "bisection": "bisection",
}
_MISSING = "not measured"


def summarise(evidence: Evidence) -> str:
    """Return the record as text, without the figures of missing comparisons.

    :raises InputError: a comparison lacks a side to which the record refers
    """
    lines = (
        f"{clean_line(label):<{_LABEL_COLUMNS}}{clean_line(text)}".rstrip()
        for label, text in _lines(evidence)
    )
    return "".join(f"{line}\n" for line in lines)


def _lines(evidence: Evidence) -> Iterator[tuple[str, str]]:
    culprit = evidence.culprit
    name = "bad end of range" if culprit.is_range else "first bad commit"
    yield name, _describe_commit(culprit.bad)
    yield "good", _describe_commit(culprit.good)
    yield from _result_lines(evidence)
    yield from _tree_lines(culprit)
    yield from _role_lines(evidence)
    for label, places in (
        ("regressed on", culprit.regressed_on),
        ("no change on", culprit.no_change_on),
    ):
        for place in places:
            yield label, _describe_place(evidence, place)
    for check in culprit.checks:
        yield "check", f"{check.name}: {'passed' if check.passed else check.reason}"
    for name in ("posted", "report", "page"):
        if (link := getattr(culprit.links, name)) is not None:
            yield name, link
    yield from _step_lines(culprit)
    yield "key", culprit.key
    for comparison in culprit.comparisons:
        is_there = comparison in evidence.comparisons
        yield "comparison", f"{comparison[:ID_DIGITS]}{'' if is_there else ' (file not found)'}"
    missing = [name for field, name in _MEASURABLE.items() if getattr(culprit, field) is None]
    if missing:
        yield _MISSING, ", ".join(missing)


def _step_lines(culprit: Culprit) -> Iterator[tuple[str, str]]:
    """Yield the steps of a history, and the result of the first one on other machines."""
    if culprit.is_range:
        yield "range", culprit.range_name
    for step in culprit.steps:
        change = f", {signed(step.change)}" if step.change is not None else ""
        name = " ".join(filter(None, (step.metric, step.point)))
        yield "step", f"{step.step}: {name} on {step.machine_class}, since {step.night}{change}"
        for each in step.elsewhere:
            yield "elsewhere", f"{each.machine}: {each.verdict}"


def _describe_commit(commit: Commit) -> str:
    facts = [
        f'{commit.commit[:COMMIT_DIGITS]} ("{commit.subject}")',
        commit.author,
        day_of(commit.committed),
    ]
    return ", ".join(filter(None, facts))


def _result_lines(evidence: Evidence) -> Iterator[tuple[str, str]]:
    culprit = evidence.culprit
    if culprit.main.comparison not in evidence.comparisons:
        yield "result", f"unknown (comparison {culprit.main.comparison[:ID_DIGITS]} not found)"
        return
    regressions = evidence.regressions()
    if not regressions:
        yield "result", "no significant regression"
    for row in regressions[:1]:
        yield "result", f"{describe_effect(row)}, n = {_count(row)}"
        yield "workload", ", ".join(filter(None, (row.workload, row.point)))
    if more := len(regressions) - 1:
        yield "", f"{more} more result{'s' * (more > 1)} regressed"
    side = evidence.side(culprit.main)
    yield "machine", name_machine(side) if side.host else "not recorded"


def _count(row: Row) -> str:
    return count_units(row.n_base, row.n_new, row.replication)


def _tree_lines(culprit: Culprit) -> Iterator[tuple[str, str]]:
    tree = culprit.tree
    if tree is not None:
        facts = (
            tree.name,
            tree.commit and tree.commit[:COMMIT_DIGITS],
            day_of(tree.date),
            tree.url,
        )
        yield "tree", ", ".join(filter(None, (*facts, "private" if tree.private else None)))
    merged = {True: "yes", False: "no", None: "unknown"}[culprit.merged]
    yield "merged", merged


def _role_lines(evidence: Evidence) -> Iterator[tuple[str, str]]:
    culprit = evidence.culprit
    if culprit.retest is not None:
        yield "retest", _figures(evidence, culprit.retest.result)
    if culprit.bisection is not None:
        yield "bisection", describe_bisection(culprit.bisection)
    alone = (
        ("tip", culprit.tip),
        ("fix", culprit.fix),
        ("forced alignment", culprit.forced_alignment),
        ("A/A", culprit.a_a),
    )
    for label, measured in alone:
        if measured is not None:
            yield label, _figures(evidence, measured)
    if culprit.fixed_by is not None:
        yield "fixed by", _describe_commit(culprit.fixed_by)
    if culprit.revert is not None:
        if culprit.revert.result is not None:
            yield "revert", _figures(evidence, culprit.revert.result)
        if culprit.revert.impossible is not None:
            yield "revert", f"impossible: {culprit.revert.impossible}"
    if culprit.feature_switch is not None:
        switch = culprit.feature_switch
        yield "feature switch", f"{switch.feature}: {_figures(evidence, switch.result)}"


def _describe_place(evidence: Evidence, place: Elsewhere) -> str:
    return f"{describe_place(place)}, {_figures(evidence, place.result)}"


def _figures(evidence: Evidence, measured: Measured) -> str:
    """Return change and verdict of the largest regression in another measurement.

    If that lacks it, they are those of its first result. Without a comparison or a change, the text
    says so.
    """
    if measured.comparison not in evidence.comparisons:
        return f"comparison {measured.comparison[:ID_DIGITS]} not found"
    rows = evidence.rows(measured)
    if evidence.culprit.main.comparison in evidence.comparisons:
        same = [evidence.row_like(measured, row) for row in evidence.regressions()[:1]]
        rows = [row for row in same if row is not None] or rows
    if not rows or None in (rows[0].ratio, rows[0].ci_low, rows[0].ci_high):
        return _MISSING
    return f"{rows[0].metric} {show_both(rows[0])}, {rows[0].verdict}"
