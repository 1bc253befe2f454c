# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the first lines of a report: the commit, its effect, the machine, and four facts.

The facts are whether the regression is still in the tree, what a revert does, whether other
machines have it, and what else was measured on both kernels.
"""

import re
from collections.abc import Iterator, Sequence

from schedperf.model.host import read_host
from schedperf.model.rows import Row
from schedperf.model.sides import SideSummary
from schedperf.model.text import join_names
from schedperf.publish.culprit.figures import (
    Evidence,
    day_of,
    describe_effect,
    name_benchmark,
    name_machine,
    name_result,
    show_interval,
    show_size,
)
from schedperf.publish.culprit.record import COMMIT_DIGITS, Elsewhere, Revert, SeenStep, Tree
from schedperf.publish.culprit.workloads import command_of, is_alike
from schedperf.publish.mail.plain import INDENT, cut, quote, spell, wrap
from schedperf_reports.words.rows import count_of

MOST_MACHINES = 3
_LONGEST_SUBJECT = 100
_LONGEST_NAME = 60
_LONGEST_MACHINE = 90
_LABEL_COLUMNS = 18
_GIB = 1 << 30
# A hash of the machine's fields follows the name that the site gives.
_CLASS_HASH = re.compile(r"-[0-9a-f]{4,}\Z")
_UNDONE = ("no-change", "improvement")


def open_report(evidence: Evidence, names: Sequence[str]) -> list[str]:
    """Return the lines of the first paragraph.

    :param names: texts with names of people, which may be in subjects
    :raises InputError: the record has no regression, or a text is not allowed in mails
    """
    return [*wrap(_sentence(evidence, names)), *_facts(evidence)]


def quote_subject(subject: str, names: Sequence[str], longest: int = _LONGEST_SUBJECT) -> str:
    """Return a commit's subject as mails quote it: ``("sched/fair: ...")``.

    :param names: texts with names of people, whose words may have letters that are not ASCII
    :param longest: maximum number of characters of the subject
    """
    return f'("{cut(quote(subject, names), longest)}")'


def _sentence(evidence: Evidence, names: Sequence[str]) -> str:
    culprit, row = evidence.culprit, evidence.headline()
    where = _machine_of(evidence.side(culprit.main))
    if not culprit.is_range:
        quoted = quote_subject(culprit.bad.subject, names)
        return f"Commit {culprit.id} {quoted} {_effect(row)} on {where}."
    name = cut(spell(culprit.range_name, where="commits"), _LONGEST_MACHINE)
    ends = f"{culprit.good.commit[:COMMIT_DIGITS]}..{culprit.id}"
    hashes = "" if name == ends else f" ({ends})"
    return (
        f"A commit in {name}{hashes} {_effect(row)} on {where}. The first bad commit is not known."
    )


def _effect(row: Row) -> str:
    """Return what the commit does: ``makes hackbench -g 16 21.3% slower [95% CI ...]``."""
    command = cut(spell(" ".join(command_of(row).shown), where="workload"), _LONGEST_NAME)
    if _is_time(row) and command and row.ratio is not None and row.ratio > 1.0:
        interval = show_interval(row).replace("[", "[95% CI ", 1)
        return f"makes {command} {show_size(row.ratio)} slower {interval}"
    benchmark, name = name_benchmark(row.workload), name_result(row)
    metric = cut(spell(name, where="metric"), _LONGEST_NAME)
    if command in ("", benchmark):
        return describe_effect(row, metric)
    # "sec/op of DirectSend": the command says more.
    is_of = name == f"{row.metric} of {benchmark}"
    short = cut(spell(row.metric, where="metric"), _LONGEST_NAME)
    return describe_effect(row, f"{short} of {command}" if is_of else f"{metric} ({command})")


def _is_time(row: Row) -> bool:
    """Return whether a result is the time of the whole command."""
    return row.metric == f"{name_benchmark(row.workload)} time" and row.better == "lower"


def _machine_of(side: SideSummary) -> str:
    """Return a machine with its article: ``a 1-socket, 2-CPU AMD EPYC 7763 (1 node, 25 GiB)``."""
    if not side.host:
        return "a machine that is not recorded"
    name = cut(spell(name_machine(side), where="CPU model"), _LONGEST_MACHINE)
    host = read_host(side.host)
    nodes = len({cpu.node for cpu in host.topology.cpus if cpu.node is not None})
    memory = host.memory.total_bytes
    size = f"{memory / _GIB:.0f} GiB" if memory and memory >= _GIB else ""
    facts = ", ".join(filter(None, (count_of(nodes, "node") if nodes else "", size)))
    return f"{article(name)} {name}{f' ({facts})' if facts else ''}"


def article(name: str) -> str:
    """Return the article of a machine's name: ``an 8-CPU``."""
    return "an" if re.match(r"[aeiouAEIOU]|8|1[18]\b", name) else "a"


