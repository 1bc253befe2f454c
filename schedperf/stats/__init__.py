# SPDX-License-Identifier: GPL-2.0-or-later
"""Noise-aware comparison of runs: pure functions on tables and numbers.

The independent unit is one run; one boot where there are several; one round where
both sides were interleaved. Positive values are compared on natural logarithms, so that
the effect is a ratio; a metric with a value that is not positive is compared by
differences. Maxima of runs are compared by ranks, since they have no useful mean. Missing is NaN
or None. docs/method.md says why each method was chosen, and the module of each method cites its
source.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from schedperf.model.comparison import Sweep
from schedperf.model.errors import InputError
from schedperf.model.frame import Frame
from schedperf.model.verdict import MARGIN
from schedperf.stats._columns import Columns, compare_columns
from schedperf.stats._counts import ComparedCounts, compare_counts
from schedperf.stats._engine import Findings, analyse
from schedperf.stats._failures import failure_rows
from schedperf.stats._judge import judge
from schedperf.stats._rows import KEY, Rows, complete, form_rows
from schedperf.stats._sweeps import SweepPoint, describe_sweep
from schedperf.stats.verdicts import JudgedRow
from schedperf.stats.welch import Difference, welch_difference
from schedperf.tables.consistency import find_contradictions

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "KEY",
    "Columns",
    "ComparedCounts",
    "Difference",
    "JudgedRow",
    "Result",
    "compare_columns",
    "compare_counts",
    "compare_runs",
    "welch_difference",
]


class Result(Struct, frozen=True, kw_only=True):
    """What :func:`compare_runs` found.

    :param rows: one a metric, point and new side. Runs that failed are a row of their own, with
        the metric "failed runs"
    :param sweeps: one a metric and new side that has two points or more, by the comparison that
        they belong to
    """

    rows: tuple[JudgedRow, ...]
    sweeps: tuple[tuple[object, Sweep], ...]


def compare_runs(
    runs: "Frame | pd.DataFrame",
    *,
    base: str,
    new: Sequence[str] | None = None,
    margin: float = MARGIN,
    history: "Sequence[Frame | pd.DataFrame]" = (),
    looks: Mapping[str, int] | None = None,
) -> Result:
    """Compare every side with ``base``, metric by metric and point by point.

    :param runs: one row a run and metric: ``side, workload, point, metric, unit, better, value``;
        ``point`` is canonical ``k=v,k=v``. Instead of ``value`` a published summary of a side, one
        row: ``mean, cv`` (a fraction, or missing), ``n`` (or missing). Optional columns:

        * ``order``: place in time over all sides; unknown order is taken for a random one
        * ``round``: of interleaved sides; sides that share three rounds are compared as pairs
        * ``boot``: with two boots or more, boots are what is independent
        * ``run``: number of the run in its boot
        * ``resolution``: step of the printed number, in ``unit``
        * ``family``: "primary" by default
        * ``is_maximum``: is the value the maximum of a run? Maxima are compared by ranks
        * ``status``: only "ok" counts; anything else is a run that failed, and needs no value
        * ``claimed``: the change that a source prints beside its numbers: "-10.7%"
        * ``claimed_mean``: the mean that a source prints beside its runs
        * ``comparison``: a table can contain many comparisons; each is corrected separately
    :param base: name of the side that the others are compared with
    :param new: names of the other sides, including sides without runs [default: those in ``runs``]
    :param margin: half-width of the equivalence band, as a fraction of the value [default: 0.03]
    :param history: tables like ``runs``, one per earlier bundle of the same machine; used for
        variance shrinkage
    :param looks: sides that were recorded with group-sequential stopping, with the largest number
        of runs; their p values are corrected for the looks
    :raises InputError: a column is missing; or a row, which is named, has a value that is not a
        number up to 1e150, an invalid summary, or an unknown word or claim
    """
    table = complete(runs)
    names = list(dict.fromkeys(table["side"].tolist()))
    if new is None and names and base not in names:
        sides_present = ", ".join(names[:9])
        raise InputError(
            f"runs: unknown side {base} (expected one of {sides_present}); pass base=NAME"
        )
    if not 0.0 < margin < 1.0:
        raise InputError(f"margin: {margin:g} is out of range (expected 0 to 1, e.g. 0.03 for 3%)")
    sides = [name for name in names if name != base] if new is None else [*new]
    rows = form_rows(table.take(table["status"] == "ok"), base=base, new=sides)
    analysis = analyse(rows, looks=looks or {}, history=[complete(past) for past in history])
    judged = judge(rows, analysis, margin, find_contradictions(table, base=base))
    failed = failure_rows(table, base=base, new=sides)
    return Result(rows=(*judged, *failed), sweeps=tuple(_sweeps(rows, analysis, judged)))


def _sweeps(
    rows: Rows, analysis: Findings, judged: Sequence[JudgedRow]
) -> Iterator[tuple[object, Sweep]]:
    points: dict[tuple[object, str, str, str, str, str], list[SweepPoint]] = {}
    effect, se, df = (getattr(analysis.whole, name).tolist() for name in ("effect", "se", "df"))
    for index, row in enumerate(judged):
        # Maxima have no standard error, so a sweep of them has no mean change.
        has_se = not (math.isnan(se[index]) or rows.is_maximum[index])
        point = SweepPoint(
            point=row.point,
            effect=None if math.isnan(effect[index]) else effect[index],
            se=se[index] if has_se else None,
            df=df[index],
            p=row.p,
            is_log=bool(rows.is_log[index]),
            verdict=row.verdict,
        )
        key = (row.comparison, row.side, row.workload, row.metric, row.unit, row.better)
        points.setdefault(key, []).append(point)
    for (comparison, side, workload, metric, _, _), members in points.items():
        if len(members) > 1:
            yield comparison, describe_sweep(side, workload, metric, members)
