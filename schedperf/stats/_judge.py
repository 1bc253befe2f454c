# SPDX-License-Identifier: GPL-2.0-or-later
"""Turn estimates into result rows: intervals, verdicts and their reasons."""

import math
from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.caveats import Caveat, caveat
from schedperf.model.rows import Better, Family
from schedperf.model.units import interval_of, scale_for, signed
from schedperf.model.verdict import (
    CONFIDENCE,
    FALSE_DISCOVERY_RATE,
    FEWEST_IN_BLOCKS,
    FEWEST_RUNS,
    SMALLEST_EFFECT,
    Reason,
    count_units,
    reason_of,
)
from schedperf.stats._densities import change_of_shares
from schedperf.stats._engine import Findings
from schedperf.stats._estimates import Estimates
from schedperf.stats._power import least_detectable, runs_to_settle
from schedperf.stats._ranks import FEWEST_PAIRS, FEWEST_VALUES
from schedperf.stats._rows import REPLICATIONS, Flags, Floats, Rows
from schedperf.stats.verdicts import (
    FEWEST_POINTS,
    LARGEST_LOG,
    Evidence,
    JudgedRow,
    decide,
    fraction_of,
    lacks_direction,
    ratio_of,
)

NOT_INTERLEAVED = "the sides were not interleaved"
TAKE_TURNS = (
    "interleave the sides (settings with `schedperf ab`, kernels by booting them alternately)"
)

# Significance level of the caveat about a different spread of the sides.
SPREAD_LEVEL = 0.01
# Smallest correlation of successive runs that gives a caveat; it widens the interval by a fifth.
LEAST_CORRELATION = 0.2
MOST_NOISIER = 1e6
MOST_COARSE = 1e6


class _Question(Struct, frozen=True, kw_only=True):
    # The identity of one row, as in the table of runs.
    comparison: object
    side: str
    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    family: Family
    resolution: float


class _Case(Struct, frozen=True, kw_only=True):
    # Rows, their test results, and values derived from these for all rows at once.
    rows: Rows
    analysis: Findings
    margin: float
    half_ci: Floats
    half_equivalence: Floats
    mde: Floats
    more_runs: Floats
    outlives: Flags


def judge(
    rows: Rows,
    analysis: Findings,
    margin: float,
    contradictions: Mapping[tuple[object, ...], tuple[Caveat, ...]],
) -> list[JudgedRow]:
    """Return the verdict of each row with all of its numbers.

    :param margin: half-width of the equivalence band, as a fraction of the value
    :param contradictions: caveats by comparison, side and the columns of ``KEY``
    """
    whole = analysis.whole
    has_se = (whole.se > 0.0) & ~rows.is_maximum
    least = np.where(has_se, least_detectable(whole.se, whole.df), np.nan)
    case = _Case(
        rows=rows,
        analysis=analysis,
        margin=margin,
        half_ci=whole.half_width(CONFIDENCE),
        half_equivalence=analysis.whole.half_width(1.0 - 2.0 * analysis.equality_level),
        mde=np.where(rows.is_log, np.expm1(np.minimum(least, LARGEST_LOG)), least),
        more_runs=_more_runs(rows, analysis, margin),
        outlives=analysis.drift.outlives(analysis.whole),
    )
    names = _Question.__struct_fields__
    values = zip(*(rows.table[name].tolist() for name in names), strict=True)
    questions = (_Question(**dict(zip(names, row, strict=True))) for row in values)
    return [_row(case, index, question, contradictions) for index, question in enumerate(questions)]


