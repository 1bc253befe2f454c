# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the subject of a report: tree, subsystem, commit, and benchmark with its regression.

::

    [tip:sched/core] sched/fair: 0123456789ab: hackbench 21.8% regression
"""

import re
from collections.abc import Sequence

from schedperf.model.rows import Row
from schedperf.publish.culprit.figures import Evidence, name_benchmark, name_result, show_size
from schedperf.publish.mail.headers import REPLY, SUBJECT_COLUMNS
from schedperf.publish.mail.plain import cut, spell
from schedperf.publish.mail.render.table import name_point

_LONGEST_NAME = 40
_LONGEST_TREE = 24
_LONGEST_POINT = 16
_SHORTEST_NAME = 8
# A name that is cut shorter says nothing, so the tree and the subsystem are left out instead.
_SHORTEST_CUT = 16
_LONGEST_COMMITS = 40
# "sched/fair: Do X": the part before the colon.
_PREFIX = re.compile(r"([A-Za-z0-9_/,. -]{1,24}?): ")


def subject_of(evidence: Evidence) -> str:
    """Return the subject, at most 69 characters.

    The name of the result is shortened first: to the benchmark with the last word of the metric,
    to the benchmark, and then at its end. The improvement is left out if it does not fit, then the
    subsystem, then the tree.

    :raises InputError: the record has no regression, or a text is not ASCII
    """
    commit, size = _commits(evidence), f" {_size(evidence.headline())} regression"
    tree, system, better = _tree(evidence), _subsystem(evidence), _better(evidence)
    names = _names(evidence)
    for name in names:
        whole = f"{tree}{system}{commit}: {name}{size}, {better}"
        if better and len(whole) <= SUBJECT_COLUMNS:
            return whole
    for front in (f"{tree}{system}", tree, ""):
        for name in names:
            subject = f"{front}{commit}: {name}{size}"
            if len(subject) <= SUBJECT_COLUMNS:
                return subject
        room = SUBJECT_COLUMNS - len(front) - len(commit) - len(": ") - len(size)
        if room >= _SHORTEST_CUT:
            return f"{front}{commit}: {cut(names[-1], room)}{size}"
    room = SUBJECT_COLUMNS - len(": ") - len(size) - _SHORTEST_NAME
    return f"{cut(commit, room)}: {cut(names[-1], _SHORTEST_NAME)}{size}"


def reply_subject(evidence: Evidence) -> str:
    """Return the subject of a reply: ``Re:`` and what :func:`subject_of` returns."""
    return f"{REPLY}{subject_of(evidence)}"


def _commits(evidence: Evidence) -> str:
    name = spell(evidence.culprit.range_name, where="commits")
    return cut(name, _LONGEST_COMMITS) if evidence.culprit.is_range else name


def _tree(evidence: Evidence) -> str:
    tree = evidence.culprit.tree
    if tree is None:
        return ""
    # As bots of kernel lists write it: tip:sched/core.
    name = spell(tree.name, where="tree").replace("/", ":", 1)
    return f"[{cut(name, _LONGEST_TREE)}] "


def _subsystem(evidence: Evidence) -> str:
    if evidence.culprit.is_range:
        # The last commit of a range is seldom the first bad one.
        return ""
    prefix = _PREFIX.match(evidence.culprit.bad.subject)
    return f"{prefix[1]}: " if prefix else ""


def _better(evidence: Evidence) -> str:
    improvements = evidence.improvements()
    if not improvements:
        return ""
    row = improvements[0]
    benchmark = name_benchmark(row.workload)
    rows = evidence.rows(evidence.culprit.main)
    metrics = {each.metric for each in rows if name_benchmark(each.workload) == benchmark}
    # There is only room for the name of one metric, that of the regression.
    name = _cut(benchmark) if len(metrics) == 1 else _name(evidence, row)
    if name == _name(evidence, evidence.headline()):
        return f"{_size(row)} better{_at(row, rows)}"
    return f"{name} {_size(row)} better"


def _at(row: Row, rows: Sequence[Row]) -> str:
    """Return what distinguishes a row from the others: `` at -g 16``; "" if nothing does."""
    point = spell(name_point(row, rows), where="result")
    return f" at {cut(point, _LONGEST_POINT)}" if point else ""


def _names(evidence: Evidence) -> list[str]:
    """Return names of the result that decided, the longest first, the benchmark last."""
    row = evidence.headline()
    benchmark = name_benchmark(row.workload)
    name, last = name_result(row), row.metric.split()[-1:]
    whole = [_name(evidence, row)]
    if whole[0] != _cut(benchmark) and name.startswith(benchmark):
        whole.append(_cut(" ".join([benchmark, *last])))
    return [*dict.fromkeys([*whole, _cut(benchmark)])]


def _name(evidence: Evidence, row: Row) -> str:
    """Return the name of the benchmark; if it has several metrics, that of the metric."""
    benchmark = name_benchmark(row.workload)
    rows = evidence.rows(evidence.culprit.main)
    metrics = {each.metric for each in rows if name_benchmark(each.workload) == benchmark}
    return _cut(benchmark if len(metrics) == 1 else name_result(row))


def _cut(name: str) -> str:
    return cut(spell(name, where="benchmark"), _LONGEST_NAME) or "benchmark"


def _size(row: Row) -> str:
    assert row.ratio is not None
    return show_size(row.ratio)
