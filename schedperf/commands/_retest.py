# SPDX-License-Identifier: GPL-2.0-or-later
"""Answer the questions of ``ab --retest``: what to reproduce, and whether the boots suffice.

The change to reproduce is that of a step of a history, or of a result of a comparison. The outcome
of a step is stored in its history when it is known.
"""

import math
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, convert, to_builtins

from schedperf.commands._answer import Answer
from schedperf.commands._retest_target import (
    Question,
    choose_job,
    choose_point,
    choose_target,
    warnings_of,
    why_not_reproducible,
)
from schedperf.compare.retest import (
    boot_logs,
    describe_retest,
    is_not_reproduced,
    judge_retest,
)
from schedperf.history.retests import Outcome, Suspect, store_outcome
from schedperf.history.store.directory import open_directory
from schedperf.history.store.requests import LONGEST_LEASE_S, Queue
from schedperf.inputs.bundle.open import Retest, open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.errors import InputError
from schedperf.model.text import cut, list_some
from schedperf.model.units import signed
from schedperf.runs.values import read_run_values
from schedperf.stats.looks import RETEST, Judged
from schedperf_collectors.recorder.analysis import CONTINUE, REFUSE, STOP

_MOST_NAMES = 3
_LONGEST_OWNER = 300
_LAST = RETEST.looks[-1].boots


class _Held(Struct, frozen=True, kw_only=True):
    """The step that a retest is of, and the request that it has taken.

    :param store: directory of the history
    :param request: None without a request for the retest
    """

    store: str
    step: str
    request: str | None
    owner: str


class Retests:
    """Answers the questions about one retest."""

    def __init__(self) -> None:
        self._held: _Held | None = None

    def begin(self, question: Mapping[str, Any]) -> Answer:
        """Return the plan of a retest, with the lease of its request, or refuse it.

        :raises InputError: there is nothing that can be retested, or another runner does it
        """
        asked = convert(question, Question)
        target = choose_target(asked)
        suspect = target.suspect
        number = choose_job(target, asked.jobs)
        job = asked.jobs[number]
        warnings = [*warnings_of(target, asked, job)]
        problem = why_not_reproducible(target)
        if problem is not None and not asked.underpowered:
            stays = "" if suspect is None else f"; it stays {suspect.step.state!r}"
            return Answer(
                kind=REFUSE,
                text=f"{problem}{stays}; reduce the noise (docs/kernels.md), or add --underpowered",
            )
        warnings += [] if problem is None else [problem]
        plan = Retest(
            workload=job.workload,
            point=choose_point(target, job.points),
            metric=target.metric,
            direction="higher" if target.seen > 0.0 else "lower",
            seen=target.seen,
            looks=RETEST.looks,
            step=None if suspect is None else suspect.step.id,
        )
        request = {} if suspect is None else to_builtins(self._take(suspect, asked))
        return Answer(
            kind=CONTINUE,
            text="",
            warnings=warnings,
            more={"plan": to_builtins(plan), "request": request, "job": number},
        )

    def look(self, question: Mapping[str, Any]) -> Answer:
        """Return whether the boots so far suffice; if they do, store the outcome.

        :raises InputError: a bundle cannot be read, or the history cannot be written
        """
        plan = convert(question["plan"], Retest)
        held = convert(question["request"], _Held) if question["request"] else None
        logs = _read_logs(plan, question["sides"])
        if isinstance(logs, str):
            return Answer(kind=REFUSE, text=logs)
        # Before the first boot of new, there is one side.
        base, new = (*logs, ())[:2]
        judged = judge_retest(plan, base, new)
        warnings: list[str] = []
        if judged.wants is not None and not question["is_last"]:
            if held is not None and not self._keep(held):
                warnings.append(_taken(held))
            return Answer(kind=CONTINUE, text=_describe_open(judged), warnings=warnings)
        outcome = _outcome(judged, plan, min(len(base), len(new)))
        if held is not None:
            store_outcome(
                open_directory(Path(held.store)),
                held.step,
                outcome,
                warnings.append,
                end="failed" if judged.wants is not None else "done",
            )
            self._held = None
        return Answer(kind=STOP, text=outcome.reason, warnings=warnings)

    def close(self) -> None:
        """Give back a request whose retest has not ended, so that another runner can take it.

        :raises InputError: the database cannot be written
        """
        if self._held is not None:
            assert self._held.request is not None
            self._queue(self._held).release(self._held.request, self._held.owner)

    def _take(self, suspect: Suspect, asked: Question) -> _Held:
        assert asked.store is not None
        held = _Held(
            store=str(Path(asked.store).absolute()),
            step=suspect.step.id,
            request=suspect.request,
            owner=cut(f"{socket.gethostname()}:{asked.owner}", _LONGEST_OWNER),
        )
        if not self._keep(held):
            raise InputError(_taken(held))
        return held

    def _keep(self, held: _Held) -> bool:
        """Take the request of a retest, unless it has it; return whether it was possible.

        A night has taken it for its retest, and renews the lease.
        """
        if held.request is None:
            return True
        queue = self._queue(held)
        is_taken = queue.holds(held.request, held.owner) or queue.take_request(
            held.request, held.owner, LONGEST_LEASE_S
        )
        self._held = held if is_taken else None
        return is_taken

    def _queue(self, held: _Held) -> Queue:
        return Queue(open_directory(Path(held.store)).database())


