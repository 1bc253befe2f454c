"""Noise-aware comparison of runs: pure functions on tables and numbers.

The independent unit is one run. Positive values are compared on natural
logarithms, so that the effect is a ratio; a metric with a value that is not
positive is compared by differences. Missing is NaN in tables and ``None``
elsewhere. docs/comparison.md says why each method was chosen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy import stats

from schedperf.caveats import Caveat, caveat
from schedperf.errors import InputError
from schedperf.model import Better, Family
from schedperf.verdicts import (
    LARGEST_LOG,
    MARGIN,
    SMALLEST_EFFECT,
    Evidence,
    decide,
)
from schedperf.welch import (
    CONFIDENCE,
    FEWEST_RUNS,
    Difference,
    Estimate,
    Values,
    estimate_welch,
    variance_of,
    welch_difference,
)

__all__ = ["Difference", "Result", "compare_runs", "records", "welch_difference"]

# Two one-sided tests at 5 % each are one 90 % interval: Schuirmann, "A comparison of the two
# one-sided tests procedure and the power approach", J. Pharmacokin. Biopharm. 15 (1987).
EQUIVALENCE_CONFIDENCE = 0.90

# Squares of larger numbers leave the range of a float, and no benchmark counts that far.
LARGEST_VALUE = 1e150

# What makes two runs the same question; ``family`` and ``resolution`` only describe it.
KEY = ["workload", "point", "metric", "unit", "better"]
FAMILY_ORDER: tuple[Family, ...] = ("primary", "secondary", "diagnostic")


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What :func:`compare_runs` found, as three tables.

    :param rows: one row a metric, point and new side: ``side, workload, point, metric, unit,
        better, family, n_base, n_new, base, new, ratio, ci_low, ci_high, p, q, verdict, method,
        reason, warnings``. ``base`` and ``new`` are geometric means in ``unit`` (arithmetic where
        a value is not positive), ``ci_*`` is the 95 % interval of ``ratio`` = new / base, ``q`` is
        p after the correction for all rows of the family, ``warnings`` holds tuples of caveats
    :param sweeps: one row a metric and new side that has two points or more: ``side, workload,
        metric, points, geomean_ratio, ci_low, ci_high``
    :param families: how many rows got which verdict: ``family, side, verdict, rows``
    """

    rows: pd.DataFrame
    sweeps: pd.DataFrame
    families: pd.DataFrame


def compare_runs(
    runs: pd.DataFrame, *, base: str, new: Sequence[str] | None = None, margin: float = MARGIN
) -> Result:
    """Compare every side with ``base``, metric by metric and point by point.

    :param runs: one row a run: ``side, workload, point, metric, unit, better, value``, and
        optionally ``resolution`` (step of the printed number, in ``unit``), ``family`` ("primary"
        unless said) and ``status`` (only "ok" counts). ``point`` is canonical ``k=v,k=v``
    :param base: name of the side that the others are compared with
    :param new: names of the other sides, where one of them may have no run; else those in ``runs``
    :param margin: half-width of the equivalence band, as a fraction of the value
    :raises InputError: a value is not a finite number; the message names the row
    """
    checked = _checked(runs)
    sides = _new_sides(runs, base) if new is None else list(new)
    groups = {
        cast("tuple[str, ...]", key): group
        for key, group in checked.groupby(["side", *KEY], sort=False)
    }
    keys = list(checked[KEY].drop_duplicates().itertuples(index=False, name=None))
    relations = [
        _relate(side, key, groups.get((base, *key)), groups.get((side, *key)))
        for side in sides
        for key in keys
        if (base, *key) in groups or (side, *key) in groups
    ]
    qs = _false_discovery(relations)
    rows = pd.DataFrame(
        [_row(relation, q, margin) for relation, q in zip(relations, qs, strict=True)],
        columns=ROW_COLUMNS,
    )
    return Result(rows=rows, sweeps=_df_sweeps(relations), families=_df_families(rows))


