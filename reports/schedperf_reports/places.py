# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe whether a result depends on the place in which it was recorded: ``ab --probe``."""

from collections.abc import Iterator, Sequence

from schedperf.model.places import Answer, PlaceResult, Places, PlaceValue
from schedperf.model.units import MISSING, Scale, scale_for
from schedperf.model.verdict import name_units
from schedperf_reports.blocks import Block, Cell, Column, Headline, Item, Items, Table, Text, Tone
from schedperf_reports.words.quantities import format_change, format_interval, format_p
from schedperf_reports.words.rows import VERDICT_TONES, name_direction

WORDS: dict[Answer, tuple[str, Tone]] = {
    "yes": ("depends on the place", "bad"),
    "no": ("does not depend on the place", "good"),
    "undecided": ("undecided", "warning"),
    "invalid": ("no answer", "warning"),
}
# How sides were recorded and tested, below all tables.
METHOD = (
    "change from the first place, where this shell runs; recorded interleaved; q: p corrected for "
    "multiple testing over all places and results"
)


def describe_places(places: Places, not_tried: Sequence[str]) -> Iterator[Block]:
    """Yield the answer, a table per result, and the places that could not be tried."""
    word, tone = WORDS[places.answer]
    yield Headline(word=word, text=places.sentence, tone=tone)
    for result in places.results:
        yield _table(result)
    if places.results:
        yield Text(text=METHOD, tone="muted")
    if not_tried:
        yield Items(
            items=tuple(Item(text=f"not tried: {line}", tone="warning") for line in not_tried)
        )


def _table(result: PlaceResult) -> Table:
    scale = scale_for(result.unit, *(each.value for each in result.values))
    point = f" at {result.point}" if result.point else ""
    unit = f", {scale.unit}" if scale.unit else ""
    family = "" if result.family == "primary" else f"; {result.family}: not used for a verdict"
    return Table(
        caption=f"{result.metric}{point}{unit}: {name_direction(result.better)}{family}",
        columns=(
            Column(title="place"),
            Column(title="levels", align="right", priority=3,
                   explains="levels of cgroups between the root cgroup and the workload"),
            Column(title="autogroup", priority=2),
            Column(title="value", align="right"),
            Column(title="change", align="right"),
            Column(title="95% CI", align="right"),
            Column(title=f"{name_units(0, result.replication)}", align="right",
                   explains="n: number of independent values"),
            Column(title="q", align="right", priority=1,
                   explains="p, corrected for multiple testing over all places and results"),
        ),
        rows=tuple(_cells(each, scale) for each in result.values),
    )  # fmt: skip


def _cells(each: PlaceValue, scale: Scale) -> tuple[Cell, ...]:
    tone: Tone = "plain" if each.verdict is None else VERDICT_TONES[each.verdict]
    autogroup = {None: MISSING, True: "on", False: "off"}[each.autogroup]
    return (
        Cell(text=each.place),
        Cell(text=MISSING if each.levels is None else f"{each.levels}"),
        Cell(text=autogroup),
        Cell(text=scale.format(each.value), sort=each.value),
        Cell(text=format_change(each.ratio), tone=tone, sort=each.ratio),
        Cell(text=format_interval(each.ci_low, each.ci_high)),
        Cell(text=MISSING if each.n is None else f"{each.n}"),
        Cell(text=format_p(each.q)),
    )
