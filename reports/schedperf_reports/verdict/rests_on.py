# SPDX-License-Identifier: GPL-2.0-or-later
"""List the basis of the verdict, each item with the section that shows it."""

import math
from collections.abc import Iterable, Iterator, Sequence

from schedperf.model.comparison import Comparison
from schedperf.model.host import has_other_kernel, read_host
from schedperf.model.rows import Replication, Row
from schedperf.model.sides import SideSummary
from schedperf.model.units import percent
from schedperf.model.verdict import FALSE_DISCOVERY_RATE, name_units
from schedperf_reports.blocks import Item, Tone
from schedperf_reports.results.run_figures import RowRuns, name_halves, sides_of
from schedperf_reports.words.instruments import list_costs, list_doubts
from schedperf_reports.words.quantities import format_change, format_p
from schedperf_reports.words.rows import count_of, count_units, merge_caveats

# Caveats that the first screen lists; the section "Caveats and methods" lists all.
MOST_WEAKNESSES = 3

# Caveats that other items state.
TOLD = ("one-boot", "boot-sd", "blocks", "looks", "retest", "history")

# Results of which both p values are listed; the details of a result have them all.
MOST_TESTS = 3

# Separates a method from the test that confirmed its result.
CONFIRMED = ", and "

# With fewer boots per side boot-to-boot variance cannot be estimated.
FEW_BOOTS = 3
# Base and new.
BOTH = 2
# Smallest drift that is reported (second half vs first half of the runs), as a fraction.
LARGE_DRIFT = 0.1

MEANINGS: dict[Replication, str] = {
    "rounds": "each pair has one run per side",
    "runs": "runs are treated as independent",
}


