# SPDX-License-Identifier: GPL-2.0-or-later
"""Answer whether a recording has enough runs (``schedperf record --until-decided``).

The recorder asks, see ``schedperf_collectors.recorder.looks``; it has no analysis of its own. This
end opens the bundle written so far and compares it with the bundle of the other side.
"""

import contextlib
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedperf.bundle.open import Bundle, open_bundle
from schedperf.compare.bundles import compare_rows
from schedperf.compare.comparability import compare_hosts
from schedperf.model.errors import InputError, SchedperfError, describe
from schedperf.model.text import clean_line
from schedperf.model.verdict import describe_blocking
from schedperf.runs.side import name_sides
from schedperf.runs.values import read_run_values
from schedperf.stats.sequential import FEWEST_IN_BASE, decide_look, warn_of_blocks
from schedperf.stats.verdicts import FEWEST_IN_BLOCKS
from schedperf_collectors.recorder.looks import CONTINUE, LOST, REFUSE, STOP

Answer = Mapping[str, object]
# Runs, by metric and point.
Counts = Mapping[str, Mapping[str, int]]


class Judge:
    """Answers the questions of one recording.

    A question is what :class:`schedperf_collectors.recorder.looks.Looks` writes, an answer what it
    reads.
    """

    def __init__(self) -> None:
        self._base: Bundle | None = None
        self._partial: Path | None = None

    def answer(self, question: Mapping[str, Any]) -> Answer:
        """Answer one question; an error ends the looks, never the recording."""
        asked = question["ask"]
        try:
            if asked == "begin":
                return self._begin(question)
            if asked == "host":
                return self._check_host(question)
            return self._look()
        except SchedperfError as error:
            return _answer(REFUSE if asked == "begin" else LOST, str(error))
        except Exception as error:  # noqa: BLE001 # the recording is worth more than its looks
            return _answer(REFUSE if asked == "begin" else LOST, describe(error))

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
            return _answer(CONTINUE, "")
        remedy = "record on a machine without this difference, or add --vary if it is intended"
        return _answer(REFUSE, f"{self._base.path}: {describe_blocking(blocking).text}; {remedy}")

    def _look(self) -> Answer:
        assert self._base is not None
        assert self._partial is not None
        decision = decide_look(compare_rows([self._base, open_bundle(self._partial)]))
        return _answer(STOP if decision.is_over else CONTINUE, decision.text)


@contextlib.contextmanager
def answering() -> Iterator[tuple[int, int]]:
    """Answer questions in a thread.

    :return: the recorder's file descriptors: to read answers from, and to write questions to
    """
    asked, ask = os.pipe()
    read_fd, tell = os.pipe()
    thread = threading.Thread(target=_serve, args=(asked, tell))
    thread.start()
    try:
        yield read_fd, ask
    finally:
        # The recorder has ended and closed its descriptors, so the thread reads end of file.
        os.close(ask)
        os.close(read_fd)
        thread.join()


def _serve(asked: int, tell: int) -> None:
    judge = Judge()
    with os.fdopen(asked, encoding="utf-8") as questions, os.fdopen(tell, "wb", 0) as answers:
        for line in questions:
            # A recorder that was stopped reads no answer, and one that was killed may leave half
            # a question.
            with contextlib.suppress(BrokenPipeError, json.JSONDecodeError):
                answers.write(json.dumps(judge.answer(json.loads(line))).encode() + b"\n")


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
    # How many values each primary metric has at each point.
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


def _warnings(base: Bundle, counts: Counts, max_runs: int) -> Iterator[str]:
    for by_point in counts.values():
        problem = warn_of_blocks(min(by_point.values()), max_runs, len(by_point))
        if problem is not None:
            yield (
                f"{base.path}: {problem}; record at least {FEWEST_IN_BLOCKS} runs per side, "
                "or interleave with `schedperf ab`"
            )
