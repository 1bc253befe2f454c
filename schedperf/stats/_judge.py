"""From estimates to the rows of a result: what may be said of each, and with which words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedperf.model.caveats import Caveat, caveat
from schedperf.stats._engine import Findings
from schedperf.stats._estimates import Estimates
from schedperf.stats._power import least_detectable, runs_to_settle
from schedperf.stats._rows import REPLICATIONS, Flags, Floats, Rows
from schedperf.stats.verdicts import (
    FALSE_DISCOVERY_RATE,
    FEWEST_IN_BLOCKS,
    FEWEST_POINTS,
    LARGEST_LOG,
    SMALLEST_EFFECT,
    Evidence,
    decide,
    fraction_of,
    ratio_of,
    signed,
)
from schedperf.stats.welch import CONFIDENCE, FEWEST_RUNS

RECIPE = (
    "record the sides in turns: settings with `schedperf ab`, kernels with `schedperf record "
    "--append` after each reboot"
)

# How unlike the spread of the sides must be to be told: it is a remark, so it is asked more of.
SPREAD_LEVEL = 0.01
# Correlations of successive runs from here on are told: the interval is then wider by a fifth.
LEAST_CORRELATION = 0.2
MOST_NOISIER = 1e6
MOST_COARSE = 1e6

Record = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Case:
    # Rows, all that was found of them, and what follows for all of them at once.
    rows: Rows
    found: Findings
    margin: float
    half_ci: Floats
    half_equivalence: Floats
    mde: Floats
    more_runs: Floats
    outlives: Flags


def judge(rows: Rows, found: Findings, margin: float) -> list[dict[str, Any]]:
    """Return the rows of a result, as :class:`schedperf.stats.Result` describes them."""
    whole = found.whole
    least = np.where(whole.se > 0.0, least_detectable(whole.se, whole.df), np.nan)
    case = _Case(
        rows=rows,
        found=found,
        margin=margin,
        half_ci=whole.half_width(CONFIDENCE),
        half_equivalence=found.whole.half_width(1.0 - 2.0 * found.equality_level),
        mde=np.where(rows.is_log, np.expm1(np.minimum(least, LARGEST_LOG)), least),
        more_runs=_more_runs(rows, found, margin),
        outlives=found.drift.outlives(found.whole),
    )
    records = rows.table.to_dict("list")
    return [
        _row(case, place, {str(name): column[place] for name, column in records.items()})
        for place in range(len(rows))
    ]


def _more_runs(rows: Rows, found: Findings, margin: float) -> Floats:
    whole = found.whole
    smallest, largest = (
        np.where(rows.is_log, math.log1p(share), share) for share in (SMALLEST_EFFECT, margin)
    )
    variance = np.where(np.isnan(whole.se), whole.variance, whole.se**2 / whole.factor)
    needed = runs_to_settle(
        whole.effect, variance, smallest=smallest, margin=largest, is_paired=rows.is_paired
    )
    # How many runs tell two modes apart is another question.
    needed[list(found.modes)] = np.nan
    few = np.minimum(found.numbers[:, 0], found.numbers[:, 1])
    return np.where(np.isnan(few), needed, np.maximum(needed - few, 1.0))


def _row(case: _Case, place: int, record: Record) -> dict[str, Any]:
    rows, found = case.rows, case.found
    evidence = _evidence(case, place, record)
    verdict, reason = decide(evidence, side=record["side"], margin=case.margin)
    is_open = verdict == "inconclusive" and evidence.obstacle is None
    has_ratio = bool(rows.is_log[place])
    low, high = (None, None) if evidence.ci is None else evidence.ci
    ranks = {name: _known(values[place]) for name, values in found.ranks.items()}
    return {
        **record,
        "n_base": evidence.n_base,
        "n_new": evidence.n_new,
        "base": _known(rows.base[place]),
        "new": _known(rows.new[place]),
        "ratio": _ratio(evidence.effect, has_ratio=has_ratio),
        "ci_low": _ratio(low, has_ratio=has_ratio),
        "ci_high": _ratio(high, has_ratio=has_ratio),
        "p": _known(found.p[place]),
        "q": _known(found.q[place]),
        "verdict": verdict,
        "mde": evidence.mde,
        "more_runs": evidence.more_runs if is_open else None,
        "method": _method(case, place),
        "reason": reason,
        "warnings": tuple(_warnings(case, place, record)),
        "replication": evidence.replication,
        "icc": _known(found.icc[place]),
        "design_effect": _known(found.design_effect[place]),
        "p_rank": ranks["p"],
        "rank_ratio": _ratio(ranks["shift"], has_ratio=has_ratio),
        "rank_low": _ratio(ranks["low"], has_ratio=has_ratio),
        "rank_high": _ratio(ranks["high"], has_ratio=has_ratio),
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _whole(value: float) -> int | None:
    return None if math.isnan(value) else int(value)


def _ratio(log: float | None, *, has_ratio: bool) -> float | None:
    return ratio_of(log) if has_ratio else None


def _evidence(case: _Case, place: int, record: Record) -> Evidence:
    rows, found = case.rows, case.found
    whole = found.whole
    # All values are 0: equal, and nothing to be relative to. Other values have no share of 0.
    has_scale = bool(rows.scale[place] > 0.0 or whole.se[place] == 0.0)
    is_estimated = has_scale and not math.isnan(whole.se[place])
    return Evidence(
        better=record["better"],
        n_base=_whole(found.numbers[place, 0]),
        n_new=_whole(found.numbers[place, 1]),
        replication=REPLICATIONS[rows.replication[place]],
        is_log=bool(rows.is_log[place]),
        effect=_known(whole.effect[place]) if has_scale else None,
        deciding=_known(found.deciding[place]) if has_scale else None,
        ci=_interval(whole, case.half_ci, place) if is_estimated else None,
        equivalence_ci=_interval(whole, case.half_equivalence, place) if is_estimated else None,
        equality_level=float(found.equality_level[place]),
        q=_known(found.q[place]),
        steps=_steps(case, place, record),
        obstacle=_obstacle(case, place, record),
        mde=_known(case.mde[place]),
        more_runs=_whole(case.more_runs[place]),
    )


def _interval(found: Estimates, half: Floats, place: int) -> tuple[float, float]:
    return float(found.effect[place] - half[place]), float(found.effect[place] + half[place])


def _steps(case: _Case, place: int, record: Record) -> float | None:
    step = record["resolution"]
    if not case.found.whole.is_rounded[place] or not step > 0.0:
        return None
    return abs(float(case.rows.new[place] - case.rows.base[place])) / float(step)


def _obstacle(case: _Case, place: int, record: Record) -> str | None:
    # Why nothing can be said whatever the numbers are: time stands between the sides.
    found, drift = case.found, case.found.drift
    if not drift.is_blocked[place]:
        return None
    place_in_time = "before" if drift.is_reversed[place] else "after"
    blocks = f"{record['side']} was recorded wholly {place_in_time} base"
    if drift.is_drifting[place]:
        size = _share(case, place, drift.bias[place])
        return f"{blocks}, and the machine drifts, which alone would make {size}; {RECIPE}"
    few = min(found.numbers[place])
    if few < FEWEST_IN_BLOCKS and not drift.is_pooled[place]:
        units = REPLICATIONS[case.rows.replication[place]]
        enough = f"make {FEWEST_IN_BLOCKS} {units} a side or {FEWEST_POINTS} points of a sweep"
        return (
            f"{blocks}, and {few:.0f} {units} a side of one point cannot tell a change from drift; "
            f"{enough}, or {RECIPE}"
        )
    if found.q[place] < FALSE_DISCOVERY_RATE and not case.outlives[place]:
        return f"{blocks}, and a drift that these runs cannot exclude would explain it; {RECIPE}"
    return None


def _share(case: _Case, place: int, effect: float) -> str:
    return signed(fraction_of(effect, is_log=bool(case.rows.is_log[place])))


def _method(case: _Case, place: int) -> str:
    rows, found = case.rows, case.found
    scale = "logs" if rows.is_log[place] else "values"
    se = found.whole.se[place]
    if math.isnan(se):
        return "none"
    if se == 0.0:
        return f"exact on {scale}"
    if place in found.modes:
        return f"two modes: occupancy exact, t within on {scale}"
    kind = "moderated" if found.whole.is_moderated[place] else ""
    pairs = "paired" if rows.is_paired[place] else ""
    few = "pooled" if min(found.numbers[place]) < FEWEST_RUNS else "Welch"
    name = " ".join(filter(None, (pairs, kind))) or few
    confirmed = ""
    if found.ranks["is_confirmed"][place]:
        confirmed = ", and permutation" if found.ranks["is_tied"][place] == 1.0 else ", and ranks"
    return f"{name} t on {scale}{confirmed}"


def _warnings(case: _Case, place: int, record: Record) -> list[Caveat]:
    rows, found, side = case.rows, case.found, record["side"]
    units = REPLICATIONS[rows.replication[place]]
    warnings = [
        caveat("few-runs", side=name, n=int(n), needed=FEWEST_RUNS, units=units)
        for name, n in zip(("base", side), found.numbers[place], strict=True)
        if 0 < n < FEWEST_RUNS and math.isnan(found.whole.se[place])
    ]
    warnings += [
        caveat("one-boot", side=name)
        for name, boots in zip(("base", side), rows.boots[place], strict=True)
        if boots == 1
    ]
    warnings += [
        caveat("unpaired", side=name, count=int(count))
        for name, count in zip(("base", side), rows.left_out[place], strict=True)
        if count
    ]
    means = (_known(rows.base[place]), _known(rows.new[place]))
    least = min((abs(mean) for mean in means if mean), default=math.inf)
    # JSON has no infinity, which a step of many times the value could make.
    coarse = min(record["resolution"] / least, MOST_COARSE)
    if coarse >= SMALLEST_EFFECT:
        step, unit = record["resolution"], record["unit"]
        warnings.append(caveat("coarse", step=step, unit=unit, percent=100.0 * coarse))
    if place in found.modes:
        warnings.append(_say_modes(case, place, record))
    if found.p_spread[place] < SPREAD_LEVEL:
        warnings.append(_say_spread(case, place, side))
    if found.correlation[place] >= LEAST_CORRELATION:
        warnings.append(caveat("serial", correlation=float(found.correlation[place])))
    p, p_rank = float(found.p_mean[place]), float(found.ranks["p"][place])
    is_known = place not in found.modes and not math.isnan(p + p_rank)
    if is_known and (p < FALSE_DISCOVERY_RATE) != (p_rank < FALSE_DISCOVERY_RATE):
        warnings.append(caveat("ranks-disagree", p=p, p_rank=p_rank))
    return warnings


def _say_spread(case: _Case, place: int, side: str) -> Caveat:
    ratio = float(case.found.spread_ratio[place])
    word = "noisier" if ratio > 1.0 else "steadier"
    # JSON has no infinity; a side that does not vary at all is told by the largest factor.
    factor = min(max(ratio, 1.0 / ratio if ratio > 0.0 else math.inf), MOST_NOISIER)
    p = float(case.found.p_spread[place])
    return caveat("spread", side=side, word=word, factor=factor, p=p)


def _say_modes(case: _Case, place: int, record: Record) -> Caveat:
    modes, line = case.found.modes[place]
    slow = [int(count) for count in modes.high[line]]
    if record["better"] == "higher":
        slow = [n - count for n, count in zip(modes.n, slow, strict=True)]
    effect = float(modes.effect[line])
    within = "unknown" if math.isnan(effect) else _share(case, place, effect)
    return caveat(
        "modes",
        side=record["side"],
        base=f"{slow[0]} of {modes.n[0]}",
        new=f"{slow[1]} of {modes.n[1]}",
        p=float(modes.p_occupancy[line]),
        within=within,
    )