def _more_runs(rows: Rows, analysis: Findings, margin: float) -> Floats:
    whole = analysis.whole
    smallest, largest = (
        np.where(rows.is_log, math.log1p(share), share) for share in (SMALLEST_EFFECT, margin)
    )
    # More runs do not average out the difference between two boots.
    of_boots = analysis.boots.se**2
    of_runs = np.maximum(whole.se**2 - of_boots, 0.0)
    needed = runs_to_settle(
        whole.effect,
        np.where(np.isnan(whole.se), whole.variance, of_runs / whole.factor),
        smallest=smallest,
        margin=largest,
        is_paired=rows.is_paired,
        fixed=of_boots,
        fixed_df=analysis.boots.df,
    )
    # The number of runs needed to separate two modes is not estimated.
    needed[list(analysis.modes)] = np.nan
    few = np.minimum(analysis.numbers[:, 0], analysis.numbers[:, 1])
    more = np.where(np.isnan(few), needed, np.maximum(needed - few, 1.0))
    # With fewer values no rank test can find a change.
    ranked = np.where(rows.is_paired, FEWEST_PAIRS, FEWEST_VALUES) - few
    more = np.where(rows.is_maximum, np.fmax(more, ranked), more)
    more[rows.is_maximum & analysis.boots.is_included] = np.nan
    return more


def _row(
    case: _Case,
    index: int,
    question: _Question,
    contradictions: Mapping[tuple[object, ...], tuple[Caveat, ...]],
) -> JudgedRow:
    rows, analysis = case.rows, case.analysis
    evidence = _evidence(case, index, question)
    verdict, reason = decide(evidence, side=question.side, margin=case.margin)
    is_open = (
        verdict == "inconclusive"
        and evidence.obstacle is None
        and not (lacks_direction(evidence) and not reason.more)
    )
    has_ratio = bool(rows.is_log[index])
    low, high = (None, None) if evidence.ci is None else evidence.ci
    ranks = {name: _known(values[index]) for name, values in analysis.ranks.items()}
    row = JudgedRow(
        comparison=question.comparison,
        side=question.side,
        workload=question.workload,
        point=question.point,
        metric=question.metric,
        unit=question.unit,
        better=question.better,
        family=question.family,
        n_base=evidence.n_base,
        n_new=evidence.n_new,
        base=_known(rows.base[index]),
        new=_known(rows.new[index]),
        ratio=_ratio(evidence.effect, has_ratio=has_ratio),
        ci_low=_ratio(low, has_ratio=has_ratio),
        ci_high=_ratio(high, has_ratio=has_ratio),
        p=_known(analysis.p[index]),
        q=_known(analysis.q[index]),
        verdict=verdict,
        mde=evidence.mde,
        more_runs=evidence.more_runs if is_open else None,
        method=_method(case, index),
        reason=reason,
        caveats=tuple(_caveats(case, index, question)),
        replication=evidence.replication,
        icc=_known(analysis.icc[index]),
        design_effect=_known(analysis.design_effect[index]),
        p_rank=ranks["p"],
        rank_ratio=_ratio(ranks["shift"], has_ratio=has_ratio),
        rank_low=_ratio(ranks["low"], has_ratio=has_ratio),
        rank_high=_ratio(ranks["high"], has_ratio=has_ratio),
        p_t=None if rows.is_maximum[index] else _known(analysis.p_mean[index]),
        p_rank_min=ranks["floor"],
        same_as=_same_as(case, index),
        boot_sd=evidence.boot_sd,
        mode_boundary=_mode_boundary(case, index),
        is_maximum=bool(rows.is_maximum[index]),
    )
    contradicted = contradictions.get((row.comparison, row.side, *row.question), ())
    return replace(row, caveats=(*row.caveats, *contradicted))


def _mode_boundary(case: _Case, index: int) -> float | None:
    # If boots are compared, the modes are those of the boots' means, not of runs.
    rows = case.rows
    is_of_boots = REPLICATIONS[rows.replication[index]] == "boots"
    if index not in case.analysis.modes or is_of_boots:
        return None
    modes, line = case.analysis.modes[index]
    return _in_unit(case, index, float(modes.boundary[line]))


def _in_unit(case: _Case, index: int, value: float) -> float:
    rows = case.rows
    return math.exp(value) if rows.is_log[index] else value * float(rows.scale[index])


