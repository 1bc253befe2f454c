# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the number of failed runs between sides with an exact test."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import scipy

from schedperf.model.frame import Frame
from schedperf.model.rows import Verdict
from schedperf.model.verdict import FALSE_DISCOVERY_RATE, reason_of
from schedperf.stats._densities import fisher_p
from schedperf.stats.verdicts import JudgedRow

METRIC = "failed runs"
RUN = ["workload", "point"]
# Largest number of clean runs that is recommended after a fix.
MOST_PROOF = 10_000
# With more runs Boschloo's test takes seconds, and Fisher's test is as powerful.
MOST_BOSCHLOO = 200


def failure_rows(runs: Frame, *, base: str, new: list[str]) -> list[JudgedRow]:
    """Return a row for each point that base and a new side ran, if a run of either failed there.

    Boschloo, "Raised conditional level of significance for the 2 x 2 table", Stat. Neerl. 24
    (1970): exact, and more powerful than Fisher's test, which is used with more than 200 runs on a
    side. A row is primary if the test is significant and both sides have results, since a kernel
    that makes a benchmark crash is worse regardless of other rows; all other rows are
    informational.

    :param runs: the completed table, failed runs included
    """
    if (runs["status"] == "ok").all():
        return []
    points: dict[tuple[Any, ...], dict[str, tuple[int, int]]] = {}
    for (comparison, side, *point), count in _count(runs).items():
        points.setdefault((comparison, *point), {})[str(side)] = count
    return [
        _row(key, side, counts[base], counts[side])
        for key, counts in points.items()
        for side in new
        if {side, base} <= counts.keys() and counts[base][0] + counts[side][0] > 0
    ]


def _count(runs: Frame) -> Mapping[tuple[Any, ...], tuple[int, int]]:
    # Failed runs and all runs, by comparison, side and workload. A run counts once, whether it
    # printed several metrics or failed and printed none.
    where = list(runs.rows(["comparison", "side", *RUN]))
    failed = (runs["status"] != "ok").tolist()
    numbers = list(runs.rows(["boot", "run"]))
    if all(run is not None for _, run in numbers):
        return _count_numbered(zip(where, numbers, failed, strict=True))
    # Rows without run numbers: the runs are the rows of one metric, plus the runs without a metric.
    by_metric: dict[tuple[Any, ...], dict[str, list[bool]]] = {}
    for place, metric, has_failed in zip(where, runs["metric"].tolist(), failed, strict=True):
        by_metric.setdefault(place, {}).setdefault(metric or "", []).append(has_failed)
    counts: dict[tuple[Any, ...], tuple[int, int]] = {}
    for place, of_metric in by_metric.items():
        without = of_metric.pop("", [])
        most_failed, most = (max(map(count, of_metric.values()), default=0) for count in (sum, len))
        counts[place] = most_failed + sum(without), most + len(without)
    return counts


def _count_numbered(
    rows: Iterable[tuple[tuple[Any, ...], tuple[Any, ...], bool]],
) -> Mapping[tuple[Any, ...], tuple[int, int]]:
    runs: dict[tuple[Any, ...], dict[tuple[Any, ...], bool]] = {}
    for place, number, has_failed in rows:
        runs.setdefault(place, {}).setdefault(number, has_failed)
    return {place: (sum(of_run.values()), len(of_run)) for place, of_run in runs.items()}


def _row(key: tuple[Any, ...], side: str, base: tuple[int, int], new: tuple[int, int]) -> JudgedRow:
    # Each pair is (failed runs, all runs).
    failed, n = zip(base, new, strict=True)
    test = "Boschloo" if max(n) <= MOST_BOSCHLOO else "Fisher"
    # If every run of both sides failed, there is no difference to test.
    p = 1.0 if failed == n else _exact_p(failed, n, test)
    is_sure = p < FALSE_DISCOVERY_RATE
    # A side without a successful run has no results; the comparison reports this elsewhere.
    has_results = failed[0] < n[0] and failed[1] < n[1]
    rose = failed[1] * n[0] > failed[0] * n[1]
    verdict: Verdict = ("regression" if rose else "improvement") if is_sure else "inconclusive"
    counts = f"{failed[0]} of {n[0]} runs failed in base, {failed[1]} of {n[1]} in {side}"
    return JudgedRow(
        comparison=key[0],
        side=side,
        workload=key[1],
        point=key[2],
        metric=METRIC,
        unit="count",
        better="lower",
        family="primary" if is_sure and has_results else "informational",
        n_base=n[0],
        n_new=n[1],
        base=float(failed[0]),
        new=float(failed[1]),
        ratio=None,
        ci_low=None,
        ci_high=None,
        p=p,
        q=p,
        verdict=verdict,
        mde=None,
        more_runs=None,
        method=f"{test} exact",
        reason=reason_of(f"{counts} (p = {p:.2g})", _advice(failed, n, side)),
        caveats=(),
        replication="runs",
        icc=None,
        design_effect=None,
        p_rank=None,
        rank_ratio=None,
        rank_low=None,
        rank_high=None,
    )


def _exact_p(failed: tuple[int, int], n: tuple[int, int], test: str) -> float:
    if test == "Fisher":
        return fisher_p(failed, n)
    from scipy import stats  # noqa: PLC0415 # its import takes time

    table = np.array([[failed[0], n[0] - failed[0]], [failed[1], n[1] - failed[1]]])
    return float(stats.boschloo_exact(table).pvalue)


def _advice(failed: tuple[int, int], n: tuple[int, int], side: str) -> str:
    # Number of runs without a failure that show that a kernel is fixed.
    proof = _runs_to_prove(failed[1] or failed[0], n[1] if failed[1] else n[0])
    if proof is None or (not failed[1] and proof <= n[1]):
        return ""
    if failed[1]:
        return f"{proof} runs without a failure would confirm a fix"
    return f"{proof} runs of {side} without a failure would show that the failure rate is lower"


def _runs_to_prove(failed: int, n: int) -> int | None:
    # Number k of clean runs that chance does not explain at the observed failure rate: (1 - rate)^k
    # < 5%, or Fisher's exact test with the observed counts as the other side.
    if not failed:
        return None
    clean = np.arange(1, MOST_PROOF)
    # Hypergeometric: C(n + clean - failed, clean) / C(n + clean, clean).
    luck = np.exp(
        scipy.special.gammaln(n + clean - failed + 1)
        - scipy.special.gammaln(n - failed + 1)
        - scipy.special.gammaln(n + clean + 1)
        + scipy.special.gammaln(n + 1)
    )
    # Rounding must not turn an exact 5% (1 of 180) into less.
    proof = clean[luck < FALSE_DISCOVERY_RATE * (1.0 - 1e-9)]
    return int(proof[0]) if len(proof) else None