def _facts(evidence: Evidence) -> list[str]:
    culprit, row = evidence.culprit, evidence.headline()
    tip = evidence.row_like(culprit.tip, row)
    revert = culprit.revert
    reverted = evidence.row_like(revert.result if revert else None, row)
    where = " there" if tip is not None else ""
    return [
        *_fact("still there:", _tip(culprit.tree, tip)),
        *_fact(f"reverted{where}:", _revert(revert, reverted, row)),
        *_fact("elsewhere:", _elsewhere(evidence)),
        *_fact("other results:", _others(evidence)),
    ]


def _fact(label: str, text: str) -> list[str]:
    first = f"{INDENT}{label}".ljust(_LABEL_COLUMNS)
    return wrap(text, first=first, rest=" " * _LABEL_COLUMNS)


def _tip(tree: Tree | None, row: Row | None) -> str:
    if row is None:
        return "the newest kernel of the tree was not measured"
    name = cut(spell(tree.name, where="tree"), _LONGEST_NAME) if tree else "the newest kernel"
    commit = f" {tree.commit[:COMMIT_DIGITS]}" if tree and tree.commit else ""
    date = f" of {day_of(tree.date)}" if tree and tree.date else ""
    at = f"{name}{commit}{date}"
    match row.verdict:
        case "regression":
            return f"yes, {at}"
        case "no-change" | "improvement":
            return f"no, it is gone in {at}"
        case _:
            return f"{row.verdict}, {at}"


def _revert(revert: Revert | None, row: Row | None, headline: Row) -> str:
    if revert is not None and revert.impossible:
        why = cut(spell(revert.impossible, where="revert"), _LONGEST_NAME)
        return f"not possible: {why.rstrip('.')}"
    if row is None:
        return "a revert was not measured"
    if row.verdict in _UNDONE:
        return f"back to the parent's {'time' if _is_time(headline) else 'result'}"
    return "the regression is still there" if row.verdict == "regression" else row.verdict


def _elsewhere(evidence: Evidence) -> str:
    """Return on which other machines the commit regresses, or the step is seen, or not."""
    culprit = evidence.culprit
    worse = [*map(_place, culprit.regressed_on), *_machines(culprit.steps, "regressed")]
    same = [*map(_place, culprit.no_change_on), *_machines(culprit.steps, "no regression")]
    unclear = [*_machines(culprit.steps, "unclear")]
    parts = [
        f"{word} {_list(names)}"
        for word, names in (("yes on", worse), ("no on", same), ("unclear on", unclear))
        if names
    ]
    return "; ".join(parts) or "not measured"


def _place(place: Elsewhere) -> str:
    name = cut(spell(place.machine, where="machine"), _LONGEST_NAME)
    return f"{article(name)} {name}"


def _machines(steps: Sequence[SeenStep], verdict: str) -> Iterator[str]:
    """Yield the machines with a verdict about the first step, as the site calls them."""
    for step in steps[:1]:
        for each in step.elsewhere:
            if each.verdict == verdict:
                name = _CLASS_HASH.sub("", each.machine) or each.machine
                yield cut(spell(name, where="machine"), _LONGEST_NAME)


def _list(names: Sequence[str]) -> str:
    shown = [*dict.fromkeys(names)]
    left = len(shown) - MOST_MACHINES
    return join_names([*shown[:MOST_MACHINES], *([f"{left} more"] if left > 0 else [])])


def _others(evidence: Evidence) -> str:
    """Return how many other commands both kernels ran, and how many of their results changed."""
    headline = evidence.headline()
    rows = [row for row in evidence.rows(evidence.culprit.main) if not is_alike(row, headline)]
    number = len({row.workload for row in rows})
    if not number:
        return "no other benchmark was run on both kernels"
    ran = f"{count_of(number, 'benchmark')} run on both kernels"
    changed = sum(row.verdict in ("regression", "improvement") for row in rows)
    unclear = sum(row.verdict not in ("regression", *_UNDONE) for row in rows)
    what = f"{count_of(changed, 'other change')}, see below" if changed else "no other change"
    doubt = f", {count_of(unclear, 'result')} inconclusive" if unclear else ""
    return f"{ran}, {what}{doubt}"
