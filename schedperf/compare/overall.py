# SPDX-License-Identifier: GPL-2.0-or-later
"""Decide the overall verdict, with its reason if no result is primary."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from schedperf.compare.facts import EMULATED, Facts, unique, why_emulated
from schedperf.inputs.side import Side
from schedperf.model.comparison import Overall
from schedperf.model.rows import Row, Verdict
from schedperf.model.sections import Section
from schedperf.model.verdict import Reason, decide_overall, reason_of, undecided
from schedperf.runs.output import correct_rule, prints_nothing, why_unread
from schedperf.runs.values import ELAPSED, RunValues


def decide(
    rows: Sequence[Row],
    sides: Sequence[Side],
    facts: Facts,
    values: RunValues,
    sections: Mapping[str, Section],
) -> Overall:
    """Return the overall verdict.

    :param rows: rows of all sides; only primary ones decide
    :param facts: blocking differences, equal data and emulation
    :param values: the values of all runs, with the reasons for missing ones
    :param sections: if the sides have no runs, these tell whether kernels are compared
    """
    blocking = unique(difference for side in sides[1:] for difference in facts.blocking(side.name))
    are_compared = any(section.data is not None for section in sections.values())
    if are_compared and not any(side.bundle.runs for side in sides):
        absence: tuple[Verdict, Reason] = (
            "inconclusive",
            undecided("no run was recorded and only the kernels are compared"),
        )
    else:
        absence = _absence(rows, sides, facts, values)
    overall = decide_overall(rows, blocking=blocking, absence=absence)
    undone = (item.text for item in values.caveats if item.code == "work-not-done")
    lost = next(filter(None, (*map(_why_all_discarded, sides), *undone)), None)
    if overall.verdict != "invalid" or blocking or lost is None:
        return overall
    # The rows state only that a side has no value.
    reason = reason_of(f"no result, because {lost}")
    return replace(overall, reason=reason.text, reason_short=reason.short)


def _why_all_discarded(side: Side) -> str | None:
    """Return why a side has no valid clean run; None if it has one, or if none was discarded."""
    runs = [run for run in side.bundle.runs if run.kind == "clean" and not run.warmup]
    reasons = [run.discarded for run in runs if run.discarded is not None]
    if not reasons or any(run.succeeded for run in runs):
        return None
    return f"{len(reasons)} of {len(runs)} clean runs of {side.name} were discarded: {reasons[0]}"


def _absence(
    rows: Sequence[Row], sides: Sequence[Side], facts: Facts, values: RunValues
) -> tuple[Verdict, Reason]:
    # Find the reason for missing primary rows in the runs, their output, or the recorded machine.
    if any(row.metric != ELAPSED.name and (row.values_base or row.values_new) for row in rows):
        emulator = next(iter(facts.emulated.values()), None)
        if emulator is None:
            return "inconclusive", undecided("no primary metric was measured")
        return "inconclusive", replace(undecided(why_emulated(emulator)), short=EMULATED)
    same = all(side.name in facts.same_data for side in sides[1:])
    verdict: Verdict = "inconclusive" if same else "invalid"
    for side in sides:
        runs = [run for run in side.bundle.runs if run.kind == "clean" and not run.warmup]
        if not any(run.succeeded for run in runs):
            why = f"0 of {len(runs)} clean runs of {side.name} succeeded"
            return verdict, reason_of(
                f"no result, because {why if runs else f'{side.name} has no clean run'}"
            )
    for value_caveat in values.caveats:
        if value_caveat.code in {"work-not-done", "bad-lines"}:
            return verdict, reason_of(f"no result, because {value_caveat.text}")
    unread, remedy = _unread(sides)
    whole = reason_of(f"no result, because {unread}", remedy)
    return "inconclusive", replace(whole, short=unread)


def _unread(sides: Sequence[Side]) -> tuple[str, str]:
    # Why no number is read from runs that succeeded, and what to do.
    bundles = [side.bundle for side in sides]
    if all(map(prints_nothing, bundles)):
        if any(bundle.imported for bundle in bundles):
            return "imported files have no benchmark results", "record a benchmark as workload"
        return "the workload prints nothing", "record a benchmark as workload"
    has_rules = any(bundle.metric_rules for bundle in bundles)
    remedy = "record time -p CMD, or use --metric 'name[unit,higher]=REGEX'"
    if has_rules:
        is_whole = not any(run.omitted_bytes for bundle in bundles for run in bundle.runs)
        remedy = correct_rule(is_whole=is_whole)
    return why_unread(has_rules=has_rules), remedy
