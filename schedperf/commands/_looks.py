# SPDX-License-Identifier: GPL-2.0-or-later
"""Answer a recorder's questions: can its output be parsed, and are there enough runs for a verdict?

The recorder (``schedperf_collectors.recorder.analysis``) asks because it contains no analysis code.
This module opens the bundle written so far and compares it with the bundle of the other side.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedperf.compare.bundles import compare_rows
from schedperf.compare.comparability import compare_hosts
from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.errors import InputError, SchedperfError, describe
from schedperf.model.text import clean_line
from schedperf.model.verdict import FEWEST_IN_BLOCKS, describe_blocking
from schedperf.runs.output import is_silent, why_unread
from schedperf.runs.printed import printed_by
from schedperf.runs.values import read_run_values
from schedperf.stats.sequential import FEWEST_IN_BASE, decide_look, warn_of_blocks, warn_of_boots
from schedperf_collectors.recorder.analysis import CONTINUE, LOST, REFUSE, STOP

if TYPE_CHECKING:
    from schedperf.commands._retest import Retests

Answer = Mapping[str, object]
# The runs of each metric and point.
Counts = Mapping[str, Mapping[str, int]]


class Judge:
    """Answers the questions of one recording.

    A question is what :class:`schedperf_collectors.recorder.analysis.Analysis` writes, an answer
    what it reads.
    """

    def __init__(self) -> None:
        self._base: Bundle | None = None
        self._partial: Path | None = None
        self._retests: Retests | None = None

    def answer(self, question: Mapping[str, Any]) -> Answer:
        """Answer one question: continue, stop, lost or refuse, with a text for the user.

        If an error occurs, the answer refuses a recording that has not begun ("begin", "retest").
        Later, the answer is "lost": a recording continues without interim analyses, and a retest is
        interrupted.
        """
        failure = REFUSE if question["ask"] in {"begin", "retest"} else LOST
        try:
            return self._reply(question)
        except SchedperfError as error:
            return _answer(failure, str(error))
        except Exception as error:  # noqa: BLE001 # the recording is worth more than its looks
            return _answer(failure, describe(error))

    def close(self) -> None:
        """Give back what a retest that has not ended holds."""
        if self._retests is not None:
            # If it fails, the lease ends by itself.
            with contextlib.suppress(SchedperfError):
                self._retests.close()

    def _reply(self, question: Mapping[str, Any]) -> Answer:
        asked = question["ask"]
        if asked == "first":
            return _answer(CONTINUE, _why_no_first_result(open_bundle(Path(question["partial"]))))
        if asked == "begin":
            return self._begin(question)
        if asked == "host":
            return self._check_host(question)
        if asked in {"retest", "retested"}:
            return self._retest(question)
        return self._look(question.get("sides", ()))

    def _retest(self, question: Mapping[str, Any]) -> Answer:
        # Imported here: other recordings need no history.
        from schedperf.commands._retest import Retests  # noqa: PLC0415

        retests = self._retests = self._retests or Retests()
        answer = retests.begin(question) if question["ask"] == "retest" else retests.look(question)
        return {**_answer(answer.kind, answer.text, answer.warnings), **answer.more}

    def _begin(self, question: Mapping[str, Any]) -> Answer:
        base = open_bundle(Path(question["against"]))
        # Every member is read, so that a damaged one is reported before the first run.
        digest = base.digest
        _check_workload(base, question)
        counts = _count_values(base, question["workload"])
        _check_counts(base, counts, question["points"])
        warnings = list(dict.fromkeys(_warnings(base, counts, question["max_runs"])))
        self._base = base
        return {**_answer(CONTINUE, "", warnings), "digest": digest}

    def _check_host(self, question: Mapping[str, Any]) -> Answer:
        assert self._base is not None
        self._partial = Path(question["partial"])
        sides = name_sides([self._base, open_bundle(self._partial)])
        differences = compare_hosts(sides, allowed=question["vary"]).differences
        # Nothing has run yet, so the new bundle has no workload; workloads were compared before.
        blocking = [
            difference
            for difference in differences
            if difference.severity == "blocking" and difference.path != "workload"
        ]
        if not blocking:
            return _answer(CONTINUE, "", _warn_of_boots(self._base, question["boot_id"]))
        remedy = "record on a machine without this difference, or add --vary if it is intended"
        return _answer(REFUSE, f"{self._base.path}: {describe_blocking(blocking).text}; {remedy}")

    def _look(self, sides: Sequence[str]) -> Answer:
        if sides:
            bundles = [open_bundle(Path(side)) for side in sides]
        else:
            assert self._base is not None
            assert self._partial is not None
            bundles = [self._base, open_bundle(self._partial)]
        decision = decide_look(compare_rows(bundles), is_paired=bool(sides))
        return _answer(STOP if decision.is_over else CONTINUE, decision.text)


def _why_no_first_result(bundle: Bundle) -> str:
    """Return why a recording's first successful run has no result; "" if it has one.

    The text also states how to get a result. The recording's first successful run is the last one
    in the bundle.

    :raises BundleError: the output of the run cannot be read
    """
    [side] = name_sides([bundle])
    # Earlier runs may belong to other recordings.
    run = [run for run in bundle.runs if run.succeeded][-1]
    printed = printed_by(side, run)
    if printed.failure is not None:
        return f"no result of the first run: {printed.failure}"
    if printed.numbers:
        return ""
    if printed.problems:
        return f"no result of the first run: {printed.problems[0]}"
    why = (
        "the workload prints nothing"
        if is_silent(bundle, run)
        else why_unread(has_rules=bool(run.metric_rules))
    )
    return (
        f"{why}, so the elapsed time is the only number; for a result, record time -p CMD, or use "
        "--metric 'name[unit,higher]=REGEX'"
    )


def _answer(kind: str, text: str, warnings: Sequence[str] = ()) -> Answer:
    # Answers are printed on a terminal, and names in the bundle are untrusted.
    return {"answer": kind, "text": clean_line(text), "warnings": [*map(clean_line, warnings)]}


def _check_workload(base: Bundle, question: Mapping[str, Any]) -> None:
    workload = question["workload"]
    if workload not in base.workload:
        has = ", ".join(repr(argument) for argument in base.workload)
        raise InputError(
            f"{base.path}: contains runs of {has}, not of {workload!r}; give the same command"
        )
    rules = {(rule.name, rule.unit, rule.better, rule.regex) for rule in base.metric_rules}
    question_rules = {
        (rule["name"], rule["unit"], rule["better"], rule["regex"]) for rule in question["metric"]
    }
    for name, *_ in sorted(rules ^ question_rules):
        raise InputError(
            f"{base.path}: recorded with different --metric options ({name} differs); give the "
            "same options"
        )


def _count_values(base: Bundle, workload: str) -> Counts:
    # The number of values of each primary metric at each point.
    table = read_run_values(name_sides([base])).table
    own = (table["workload"] == workload) & (table["kind"] == "clean")
    primary = table.take(own & (table["family"] == "primary") & (table["status"] == "ok"))
    counts: dict[str, dict[str, int]] = {}
    for (metric, point), number in Counter(primary.rows(["metric", "point"])).items():
        counts.setdefault(metric, {})[point] = number
    return counts


def _check_counts(base: Bundle, counts: Counts, points: Sequence[str]) -> None:
    if not counts:
        raise InputError(
            f"{base.path}: the runs printed no primary metric; record both sides with --metric, "
            "e.g. --metric 'rate[1/s,higher]=rate=([0-9.]+)'"
        )
    for metric, by_point in counts.items():
        for point in dict.fromkeys((*points, *by_point)):
            label = f"{metric} at {point}" if point else metric
            if point not in points:
                raise InputError(
                    f"{base.path}: contains {label}, which this command does not record; give the "
                    "same --point options as for this bundle"
                )
            if (n := by_point.get(point, 0)) < FEWEST_IN_BASE:
                raise InputError(
                    f"{base.path}: {n} runs of {label} (expected at least {FEWEST_IN_BASE}); "
                    f"record more runs with the same command, preferably {FEWEST_IN_BLOCKS} or more"
                )


def _warn_of_boots(base: Bundle, boot_id: str) -> Sequence[str]:
    warning = warn_of_boots({run.boot_id for run in base.runs}, boot_id)
    return [] if warning is None else [f"{base.path}: {warning}"]


def _warnings(base: Bundle, counts: Counts, max_runs: int) -> Iterator[str]:
    for by_point in counts.values():
        problem = warn_of_blocks(min(by_point.values()), max_runs, len(by_point))
        if problem is not None:
            yield (
                f"{base.path}: {problem}; record at least {FEWEST_IN_BLOCKS} runs per side, "
                "or interleave with `schedperf ab`"
            )
