# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the numbers of the sides: rows of the record, families, and crossed settings."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.compare.boots import add_boot_ids
from schedperf.compare.facts import Facts
from schedperf.compare.interaction import (
    boots_of,
    find_design,
    judge_interactions,
    overrule,
    to_two_by_two,
)
from schedperf.compare.options import CompareOptions
from schedperf.compare.retest import Retests
from schedperf.compare.side_by_side import compare_side_by_side
from schedperf.inputs.side import Side
from schedperf.model.base_new import BASE
from schedperf.model.caveats import Caveat
from schedperf.model.frame import Frame
from schedperf.model.row_groups import FamilySummary, SideBySide, TwoByTwo
from schedperf.model.rows import BenchmarkClass, Family, Row, RunValue
from schedperf.model.verdict import CHANGED, FALSE_DISCOVERY_RATE
from schedperf.runs.values import ELAPSED, RunValues
from schedperf.stats import KEY, JudgedRow, Result, compare_runs
from schedperf.stats.geomeans import geomeans_of
from schedperf.stats.side_statistics import describe_runs


class Numbers(Struct, frozen=True, kw_only=True):
    """The compared numbers of all sides.

    :param result: the output of the tests, from which ``rows`` are made
    :param beside: the results of all sides side by side; () for two sides
    :param two_by_two: the interaction of kernels and two settings; None if the sides do not cross
        them, or if it is unknown
    :param caveats: why the interaction is unknown, and that a retest decided the number of boots
    """

    rows: tuple[Row, ...]
    result: Result
    beside: tuple[SideBySide, ...]
    two_by_two: TwoByTwo | None = None
    caveats: tuple[Caveat, ...] = ()


def compare_numbers(
    sides: Sequence[Side], facts: Facts, values: RunValues, options: CompareOptions
) -> Numbers:
    """Compare the clean runs of every side with those of base.

    :param facts: facts that overrule verdicts, such as blocking differences
    :param values: the values of all runs
    :raises InputError: a value or an option is out of range
    """
    retests = Retests.of(sides)
    clean = add_boot_ids(_clean_runs(values.table, sides, facts, retests), sides)
    recorded = {side.name: side.bundle.sequential for side in sides[1:]}
    result = compare_runs(
        clean,
        base=BASE,
        new=[side.name for side in sides[1:]],
        margin=options.margin,
        history=options.history,
        boot_sd=options.boot_sd,
        looks={
            **retests.budgets(),
            **{name: looks.max_runs for name, looks in recorded.items() if looks is not None},
        },
    )
    judged = [facts.overrule(retests.overrule(row, clean)) for row in result.rows]
    rows = tuple(to_rows(judged, clean, options.margin))
    digests = {side.name: side.bundle.digest for side in sides}
    crossed = _cross(sides, facts, clean, options.margin)
    return Numbers(
        rows=rows,
        result=result,
        beside=tuple(
            compare_side_by_side(
                rows, digests, clean, history=options.history, boot_sd=options.boot_sd
            )
        ),
        two_by_two=crossed if isinstance(crossed, TwoByTwo) else None,
        caveats=(*retests.caveats(), *((crossed,) if isinstance(crossed, Caveat) else ())),
    )


def _cross(
    sides: Sequence[Side], facts: Facts, clean: Frame, margin: float
) -> TwoByTwo | Caveat | None:
    """Return the interaction of kernels and settings, or why it is unknown; None if not crossed."""
    design = find_design(sides)
    if design is None:
        return None
    judged = judge_interactions(design, boots_of(sides), clean, margin)
    if isinstance(judged, Caveat):
        return judged
    replication, results = judged
    overruled = [
        overrule(result, facts.overrule_all(result.row, design.sides(result.row.side)))
        for result in results
    ]
    return to_two_by_two(design, replication, overruled)


def _clean_runs(table: Frame, sides: Sequence[Side], facts: Facts, retests: Retests) -> Frame:
    # Numbers that were measured under emulation are informational before rows are corrected for
    # each other: they must not weaken the verdict of real ones.
    clean = retests.with_families(table.take(table["kind"] == "clean"))
    emulated = {side.name for side in sides[1:] if facts.emulation(side.name) is not None}
    if emulated:
        # For emulated results, intervals of informational rows are shown, too.
        clean = clean.take(clean["metric"] != ELAPSED.name)
    families = [
        "informational" if side in emulated else family
        for side, family in clean.rows(["side", "family"])
    ]
    return clean.assign(family=families)


def to_rows(judged: Sequence[JudgedRow], clean: Frame, margin: float) -> Iterator[Row]:
    """Yield the rows of the record, each with the runs that it is based on.

    :param clean: the runs that were compared, with ``run`` and ``boot, order, round`` (None if
        unknown), and, if known, ``definition``, ``class_`` and ``source``
    :param margin: half-width of the equivalence band, as a fraction
    """
    values: dict[tuple[object, ...], list[RunValue]] = {}
    definitions: dict[tuple[object, ...], str] = {}
    classes: dict[tuple[object, ...], BenchmarkClass] = {}
    for run in clean.take(clean["status"] == "ok").records():
        value = RunValue(
            boot=_whole(run["boot"]),
            run=int(run["run"]),
            order=_whole(run["order"]),
            round=_whole(run["round"]),
            value=run["value"],
            source=run.get("source"),
        )
        key = tuple(run[name] for name in KEY)
        values.setdefault((run["side"], *key), []).append(value)
        if (definition := run.get("definition")) is not None:
            definitions.setdefault(key, definition)
        if (class_ := run.get("class_")) is not None:
            classes.setdefault(key, class_)
    for row in judged:
        # Caveats of whole sides are listed once, for the whole comparison.
        caveats = tuple(row_caveat for row_caveat in row.caveats if row_caveat.code != "one-boot")
        base = tuple(values.get((BASE, *row.question), ()))
        new = tuple(values.get((row.side, *row.question), ()))
        described = describe_runs(
            base,
            new,
            means=(row.base, row.new),
            replication=row.replication,
            is_maximum=row.is_maximum,
        )
        yield Row(
            **replace(row, caveats=caveats).as_fields(),
            margin=margin,
            reason=row.reason.text,
            reason_plain=row.reason.plain,
            reason_short=row.reason.short,
            values_base=base,
            values_new=new,
            **described,
            definition=definitions.get(row.question),
            class_=classes.get(row.question),
        )


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def to_families(rows: Sequence[Row]) -> Iterator[FamilySummary]:
    """Yield a summary of the rows of each family and side: number per verdict, tests, geomeans."""
    families: dict[tuple[Family, str], list[Row]] = {}
    corrected_for: Counter[Family] = Counter()
    for row in rows:
        families.setdefault((row.family, row.side), []).append(row)
        corrected_for[row.family] += _is_tested(row)
    for (family, side), members in families.items():
        verdicts = Counter(row.verdict for row in members)
        yield FamilySummary(
            family=family,
            side=side,
            rows=len(members),
            tested=sum(map(_is_tested, members)),
            corrected_for=corrected_for[family],
            expected_false=FALSE_DISCOVERY_RATE * sum(row.verdict in CHANGED for row in members),
            verdicts=verdicts,
            geomeans=tuple(geomeans_of(members)),
        )


def _is_tested(row: Row) -> bool:
    return row.p is not None and row.same_as is None
