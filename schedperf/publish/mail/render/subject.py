# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the subject of a report: tree, subsystem, commit, and benchmark with its regression.

::

    [tip:sched/core] sched/fair: 0123456789ab: hackbench 21.8% regression
"""

import re
from collections.abc import Sequence

from schedperf.model.rows import Row
from schedperf.publish.culprit.figures import Evidence, name_benchmark, name_result, show_size
from schedperf.publish.culprit.record import COMMIT_DIGITS
from schedperf.publish.mail.headers import REPLY, SUBJECT_COLUMNS
from schedperf.publish.mail.plain import cut, spell
from schedperf.publish.mail.render.table import name_point

_LONGEST_NAME = 40
_LONGEST_TREE = 24
_LONGEST_POINT = 16
_SHORTEST_NAME = 8
# "sched/fair: Do X": the part before the colon.
_PREFIX = re.compile(r"([A-Za-z0-9_/,. -]{1,24}?): ")


def subject_of(evidence: Evidence) -> str:
    """Return the subject, at most 69 characters.

    Tree, subsystem and improvement are left out if they do not fit. If that is not enough, the name
    of the benchmark is shortened.

    :raises InputError: the record has no regression, or a text is not ASCII
    """
    commit = _commits(evidence)
    tree, system = _tree(evidence), _subsystem(evidence)
    worse, better = _worse(evidence), _better(evidence)
    whole = f"{worse}, {better}" if better else worse
    for front, what in (
        (f"{tree}{system}", whole),
        (system, whole),
        ("", whole),
        (f"{tree}{system}", worse),
        (system, worse),
        ("", worse),
    ):
        subject = f"{front}{commit}: {what}"
        if len(subject) <= SUBJECT_COLUMNS:
            return subject
    size = f" {_size(evidence.headline())} regression"
    room = SUBJECT_COLUMNS - len(commit) - len(": ") - len(size)
    return f"{commit}: {cut(_name(evidence, evidence.headline()), max(room, _SHORTEST_NAME))}{size}"


def reply_subject(evidence: Evidence) -> str:
    """Return the subject of a reply: ``Re:`` and what :func:`subject_of` returns."""
    return f"{REPLY}{subject_of(evidence)}"


def _commits(evidence: Evidence) -> str:
    culprit = evidence.culprit
    good = f"{culprit.good.commit[:COMMIT_DIGITS]}.." if culprit.is_range else ""
    return f"{good}{culprit.id}"


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


def _worse(evidence: Evidence) -> str:
    row = evidence.headline()
    return f"{_name(evidence, row)} {_size(row)} regression"


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


def _name(evidence: Evidence, row: Row) -> str:
    """Return the name of the benchmark; if the results have several metrics, that of the metric."""
    metrics = {each.metric for each in evidence.rows(evidence.culprit.main)}
    name = name_benchmark(row.workload) if len(metrics) == 1 else name_result(row)
    return _cut(name)


def _cut(name: str) -> str:
    return cut(spell(name, where="benchmark"), _LONGEST_NAME) or "benchmark"


def _size(row: Row) -> str:
    assert row.ratio is not None
    return show_size(row.ratio)
