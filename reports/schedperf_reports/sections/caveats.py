"""Caveats and methods: what weakens the result, and how it was found."""

from collections import Counter
from collections.abc import Iterator

from schedperf.model import Comparison
from schedperf_reports._words import count_of, merge_sides, name_rows
from schedperf_reports.blocks import Block, Item, Items, Text
from schedperf_reports.sections import report_section

# Caveats of single rows that a terminal lists.
MOST_CAVEATS = 10


@report_section("caveats", title="Caveats and methods", order=95)
def caveats(comparison: Comparison) -> Iterator[Block]:
    """Yield the comparison's caveats, then the rows', then the methods."""
    general = merge_sides([one.text for one in comparison.caveats])
    items = [Item(text=text, tone="warning") for text in general]
    items += _row_caveats(comparison)
    if items:
        yield Items(items=tuple(items), limit=MOST_CAVEATS)
    else:
        yield Text(text="nothing is known that weakens this result")
    if comparison.rows:
        yield Text(text=_methods(comparison), tone="muted")


def _row_caveats(comparison: Comparison) -> list[Item]:
    # A caveat that the whole comparison carries need not be said again of each row.
    general = {one.text for one in comparison.caveats}
    names = name_rows(comparison.rows)
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for place, row in enumerate(comparison.rows):
        for text in dict.fromkeys(one.text for one in row.caveats):
            if text not in general:
                counts[text] += 1
                first.setdefault(text, names[place])
    return [
        Item(text=f"{first[text]}: {text}" if number == 1 else f"{number} results: {text}")
        for text, number in counts.items()
    ]


def _methods(comparison: Comparison) -> str:
    methods = ", ".join(dict.fromkeys(row.method for row in comparison.rows if row.method))
    margins = sorted({row.margin for row in comparison.rows})
    margin = ", ".join(f"±{100.0 * one:g} %" for one in margins)
    runs = sum(side.runs_clean for side in comparison.sides)
    return (
        f"one run is one value ({count_of(runs, 'clean run')} in all); "
        f"test: {methods or 'none'}; no-change: the 90 % interval lies within {margin}"
    )
