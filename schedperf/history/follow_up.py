# SPDX-License-Identifier: GPL-2.0-or-later
"""Decide which runs the state of a step asks for: a retest, a bisection, or a reverted commit."""

import re
from collections.abc import Container, Mapping, Sequence

from msgspec.structs import replace
from sqlalchemy import select

from schedperf.history.questions.causes import find_causes
from schedperf.history.questions.history import History
from schedperf.history.questions.records import Night, Series, Step
from schedperf.history.states import StepState
from schedperf.history.store.decisions import Requested, RequestKind
from schedperf.history.store.tables import REQUEST
from schedperf.model.rows import digest_of

# What a step in this state needs, and the boots after which it ends at the latest: of each kernel,
# or of all commits.
_NEEDED: Mapping[StepState, tuple[RequestKind, int]] = {
    "suspected": ("retest", 16),
    "reproduced": ("bisect", 140),
    "range known": ("bisect", 140),
    "first bad known": ("revert", 12),
}
_SEARCHED = [state for state, (kind, _) in _NEEDED.items() if kind != "retest"]
# A request that failed so often is not made again.
_MOST_FAILURES = 3
_DIGITS = 12
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
# Number of a decision that says that the revert was tested with it.
REVERTED = "revert_tested"


def missing_requests(history: History) -> list[Requested]:
    """Return the requests that steps need and that were not made yet.

    A request that failed is made again, three times at most; one that was cancelled is not.

    :raises InputError: the database cannot be read
    """
    with history.database.transaction() as connection:
        rows = connection.execute(
            select(REQUEST.c.step_id, REQUEST.c.kind, REQUEST.c.state).where(
                REQUEST.c.step_id.is_not(None)
            )
        ).all()
    states: dict[tuple[str, str], list[str]] = {}
    for step_id, kind, state in rows:
        states.setdefault((step_id, kind), []).append(state)
    series = {each.key: each for each in history.series()}
    searched = _find_searched(history, {step for step, kind in states if kind != "retest"})
    requests = []
    for step in history.steps():
        kind, boots = _NEEDED.get(step.state, (None, 0))
        if kind is None:
            continue
        before = states.get((step.id, kind), [])
        if kind != "retest" and step.id not in searched:
            continue
        if set(before) <= {"failed"} and len(before) < _MOST_FAILURES:
            of_series = series[step.series]
            request = _request(step, of_series, history.nights(of_series), kind, boots)
            if request is None or (kind == "revert" and _is_reverted(history, step)):
                continue
            identity = [kind, step.id, *([len(before)] if before else [])]
            requests.append(replace(request, request=digest_of(identity)[:_DIGITS]))
    return requests


def _find_searched(history: History, begun: Container[str]) -> set[str]:
    """Return the steps whose first bad commit is searched: one of each cause and machine class.

    :param begun: steps of which a search was requested already
    """
    chosen: dict[tuple[str, str], Step] = {}
    for cause in find_causes(history):
        of_cause = [each.shown for each in cause.steps if each.state in _SEARCHED]
        for each in sorted(of_cause, key=lambda one: _rank(one.step, begun), reverse=True):
            chosen.setdefault((cause.leader.id, each.series.machine_class), each.step)
    return {step.id for step in chosen.values()}


def _rank(step: Step, begun: Container[str]) -> tuple[bool, bool, float]:
    return step.id in begun, step.direction != "better", abs(step.change or 0.0)


def _is_reverted(history: History, step: Step) -> bool:
    """Return whether the bisection has tested the revert already."""
    return any(REVERTED in each.numbers for each in history.step_changes(step.id))


def _request(
    step: Step, series: Series, nights: Sequence[Night], kind: RequestKind, boots: int
) -> Requested | None:
    """Return a request without its identity; None if it cannot be carried out for a step."""
    reference, new = _kernels(step, nights, kind)
    if kind != "retest":
        # Only lasting regressions are worth a search, which needs commits.
        is_range = all(_COMMIT.match(each or "") for each in (reference, new)) and reference != new
        if step.direction == "better" or not is_range:
            return None
    what = {"bisect": "first bad commit of", "revert": "revert of the first bad commit of"}
    return Requested(
        request="",
        kind=kind,
        machine=series.machine_class,
        reference=reference,
        new=new,
        job=series.workload,
        step=step.id,
        boots=boots,
        why=" ".join(
            filter(None, (what.get(kind), f"{step.state} step of {series.name} since {step.night}"))
        ),
    )


def _kernels(
    step: Step, nights: Sequence[Night], kind: RequestKind
) -> tuple[str | None, str | None]:
    """Return the kernels between which a step is: of the first night since it, or before it."""
    since = [night for night in nights if night.position >= step.position]
    before = [night for night in nights if night.position < step.position and night.revision]
    if not since:
        return None, None
    new = since[0].revision or None
    # The range of a search is as short as the nights allow.
    if kind != "retest" and before and before[-1].revision != new:
        return before[-1].revision, new
    return since[0].reference_revision, new
