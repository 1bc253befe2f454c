# SPDX-License-Identifier: GPL-2.0-or-later
"""How sure the verdict is: what it is based on, each with the section that shows it."""

import math
from collections.abc import Iterable, Iterator, Sequence

from schedperf.model.comparison import Comparison, Replication, Row, SideSummary
from schedperf.model.host import read_host
from schedperf.runs.side import has_other_kernel
from schedperf.stats.verdicts import FALSE_DISCOVERY_RATE, name_units, percent
from schedperf_reports.blocks import Item
from schedperf_reports.results.run_figures import name_halves, sides_of, trend_of
from schedperf_reports.words.instruments import list_costs, list_doubts
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.units import format_change

# Weaknesses that the first screen names; the section of caveats has all.
MOST_WEAKNESSES = 3

# Caveats that other items have said.
TOLD = ("one-boot", "blocks", "looks", "history")

# Stands in the name of a method before the test that confirmed its result.
CONFIRMED = ", and "

# With fewer boots a side the spread of boots is little more than a guess.
FEW_BOOTS = 3
# Of the later half of the runs against the earlier one, as a fraction, on both sides.
LARGE_DRIFT = 0.1

MEANINGS: dict[Replication, str] = {
    "rounds": "each pair ran both sides",
    "runs": "each run is one value",
}


def list_evidence(comparison: Comparison) -> Iterator[Item]:
    """Yield what the verdict rests on: values, order, boots, builds, correction, weaknesses."""
    rows = [row for row in comparison.rows if row.family == "primary"] or list(comparison.rows)
    if rows:
        yield from _values(rows, comparison.sides)
        yield _order(comparison, rows)
    if not any(row.replication == "boots" for row in rows):
        yield from _boots(comparison)
    yield from _builds(comparison)
    if rows:
        yield from _tests(comparison, rows)
    yield from list_doubts(comparison)
    yield from _weaknesses(comparison)
    yield from list_costs(comparison)


def count_values_of(rows: Sequence[Row], sides: Sequence[SideSummary]) -> Iterator[str]:
    """Yield how many values rows have, one text per unit: ``8 interleaved pairs``.

    A workload that was not run in all boots of the sides says so: ``2 boots per side of each
    workload (4 in all)``.
    """
    for unit in dict.fromkeys(row.replication for row in rows):
        numbers = _numbers(rows, unit)
        if numbers:
            low, high = min(numbers), max(numbers)
            number = str(low) if low == high else f"{low} to {high}"
            word = f"{'interleaved ' if unit == 'rounds' else ''}{name_units(high, unit)}"
            whole = _more_boots(rows, high, sides) if unit == "boots" else ""
            yield f"{number} {word}{'' if unit == 'rounds' else ' per side'}{whole}"


def _more_boots(rows: Sequence[Row], most: int, sides: Sequence[SideSummary]) -> str:
    boots = [side.boots for side in sides if side.boots is not None]
    if len(boots) < len(sides) or min(boots) <= most:
        return ""
    which = "this" if len({row.workload for row in rows}) == 1 else "each"
    number = "+".join(map(str, boots if len(set(boots)) > 1 else boots[:1]))
    return f" of {which} workload ({number} in all)"


def _numbers(rows: Sequence[Row], unit: Replication) -> list[int]:
    mine = [row for row in rows if row.replication == unit]
    return [n for row in mine for n in (row.n_base, row.n_new) if n is not None]


def _values(rows: Sequence[Row], sides: Sequence[SideSummary]) -> Iterator[Item]:
    for unit in dict.fromkeys(row.replication for row in rows):
        numbers = _numbers(rows, unit)
        if not numbers:
            yield Item(
                text=f"number of {name_units(0, unit)} not recorded", tone="warning",
                evidence=("benchmarks",),
            )  # fmt: skip
            continue
        [count] = count_values_of([row for row in rows if row.replication == unit], sides)
        if unit == "boots":
            yield _boots_item(count, numbers, "benchmarks")
        else:
            yield Item(text=f"{count}: {MEANINGS[unit]}", evidence=("benchmarks",))


def _boots_item(count: str, numbers: Sequence[int], section: str) -> Item:
    if min(numbers) >= FEW_BOOTS:
        text = f"{count}: boot-to-boot variance is part of the CI"
        return Item(text=text, evidence=(section,))
    text = f"{count}: too few to estimate boot-to-boot variance"
    return Item(text=text, tone="warning", evidence=(section,))