def _same_as(case: _Case, index: int) -> str | None:
    first = int(case.analysis.twins[index])
    return None if first == index else str(case.rows.table["metric"][first])


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _whole(value: float) -> int | None:
    return None if math.isnan(value) else int(value)


def _ratio(log: float | None, *, has_ratio: bool) -> float | None:
    return ratio_of(log) if has_ratio else None


def _evidence(case: _Case, index: int, question: _Question) -> Evidence:
    rows, analysis = case.rows, case.analysis
    whole = analysis.whole
    if rows.is_maximum[index]:
        return _evidence_of_maxima(case, index, question)
    # If all values are 0, they are equal. Any other difference has no ratio to 0.
    has_scale = bool(rows.scale[index] > 0.0 or whole.se[index] == 0.0)
    is_estimated = has_scale and not math.isnan(whole.se[index])
    return Evidence(
        better=question.better,
        n_base=_whole(analysis.numbers[index, 0]),
        n_new=_whole(analysis.numbers[index, 1]),
        replication=REPLICATIONS[rows.replication[index]],
        is_log=bool(rows.is_log[index]),
        effect=_known(whole.effect[index]) if has_scale else None,
        deciding=_known(analysis.deciding[index]) if has_scale else None,
        ci=_interval(whole, case.half_ci, index) if is_estimated else None,
        equivalence_ci=_interval(whole, case.half_equivalence, index) if is_estimated else None,
        equality_level=float(analysis.equality_level[index]),
        q=_known(analysis.q[index]),
        steps=_steps(case, index, question),
        boot_sd=analysis.boots.sd[index],
        obstacle=_obstacle(case, index),
        mde=_known(case.mde[index]),
        more_runs=_whole(case.more_runs[index]),
    )


def _evidence_of_maxima(case: _Case, index: int, question: _Question) -> Evidence:
    rows, analysis = case.rows, case.analysis
    ranks = {name: float(analysis.ranks[name][index]) for name in ("shift", "low", "high")}
    ci = None if math.isnan(ranks["shift"]) else (ranks["low"], ranks["high"])
    level = float(analysis.equality_level[index])
    fewest = FEWEST_PAIRS if rows.is_paired[index] else FEWEST_VALUES
    # The exact 95% CI is wider than the equivalence test needs; an exact narrower one is not
    # available.
    is_enough = level >= (1.0 - CONFIDENCE) / 2.0
    return Evidence(
        better=question.better,
        n_base=_whole(analysis.numbers[index, 0]),
        n_new=_whole(analysis.numbers[index, 1]),
        replication=REPLICATIONS[rows.replication[index]],
        is_log=bool(rows.is_log[index]),
        effect=_change_of_medians(rows, index) if ci is None else ranks["shift"],
        ci=ci,
        equivalence_ci=ci if is_enough else (-math.inf, math.inf),
        equality_level=(1.0 - CONFIDENCE) / 2.0,
        q=_known(analysis.q[index]),
        fewest=fewest,
        is_maximum=True,
        steps=None,
        boot_sd=analysis.boots.sd[index],
        obstacle=_obstacle(case, index),
        more_runs=_whole(case.more_runs[index]),
    )


def _change_of_medians(rows: Rows, index: int) -> float | None:
    """Return the effect between the medians of the sides, which are printed; None if unknown."""
    base, new, scale = (float(values[index]) for values in (rows.base, rows.new, rows.scale))
    if rows.is_log[index]:
        return _known(math.log(new / base))
    return _known((new - base) / scale) if scale > 0.0 else None


def _interval(estimates: Estimates, half: Floats, index: int) -> tuple[float, float]:
    return float(estimates.effect[index] - half[index]), float(
        estimates.effect[index] + half[index]
    )


def _steps(case: _Case, index: int, question: _Question) -> float | None:
    step = question.resolution
    if not case.analysis.whole.is_rounded[index] or not step > 0.0:
        return None
    return abs(float(case.rows.new[index] - case.rows.base[index])) / float(step)


