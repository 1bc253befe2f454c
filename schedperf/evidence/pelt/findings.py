# SPDX-License-Identifier: GPL-2.0-or-later
"""Yield findings for changed rates or durations of PELT updates, and for functions not measured."""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from schedperf.evidence import finding
from schedperf.evidence.pelt.measure import CLOCKED
from schedperf.evidence.pelt.record import Pelt, PeltRow, UnseenFunction, What
from schedperf.model.base_new import FIRST_NEW
from schedperf.model.sections import Finding
from schedperf.model.text import join_names
from schedperf.model.units import format_number, scale_for
from schedperf.stats.counted.findings import CO_OCCURS, rate_finding, write_change
from schedperf.stats.counted.rates import distance_of

# Largest number of findings per point; the section's tables have all rows.
MOST_FINDINGS = 4
# Largest number of contexts that a sentence names.
MOST_CONTEXTS = 3
# A function with fewer calls per run is too rare to compare.
FEWEST_CALLS = 10.0
# Divisors in order of preference. A slower kernel lowers every rate per second, so these come last.
PER = ("wakeup", "operation")

NOT_MEASURED = "not measured on {where}"
NOT_COMPARED = "not compared"


@finding("pelt_updates", Pelt)
def pelt_updates(pelt: Pelt) -> Iterator[Finding]:
    """Yield significant changes, then functions that are not comparable.

    Each function has at most one finding for its calls and one for its durations. Of each point,
    the :data:`MOST_FINDINGS` largest changes are reported, the largest first.
    """
    rows = pelt.rows
    for point in dict.fromkeys((row.side, row.workload, row.point) for row in rows):
        of_point = [row for row in rows if (row.side, row.workload, row.point) == point]
        yield from _of_point(of_point)
    for side in dict.fromkeys(row.side for row in rows):
        yield from _not_compared(side, [row for row in rows if row.side == side], pelt.unseen)


def _of_point(rows: Sequence[PeltRow]) -> Iterator[Finding]:
    functions = dict.fromkeys(row.function for row in rows)
    of_function = {name: [row for row in rows if row.function == name] for name in functions}
    chosen = [
        (row, of_function[name])
        for name in functions
        for row in (_changed_calls(of_function[name]), _changed_duration(of_function[name]))
        if row is not None
    ]
    # Changes of about the same size stay in the order of the functions.
    chosen.sort(key=lambda candidate: -round(distance_of(candidate[0].ratio), 1))
    for row, others in chosen[:MOST_FINDINGS]:
        yield _describe(row, others)


def _whole(rows: Sequence[PeltRow], what: What) -> list[PeltRow]:
    return [row for row in rows if row.what == what and row.node is None and not row.context]


def _changed_calls(rows: Sequence[PeltRow]) -> PeltRow | None:
    calls = _whole(rows, "calls")
    preferred = [row for per in PER for row in calls if row.per == per] or calls
    return next(
        (row for row in preferred if row.changed and _is_frequent(row) and _is_of_work(row, rows)),
        None,
    )


def _is_of_work(row: PeltRow, rows: Sequence[PeltRow]) -> bool:
    # The total per wakeup or operation includes calls that a clock drives: if the other calls
    # changed less than half as much, the run mostly took longer.
    worked = [
        part
        for part in rows
        if part.what == "calls" and part.per == row.per and part.context not in ("", *CLOCKED)
    ]
    is_clocked = any(part.context in CLOCKED and part.new for part in rows)
    if row.per not in PER or not worked or not is_clocked:
        return True
    base, new = (sum(part.base or 0.0 for part in worked), sum(part.new or 0.0 for part in worked))
    if not base or not new:
        return True
    assert row.base is not None
    assert row.new is not None
    is_alike = (new > base) == (row.new > row.base)
    return is_alike and distance_of(new / base) > distance_of(row.ratio) / 2.0


def _changed_duration(rows: Sequence[PeltRow]) -> PeltRow | None:
    totals = [row for row in _whole(rows, "calls") if _is_frequent(row)]
    means = [row for row in _whole(rows, "mean") if not row.few_calls]
    durations = [*means, *_whole(rows, "trimmed"), *_whole(rows, "p99")]
    return next((row for row in durations if row.changed and totals), None)


def _is_frequent(row: PeltRow) -> bool:
    return max(row.total_base or 0.0, row.total_new or 0.0) >= FEWEST_CALLS


def _describe(row: PeltRow, others: Sequence[PeltRow]) -> Finding:
    is_calls = row.what == "calls"
    return rate_finding(
        row,
        rule="pelt_updates",
        section="pelt",
        clause=_calls_clause(row) if is_calls else _duration_clause(row),
        change=_change(row),
        details=_calls_details(row, others) if is_calls else _duration_details(others),
        metric=f"{row.what} of {row.function}",
        better=None if is_calls else "lower",
        attribution="; ".join((CO_OCCURS, *row.remarks)),
        of_machine=True,
    )