def list_evidence(comparison: Comparison) -> Iterator[Item]:
    """Yield the basis of the verdict: sample size, order, boots, builds, correction, caveats."""
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
    """Yield the sample size of rows, one text per unit: ``8 interleaved pairs``.

    If a workload did not run in all boots, both numbers are given: ``2 boots per side of each
    workload (4 boots per side in all)``. Rows whose sample size is not recorded are ignored.
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
    is_equal = len(set(boots)) == 1
    number = f"{boots[0]} boots per side" if is_equal else f"{'+'.join(map(str, boots))} boots"
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
        text = f"{count}: the CI includes boot-to-boot variance"
        return Item(text=text, evidence=(section,))
    text = f"{count}: too few to estimate boot-to-boot variance"
    return Item(text=text, tone="warning", evidence=(section,))


def _order(comparison: Comparison, rows: list[Row]) -> Item:
    codes = {caveat.code for caveat in comparison.caveats}
    orders = [value.order for row in rows for value in (*row.values_base, *row.values_new)]
    is_paired = all(row.replication == "rounds" for row in rows)
    if not is_paired and "blocks" in codes:
        text = (
            "the sides were recorded one after the other, so a change may be drift; "
            f"{_how_to_interleave(comparison)}"
        )
        return Item(text=text, tone="warning", evidence=("caveats",))
    if not is_paired and (not orders or None in orders):
        return Item(text="order of the runs not recorded", tone="warning")
    order = "interleaved" if is_paired else "the sides alternated"
    drifting = next((row for row in rows if _trends_of_both(row)), None)
    if drifting is None:
        more = ", so slow drift affects both sides about equally" if is_paired else ""
        return Item(text=f"{order}{more}", evidence=("caveats",))
    # The CI includes boot-to-boot variance, and halves of the runs are often boots.
    tone: Tone = "plain" if any(row.replication == "boots" for row in rows) else "warning"
    end = "pairs cancel slow drift" if is_paired else "the sides alternated, so most of it cancels"
    short, whole = (
        _describe_drift(drifting, has_halves=has_halves) for has_halves in (False, True)
    )
    return Item(
        text=f"{whole}; {end}",
        tone=tone,
        evidence=("benchmarks",),
        short=Item(text=f"{short}; {end}", tone=tone),
    )


def _how_to_interleave(comparison: Comparison) -> str:
    # Two kernels cannot run at once, so their boots are interleaved.
    base, *others = comparison.sides
    if any(side.imported is not None for side in comparison.sides):
        return "run the benchmark on the sides alternately"
    if any(has_other_kernel(base.host, side.host) for side in others):
        return "`schedperf vm --boots 2` interleaves the sides"
    return "`schedperf ab` interleaves the sides"


def _trends_of_both(row: Row) -> list[tuple[RowRuns, float]]:
    # Empty unless both sides drift in the same direction: otherwise it is noise of one side.
    trends = [(side, trend) for side in sides_of(row) if (trend := side.statistics.drift)]
    logs = [math.log(trend) for _, trend in trends if trend > 0.0]
    is_shared = len(logs) == BOTH and (min(logs) > 0.0 or max(logs) < 0.0)
    is_large = is_shared and min(map(abs, logs)) >= math.log(1.0 + LARGE_DRIFT)
    return trends if is_large else []


def _describe_drift(row: Row, *, has_halves: bool) -> str:
    trends = _trends_of_both(row)
    moved = "rose" if trends[0][1] > 1.0 else "fell"
    listed = ", ".join(
        f"{side.name} {format_change(trend)}{f' ({name_halves(side)})' if has_halves else ''}"
        for side, trend in trends
    )
    return f"{row.metric} of both sides {moved} while recording: {listed}"


def _boots(comparison: Comparison) -> Iterator[Item]:
    for told in comparison.caveats:
        if told.code == "boot-sd":
            yield Item(text=told.text, tone="warning", evidence=("caveats",))
            return
    boots = [side.boots for side in comparison.sides]
    recorded = [number for number in boots if number is not None]
    if len(recorded) < len(boots):
        yield Item(text="number of boots not recorded", tone="warning")
        return
    if min(recorded) == 1:
        text = "one boot per side" if max(recorded) == 1 else "a side has a single boot"
        yield Item(
            text=f"{text}, so boot-to-boot variance is unknown",
            tone="warning",
            evidence=("caveats",),
        )
    else:
        yield _boots_item(f"{'+'.join(map(str, recorded))} boots", recorded, "environment")


def _builds(comparison: Comparison) -> Iterator[Item]:
    builds = [read_host(side.host).kernel.build_id for side in comparison.sides]
    if None in builds:
        return
    if len(set(builds)) == 1:
        yield Item(text="same kernel build on all sides", evidence=("environment",))
    else:
        text = (
            "one build per kernel, so the result may depend on the code and data layout of the "
            "build"
        )
        yield Item(text=text, evidence=("environment",))


def _tests(comparison: Comparison, rows: list[Row]) -> Iterator[Item]:
    families = [family for family in comparison.families if family.family == rows[0].family]
    tested = sum(family.tested for family in families)
    false = sum(family.expected_false for family in families)
    methods = dict.fromkeys(row.method for row in rows if row.method != "none")
    by = f" by {_join_methods(methods)}" if methods else ""
    if not tested:
        return
    text = f"{count_of(tested, 'result')} tested{by}"
    rate = percent(FALSE_DISCOVERY_RATE)
    # For a single result, the expected number of false positives is meaningless.
    if false and tested > 1:
        text += f"; at most {false:.2g} false positives expected (FDR {rate})"
    yield Item(text=text, evidence=("caveats",))
    yield from _two_tests(rows)


def _two_tests(rows: Sequence[Row]) -> Iterator[Item]:
    # Both p values if the larger one decides: with few runs the rank test has a minimum p.
    confirmed = [
        row for row in rows if CONFIRMED in row.method and None not in (row.p_t, row.p_rank)
    ]
    for row in confirmed[:MOST_TESTS]:
        floor = ""
        if row.p_rank_min is not None:
            floor = f" (smallest possible with {count_units(row)}: {format_p(row.p_rank_min)})"
        where = f" at {row.point}" if row.point else ""
        yield Item(
            text=f"{row.metric}{where}: t test p = {format_p(row.p_t)}, {_second_test(row)} "
            f"p = {format_p(row.p_rank)}{floor}; the larger p is used",
            evidence=("benchmarks",),
        )
    if len(confirmed) > MOST_TESTS:
        more = count_of(len(confirmed) - MOST_TESTS, "more result")
        yield Item(text=f"{more} with two p values, see the details", evidence=("benchmarks",))


def _second_test(row: Row) -> str:
    return "permutation test" if row.method.endswith("permutation") else "rank test"


def _join_methods(methods: Iterable[str]) -> str:
    # A method has its confirmation behind a comma: "Welch t on logs, and ranks".
    confirmed: dict[str, list[str]] = {}
    for method in methods:
        first, _, by = method.partition(CONFIRMED)
        confirmed.setdefault(first, []).append(by)
    return ", ".join(
        _with_confirmation(first, confirmations) for first, confirmations in confirmed.items()
    )


def _with_confirmation(method: str, confirmations: Sequence[str]) -> str:
    by = " or ".join(filter(None, confirmations))
    some = "some " if "" in confirmations else ""
    return f"{method} ({some}confirmed by {by})" if by else method


def _weaknesses(comparison: Comparison) -> Iterator[Item]:
    codes = ("history", "looks", "retest")
    history = [caveat for caveat in comparison.caveats if caveat.code in codes]
    for caveat in history:
        yield Item(text=caveat.text, evidence=("caveats",))
    caveats = merge_caveats(caveat for caveat in comparison.caveats if caveat.code not in TOLD)
    # What could not be checked limits every other statement.
    caveats.sort(key=lambda caveat: caveat.code != "imported")
    for caveat in caveats[:MOST_WEAKNESSES]:
        short = Item(text=caveat.short, tone="warning")
        yield Item(text=caveat.text, tone="warning", evidence=("caveats",), short=short)
    if len(caveats) > MOST_WEAKNESSES:
        more = count_of(len(caveats) - MOST_WEAKNESSES, "more caveat")
        yield Item(text=more, tone="warning", evidence=("caveats",))
