# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge for each quantity whether it changed in both comparisons, in the same direction."""

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from msgspec import Struct

from schedperf.compare.mechanism.quantities import (
    PER_WORK,
    Measured,
    Where,
    quantities_of,
    sees_all,
)
from schedperf.compare.mechanism.record import (
    OUTCOMES,
    Compared,
    Effect,
    Mechanism,
    MechanismPair,
    MechanismRow,
    Outcome,
    Quantity,
)
from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison
from schedperf.model.errors import InputError
from schedperf.model.rows import Row
from schedperf.model.text import clean_line
from schedperf.model.units import interval_of, signed
from schedperf.model.verdict import deciding_row


class Source(Struct, frozen=True, kw_only=True):
    """One comparison, and what of it is considered.

    :param file: its file, for messages
    :param point: workload, point or "WORKLOAD at POINT"; None for that of the deciding result
    :param side: new side; None for that of the deciding result
    """

    file: str
    comparison: Comparison
    point: str | None = None
    side: str | None = None


def compare_mechanisms(
    micro: Source, productions: Sequence[Source], tool_version: str
) -> Mechanism:
    """Compare the quantities of a microbenchmark with those of each comparison of production.

    :raises InputError: a comparison has no results, or not the requested side or point
    """
    compared, where = _choose(micro)
    measured = quantities_of(micro.comparison, where)
    pairs = []
    for production in productions:
        other, there = _choose(production)
        rows = _rows(quantities_of(production.comparison, there), measured, micro.comparison)
        pairs.append(MechanismPair(production=other, rows=tuple(rows)))
    return Mechanism(tool_version=tool_version, micro=compared, pairs=tuple(pairs))


def _choose(source: Source) -> tuple[Compared, Where]:
    comparison = source.comparison
    sides = [side.name for side in comparison.sides if side.name != BASE]
    if source.side is not None and source.side not in sides:
        raise InputError(
            f"{source.file}: no new side {source.side!r} (expected one of {', '.join(sides)})"
        )
    rows = [row for row in comparison.rows if source.side in (None, row.side)]
    if source.point is not None:
        rows = [row for row in rows if source.point in _names(row)]
        if not rows:
            points = dict.fromkeys(_names(row)[0] for row in comparison.rows)
            raise InputError(
                f"{source.file}: no point {source.point!r} (expected one of {', '.join(points)})"
            )
    if not rows:
        raise InputError(f"{source.file}: no results; compare recordings of a workload")
    row = _deciding(rows, comparison)
    return _describe(source, row), Where(side=row.side, workload=row.workload, point=row.point)


def _names(row: Row) -> tuple[str, str, str]:
    whole = f"{row.workload} at {row.point}" if row.point else row.workload
    return whole, row.point, row.workload


def _deciding(rows: Sequence[Row], comparison: Comparison) -> Row:
    chosen = deciding_row(rows, comparison.overall.verdict)
    if chosen is not None:
        return chosen
    primary = [row for row in rows if row.family == "primary"] or rows
    tested = [row for row in primary if row.p is not None] or primary
    return min(tested, key=lambda row: 1.0 if row.p is None else row.p)


def _describe(source: Source, row: Row) -> Compared:
    change = ""
    if row.ratio is not None:
        change = f" {signed(row.ratio - 1.0)}"
        if row.ci_low is not None and row.ci_high is not None:
            change += f" {interval_of(row.ci_low - 1.0, row.ci_high - 1.0)}"
    unit = f" (n = {row.n_base}+{row.n_new} {row.replication})" if row.n_base and row.n_new else ""
    return Compared(
        file=source.file,
        id=source.comparison.id,
        side=row.side,
        workload=row.workload,
        point=row.point,
        verdict=row.verdict,
        result=clean_line(f"{row.workload} {row.metric}{change}{unit}"),
        emulated=any(each.code == "emulated" for each in source.comparison.caveats),
    )


def _rows(
    production: Mapping[Quantity, Measured],
    micro: Mapping[Quantity, Measured],
    micro_comparison: Comparison,
) -> list[MechanismRow]:
    rows = []
    for quantity in dict.fromkeys((*production, *micro)):
        there, here = production.get(quantity), micro.get(quantity)
        effects = _effects(there, here)
        outcome = _outcome(*effects, is_seen=sees_all(micro_comparison, quantity.section))
        either = there or here
        assert either is not None
        rows.append(
            MechanismRow(
                section=quantity.section,
                name=quantity.name,
                kind=either.kind,
                within=_counted_by(production, quantity, there),
                outcome=outcome,
                production=effects[0],
                micro=effects[1],
            )
        )
    return sorted(
        rows, key=lambda row: (OUTCOMES.index(row.outcome), row.within or "", -_size(row))
    )


def _counted_by(
    production: Mapping[Quantity, Measured], quantity: Quantity, measured: Measured | None
) -> str | None:
    # A function is counted on its own only if its class did not change.
    if measured is None or not measured.within:
        return None
    whole = production.get(Quantity(section=quantity.section, name=measured.within))
    is_changed = whole is not None and any(each.changed for each in whole.effects.values())
    return measured.within if is_changed else None


def _effects(*measured: Measured | None) -> list[Effect | None]:
    """Return the effects with the best denominator that both have, or each with its best one.

    A change per operation and one per run of fixed work mean the same.
    """
    given = [each for each in measured if each is not None]
    common = set.intersection(*(set(each.effects) for each in given))
    return [None if each is None else _best(each, common) for each in measured]


def _best(measured: Measured, common: Collection[str]) -> Effect | None:
    allowed = common or PER_WORK
    return next(
        (measured.effects[basis] for basis in measured.bases
         if basis in allowed and basis in measured.effects),
        None,
    )  # fmt: skip


def _outcome(production: Effect | None, micro: Effect | None, *, is_seen: bool) -> Outcome:
    """Return the outcome of one quantity.

    :param is_seen: whether the microbenchmark was sampled, so that what has no row was not seen
    """
    if production is None or production.changed is False:
        return "only in micro" if micro is not None and micro.changed else "unchanged"
    if production.changed is None:
        return "unknown"
    if micro is None:
        return "only in production" if is_seen else "not measured in micro"
    if micro.changed is None:
        return "not measured in micro"
    if micro.changed:
        return "same" if micro.falls == production.falls else "opposite"
    return "undecided" if _includes(micro, production) else "only in production"


def _includes(micro: Effect, production: Effect) -> bool:
    # Without an interval nothing is excluded.
    if micro.ci_low is None or micro.ci_high is None or production.change is None:
        return True
    return micro.ci_low <= production.change <= micro.ci_high


def _size(row: MechanismRow) -> float:
    # Rates and shares have different units; the change relative to the mean orders both.
    effect = row.production if row.production is not None else row.micro
    if effect is None or effect.base is None or effect.new is None:
        return 0.0
    mean = fmean((abs(effect.base), abs(effect.new)))
    return abs(effect.new - effect.base) / mean if mean > 0.0 else 0.0
