# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe a comparison of mechanisms: a sentence, a table, and one dumbbell per quantity."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from schedperf.compare.mechanism.record import (
    CHANGED,
    Compared,
    Effect,
    Kind,
    Mechanism,
    MechanismPair,
    MechanismRow,
    Outcome,
)
from schedperf.model.units import MISSING
from schedperf_reports.blocks import Block, Cell, Column, Headline, Item, Items, Table, Text, Tone
from schedperf_reports.graphics.dumbbells import Dumbbell, DumbbellEnd, Dumbbells
from schedperf_reports.words.quantities import (
    format_change,
    format_interval,
    format_points,
    write_size,
)

TONES: dict[Outcome, Tone] = {
    "same": "good",
    "opposite": "bad",
    "only in production": "bad",
    "undecided": "warning",
    "not measured in micro": "warning",
}
# Rows that are not shown before the reader asks for them.
QUIET: tuple[Outcome, ...] = ("unchanged", "unknown")
COLUMNS = (
    Column(title="quantity"),
    Column(title="per", priority=4),
    Column(title="production", align="right"),
    Column(title="95% CI", align="right", priority=3),
    Column(title="micro", align="right"),
    Column(title="95% CI", align="right", priority=3),
    Column(title="n", align="right", priority=2,
           explains="runs, boots or pairs of base and new, in production / in micro"),
    Column(title="mechanism"),
)  # fmt: skip
_BASES = {"operation": "operation", "time": "second", "share": "run", "": ""}
_AXES: dict[Kind, str] = {
    "rate": "change of the rate from base to new, 95% CI",
    "share": "change of the share of CPU time in percentage points, 95% CI",
}


def describe_mechanism(mechanism: Mechanism, limit: int | None) -> Iterator[Block]:
    """Yield the blocks of a report.

    :param limit: number of quantities that a text shows for each comparison; None for all
    """
    names = _short_names([mechanism.micro, *(pair.production for pair in mechanism.pairs)])
    for pair in mechanism.pairs:
        name = names[pair.production.file]
        yield Headline(word=name, text=pair.sentence, has_clauses=True)
    yield Items(items=tuple(_sources(mechanism, names)))
    for pair in mechanism.pairs:
        yield from _describe_pair(pair, names[pair.production.file], limit)


def _short_names(compared: Sequence[Compared]) -> dict[str, str]:
    # Names of files without the directories, unless two files then had one name.
    files = list(dict.fromkeys(each.file for each in compared))
    names = [PurePath(file).name for file in files]
    return dict(zip(files, names if len(set(names)) == len(files) else files, strict=True))


def _sources(mechanism: Mechanism, names: Mapping[str, str]) -> Iterator[Item]:
    yield _source("micro", mechanism.micro, names)
    for pair in mechanism.pairs:
        yield _source("production", pair.production, names)


def _source(role: str, compared: Compared, names: Mapping[str, str]) -> Item:
    emulated = "; recorded in an emulator, so sizes do not predict hardware"
    detail = f"{compared.verdict}{emulated if compared.emulated else ''}"
    text = f"{role} {names[compared.file]}: {compared.result}, {compared.side}"
    return Item(text=text, detail=detail)


def _describe_pair(pair: MechanismPair, name: str, limit: int | None) -> Iterator[Block]:
    shown = [row for row in pair.rows if row.outcome not in QUIET and row.within is None]
    parts = [row for row in pair.rows if row.outcome not in QUIET and row.within is not None]
    quiet = [row for row in pair.rows if row.outcome in QUIET]
    kinds: tuple[Kind, ...] = ("rate", "share")
    for kind in kinds:
        lines = tuple(_dumbbells(shown, kind))
        if lines:
            yield Dumbbells(
                caption=f"{name} and micro: {_AXES[kind]}",
                lines=lines,
                is_ratio=kind == "rate",
            )
    yield _table(pair, name, [*shown, *parts, *quiet], limit)
    unknown = len(pair.of_outcome("unknown"))
    if unknown:
        yield Text(
            text=f"not tested in {name} (one run per side, or equal values), and "
            f"not counted: {unknown}",
            tone="muted",
        )


def _table(
    pair: MechanismPair, name: str, rows: Sequence[MechanismRow], limit: int | None
) -> Table:
    counts = [f"{count} {outcome}" for outcome in (*CHANGED, "only in micro", "unchanged")
              if (count := len(pair.of_outcome(outcome)))]  # fmt: skip
    return Table(
        caption=f"{name}: {', '.join(counts) or 'no common quantities'}; 'same': "
        "significant after correction in both, in one direction; functions whose class changed are "
        "counted with their class",
        columns=COLUMNS,
        rows=tuple(tuple(_cells(row)) for row in rows),
        quiet=tuple(row.outcome in QUIET or row.within is not None for row in rows),
        quiet_word="unchanged or counted with their class",
        limit=limit,
    )


def _cells(row: MechanismRow) -> Iterator[Cell]:
    yield Cell(text=row.label)
    bases = [each.basis for each in (row.production, row.micro) if each is not None]
    yield Cell(text=" / ".join(_BASES.get(basis, basis) for basis in dict.fromkeys(bases)))
    for effect in (row.production, row.micro):
        yield Cell(text=_change(row, effect), sort=None if effect is None else effect.change)
        yield Cell(text=_interval(row, effect))
    yield Cell(text=" / ".join(_n(effect) for effect in (row.production, row.micro)))
    yield Cell(text=row.outcome, tone=TONES.get(row.outcome, "muted"))


def _change(row: MechanismRow, effect: Effect | None) -> str:
    if effect is None:
        return MISSING
    if row.kind == "layout":
        return "separated" if effect.falls else "joined"
    if effect.change is not None:
        is_rate = row.kind == "rate"
        return format_change(effect.change) if is_rate else write_size(effect.change, "pp")
    return {None: MISSING, True: "less", False: "more"}[effect.falls]


def _interval(row: MechanismRow, effect: Effect | None) -> str:
    if effect is None:
        return MISSING
    form = format_interval if row.kind == "rate" else format_points
    return form(effect.ci_low, effect.ci_high)


def _n(effect: Effect | None) -> str:
    return MISSING if effect is None or effect.n is None else "+".join(map(str, effect.n))


def _dumbbells(rows: Sequence[MechanismRow], kind: Kind) -> Iterator[Dumbbell]:
    for row in rows:
        if row.kind == kind and any(
            each is not None and each.change is not None for each in (row.production, row.micro)
        ):
            yield Dumbbell(
                name=row.label,
                word=row.outcome,
                tone=TONES.get(row.outcome, "muted"),
                production=_end(row, row.production),
                micro=_end(row, row.micro),
            )


def _end(row: MechanismRow, effect: Effect | None) -> DumbbellEnd | None:
    if effect is None or effect.change is None:
        return None
    return DumbbellEnd(
        value=effect.change,
        low=effect.ci_low,
        high=effect.ci_high,
        text=f"{_change(row, effect)} {_interval(row, effect)}",
    )
