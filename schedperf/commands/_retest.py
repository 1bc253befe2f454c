# SPDX-License-Identifier: GPL-2.0-or-later
"""Answer the questions of ``ab --retest``: what to reproduce, and whether the boots suffice.

The change to reproduce is that of a step of a history, or of a result of a comparison. The outcome
of a step is stored in its history when it is known.
"""

import math
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins

from schedperf.compare.json import MOST_BYTES, read_comparison
from schedperf.compare.retest import (
    boot_logs,
    describe_retest,
    is_not_reproduced,
    judge_retest,
)
from schedperf.history.retests import Outcome, Suspect, read_suspect, store_outcome
from schedperf.history.store.directory import open_directory
from schedperf.history.store.requests import LONGEST_LEASE_S, Queue
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.manifest import LARGEST_SEEN
from schedperf.inputs.bundle.open import Retest, open_bundle
from schedperf.inputs.side import name_sides
from schedperf.lab.bisect.checks import pooled_sd
from schedperf.model.errors import InputError
from schedperf.model.rows import Row, RunValue
from schedperf.model.text import clean_line, cut, list_some
from schedperf.model.units import percent, signed
from schedperf.model.verdict import CHANGED
from schedperf.runs.values import read_run_values
from schedperf.stats.looks import RETEST, Judged, least_reproduced
from schedperf_collectors.recorder.analysis import CONTINUE, REFUSE, STOP

_MOST_NAMES = 3
_LONGEST = 80
_LONGEST_OWNER = 300
_FEWEST_BOOTS = 2
_LAST = RETEST.looks[-1].boots


class Answer(Struct, frozen=True, kw_only=True):
    """An answer of :class:`Retests`, as :mod:`schedperf_collectors.recorder.analysis` names it.

    :param more: further keys
    """

    kind: str
    text: str
    warnings: Sequence[str] = ()
    more: Mapping[str, object] = {}


class _Question(Struct, frozen=True, kw_only=True):
    """What shall be retested, as the recorder asks.

    :param of: identity of a step, or path of a comparison
    :param result: name of the result; None for the one that changed
    :param underpowered: whether to retest what the machine is too noisy to reproduce
    :param owner: absolute prefix of the bundles
    """

    of: str
    store: str | None
    result: str | None
    underpowered: bool
    workload: str
    points: tuple[str, ...]
    owner: str
    kernels: "tuple[_Kernel, _Kernel]"


class _Kernel(Struct, frozen=True, kw_only=True):
    release: str
    commit: str | None


class _Held(Struct, frozen=True, kw_only=True):
    """The step that a retest is of, and the request that it has taken.

    :param store: directory of the history
    :param request: None if nobody requested the retest
    """

    store: str
    step: str
    request: str | None
    owner: str


class _Target(Struct, frozen=True, kw_only=True):
    """What to reproduce.

    :param name: for messages
    :param boot_sd: standard deviation between boots, of logarithms; None if unknown
    """

    name: str
    workload: str
    point: str
    metric: str
    seen: float
    boot_sd: float | None