def _calls_clause(row: PeltRow) -> str:
    base, new = (format_number(value or 0.0) for value in (row.base, row.new))
    events = "events" if row.function.endswith("_tp") else "calls"
    return f"{row.function}: {base} -> {new} {events} per {_operation(row)}{_at(row)}"


def _calls_details(row: PeltRow, others: Sequence[PeltRow]) -> str:
    parts = [part for part in others if part.what == "calls" and part.per == row.per]
    return f"{_by_node(parts, format_number)}{_by_context(parts)}"


def _operation(row: PeltRow) -> str:
    unit = row.unit.partition("/")[2]
    return "second" if unit == "s" else unit


def _at(row: PeltRow) -> str:
    return f" at {row.point}" if row.point else ""


def _change(row: PeltRow) -> str:
    if row.ratio is None:
        return ""
    if row.ci_low is None or row.ci_high is None:
        return f" ({write_change(row.ratio)})"
    low, high = write_change(row.ci_low), write_change(row.ci_high)
    return f" ({write_change(row.ratio)} [{low}, {high}])"


def _by_node(rows: Sequence[PeltRow], write: Callable[[float], str]) -> str:
    # The nodes with the smallest and the largest new value.
    nodes = [
        (row.node, row.new, row.base or 0.0)
        for row in rows
        if row.node is not None and row.new is not None
    ]
    if not nodes:
        return ""
    ends = sorted({select(nodes, key=itemgetter(1)) for select in (min, max)})
    changes = (f"node {node} {write(base)} -> {write(new)}" for node, new, base in ends)
    return f"; {', '.join(changes)}"


def _by_context(rows: Sequence[PeltRow]) -> str:
    changes = [
        ((row.new or 0.0) - (row.base or 0.0), row.context)
        for row in rows
        if row.context and row.changed
    ]
    ranked = sorted(changes, key=lambda item: -abs(item[0]))[:MOST_CONTEXTS]
    parts = [
        f"{context} {'+' if change > 0.0 else ''}{format_number(change)}"
        for change, context in ranked
    ]
    return f"; {', '.join(parts)}" if parts else ""


def _duration_clause(row: PeltRow) -> str:
    scale = scale_for("s", row.base, row.new)
    base, new = (f"{scale.format(value)} {scale.unit}" for value in (row.base, row.new))
    return f"{row.function}: {row.what} duration {base} -> {new}{_at(row)}"


def _duration_details(others: Sequence[PeltRow]) -> str:
    shares = [part for part in others if part.what == "share" and not part.few_calls]
    whole = next((part for part in shares if part.node is None), None)
    if whole is None or whole.new is None or whole.base is None:
        return ""
    share = f"{_write_share(whole.base)} -> {_write_share(whole.new)} of CPU time"
    return f"; {share}{_by_node(shares, _write_share)}"


def _write_share(value: float) -> str:
    return f"{format_number(100.0 * value)}%"


def _not_compared(
    side: str, rows: Sequence[PeltRow], unseen: Sequence[UnseenFunction]
) -> Iterator[Finding]:
    # One finding per reason: most functions fail for the same reason.
    invalid = {
        row.function: row
        for row in reversed(rows)
        if row.status == "invalid" and row.what == "calls"
    }
    blind = {(missing.side, missing.function): missing for missing in unseen}
    by_reason: dict[tuple[str, str], list[PeltRow]] = {}
    for function, row in reversed(invalid.items()):
        where = [name for name in ("base", side) if (name, function) in blind]
        why = "; ".join(dict.fromkeys(_why(blind[name, function]) for name in where))
        fact = NOT_MEASURED.format(where=join_names(where)) if where else NOT_COMPARED
        by_reason.setdefault((fact, why or str(row.reason)), []).append(row)
    for number, ((fact, why), functions) in enumerate(by_reason.items()):
        clause = f"{', '.join(row.function for row in functions)} {fact}"
        path = "" if side == FIRST_NEW else f"{side}/"
        yield _unknown(f"pelt_updates#{path}unseen-{number}", side, clause, f": {why}", functions)


def _why(unseen: UnseenFunction) -> str:
    reasons = [f"{attempt.mechanism}: {attempt.reason}" for attempt in unseen.tried]
    return ", ".join(reasons) or "no probe mechanism was tried"


def _unknown(name: str, side: str, clause: str, details: str, rows: Sequence[PeltRow]) -> Finding:
    n = (max(row.n_base for row in rows), max(row.n_new for row in rows))
    return Finding(
        id=name,
        side=side,
        clause=clause,
        details=details,
        metric="calls",
        value=None,
        ci=None,
        unit="",
        better=None,
        n=n,
        evidence=tuple(f"pelt#{row.row}" for row in rows),
        replication=f"{n[0]}+{n[1]} runs",
        attribution="calls are not comparable, so a change cannot be ruled out",
        bearing="unseen",
    )