def _read_logs(plan: Retest, paths: Sequence[str]) -> Sequence[Sequence[float]] | str:
    """Return the logarithms of the boots of each bundle that exists, or why there are none."""
    sides = name_sides([open_bundle(Path(path)) for path in paths if Path(path).exists()])
    table = read_run_values(sides).table
    found = [boot_logs(table, side.name, plan) for side in sides]
    logs = [each for each in found if each]
    if len(logs) == len(found):
        return logs
    what = "a value of 0 or less" if None in found else "no value"
    names = [name for name in dict.fromkeys(table["metric"].tolist()) if name]
    measured = list_some(names, _MOST_NAMES) or "no result"
    return f"{plan.metric} has {what} (the runs have {measured}); name a result by --result"


def _taken(held: _Held) -> str:
    return (
        f"step {held.step}: another runner has its retest (request {held.request}), or the request "
        "has ended; see the tables request and lease of the history"
    )


def _describe_open(judged: Judged) -> str:
    if judged.last is None:
        return f"open; the next look is at {judged.wants}"
    last = judged.last
    return (
        f"open, {signed(math.expm1(last.difference))} so far (one-sided p = {last.p:.2g}, level "
        f"{last.level:g}); the next look is at {judged.wants}"
    )


def _state(judged: Judged, plan: Retest) -> Literal["reproduced", "not reproduced"] | None:
    if judged.result == "reproduced":
        return "reproduced"
    is_absent = judged.result == "futile" and is_not_reproduced(judged, plan)
    return "not reproduced" if is_absent else None


def _outcome(judged: Judged, plan: Retest, boots: int) -> Outcome:
    if judged.last is None or judged.wants is not None:
        reason = f"not decided: {boots} boots of a kernel have a value (expected {_LAST})"
        return Outcome(state=None, boots=boots, reason=reason, numbers={})
    last = judged.last
    change, low, high = map(math.expm1, (last.difference, last.ci_low, last.ci_high))
    return Outcome(
        state=_state(judged, plan),
        change=change,
        ci_low=low,
        ci_high=high,
        boots=last.boots,
        reason=f"retest: {describe_retest(judged, plan)}",
        numbers={
            "seen": plan.seen,
            "change": change,
            "ci_low": low,
            "ci_high": high,
            "p_one_sided": last.p,
            "level": last.level,
            "boots": last.boots,
        },
    )
