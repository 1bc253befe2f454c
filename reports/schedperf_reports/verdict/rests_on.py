"""How sure the verdict is: what it rests on, one item each, with the section that proves it."""

import math
from collections.abc import Iterable, Iterator, Sequence

from schedperf.model.comparison import Comparison, Replication, Row, SideSummary
from schedperf.model.host import read_host
from schedperf.runs.side import has_other_kernel
from schedperf.stats.verdicts import FALSE_DISCOVERY_RATE
from schedperf_reports.blocks import Item
from schedperf_reports.results.run_figures import name_halves, sides_of, trend_of
from schedperf_reports.words.instruments import list_costs, list_doubts
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.units import format_change, format_share

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
    "rounds": "in each of them both sides ran",
    "boots": "how boots differ is seen, and the mean of each is one value",
    "runs": "one run is one value",
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
    """Yield how many values rows have, one text a unit: ``8 rounds``, ``2 to 4 boots a side``.

    A workload that was not run in all boots of the sides says so: ``2 boots a side of each workload
    (4 in all)``.
    """
    for unit in dict.fromkeys(row.replication for row in rows):
        numbers = _numbers(rows, unit)
        if numbers:
            low, high = min(numbers), max(numbers)
            number = str(low) if low == high else f"{low} to {high}"
            word = unit.removesuffix("s") if high == 1 else unit
            whole = _more_boots(rows, high, sides) if unit == "boots" else ""
            yield f"{number} {word}{'' if unit == 'rounds' else ' a side'}{whole}"


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
                text=f"nobody says of how many {unit} the values are", tone="warning",
                evidence=("benchmarks",),
            )  # fmt: skip
            continue
        [count] = count_values_of([row for row in rows if row.replication == unit], sides)
        text = f"{count}: {MEANINGS.get(unit, unit)}"
        if unit == "boots":
            yield _boots_item(text, numbers, "benchmarks")
        else:
            yield Item(text=text, evidence=("benchmarks",))


def _boots_item(text: str, numbers: Sequence[int], section: str) -> Item:
    if min(numbers) >= FEW_BOOTS:
        return Item(text=text, evidence=(section,))
    return Item(text=f"{text}; so few say little of it", tone="warning", evidence=(section,))


def _order(comparison: Comparison, rows: list[Row]) -> Item:
    codes = {one.code for one in comparison.caveats}
    orders = [value.order for row in rows for value in (*row.values_base, *row.values_new)]
    is_paired = all(row.replication == "rounds" for row in rows)
    if not is_paired and "blocks" in codes:
        text = (
            f"one side after the other: drift would look like a change; {_how_in_turns(comparison)}"
        )
        return Item(text=text, tone="warning", evidence=("caveats",))
    if not is_paired and (not orders or None in orders):
        return Item(text="in which order the runs were made is not known", tone="warning")
    told = "interleaved" if is_paired else "the sides took turns"
    drift = next(filter(None, map(_drift, rows)), None)
    if drift is None:
        more = ": drift of the machine does not look like a change" if is_paired else ""
        return Item(text=f"{told}{more}", evidence=("caveats",))
    return Item(
        text=f"{told}, but both sides may have drifted: {drift}",
        # How boots differ is in the interval, and halves of the runs are often boots.
        tone="plain" if any(row.replication == "boots" for row in rows) else "warning",
        evidence=("benchmarks",),
    )


def _how_in_turns(comparison: Comparison) -> str:
    # Two kernels cannot run at once: they are booted in turns.
    base, *others = comparison.sides
    program = "vm" if any(has_other_kernel(base, side) for side in others) else "ab"
    return f"`schedperf {program}` takes turns"


def _drift(row: Row) -> str | None:
    # None where the sides do not drift together: then it is noise of one of them.
    trends = [(side, trend_of(side)) for side in sides_of(row)]
    logs = [math.log(trend) for _, trend in trends if trend is not None and trend > 0.0]
    is_shared = len(logs) == len(trends) and abs(sum(map(math.copysign, [1.0] * len(logs), logs)))
    if not logs or is_shared != len(logs) or min(map(abs, logs)) < math.log(1.0 + LARGE_DRIFT):
        return None
    listed = ", ".join(
        f"{side.title} {format_change(trend)} ({name_halves(side)})" for side, trend in trends
    )
    return f"mean {row.metric}, without an interval: {listed}"


def _boots(comparison: Comparison) -> Iterator[Item]:
    boots = [side.boots for side in comparison.sides]
    known = [number for number in boots if number is not None]
    if len(known) < len(boots):
        yield Item(text="how often each side was booted is not known", tone="warning")
        return
    if min(known) == 1:
        text = "one boot a side" if max(known) == 1 else "one boot of a side"
        yield Item(text=f"{text}: another boot may differ", tone="warning", evidence=("caveats",))
    else:
        text = f"{'+'.join(map(str, known))} boots: how boots differ is seen"
        yield _boots_item(text, known, "environment")


def _builds(comparison: Comparison) -> Iterator[Item]:
    builds = [read_host(side.host).kernel.build_id for side in comparison.sides]
    if None in builds:
        return
    if len(set(builds)) == 1:
        yield Item(text="the same kernel build on all sides", evidence=("environment",))
    else:
        text = "one build of each kernel: another build may lay out code and data otherwise"
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
    rate = format_share(FALSE_DISCOVERY_RATE).removesuffix(".0 %").removesuffix(" %")
    # Of one result "at most 0.05 are false" says nothing.
    if false and tested > 1:
        text += f"; of those called changed at most {false:.2g} by chance (FDR {rate} %)"
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
