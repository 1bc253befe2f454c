# SPDX-License-Identifier: GPL-2.0-or-later
"""The effect of a setting on two kernels, and whether it differs: a row per result."""

from collections import Counter
from collections.abc import Iterator, Sequence

from schedperf.model.comparison import Interaction, SettingEffect, TwoByTwo, Verdict
from schedperf.model.units import MISSING
from schedperf.model.verdict import CHANGED
from schedperf_reports.blocks import Block, Cell, Column, Item, Items, Table
from schedperf_reports.words.rows import VERDICT_TONES
from schedperf_reports.words.units import format_change, format_interval

# Rows that a terminal lists.
MOST_ROWS = 40

_COSTS = {"regression": "costs", "improvement": "gains"}


def draw_two_by_two(crossed: TwoByTwo | None) -> Iterator[Block]:
    """Yield the table of effects, and one sentence per result; nothing without such a design."""
    if crossed is None:
        return
    named = list(zip(_name(crossed.results), crossed.results, strict=True))
    yield Table(
        caption=_caption(crossed),
        columns=(
            Column(title="result"),
            Column(title="change", align="right"),
            Column(title="95% CI"),
            Column(title="n", align="right"),
        ),
        rows=tuple(row for name, result in named for row in _rows(crossed, name, result)),
        limit=MOST_ROWS,
        brief=True,
    )
    items = tuple(
        Item(text=f"{name}: {conclude(crossed, result)}", tone=VERDICT_TONES[result.verdict])
        for name, result in named
    )
    yield Items(items=items, limit=MOST_ROWS, brief=len(items))


def _caption(crossed: TwoByTwo) -> str:
    settings = crossed.settings
    directions = {f"{result.better} is better" for result in crossed.results}
    parts = (
        f"effect of {settings.new} (vs {settings.base}) on each kernel",
        "interaction: the second effect / the first one",
        *(directions if len(directions) == 1 else ()),
        f"n: {crossed.replication} with runs of both settings",
    )
    return "; ".join(parts)


def _rows(crossed: TwoByTwo, name: str, result: Interaction) -> Iterator[tuple[Cell, ...]]:
    yield (Cell(text=name), *(Cell(text="") for _ in range(3)))
    for kernel, effect, n in zip(crossed.kernels, result.effects, result.n, strict=True):
        yield _line(f"  on {kernel}", effect, str(n), effect.verdict)
    yield _line("  interaction", result, f"{result.n.base}+{result.n.new}", result.verdict)


def _line(
    title: str, effect: SettingEffect | Interaction, n: str, verdict: Verdict
) -> tuple[Cell, ...]:
    tone = VERDICT_TONES[verdict] if verdict in CHANGED else "plain"
    return (
        Cell(text=title),
        Cell(text=format_change(effect.ratio), tone=tone, sort=effect.ratio),
        Cell(text=_interval(effect)),
        Cell(text=n),
    )


def _interval(effect: SettingEffect | Interaction) -> str:
    return MISSING if effect.ci_low is None else format_interval(effect.ci_low, effect.ci_high)


def _say(effect: SettingEffect) -> str:
    return f"{format_change(effect.ratio)} {_interval(effect)}"


def _name(results: Sequence[Interaction]) -> list[str]:
    is_marked = len({result.better for result in results}) > 1
    short = [f"{each.metric} at {each.point}" if each.point else each.metric for each in results]
    many = Counter(short)
    return [
        f"{name}{f' ({each.workload})' if many[name] > 1 else ''}"
        f"{f', {each.better} is better' if is_marked else ''}"
        for name, each in zip(short, results, strict=True)
    ]


def conclude(crossed: TwoByTwo, result: Interaction) -> str:
    """Return what the numbers support about the setting on the two kernels."""
    setting = crossed.settings.new
    if result.verdict == "no-change":
        return f"{setting} has the same effect on both kernels; interaction {result.reason}"
    if result.verdict not in CHANGED:
        return f"unknown whether {setting} has the same effect on both kernels: {result.reason}"
    for this, other in (("new", "base"), ("base", "new")):
        effect, kernel = result.effects.of(this), crossed.kernels.of(this)
        if effect.verdict in CHANGED and result.effects.of(other).verdict == "no-change":
            size = format_change(effect.ratio).lstrip("+-")
            return f"{setting} {_COSTS[effect.verdict]} {size} on {kernel} only"
    return (
        f"{setting} has different effects on the kernels: {_say(result.effects.base)} on "
        f"{crossed.kernels.base}, {_say(result.effects.new)} on {crossed.kernels.new}"
    )
