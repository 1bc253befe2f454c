# SPDX-License-Identifier: GPL-2.0-or-later
"""Determine which probe mechanism observed each function, and whether both sides used the same.

Mechanisms observe different calls: a breakpoint counts calls that ftrace cannot, and a function may
be partly inlined. So counts are compared only if all runs of both sides used the same mechanism,
durations only if they also used the same sampling, and counts by context only if they also marked
the same contexts.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from schedperf.evidence.pelt.capture import FunctionCalls, PeltCapture
from schedperf.evidence.pelt.measure import Traced, cpus_by_node, mean_ns
from schedperf.evidence.pelt.record import TriedMechanism, UnseenFunction
from schedperf.model.run import Captured, SideOf
from schedperf.model.text import join_names

# Smallest share of lost calls (exits without an entry, too deep nesting) that is reported.
MOST_UNPAIRED = 0.001
NOT_SHORTER = "probe overhead not subtracted (not known to be smaller than the measured time)"
# The duration that the timing programs measure for an empty function is part of the overhead that
# they add to a call; a longer time is a measurement error.
READS_TOO_MUCH = (
    "probe overhead not subtracted, because the duration measured for an almost empty function is "
    "longer than the time that the timing probes add to a call"
)
# Largest number of descriptions that are listed if the runs of one side differ.
MOST_TOLD = 3

_UNKNOWN = FunctionCalls(tried={})


def seen_by(side: SideOf[Traced], function: str) -> list[FunctionCalls]:
    """Return the calls of a function in each run of a side.

    For a run whose capture lacks the function, the mechanism and the calls are None.
    """
    return [run.content.capture.functions.get(function, _UNKNOWN) for run in side.runs]


class Comparability(Struct, frozen=True, kw_only=True):
    """The reasons why rows of a function are not comparable; None if they are.

    :param calls: reason for its counts, which applies to contexts and durations as well
    :param contexts: reason for its counts by context
    :param durations: reason for its durations and shares of CPU time
    :param as_read: why probe overhead is not subtracted from the durations; None if it is
    :param remarks: limitations of the rows of the function
    """

    calls: str | None
    contexts: str | None
    durations: str | None
    as_read: str | None
    remarks: tuple[str, ...]


def functions_of(sides: Sequence[SideOf[Traced]]) -> list[str]:
    """Return the functions in the captures of all runs, in the order of first appearance."""
    functions_per_run = [run.content.capture.functions for side in sides for run in side.runs]
    return list(dict.fromkeys(name for functions in functions_per_run for name in functions))


def judge(function: str, sides: Sequence[SideOf[Traced]]) -> Comparability:
    """Determine which rows of a function are not comparable between these sides, and why."""
    return Comparability(
        calls=_differences(sides, function, _mechanism),
        contexts=_differences(sides, function, _contexts),
        durations=_differences(sides, function, _timing),
        as_read=_why_as_read(sides, function),
        remarks=tuple(text for side in sides for text in _remarks(side, function)),
    )


def context_notes(sides: Sequence[SideOf[Traced]]) -> Iterator[str]:
    """Yield a note per reason why calls by context are not comparable although calls are."""
    by_reason: dict[str, list[str]] = {}
    for function in functions_of(sides):
        judged = judge(function, sides)
        if judged.calls is None and judged.contexts is not None:
            by_reason.setdefault(judged.contexts, []).append(function)
    for reason, functions in by_reason.items():
        yield f"per-context calls of {', '.join(functions)} are not compared ({reason})"


def is_seen(function: str, side: SideOf[Traced]) -> bool:
    """Return whether any run of a side observed a function."""
    return any(observed.mechanism is not None for observed in seen_by(side, function))


def _differences(
    sides: Sequence[SideOf[Traced]],
    function: str,
    describe: Callable[[PeltCapture, FunctionCalls], str],
) -> str | None:
    descriptions = {
        side.name: sorted(
            {
                describe(run.content.capture, seen)
                for run, seen in zip(side.runs, seen_by(side, function), strict=True)
            }
        )
        for side in sides
    }
    if len({text for texts in descriptions.values() for text in texts}) == 1:
        return None
    return ", ".join(
        f"{name}: {join_names(texts[:MOST_TOLD])}" for name, texts in descriptions.items()
    )


def _mechanism(_: PeltCapture, seen: FunctionCalls) -> str:
    return seen.mechanism or f"not measured ({why_unseen(seen)})"


def why_unseen(seen: FunctionCalls) -> str:
    """Return every mechanism that failed with its reason, as text.

    >>> why_unseen(FunctionCalls(tried={}))
    'no probe mechanism was tried'
    """
    reasons = [f"{name}: {reason}" for name, reason in seen.tried.items() if reason]
    return "; ".join(reasons) or "no probe mechanism was tried"


def _contexts(capture: PeltCapture, seen: FunctionCalls) -> str:
    if seen.contexts is None:
        return "per-context counts are not available"
    marked = ", ".join(sorted(capture.contexts.markers)) or "none"
    return f"contexts marked by {capture.contexts.mechanism or 'no mechanism'}: {marked}"


def _timing(capture: PeltCapture, seen: FunctionCalls) -> str:
    if seen.durations is None:
        return "calls not timed"
    which = "all calls" if capture.sampling == 1 else f"1 in {capture.sampling} calls"
    return f"{which} timed by {seen.mechanism}"


def _why_as_read(sides: Sequence[SideOf[Traced]], function: str) -> str | None:
    # Overhead is subtracted in all runs of both sides or in none, so that durations stay
    # comparable.
    runs = [run for side in sides for run in side.runs]
    return next((reason for run in runs if (reason := _why_gross(run, function))), None)


def _why_gross(run: Captured[Traced], function: str) -> str | None:
    seen, probe = (
        run.content.capture.functions.get(function, _UNKNOWN),
        run.content.capture.empty_probe,
    )
    if probe is None or probe.reads_ns is None or probe.mechanism != seen.mechanism:
        return NOT_SHORTER
    if probe.pair_ns is not None and probe.reads_ns > probe.pair_ns:
        return READS_TOO_MUCH
    # Also checked per node, because a mean below the overhead would become negative.
    by_node = (
        None if seen.durations is None else mean_ns(seen.durations, cpus)
        for _, cpus in cpus_by_node(run)
    )
    is_longer = all(mean is None or mean > probe.reads_ns for mean in by_node)
    return None if is_longer else NOT_SHORTER


def _remarks(side: SideOf[Traced], function: str) -> Iterator[str]:
    seen = seen_by(side, function)
    calls = sum(sum((observed.calls or {}).values()) for observed in seen)
    lost = [observed.lost for observed in seen if observed.lost is not None]
    for number, what in (
        (sum(loss.unpaired or 0 for loss in lost), "exits without a recorded entry"),
        (sum(loss.nested or 0 for loss in lost), "calls nested too deeply to be timed"),
    ):
        if number > MOST_UNPAIRED * calls:
            yield f"{side.name}: {function} has {number} {what} among {calls} calls"


def unseen(side: SideOf[Traced]) -> Iterator[UnseenFunction]:
    """Yield each function that a run could not observe, with the mechanisms that failed."""
    for function in functions_of([side]):
        blind = [observed for observed in seen_by(side, function) if observed.mechanism is None]
        if blind:
            tried = {name: reason for observed in blind for name, reason in observed.tried.items()}
            yield UnseenFunction(
                side=side.name,
                function=function,
                runs=len(blind),
                tried=tuple(
                    TriedMechanism(mechanism=name, reason=reason)
                    for name, reason in tried.items()
                    if reason
                ),
            )