def _df_families(rows: pd.DataFrame) -> pd.DataFrame:
    columns = ["family", "side", "verdict"]
    return rows.groupby(columns, sort=False).size().rename("rows").reset_index()


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts, with None for what is missing."""
    return [
        {
            str(name): None if isinstance(value, float) and math.isnan(value) else value
            for name, value in record.items()
        }
        for record in table.to_dict("records")
    ]


ROW_COLUMNS = [
    "side", *KEY, "family", "n_base", "n_new", "base", "new", "ratio", "ci_low", "ci_high",
    "p", "q", "verdict", "method", "reason", "warnings",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class _Relation:
    # One metric of one point, base against one new side, before the correction for all rows.
    # The estimate is of logarithms when is_log, else in the metric's unit; None without
    # an interval. ``scale`` is what makes a difference relative: 1 on logarithms.
    side: str
    key: tuple[str, ...]
    family: Family
    n_base: int
    n_new: int
    base: float | None
    new: float | None
    is_log: bool
    effect: float | None
    estimate: Estimate | None
    scale: float
    steps: float | None
    resolution: float | None


def _checked(runs: pd.DataFrame) -> pd.DataFrame:
    # Fill the optional columns, keep the runs that succeeded and refuse what is no number.
    filled = runs.assign(
        **{
            name: default
            for name, default in (("resolution", math.nan), ("family", "primary"), ("status", "ok"))
            if name not in runs
        }
    )
    kept = filled[filled["status"] == "ok"]
    numbers = pd.to_numeric(kept["value"], errors="coerce").to_numpy(dtype=np.float64)
    bad = ~(np.abs(numbers) <= LARGEST_VALUE)
    if bad.any():
        row = kept.iloc[int(np.argmax(bad))]
        where = ", ".join(str(row[name]) for name in ("side", "workload", "point", "metric"))
        raise InputError(
            f"{where}: the value of a run is {row['value']}; leave the run out or mark it as failed"
        )
    return kept.assign(value=numbers)


def _new_sides(runs: pd.DataFrame, base: str) -> list[str]:
    return [str(side) for side in runs["side"].unique() if side != base]


def _relate(
    side: str, key: tuple[str, ...], base: pd.DataFrame | None, new: pd.DataFrame | None
) -> _Relation:
    one, other = _values(base), _values(new)
    is_log = bool((one > 0.0).all() and (other > 0.0).all())
    means = _mean(one, is_log=is_log), _mean(other, is_log=is_log)
    resolution = _resolution(base, new)
    scale = 1.0 if is_log else max(abs(mean or 0.0) for mean in means)
    estimate, is_rounded = _estimate(one, other, resolution, is_log=is_log)
    effect = steps = None
    if estimate is not None:
        effect = estimate.difference
    elif means[0] is not None and means[1] is not None:
        effect = math.log(means[1]) - math.log(means[0]) if is_log else means[1] - means[0]
    if estimate is not None and is_rounded and resolution is not None:
        steps = abs(float(other.mean() - one.mean())) / resolution
    return _Relation(
        side=side,
        key=key,
        family=_family(base, new),
        n_base=len(one),
        n_new=len(other),
        base=means[0],
        new=means[1],
        is_log=is_log,
        effect=effect,
        estimate=estimate,
        scale=scale,
        steps=steps,
        resolution=resolution,
    )


def _values(group: pd.DataFrame | None) -> Values:
    return np.empty(0) if group is None else group["value"].to_numpy(dtype=np.float64)


def _mean(values: Values, *, is_log: bool) -> float | None:
    if not len(values):
        return None
    return float(np.exp(np.log(values).mean()) if is_log else values.mean())


def _resolution(*groups: pd.DataFrame | None) -> float | None:
    steps = [float(group["resolution"].max()) for group in groups if group is not None]
    known = [step for step in steps if math.isfinite(step) and step > 0.0]
    return max(known, default=None)


def _family(*groups: pd.DataFrame | None) -> Family:
    # The weaker of two claims: what is diagnostic on one side cannot decide.
    found = {family for group in groups if group is not None for family in group["family"]}
    return max(found, key=FAMILY_ORDER.index)


def _estimate(
    base: Values, new: Values, resolution: float | None, *, is_log: bool
) -> tuple[Estimate | None, bool]:
    # Rounding to steps of u is an error with variance u^2 / 12 (uniform distribution), so a
    # printed number cannot vary less than that, whatever the sample says. On logarithms it is
    # relative to the value, which is a step at least.
    if not len(base) or not len(new):
        return None, False
    step = resolution or 0.0
    if is_log:
        floors = [_relative_floor(step, values) for values in (base, new)]
        base, new = np.log(base), np.log(new)
    else:
        floors = [step**2 / 12.0] * 2
    is_rounded = any(
        variance_of(values) < floor for values, floor in zip((base, new), floors, strict=True)
    )
    return estimate_welch(base, new, floors=(floors[0], floors[1])), is_rounded


def _relative_floor(step: float, values: Values) -> float:
    return float(np.mean((step / np.maximum(values, step)) ** 2)) / 12.0 if step else 0.0


def _false_discovery(relations: Sequence[_Relation]) -> list[float | None]:
    # Benjamini and Hochberg's correction over all rows of a family that were tested.
    qs: list[float | None] = [None] * len(relations)
    ps = [relation.estimate.p if relation.estimate else None for relation in relations]
    for family in FAMILY_ORDER:
        tested = [
            index
            for index, (relation, p) in enumerate(zip(relations, ps, strict=True))
            if relation.family == family and p is not None
        ]
        if tested:
            corrected = stats.false_discovery_control([cast("float", ps[i]) for i in tested])
            for index, q in zip(tested, corrected, strict=True):
                qs[index] = float(q)
    return qs


def _row(relation: _Relation, q: float | None, margin: float) -> dict[str, object]:
    evidence = _evidence(relation, q)
    verdict, reason = decide(evidence, side=relation.side, margin=margin)
    has_ratio = relation.is_log and relation.effect is not None
    low, high = evidence.ci if has_ratio and evidence.ci is not None else (None, None)
    return {
        "side": relation.side,
        **dict(zip(KEY, relation.key, strict=True)),
        "family": relation.family,
        "n_base": relation.n_base,
        "n_new": relation.n_new,
        "base": relation.base,
        "new": relation.new,
        "ratio": _ratio(relation.effect if has_ratio else None),
        "ci_low": _ratio(low),
        "ci_high": _ratio(high),
        "p": relation.estimate.p if relation.estimate else None,
        "q": q,
        "verdict": verdict,
        "method": _method(relation),
        "reason": reason,
        "warnings": _warnings(relation),
    }


def _evidence(relation: _Relation, q: float | None) -> Evidence:
    scale, estimate = relation.scale, relation.estimate
    if scale == 0.0 and estimate is not None and estimate.se == 0.0:
        scale = 1.0  # All values are 0: equal, and nothing to be relative to.
    if scale == 0.0 or relation.effect is None:
        effect = ci = equivalence_ci = None
    else:
        effect = relation.effect / scale
        ci = _interval(estimate, CONFIDENCE, scale)
        equivalence_ci = _interval(estimate, EQUIVALENCE_CONFIDENCE, scale)
    return Evidence(
        better=cast("Better", relation.key[KEY.index("better")]),
        n_base=relation.n_base,
        n_new=relation.n_new,
        is_log=relation.is_log,
        effect=effect,
        ci=ci,
        equivalence_ci=equivalence_ci,
        q=q,
        steps=relation.steps,
    )


def _interval(
    estimate: Estimate | None, confidence: float, scale: float
) -> tuple[float, float] | None:
    if estimate is None:
        return None
    low, high = estimate.interval(confidence)
    return low / scale, high / scale


def _ratio(log: float | None) -> float | None:
    return None if log is None else math.exp(min(log, LARGEST_LOG))


def _method(relation: _Relation) -> str:
    if relation.estimate is None:
        return "none"
    scale = "logs" if relation.is_log else "values"
    return f"exact on {scale}" if relation.estimate.se == 0.0 else f"Welch t on {scale}"


def _warnings(relation: _Relation) -> tuple[Caveat, ...]:
    found = [
        caveat("few-runs", side=side, n=n, needed=FEWEST_RUNS)
        for side, n in (("base", relation.n_base), (relation.side, relation.n_new))
        if 0 < n < FEWEST_RUNS
    ]
    sizes = [abs(mean) for mean in (relation.base, relation.new) if mean]
    if relation.resolution is not None and sizes:
        share = relation.resolution / min(sizes)
        if share >= SMALLEST_EFFECT:
            unit = relation.key[KEY.index("unit")]
            step = relation.resolution
            found.append(caveat("coarse", step=step, unit=unit, percent=100.0 * share))
    return tuple(found)


def _df_sweeps(relations: Sequence[_Relation]) -> pd.DataFrame:
    # The points of one metric are separate runs, so the variances of their log ratios add up.
    sweeps: dict[tuple[str, ...], list[_Relation]] = {}
    for relation in relations:
        workload, _, metric, unit, better = relation.key
        sweeps.setdefault((relation.side, workload, metric, unit, better), []).append(relation)
    rows = [_sweep(key, points) for key, points in sweeps.items() if len(points) > 1]
    columns = ["side", "workload", "metric", "points", "geomean_ratio", "ci_low", "ci_high"]
    return pd.DataFrame(rows, columns=columns)


def _sweep(key: tuple[str, ...], points: Sequence[_Relation]) -> dict[str, object]:
    effects = [point.effect for point in points if point.is_log and point.effect is not None]
    estimates = [point.estimate for point in points if point.estimate is not None]
    mean = low = high = None
    if len(effects) == len(points):
        mean = math.fsum(effects) / len(points)
        if len(estimates) == len(points):
            low, high = _mean_estimate(mean, estimates).interval(CONFIDENCE)
    return {
        "side": key[0],
        "workload": key[1],
        "metric": key[2],
        "points": tuple(point.key[KEY.index("point")] for point in points),
        "geomean_ratio": _ratio(mean),
        "ci_low": _ratio(low),
        "ci_high": _ratio(high),
    }


def _mean_estimate(mean: float, estimates: Sequence[Estimate]) -> Estimate:
    variances = [estimate.se**2 for estimate in estimates]
    total = math.fsum(variances)
    if total == 0.0:
        return Estimate(difference=mean, se=0.0, df=math.inf)
    # Satterthwaite, "An approximate distribution of estimates of variance components",
    # Biometrics Bulletin 2 (1946).
    inverse_df = math.fsum(
        (variance / total) ** 2 / estimate.df
        for variance, estimate in zip(variances, estimates, strict=True)
    )
    return Estimate(difference=mean, se=math.sqrt(total) / len(estimates), df=1.0 / inverse_df)