def _obstacle(case: _Case, index: int) -> Reason | None:
    # The sides were recorded one after the other, and drift may explain the change.
    analysis, drift = case.analysis, case.analysis.drift
    if not drift.is_blocked[index]:
        return None
    if drift.is_drifting[index]:
        size = _share(case, index, drift.bias[index])
        why = f"{NOT_INTERLEAVED}, and drift within the sides explains a change of {size}"
        return reason_of(why, TAKE_TURNS)
    few = min(analysis.numbers[index])
    if few < FEWEST_IN_BLOCKS and not drift.is_pooled[index]:
        units = REPLICATIONS[case.rows.replication[index]]
        enough = f"record {FEWEST_IN_BLOCKS} {units} per side or {FEWEST_POINTS} parameter values"
        n_base, n_new = map(_whole, analysis.numbers[index])
        n = count_units(n_base, n_new, units)
        why = f"{NOT_INTERLEAVED}, and {n} are too few to separate a change from drift"
        return reason_of(why, f"{enough}, or {TAKE_TURNS}")
    if analysis.q[index] < FALSE_DISCOVERY_RATE and not case.outlives[index]:
        why = f"{NOT_INTERLEAVED}, and drift that these runs cannot exclude could explain it"
        return reason_of(why, TAKE_TURNS)
    return None


def _share(case: _Case, index: int, effect: float) -> str:
    return signed(fraction_of(effect, is_log=bool(case.rows.is_log[index])))


def _method(case: _Case, index: int) -> str:
    rows, analysis = case.rows, case.analysis
    if rows.is_maximum[index]:
        return _method_of_maxima(case, index)
    scale = "logs" if rows.is_log[index] else "values"
    se = analysis.whole.se[index]
    if math.isnan(se):
        return "none"
    if se == 0.0:
        return f"exact on {scale}"
    if index in analysis.modes:
        return f"bimodal: exact test of runs per mode, within-mode t on {scale}"
    kind = "moderated" if analysis.whole.is_moderated[index] else ""
    pairs = "paired" if rows.is_paired[index] else ""
    few = "pooled" if min(analysis.numbers[index]) < FEWEST_RUNS else "Welch"
    name = " ".join(filter(None, (pairs, kind))) or few
    confirmed = ""
    if analysis.ranks["is_confirmed"][index]:
        confirmed = (
            ", and permutation" if analysis.ranks["is_tied"][index] == 1.0 else ", and ranks"
        )
    boots = "" if analysis.boots.sd[index] is None else " with boot-to-boot variance"
    return f"{name} t on {scale}{boots}{confirmed}"


def _method_of_maxima(case: _Case, index: int) -> str:
    if math.isnan(case.analysis.ranks["p"][index]):
        return "none"
    if case.analysis.ranks["is_tied"][index] == 1.0:
        return "permutation of the ranks of maxima"
    return f"exact {'Wilcoxon' if case.rows.is_paired[index] else 'Mann-Whitney'} of maxima"


