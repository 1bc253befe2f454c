# SPDX-License-Identifier: GPL-2.0-or-later
"""Interim analyses of a recording: are there enough runs for a verdict?

The bundle written so far is compared with the bundle of the other side.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedperf.commands._answer import Answer
from schedperf.compare.bundles import compare_rows
from schedperf.compare.comparability import compare_hosts
from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.errors import InputError
from schedperf.model.verdict import FEWEST_IN_BLOCKS, describe_blocking
from schedperf.runs.values import read_run_values
from schedperf.stats.sequential import FEWEST_IN_BASE, decide_look, warn_of_blocks, warn_of_boots
from schedperf_collectors.recorder.analysis import CONTINUE, REFUSE, STOP

# The runs of each metric and point.
Counts = Mapping[str, Mapping[str, int]]


class Looks:
    """The interim analyses of one recording."""

    def __init__(self) -> None:
        self._base: Bundle | None = None
        self._partial: Path | None = None

    def begin(self, question: Mapping[str, Any]) -> Answer:
        """Check that runs can be added to the base of a recording before the first run."""
        base = open_bundle(Path(question["against"]))
        # Every member is read, so that a damaged one is reported before the first run.
        digest = base.digest
        _check_workload(base, question)
        counts = _count_values(base, question["workload"])
        _check_counts(base, counts, question["points"])
        warnings = list(dict.fromkeys(_warnings(base, counts, question["max_runs"])))
        self._base = base
        return Answer(kind=CONTINUE, text="", warnings=warnings, more={"digest": digest})

    def check_host(self, question: Mapping[str, Any]) -> Answer:
        """Check that the base was recorded on a machine like this one."""
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
            warnings = _warn_of_boots(self._base, question["boot_id"])
            return Answer(kind=CONTINUE, text="", warnings=warnings)
        problem = describe_blocking(blocking).text
        remedy = "record on a machine without this difference, or add --vary if it is intended"
        return Answer(kind=REFUSE, text=f"{self._base.path}: {problem}; {remedy}")

    def look(self, question: Mapping[str, Any]) -> Answer:
        """Compare the runs so far; stop once there are enough for a verdict."""
        sides: Sequence[str] = question.get("sides", ())
        if sides:
            bundles = [open_bundle(Path(side)) for side in sides]
        else:
            assert self._base is not None
            assert self._partial is not None
            bundles = [self._base, open_bundle(self._partial)]
        decision = decide_look(compare_rows(bundles), is_paired=bool(sides))
        return Answer(kind=STOP if decision.is_over else CONTINUE, text=decision.text)


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
