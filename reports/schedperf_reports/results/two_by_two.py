# SPDX-License-Identifier: GPL-2.0-or-later
"""Report two-by-two designs: the effect of a setting on each kernel, and whether they differ."""

from collections import Counter
from collections.abc import Iterator, Sequence

from schedperf.model.base_new import BaseNew
from schedperf.model.row_groups import Interaction, SettingEffect, TwoByTwo
from schedperf.model.rows import Family, Verdict
from schedperf.model.units import MISSING
from schedperf.model.verdict import CHANGED
from schedperf_reports.blocks import Block, Cell, Column, Item, Items, Table
from schedperf_reports.words.quantities import format_change, format_interval
from schedperf_reports.words.rows import VERDICT_TONES, name_direction

# Rows that a terminal lists.
MOST_ROWS = 40

FAMILIES: Sequence[Family] = ("primary", "secondary", "informational")

_COSTS = {"regression": "costs", "improvement": "gains"}


def draw_two_by_two(crossed: TwoByTwo | None) -> Iterator[Block]:
    """Yield the table of effects, and one sentence per result; nothing for None."""
    if crossed is None:
        return
    named = list(zip(_name(crossed), crossed.results, strict=True))
    yield Table(
        caption=_caption(crossed),
        columns=(
            Column(title="result"),
            Column(title="change", align="right"),
            Column(title="95% CI"),
            Column(title="n", align="right"),
        ),
        rows=tuple(_rows(crossed)),
        limit=MOST_ROWS,
        brief=True,
    )
    items = tuple(
        Item(text=f"{name}: {conclude(crossed, result)}", tone=VERDICT_TONES[result.verdict])
        for name, result in named
    )
    yield Items(items=items, limit=MOST_ROWS, brief=len(items))


def summarise(crossed: TwoByTwo | None) -> str:
    """Return the conclusion for the first screen: for one result, or how many of several differ.

    Return "" for None, or without results.
    """
    if crossed is None or not crossed.results:
        return ""
    families = [result.family for result in crossed.results]
    first = min(families, key=FAMILIES.index)
    results = [result for result in crossed.results if result.family == first]
    if len(results) > 1:
        differ = sum(result.verdict in CHANGED for result in results)
        return (
            f"interaction: the effect of {crossed.settings.new} differs between kernels in "
            f"{differ} of {len(results)} comparisons"
        )
    (result,) = results
    said = conclude(crossed, result)
    if result.verdict not in CHANGED:
        return f"interaction: {said}"
    size = f"{format_change(result.ratio)} {_interval(result)}"
    count = f"{result.n.base}+{result.n.new} {crossed.replication}"
    return f"interaction: {said} ({size}, n = {count})"


def _caption(crossed: TwoByTwo) -> str:
    settings = crossed.settings
    directions = {name_direction(result.better) for result in crossed.results}
    second = "second effect" if _is_pair(crossed) else "effect on the kernel"
    parts = (
        f"effect of {settings.new} (vs {settings.base}) on each kernel",
        f"interaction: the {second} / {'the first one' if _is_pair(crossed) else 'that on base'}",
        *(directions if len(directions) == 1 else ()),
        f"n: {crossed.replication} with runs of both settings",
    )
    return "; ".join(parts)


def _is_pair(crossed: TwoByTwo) -> bool:
    return len(crossed.kernels) == len(("base", "new"))


def _rows(crossed: TwoByTwo) -> Iterator[tuple[Cell, ...]]:
    # The effect on base is printed once, before those on the other kernels.
    named = zip(_titles(crossed), crossed.results, strict=True)
    grouped: dict[str, list[Interaction]] = {}
    for title, result in named:
        grouped.setdefault(title, []).append(result)
    for title, results in grouped.items():
        yield (Cell(text=title), *(Cell(text="") for _ in range(3)))
        effects, n = results[0].effects, results[0].n
        yield _line(f"  on {crossed.kernels[0]}", effects.base, str(n.base), effects.base.verdict)
        for result in results:
            effect, n = result.effects.new, result.n
            yield _line(f"  on {result.kernel}", effect, str(n.new), effect.verdict)
            yield _line("  interaction", result, f"{n.base}+{n.new}", result.verdict)


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


def _titles(crossed: TwoByTwo) -> list[str]:
    """Return the name of each result, which is the same for all kernels."""
    results = crossed.results
    is_marked = len({result.better for result in results}) > 1
    short = [f"{each.metric} at {each.point}" if each.point else each.metric for each in results]
    many = Counter(zip((each.kernel for each in results), short, strict=True))
    return [
        f"{name}{f' ({each.workload})' if many[each.kernel, name] > 1 else ''}"
        f"{f', {name_direction(each.better)}' if is_marked else ''}"
        for name, each in zip(short, results, strict=True)
    ]


def _name(crossed: TwoByTwo) -> list[str]:
    """Return the name of each result; with several kernels, include the kernel's."""
    titles = _titles(crossed)
    if _is_pair(crossed):
        return titles
    return [
        f"{title}, {result.kernel}" for title, result in zip(titles, crossed.results, strict=True)
    ]


def conclude(crossed: TwoByTwo, result: Interaction) -> str:
    """Return a sentence: whether the setting has the same effect on base and on another kernel."""
    setting = crossed.settings.new
    kernels = BaseNew(base=crossed.kernels[0], new=result.kernel)
    both = "both kernels" if _is_pair(crossed) else f"{kernels.base} and {kernels.new}"
    if result.verdict == "no-change":
        return f"{setting} has the same effect on {both}; interaction {result.reason}"
    if result.verdict not in CHANGED:
        return f"unknown whether {setting} has the same effect on {both}: {result.reason}"
    for this, other in (("new", "base"), ("base", "new")):
        effect, kernel = result.effects.of(this), kernels.of(this)
        if effect.verdict in CHANGED and result.effects.of(other).verdict == "no-change":
            size = format_change(effect.ratio).lstrip("+-")
            return f"{setting} {_COSTS[effect.verdict]} {size} on {kernel} only"
    return (
        f"{setting} has different effects on the kernels: {_say(result.effects.base)} on "
        f"{kernels.base}, {_say(result.effects.new)} on {kernels.new}"
    )
