# SPDX-License-Identifier: GPL-2.0-or-later
"""Noise-aware comparison of runs: pure functions on tables and numbers.

The independent unit is one run, one boot if there are several boots, or one round if both sides
were interleaved. Positive values are compared on natural logarithms, so that the effect is a ratio;
a metric that has zero or negative values is compared by differences. Maxima of runs are compared by
ranks, since they have no useful mean. Missing is NaN or None. docs/method.md says why each method
was chosen, and the module of each method cites its source.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from schedperf.inputs.tables.consistency import find_contradictions
from schedperf.model.errors import InputError
from schedperf.model.frame import Frame
from schedperf.model.row_groups import Sweep
from schedperf.model.verdict import MARGIN
from schedperf.stats._columns import Columns, compare_columns
from schedperf.stats._correction import false_discovery
from schedperf.stats._counts import ComparedCounts, compare_counts
from schedperf.stats._engine import Findings, analyse
from schedperf.stats._failures import failure_rows
from schedperf.stats._judge import judge
from schedperf.stats._power import least_detectable
from schedperf.stats._rows import KEY, Rows, complete, form_rows
from schedperf.stats._sweeps import SweepPoint, describe_sweep
from schedperf.stats.verdicts import JudgedRow
from schedperf.stats.welch import Difference, welch_difference

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
    "false_discovery",
    "least_detectable",
    "welch_difference",
]


class Result(Struct, frozen=True, kw_only=True):
    """The results of :func:`compare_runs`.

    :param rows: one per comparison, new side, workload, point and metric. Where runs failed, a
        further row has the metric "failed runs"
    :param sweeps: one per comparison, new side, workload and metric with two or more points, each
        after its value of the column ``comparison``
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
    boot_sd: float | None = None,
    looks: Mapping[str, int] | None = None,
) -> Result:
    """Compare every side with ``base``, metric by metric and point by point.

    :param runs: one row per run and metric: ``side, workload, point, metric, unit, better, value``;
        ``point`` is canonical ``k=v,k=v``; ``better`` is "higher", "lower" or "unknown". A
        published summary of a side is one row that has, instead of ``value``: ``mean, cv`` (a
        fraction, or missing), ``n`` (or missing). Optional columns:

        * ``order``: position in time over all sides; an unknown order is assumed to be random
        * ``round``: of interleaved sides; sides with three or more common rounds are compared as
          pairs, unless both have several boots and there are more rounds than boots
        * ``boot``: with two or more boots on a side, boots are the independent units
        * ``boot_id``: identifies the boot on all sides; if each side has one boot and the boots
          differ, p and the CI include the standard deviation between boots
        * ``run``: number of the run in its boot
        * ``resolution``: step of the printed number, in ``unit``
        * ``family``: "primary" (the default), "secondary" or "informational"
        * ``is_maximum``: True for the maximum of a run; maxima are compared by ranks
        * ``status``: "ok" for a successful run; any other status is a failed run, which needs no
          value
        * ``claimed``: the change that a source prints beside its numbers, e.g. "-10.7%"
        * ``claimed_mean``: the mean that a source prints beside its runs
        * ``comparison``: a table can contain many comparisons; each is corrected separately
    :param base: name of the baseline side
    :param new: names of the other sides, including sides without runs [default: those in ``runs``]
    :param margin: half-width of the equivalence band, as a fraction of the value [default: 0.03]
    :param history: tables like ``runs``, one per earlier bundle of the same machine; used for
        variance shrinkage and, with at least 6 degrees of freedom, for the standard deviation
        between boots. Boots with equal ``kernel`` are boots of one kernel [default: boots of one
        side of a table]
    :param boot_sd: standard deviation between boots of one kernel, as a fraction of the value
        [default: from ``history``, else 0.1]
    :param looks: maximum number of runs of each side that was recorded with group-sequential
        stopping; p values are corrected for the interim looks
    :raises InputError: a column is missing; a row has a value that is not a number up to 1e150, a
        larger resolution, or an invalid summary, ``better``, ``family`` or claim; no run is of
        ``base`` and ``new`` is not given; or ``margin`` or ``boot_sd`` is out of range
    :raises ValueError: a number in ``looks`` is larger than 100
    """
    table = complete(runs)
    names = list(dict.fromkeys(table["side"].tolist()))
    if new is None and names and base not in names:
        sides_present = ", ".join(names[:9])
        raise InputError(
            f"runs: unknown side {base} (expected one of {sides_present}); pass base=NAME"
        )
    if boot_sd is not None and not 0.0 <= boot_sd < 1.0:
        raise InputError(
            f"boot_sd: {boot_sd:g} is out of range (expected 0 to 1, e.g. 0.01 for 1%)"
        )
    if not 0.0 < margin < 1.0:
        raise InputError(f"margin: {margin:g} is out of range (expected 0 to 1, e.g. 0.03 for 3%)")
    sides = [name for name in names if name != base] if new is None else [*new]
    rows = form_rows(table.take(table["status"] == "ok"), base=base, new=sides)
    past = [complete(table) for table in history]
    analysis = analyse(rows, looks=looks or {}, history=past, boot_sd=boot_sd)
    judged = judge(rows, analysis, margin, find_contradictions(table, base=base))
    failed = failure_rows(table, base=base, new=sides)
    return Result(rows=(*judged, *failed), sweeps=tuple(_sweeps(rows, analysis, judged)))


def _sweeps(
    rows: Rows, analysis: Findings, judged: Sequence[JudgedRow]
) -> Iterator[tuple[object, Sweep]]:
    points: dict[tuple[object, str, str, str, str, str], list[SweepPoint]] = {}
    effect, se, df = (getattr(analysis.whole, name).tolist() for name in ("effect", "se", "df"))
    boot_se = analysis.boots.se.tolist()
    for index, row in enumerate(judged):
        # Maxima have no standard error, so a sweep of them has no mean change.
        has_se = not (math.isnan(se[index]) or rows.is_maximum[index])
        point = SweepPoint(
            point=row.point,
            effect=None if math.isnan(effect[index]) else effect[index],
            se=se[index] if has_se else None,
            boot_se=boot_se[index],
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