def _order(comparison: Comparison, rows: list[Row]) -> Item:
    codes = {one.code for one in comparison.caveats}
    orders = [value.order for row in rows for value in (*row.values_base, *row.values_new)]
    is_paired = all(row.replication == "rounds" for row in rows)
    if not is_paired and "blocks" in codes:
        text = (
            "recorded one side after the other: drift confounds the comparison; "
            f"{_how_to_interleave(comparison)}"
        )
        return Item(text=text, tone="warning", evidence=("caveats",))
    if not is_paired and (not orders or None in orders):
        return Item(text="order of the runs not recorded", tone="warning")
    told = "interleaved" if is_paired else "the sides alternated"
    drift = next(filter(None, map(_drift, rows)), None)
    if drift is None:
        more = ": drift of the machine affects both sides alike" if is_paired else ""
        return Item(text=f"{told}{more}", evidence=("caveats",))
    return Item(
        text=f"{told}, but both sides may have drifted: {drift}",
        # How boots differ is in the interval, and halves of the runs are often boots.
        tone="plain" if any(row.replication == "boots" for row in rows) else "warning",
        evidence=("benchmarks",),
    )


def _how_to_interleave(comparison: Comparison) -> str:
    # Two kernels cannot run at once: their boots are interleaved.
    base, *others = comparison.sides
    program = "vm" if any(has_other_kernel(base, side) for side in others) else "ab"
    return f"`schedperf {program}` interleaves the sides"


def _drift(row: Row) -> str | None:
    # None where the sides do not drift together: then it is noise of one of them.
    trends = [(side, trend_of(side)) for side in sides_of(row)]
    logs = [math.log(trend) for _, trend in trends if trend is not None and trend > 0.0]
    is_shared = len(logs) == len(trends) and abs(sum(map(math.copysign, [1.0] * len(logs), logs)))
    if not logs or is_shared != len(logs) or min(map(abs, logs)) < math.log(1.0 + LARGE_DRIFT):
        return None
    listed = ", ".join(
        f"{side.name} {format_change(trend)} ({name_halves(side)})" for side, trend in trends
    )
    return f"mean {row.metric}, no CI: {listed}"


def _boots(comparison: Comparison) -> Iterator[Item]:
    boots = [side.boots for side in comparison.sides]
    known = [number for number in boots if number is not None]
    if len(known) < len(boots):
        yield Item(text="number of boots not recorded", tone="warning")
        return
    if min(known) == 1:
        text = "one boot per side" if max(known) == 1 else "one side has one boot"
        yield Item(
            text=f"{text}: boot-to-boot variance unknown", tone="warning", evidence=("caveats",)
        )
    else:
        yield _boots_item(f"{'+'.join(map(str, known))} boots", known, "environment")


def _builds(comparison: Comparison) -> Iterator[Item]:
    builds = [read_host(side.host).kernel.build_id for side in comparison.sides]
    if None in builds:
        return
    if len(set(builds)) == 1:
        yield Item(text="same kernel build on all sides", evidence=("environment",))
    else:
        text = "one build per kernel: another build may have another code and data layout"
        yield Item(text=text, evidence=("environment",))


def _tests(comparison: Comparison, rows: list[Row]) -> Iterator[Item]:
    families = [one for one in comparison.families if one.family == rows[0].family]
    tested = sum(one.tested for one in families)
    false = sum(one.expected_false for one in families)
    methods = dict.fromkeys(row.method for row in rows if row.method != "none")
    by = f" by {_join_methods(methods)}" if methods else ""
    if not tested:
        return
    text = f"{count_of(tested, 'result')} tested{by}"
    rate = percent(FALSE_DISCOVERY_RATE)
    # Of one result "at most 0.05 are false" says nothing.
    if false and tested > 1:
        text += f"; at most {false:.2g} false positives expected (FDR {rate})"
    yield Item(text=text, evidence=("caveats",))


def _join_methods(methods: Iterable[str]) -> str:
    # A method has its confirmation behind a comma: "Welch t on logs, and ranks".
    confirmed: dict[str, list[str]] = {}
    for method in methods:
        first, _, by = method.partition(CONFIRMED)
        confirmed.setdefault(first, []).append(by)
    return ", ".join(_with_confirmation(first, found) for first, found in confirmed.items())


def _with_confirmation(method: str, found: Sequence[str]) -> str:
    by = " or ".join(filter(None, found))
    some = "some " if "" in found else ""
    return f"{method} ({some}also by {by})" if by else method


def _weaknesses(comparison: Comparison) -> Iterator[Item]:
    history = [one for one in comparison.caveats if one.code in ("history", "looks")]
    for one in history:
        yield Item(text=one.text, evidence=("caveats",))
    texts = merge_sides([one.text for one in comparison.caveats if one.code not in TOLD])
    for text in texts[:MOST_WEAKNESSES]:
        yield Item(text=text, tone="warning", evidence=("caveats",))
    if len(texts) > MOST_WEAKNESSES:
        more = count_of(len(texts) - MOST_WEAKNESSES, "more caveat")
        yield Item(text=more, tone="warning", evidence=("caveats",))
