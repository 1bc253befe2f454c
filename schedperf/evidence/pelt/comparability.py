# SPDX-License-Identifier: GPL-2.0-or-later
"""Which probe mechanism observed each function, and whether it was the same on both sides.

Mechanisms differ in what they observe: a breakpoint counts calls that ftrace cannot, and a
function may be partly inlined. So counts are compared only where every run of both sides used the
same mechanism, and durations only where the same part of the calls was timed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from schedperf.evidence.pelt.capture import FunctionCalls, PeltCapture
from schedperf.evidence.pelt.measure import Traced, cpus_by_node, mean_ns
from schedperf.evidence.pelt.record import TriedMechanism, UnseenFunction
from schedperf.model.run import Captured, SideOf

# Exits without an entry, or entries nested too deeply, beyond this part of the calls are said.
MOST_UNPAIRED = 0.001
NOT_SHORTER = "probe overhead not subtracted (not known to be smaller than the measured time)"
# What the pair reads is a part of what it adds to a call: a larger one was disturbed.
READS_TOO_MUCH = (
    "probe overhead not subtracted: its measured part is larger than the whole overhead that the "
    "probe adds to a call"
)
# How many descriptions are listed where the runs of one side differ among themselves.
MOST_TOLD = 3

_UNKNOWN = FunctionCalls(tried={})


def seen_by(side: SideOf[Traced], function: str) -> list[FunctionCalls]:
    """Return what each run of a side saw of a function."""
    return [run.content.capture.functions.get(function, _UNKNOWN) for run in side.runs]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparability:
    """What can be compared of a function; a reason says why not, None is yes.

    :param as_read: why probe overhead is not subtracted from the durations; None: it is
    :param remarks: what weakens the rows of the function
    """

    calls: str | None
    contexts: str | None
    durations: str | None
    as_read: str | None
    remarks: tuple[str, ...]


def functions_of(sides: Sequence[SideOf[Traced]]) -> list[str]:
    """Return the functions that any run asked for, in that order."""
    found = [run.content.capture.functions for side in sides for run in side.runs]
    return list(dict.fromkeys(name for functions in found for name in functions))


def judge(function: str, sides: Sequence[SideOf[Traced]]) -> Comparability:
    """Say what of a function can be compared between these sides."""
    return Comparability(
        calls=_differences(sides, function, _mechanism),
        contexts=_differences(sides, function, _contexts),
        durations=_differences(sides, function, _timing),
        as_read=_why_as_read(sides, function),
        remarks=tuple(text for side in sides for text in _remarks(side, function)),
    )


def context_notes(sides: Sequence[SideOf[Traced]]) -> Iterator[str]:
    """Say of which functions the calls are compared and their contexts are not, and why."""
    told: dict[str, list[str]] = {}
    for function in functions_of(sides):
        judged = judge(function, sides)
        if judged.calls is None and judged.contexts is not None:
            told.setdefault(judged.contexts, []).append(function)
    for reason, functions in told.items():
        yield f"contexts of {', '.join(functions)} are not compared; {reason}"


def is_seen(function: str, side: SideOf[Traced]) -> bool:
    """Say whether any run saw a function."""
    return any(one.mechanism is not None for one in seen_by(side, function))


def _differences(
    sides: Sequence[SideOf[Traced]],
    function: str,
    describe: Callable[[PeltCapture, FunctionCalls], str],
) -> str | None:
    told = {
        side.name: sorted(
            {
                describe(run.content.capture, seen)
                for run, seen in zip(side.runs, seen_by(side, function), strict=True)
            }
        )
        for side in sides
    }
    if len({text for texts in told.values() for text in texts}) == 1:
        return None
    return ", ".join(f"{name}: {' and '.join(texts[:MOST_TOLD])}" for name, texts in told.items())


def _mechanism(_: PeltCapture, seen: FunctionCalls) -> str:
    return seen.mechanism or f"not measured ({why_unseen(seen)})"


def why_unseen(seen: FunctionCalls) -> str:
    """List every mechanism that was tried, with its reason."""
    reasons = [f"{name}: {reason}" for name, reason in seen.tried.items() if reason]
    return "; ".join(reasons) or "no mechanism was tried"


def _contexts(capture: PeltCapture, seen: FunctionCalls) -> str:
    if seen.contexts is None:
        return "per-context counts are not available"
    marked = ", ".join(sorted(capture.contexts.markers))
    return f"{marked} by {capture.contexts.mechanism or 'no marker'}"


def _timing(capture: PeltCapture, seen: FunctionCalls) -> str:
    if seen.durations is None:
        return "calls not timed"
    return f"1 in {capture.sampling} calls is timed by {seen.mechanism}"


def _why_as_read(sides: Sequence[SideOf[Traced]], function: str) -> str | None:
    # Durations of runs are compared, so all of them are net or none is.
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
    # Of each node, too: a mean below the reading would become negative.
    by_node = (
        None if seen.durations is None else mean_ns(seen.durations, cpus)
        for _, cpus in cpus_by_node(run)
    )
    is_longer = all(mean is None or mean > probe.reads_ns for mean in by_node)
    return None if is_longer else NOT_SHORTER


def _remarks(side: SideOf[Traced], function: str) -> Iterator[str]:
    seen = seen_by(side, function)
    calls = sum(sum((one.calls or {}).values()) for one in seen)
    lost = [one.lost for one in seen if one.lost is not None]
    for number, what in (
        (sum(one.unpaired or 0 for one in lost), "exits without an entry"),
        (sum(one.nested or 0 for one in lost), "calls nested too deeply to be timed"),
    ):
        if number > MOST_UNPAIRED * calls:
            yield f"{side.name}: {function} has {number} {what}, beside {calls} calls"


def unseen(side: SideOf[Traced]) -> Iterator[UnseenFunction]:
    """Yield each function that a run could not see, with the mechanisms that failed."""
    for function in functions_of([side]):
        blind = [one for one in seen_by(side, function) if one.mechanism is None]
        if blind:
            tried = {name: reason for one in blind for name, reason in one.tried.items()}
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
