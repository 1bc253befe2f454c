# SPDX-License-Identifier: GPL-2.0-or-later
"""Report caveats and methods: what limits the result, and how it was computed."""

from collections.abc import Iterator, Mapping

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Replication, Verdict
from schedperf.model.text import join_names
from schedperf.model.verdict import SMALLEST_EFFECT
from schedperf_reports.blocks import Block, Item, Items, Text
from schedperf_reports.sections import report_section
from schedperf_reports.words.rows import count_of, merge_caveats

# Caveats that a terminal lists.
MOST_CAVEATS = 10

VALUES: Mapping[Replication, str] = {
    "runs": "run",
    "boots": "boot (mean of its runs)",
    "rounds": "interleaved pair of runs",
}


DECIDED: tuple[Verdict, ...] = ("regression", "improvement", "no-change")


@report_section("caveats", title="Caveats and methods", chapter="environment", order=30)
def caveats(comparison: Comparison) -> Iterator[Block]:
    """Yield the comparison's caveats, then the methods.

    Caveats of single rows are printed at the rows, in the section with the benchmarks.
    """
    general = [caveat.text for caveat in merge_caveats(comparison.caveats)]
    general_texts = {caveat.text for caveat in comparison.caveats}
    of_rows = any(
        caveat.text not in general_texts for row in comparison.rows for caveat in row.caveats
    )
    if general:
        items = tuple(Item(text=text, tone="warning") for text in general)
        yield Items(items=items, limit=MOST_CAVEATS)
    elif not of_rows and comparison.overall.verdict in DECIDED:
        yield Text(text="no caveats")
    if of_rows:
        yield Text(text="caveats of individual results: see Benchmarks")
    if comparison.rows:
        yield Text(text=_methods(comparison), tone="muted")
        yield Text(text=_tests(comparison), tone="muted")


def _methods(comparison: Comparison) -> str:
    margins = sorted({row.margin for row in comparison.rows})
    listed = ", ".join(f"+-{100.0 * margin:g}%" for margin in margins)
    runs = [side.runs_clean for side in comparison.sides if side.runs_clean is not None]
    number = f" ({count_of(sum(runs), 'clean run')} in all)" if runs else ""
    units = {row.replication for row in comparison.rows}
    values = join_names(words for unit, words in VALUES.items() if unit in units)
    return (
        f"the unit of replication is the {values}{number}; "
        f"no-change means that the 90% CI lies within the equivalence margin of {listed}, "
        f"without a significant change of {100.0 * SMALLEST_EFFECT:g}% or more"
    )


def _tests(comparison: Comparison) -> str:
    named = dict.fromkeys(row.method for row in comparison.rows if row.method != "none")
    return f"tests: {'; '.join(named) or 'none'}"