class Retests:
    """Answers the questions about one retest."""

    def __init__(self) -> None:
        self._held: _Held | None = None

    def begin(self, question: Mapping[str, Any]) -> Answer:
        """Return the plan of a retest, with the lease of its request, or refuse it.

        :raises InputError: there is nothing that can be retested, or another runner does it
        """
        asked = convert(question, _Question)
        if asked.store is None:
            suspect, target = None, _of_comparison(asked)
        else:
            suspect = read_suspect(open_directory(Path(asked.store)), asked.of)
            target = _of_step(suspect, asked)
        warnings = [] if suspect is None else [*_warn_of_kernels(suspect, asked.kernels)]
        if target.workload != asked.workload:
            warnings.append(f"{target.name} is of {target.workload}, not of {asked.workload}")
        problem = _why_not_reproducible(target)
        if problem is not None and not asked.underpowered:
            stays = "" if suspect is None else f"; it stays {suspect.step.state!r}"
            return Answer(
                kind=REFUSE,
                text=f"{problem}{stays}; reduce the noise (docs/kernels.md), or add --underpowered",
            )
        warnings += [] if problem is None else [problem]
        if target.boot_sd is None:
            warnings.append(
                f"{target.name}: the boot-to-boot standard deviation is unknown, so it is not "
                f"known whether {_LAST} boots per side suffice"
            )
        request = {} if suspect is None else to_builtins(self._take(suspect, asked))
        plan = Retest(
            workload=asked.workload,
            point=_choose_point(target, asked.points),
            metric=target.metric,
            direction="higher" if target.seen > 0.0 else "lower",
            seen=target.seen,
            looks=RETEST.looks,
            step=None if suspect is None else suspect.step.id,
        )
        return Answer(
            kind=CONTINUE,
            text="",
            warnings=warnings,
            more={"plan": to_builtins(plan), "request": request},
        )

    def look(self, question: Mapping[str, Any]) -> Answer:
        """Return whether the boots so far suffice; if they do, store the outcome.

        :raises InputError: a bundle cannot be read, or the history cannot be written
        """
        plan = convert(question["plan"], Retest)
        held = convert(question["request"], _Held) if question["request"] else None
        paths = [Path(side) for side in question["sides"]]
        bundles = [open_bundle(path) for path in paths if path.exists()]
        sides = name_sides(bundles)
        table = read_run_values(sides).table
        logs = [boot_logs(table, side.name, plan) for side in sides]
        if None in logs or [] in logs:
            measured = [name for name in dict.fromkeys(table["metric"].tolist()) if name]
            what = "a value of 0 or less" if None in logs else "no value"
            return Answer(
                kind=REFUSE,
                text=f"{plan.metric} has {what} (the runs have "
                f"{list_some(measured, _MOST_NAMES) or 'no result'}); name a result by --result",
            )
        base, new = (*(each or () for each in logs), ())[:2]
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

    def _take(self, suspect: Suspect, asked: _Question) -> _Held:
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
        """Take the request of a retest, or keep it for longer; return whether it was possible."""
        if held.request is None:
            return True
        is_taken = self._queue(held).take_request(held.request, held.owner, LONGEST_LEASE_S)
        self._held = held if is_taken else None
        return is_taken

    def _queue(self, held: _Held) -> Queue:
        return Queue(open_directory(Path(held.store)).database())


def _taken(held: _Held) -> str:
    return (
        f"step {held.step}: another runner has its retest (request {held.request}), or the request "
        "has ended; see the tables request and lease of the history"
    )


def _of_step(suspect: Suspect, asked: _Question) -> _Target:
    return _Target(
        name=f"step {suspect.step.id}",
        workload=suspect.series.workload,
        point=suspect.series.point,
        metric=asked.result or suspect.series.metric,
        seen=_check_seen(f"step {suspect.step.id}", suspect.seen),
        boot_sd=suspect.boot_sd,
    )


def _of_comparison(asked: _Question) -> _Target:
    path = Path(asked.of)
    if not path.exists():
        shown = clean_line(cut(asked.of, _LONGEST))
        raise InputError(
            f"--retest {shown}: no such file (expected one of compare --json); for a step of a "
            "history, add --store DIR"
        )
    content = read_regular(path, MOST_BYTES, "a comparison (compare --json)")
    comparison = read_comparison(content, str(path))
    row = _choose_row(comparison.rows, asked.result, str(path))
    if row.ratio is None:
        raise InputError(f"{path}: {row.metric} has no ratio; name another result by --result")
    return _Target(
        name=f"{path}",
        workload=row.workload,
        point=row.point,
        metric=row.metric,
        seen=_check_seen(f"{path}: {row.metric}", row.ratio - 1.0),
        boot_sd=_boot_sd(row),
    )


def _choose_row(rows: Sequence[Row], result: str | None, path: str) -> Row:
    if result is None:
        found = [row for row in rows if row.family == "primary" and row.verdict in CHANGED]
    else:
        found = [row for row in rows if result in {row.metric, f"{row.metric} {row.point}"}]
    if len(found) == 1:
        return found[0]
    given = "" if result is None else f"--result {clean_line(cut(result, _LONGEST))}: "
    if not found:
        names = [f"{row.metric} {row.point}".rstrip() for row in rows]
        what = "not found" if result else "no result has changed"
        known = list_some(list(map(clean_line, names)), _MOST_NAMES) or "none"
        raise InputError(f"{path}: {given}{what} (it has {known}); name a result by --result")
    names = [f"{row.metric} {row.point}".rstrip() for row in found]
    raise InputError(
        f"{path}: {given}{len(found)} results ({list_some(names, _MOST_NAMES)}; expected one); "
        "name one by --result 'METRIC POINT', and compare two bundles"
    )


