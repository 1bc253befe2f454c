# SPDX-License-Identifier: GPL-2.0-or-later
"""Collect the caveats of whole sides: damage, imports, runs, boots, emulation and order in time."""

from collections.abc import Iterator, Sequence
from itertools import chain

from schedperf.compare.boots import has_one_boot_each, warn_of_one_boot
from schedperf.compare.comparability import name_unchecked
from schedperf.compare.facts import Facts
from schedperf.inputs.bundle.open import Sequential
from schedperf.inputs.side import Side
from schedperf.model.base_new import BASE
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.frame import Frame, numbers_of
from schedperf.model.rows import Row
from schedperf.model.text import join_names
from schedperf.runs.timeline import find_unbalanced
from schedperf.runs.values import RunValues

# Number of processes that a caveat lists.
MOST_PROCESSES = 3


def caveats_of(
    sides: Sequence[Side], facts: Facts, values: RunValues, rows: Sequence[Row]
) -> Iterator[Caveat]:
    """Yield the caveats of all sides, of their runs and of their order.

    :param rows: the compared results
    """
    for side in sides:
        yield from side.bundle.caveats
        if not side.bundle.complete:
            reason = side.bundle.incomplete_reason or "no reason recorded"
            yield caveat("incomplete", side=side.name, reason=reason)
        if side.bundle.imported is not None:
            missing = join_names(name_unchecked(side.bundle.host_fields))
            yield caveat(
                "imported",
                side=side.name,
                format=side.bundle.imported.format,
                missing=missing or "nothing else",
            )
    yield from values.caveats
    yield from chain.from_iterable(map(_caveats_of_runs, sides))
    different = [side for side in sides[1:] if side.name not in facts.same_data]
    if not different:
        return
    of_one_boot = [side for side in different if not has_one_boot_each(rows, side.name)]
    for side in (sides[0], *different):
        boots = len({run.boot for run in side.bundle.runs if run.kind == "clean"})
        if boots == 1 and (side in of_one_boot or (side is sides[0] and of_one_boot)):
            yield caveat("one-boot", side=side.name)
        if side.name in facts.emulated:
            yield caveat("emulated", how=facts.emulated[side.name].evidence)
    for side in different:
        if side.bundle.sequential is not None:
            yield _looks_of(side.name, side.bundle.sequential)
    yield from warn_of_one_boot(rows)
    yield from _caveats_of_order(sides, different, values)


def _looks_of(side: str, looks: Sequential) -> Caveat:
    # Pairs are not compared with an earlier bundle.
    units = "pairs" if looks.against is None else "runs"
    return caveat("looks", side=side, max_runs=looks.max_runs, units=units)


def _caveats_of_order(
    sides: Sequence[Side], different: Sequence[Side], values: RunValues
) -> Iterator[Caveat]:
    if any(_are_blocks(values.table, side.name) for side in different):
        yield caveat("blocks")
    unbalanced = find_unbalanced(sides)
    if unbalanced is not None:
        # Orders in a Williams design (schedperf_collectors.recorder.plan.williams).
        cycle = unbalanced.sides * (1 + unbalanced.sides % 2)
        yield caveat("unbalanced", sides=unbalanced.sides, rounds=unbalanced.rounds, cycle=cycle)


def _caveats_of_runs(side: Side) -> Iterator[Caveat]:
    runs = side.bundle.runs
    left = [run for run in runs if run.left_behind]
    if left:
        names = list(dict.fromkeys(name for run in left for name in run.left_behind))
        more = ", …" if len(names) > MOST_PROCESSES else ""
        listed = f"{', '.join(names[:MOST_PROCESSES])}{more}"
        yield caveat("left-behind", side=side.name, count=len(left), names=listed)
    omitted = {run.folder: run.omitted_bytes for run in runs if run.omitted_bytes}
    if omitted:
        first, size = next(iter(omitted)), sum(omitted.values())
        yield caveat("output-left-out", side=side.name, count=len(omitted), bytes=size, first=first)


def _are_blocks(runs: Frame, side: str) -> bool:
    # Return whether one of the two sides was recorded completely before the other. Runs at unknown
    # times have no order.
    orders = numbers_of(runs["order"])
    base, new = (orders[runs["side"] == name] for name in (BASE, side))
    return bool(len(base) and len(new) and (base.max() < new.min() or new.max() < base.min()))