def _caveats(case: _Case, index: int, question: _Question) -> list[Caveat]:
    rows, analysis, side = case.rows, case.analysis, question.side
    units = REPLICATIONS[rows.replication[index]]
    caveats = [
        caveat("few-runs", side=name, n=int(n), needed=FEWEST_RUNS, units=units)
        for name, n in zip(("base", side), analysis.numbers[index], strict=True)
        if 0 < n < FEWEST_RUNS and math.isnan(analysis.whole.se[index])
    ]
    caveats += [
        caveat("one-boot", side=name)
        for name, boots in zip(("base", side), rows.boots[index], strict=True)
        if boots == 1 and analysis.boots.sd[index] is None
    ]
    caveats += [
        caveat("unpaired", side=name, count=int(count))
        for name, count in zip(("base", side), rows.left_out[index], strict=True)
        if count
    ]
    means = (_known(rows.base[index]), _known(rows.new[index]))
    least = min((abs(mean) for mean in means if mean), default=math.inf)
    # JSON has no infinity, which could result from a step that is much larger than the value.
    coarse = min(question.resolution / least, MOST_COARSE)
    if coarse >= SMALLEST_EFFECT:
        step, unit = question.resolution, question.unit
        caveats.append(caveat("coarse", step=step, unit=unit, percent=100.0 * coarse))
    if index in analysis.modes:
        caveats.append(_modes_caveat(case, index, question))
    # With a coarse resolution, a side whose runs all print the same number may still vary.
    is_flat = coarse >= SMALLEST_EFFECT and _spread_factor(case, index) >= MOST_NOISIER
    if analysis.p_spread[index] < SPREAD_LEVEL and not is_flat:
        caveats.append(_spread_caveat(case, index, side))
    if rows.is_maximum[index]:
        caveats.append(caveat("maxima", side=side))
    elif analysis.correlation[index] >= LEAST_CORRELATION:
        caveats.append(caveat("serial", correlation=float(analysis.correlation[index])))
    p, p_rank = float(analysis.p_mean[index]), float(analysis.ranks["p"][index])
    is_tested_twice = index not in analysis.modes and not rows.is_maximum[index]
    is_known = is_tested_twice and not math.isnan(p + p_rank)
    if is_known and (p < FALSE_DISCOVERY_RATE) != (p_rank < FALSE_DISCOVERY_RATE):
        caveats.append(caveat("ranks-disagree", p=p, p_rank=p_rank))
    return caveats


def _spread_caveat(case: _Case, index: int, side: str) -> Caveat:
    word = "noisier" if case.analysis.spread_ratio[index] > 1.0 else "steadier"
    p = float(case.analysis.p_spread[index])
    return caveat("spread", side=side, word=word, factor=_spread_factor(case, index), p=p)


def _spread_factor(case: _Case, index: int) -> float:
    # The ratio of the sides' spreads; JSON has no infinity.
    ratio = float(case.analysis.spread_ratio[index])
    return min(max(ratio, 1.0 / ratio if ratio > 0.0 else math.inf), MOST_NOISIER)


def _modes_caveat(case: _Case, index: int, question: _Question) -> Caveat:
    modes, line = case.analysis.modes[index]
    in_mode = [int(count) for count in modes.high[line]]
    centres = [_in_unit(case, index, float(value)) for value in modes.centres[line]]
    word = "higher" if question.better == "unknown" else "slower"
    if question.better == "higher":
        in_mode = [n - count for n, count in zip(modes.n, in_mode, strict=True)]
        centres.reverse()
    counts = (in_mode[0], in_mode[1])
    shares = [count / n for count, n in zip(counts, modes.n, strict=True)]
    low, high = change_of_shares(counts, modes.n, CONFIDENCE)
    scale = scale_for(question.unit, *centres)
    faster, slower = (f"{number} {scale.unit}" for number in scale.format_alike(centres))
    return caveat(
        "two-modes",
        side=question.side,
        faster=faster,
        slower=slower,
        word=word,
        units=REPLICATIONS[case.rows.replication[index]],
        base=f"{counts[0]} of {modes.n[0]}",
        new=f"{counts[1]} of {modes.n[1]}",
        base_share=shares[0],
        new_share=shares[1],
        points=100.0 * (shares[1] - shares[0]),
        points_low=100.0 * low,
        points_high=100.0 * high,
        p=float(modes.p_occupancy[line]),
        within=_change_within(case, index),
    )


def _change_within(case: _Case, index: int) -> str:
    modes, line = case.analysis.modes[index]
    effect, half = float(modes.effect[line]), float(modes.half_width[line])
    if math.isnan(effect):
        return "unknown"
    if math.isnan(half):
        return _share(case, index, effect)
    is_log = bool(case.rows.is_log[index])
    low, high = (fraction_of(effect + sign * half, is_log=is_log) for sign in (-1.0, 1.0))
    return f"{_share(case, index, effect)} {interval_of(low, high)}"