def _check_seen(name: str, seen: float) -> float:
    # Also what a comparison without rows of this program may contain.
    if not -1.0 < seen <= LARGEST_SEEN or seen == 0.0 or not math.isfinite(math.log1p(seen)):
        raise InputError(
            f"{name}: a change of {signed(seen)} cannot be retested (expected at most "
            f"{signed(LARGEST_SEEN)}, and not 0); name another result by --result"
        )
    return seen


def _boot_sd(row: Row) -> float | None:
    """Return the standard deviation between boots that a comparison shows; None if unknown."""
    sides = [_logs_of_boots(values) for values in (row.values_base, row.values_new)]
    if all(len(logs) >= _FEWEST_BOOTS for logs in sides):
        return pooled_sd(*sides)
    is_measured = row.boot_sd is not None and row.boot_sd.source != "assumed"
    return row.boot_sd.sd if row.boot_sd is not None and is_measured else None


def _logs_of_boots(values: Sequence[RunValue]) -> Sequence[float]:
    boots: dict[int, list[float]] = {}
    for value in values:
        if value.boot is not None and value.value > 0.0:
            boots.setdefault(value.boot, []).append(math.log(value.value))
    return [sum(logs) / len(logs) for logs in boots.values()]


def _why_not_reproducible(target: _Target) -> str | None:
    if target.boot_sd is None:
        return None
    least = least_reproduced(RETEST, target.boot_sd)
    if abs(math.log1p(target.seen)) >= least:
        return None
    return (
        f"{target.name}: {_LAST} boots per side reproduce changes from "
        f"{percent(math.expm1(min(least, 1.0)))} (80% power), because boots of this machine "
        f"differ (standard deviation {percent(target.boot_sd)}), and {signed(target.seen)} was seen"
    )


def _choose_point(target: _Target, points: Sequence[str]) -> str:
    if target.point in points:
        return target.point
    if len(points) == 1:
        return points[0]
    shown = list_some(list(points), _MOST_NAMES)
    raise InputError(
        f"{target.name}: is of {target.point or 'a command without points'}, which this command "
        f"does not record (its points: {shown}); give the --point of the result"
    )


def _warn_of_kernels(suspect: Suspect, kernels: "tuple[_Kernel, _Kernel]") -> Sequence[str]:
    expected = (suspect.base, suspect.new)
    names = ("before the step, or of its reference", "since the step")
    return [
        f"step {suspect.step.id}: {kernel.release} is not one of the kernels {name} (e.g. "
        f"{min(revisions)}); state its commit by --source if it is"
        for kernel, revisions, name in zip(kernels, expected, names, strict=True)
        if revisions and not {kernel.release, kernel.commit} & revisions
    ]


def _describe_open(judged: Judged) -> str:
    if judged.last is None:
        return f"open; the next look is at {judged.wants}"
    last = judged.last
    return (
        f"open, {signed(math.expm1(last.difference))} so far (one-sided p = {last.p:.2g}, level "
        f"{last.level:g}); the next look is at {judged.wants}"
    )


def _outcome(judged: Judged, plan: Retest, boots: int) -> Outcome:
    if judged.last is None or judged.wants is not None:
        reason = f"not decided: {boots} boots of a kernel have a value (expected {_LAST})"
        return Outcome(state=None, boots=boots, reason=reason, numbers={})
    last = judged.last
    change, low, high = map(math.expm1, (last.difference, last.ci_low, last.ci_high))
    is_absent = judged.result == "futile" and is_not_reproduced(judged, plan)
    return Outcome(
        state="reproduced"
        if judged.result == "reproduced"
        else "not reproduced"
        if is_absent
        else None,
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
