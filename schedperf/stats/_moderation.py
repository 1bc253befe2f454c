# SPDX-License-Identifier: GPL-2.0-or-later
"""Empirical-Bayes variance shrinkage over the rows of a sweep (moderated t).

The variance estimate of a row with three runs is imprecise, but the rows of a sweep
have similar variances. Each one is shrunk towards the common variance as in Smyth, "Linear
models and empirical Bayes methods for assessing differential expression",
Stat. Appl. Genet. Mol. Biol. 3 (2004): s~^2 = (d0 s0^2 + d s^2) / (d0 + d).

d0 states how similar the variances are. With nine rows of three runs, standard deviations that
differ by a factor of four can hardly be distinguished from equal ones, and a d0 that is too large
makes the noisiest rows significant. The p value is therefore averaged over several d0, weighted by
the likelihood of the observed variances and by a prior in favour of unequal ones: a sweep needs
evidence that its rows vary alike. The average is approximated by the scaled t distribution that
agrees with it at p = 0.05 (the 95% CI) and at p = 0.005 (which a single significant row of a sweep
must reach).
"""

import functools
from collections.abc import Iterator, Sequence
from statistics import variance

import numpy as np
import scipy
from msgspec import Struct

from schedperf.model.frame import Frame
from schedperf.stats._densities import log_f
from schedperf.stats._estimates import Estimates
from schedperf.stats._rows import QUESTION, Floats, Integers, Rows, add_up
from schedperf.stats.verdicts import FEWEST_POINTS

# Degrees of freedom of the common variance, and their prior probabilities. Chosen by simulation of
# sweeps with 4 to 40 rows of 3 to 10 runs whose standard deviations are equal or differ by a factor
# of up to 4 (`bench/verdicts`), so that 5% of the sweeps without a change have a false alarm, and
# equal rows lose no power. Pairs have half as many degrees of freedom to estimate how much rows
# vary.
PRIOR_DF = (1.5, 3.0, 6.0, 12.0, 24.0)
PRIOR = (0.90, 0.01, 0.01, 0.01, 0.07)
PRIOR_OF_PAIRS = (0.70, 0.02, 0.02, 0.02, 0.24)
# Prior probability that earlier runs of the same rows on the same machine vary alike: one half.
PRIOR_WITH_HISTORY = (0.20, 0.20, 0.20, 0.20, 0.20)

# Two-sided p at which the scaled t agrees with the average, and steps of Newton's method for it.
# Ratios of the two quantiles are tabulated by 1 / df.
MATCHED = (0.05, 0.005)
MATCHING_STEPS = 10
ROUNDING = 1e-9
CONVERGED = 1e-12
INVERSE_DF = np.linspace(1e-4, 2.0, 2000)

# Iterations of the maximum-likelihood common variance; each at least halves the distance.
STEPS = 15

# Prior: with probability one half there is variance between rounds; if so, it is about e times or
# 1/e times the variance within rounds.
ROUNDS_MATTER = 0.5
ROUND_LOGS = np.linspace(-2.5, 2.5, 21)

SWEEP = [name for name in QUESTION if name != "point"]


class _Sample(Struct, frozen=True, kw_only=True):
    # Variances with their degrees of freedom, and the sweep of each.
    variance: Floats
    df: Floats
    sweep: Integers
    sweeps: int

    def sum(self, values: Floats) -> Floats:
        return add_up(values, self.sweep, self.sweeps)


class _Mixture(Struct, frozen=True, kw_only=True):
    # Estimates for several prior dfs with their probabilities; shape (estimates, rows).
    weight: Floats
    variance: Floats
    df: Floats

    def as_scaled_t(self) -> tuple[Floats, Floats]:
        # Variance and degrees of freedom of the t that agrees with the mixture at MATCHED.
        usual, rare = (self._quantile(p) for p in MATCHED)
        df = 1.0 / np.interp(rare / usual, _quantile_ratios(), INVERSE_DF)
        return (usual / scipy.special.stdtrit(df, 1.0 - MATCHED[0] / 2.0)) ** 2, df

    def _quantile(self, p: float) -> Floats:
        # The quantile that is exceeded with a two-sided probability of ``p``. It lies between the
        # smallest and the largest estimate; Newton's method on logarithms, with bisection where it
        # does not converge.
        scale = np.sqrt(self.variance)
        log_answers = np.log(scipy.special.stdtrit(self.df, 1.0 - p / 2.0) * scale)
        low, high = log_answers.min(axis=0), log_answers.max(axis=0)
        found = (self.weight * log_answers).sum(axis=0)
        # Rows that have not converged; each row stops independently of the others.
        rows = np.arange(len(found))
        weight, df = self.weight, self.df
        for _ in range(MATCHING_STEPS):
            at = found[rows]
            t = np.exp(at) / scale
            tail = (weight * 2.0 * scipy.special.stdtr(df, -t)).sum(axis=0)
            slope = (weight * 2.0 * t * _density(t, df)).sum(axis=0) / tail
            low, high = np.where(tail > p, at, low), np.where(tail > p, high, at)
            step = np.log(tail / p) / slope
            is_inside = (at + step > low - ROUNDING) & (at + step < high + ROUNDING)
            found[rows] = np.where(is_inside, at + step, (low + high) / 2.0)
            # The error after a step is proportional to the square of the step.
            left = ~is_inside | (np.abs(step) > CONVERGED)
            if not left.any():
                break
            rows, low, high = rows[left], low[left], high[left]
            scale, weight, df = scale[:, left], weight[:, left], df[:, left]
        return np.asarray(np.exp(found))


@functools.cache
def _quantile_ratios() -> Floats:
    # The quantile at the smaller p of MATCHED, divided by the other, for each of INVERSE_DF.
    rare, usual = (
        scipy.special.stdtrit(1.0 / INVERSE_DF, 1.0 - p / 2.0) for p in reversed(MATCHED)
    )
    return np.asarray(rare / usual)


def _density(t: Floats, df: Floats) -> Floats:
    # Density of Student's t.
    log_scale = scipy.special.gammaln((df + 1.0) / 2.0) - scipy.special.gammaln(df / 2.0)
    return np.exp(log_scale - (df + 1.0) / 2.0 * np.log1p(t**2 / df)) / np.sqrt(df * np.pi)


def moderate(rows: Rows, estimates: Estimates, history: Frame | None = None) -> None:
    """Replace the standard errors of rows by moderated ones, in sweeps of four or more such rows.

    Only rows of positive values that vary, with about equally many values per side, are moderated.

    :param estimates: ``se``, ``df`` and ``is_moderated`` are changed in place
    :param history: variances of earlier bundles: ``sweep`` (as of :func:`sweeps_of`),
        ``variance, df``; they count like rows of the sweep, except for interleaved pairs
    """
    usable = (
        (estimates.variance > 0.0) & (estimates.inner_df >= 1.0) & estimates.is_even & rows.is_log
    )
    sweep = sweeps_of(rows)
    for is_paired in (False, True):
        members = np.flatnonzero(usable & (rows.is_paired == is_paired))
        past = history if history is not None and not is_paired else None
        size = np.bincount(sweep[members], minlength=len(rows))
        if past is not None:
            size = size + np.bincount(past["sweep"], minlength=len(rows))
        members = members[size[sweep[members]] >= FEWEST_POINTS]
        if not len(members):
            continue
        usual = PRIOR_OF_PAIRS if is_paired else PRIOR
        prior = usual if past is None else PRIOR_WITH_HISTORY
        mixture = _mix(
            estimates.variance, estimates.inner_df, members, sweep, prior=prior, past=past
        )
        if is_paired:
            mixture = _with_rounds(estimates, members, sweep, mixture)
        variance, estimates.df[members] = mixture.as_scaled_t()
        estimates.se[members] = np.sqrt(variance * estimates.factor[members])
        estimates.is_moderated[members] = True


def sweeps_of(rows: Rows) -> Integers:
    """Return the number of each row's sweep, shape (rows,).

    A sweep is all points of one metric of one workload on one new side.
    """
    columns = ["side", *SWEEP]
    return rows.table.number_rows(columns)


def moderate_variances(
    variance: Floats, df: Floats, members: Integers, sweep: Integers
) -> tuple[Floats, Floats]:
    """Return variance and degrees of freedom of each member's moderated t, shape (members,) each.

    :param variance: of all rows, shape (rows,); those of the members are positive
    :param df: degrees of freedom of each, at least 1
    :param members: numbers of the rows to moderate, shape (members,)
    :param sweep: rows with the same number are shrunk together, shape (rows,)
    """
    return _mix(variance, df, members, sweep, prior=PRIOR).as_scaled_t()


def _mix(
    variance: Floats,
    df: Floats,
    members: Integers,
    sweep: Integers,
    *,
    prior: Sequence[float],
    past: Frame | None = None,
) -> _Mixture:
    # As moderate_variances; ``past`` is the ``history`` of moderate.
    codes, inverse = np.unique(sweep[members], return_inverse=True)
    sample = _Sample(variance=variance[members], df=df[members], sweep=inverse, sweeps=len(codes))
    whole = sample if past is None else _extend(sample, past, codes)
    weights, scales = _explain(whole, prior)
    prior_df, total = np.array(PRIOR_DF)[:, None], whole.sum(whole.df)[inverse]
    return _Mixture(
        weight=weights[:, inverse],
        variance=(prior_df * scales[:, inverse] + sample.df * sample.variance)
        / (prior_df + sample.df),
        df=np.minimum(prior_df + sample.df, total),
    )


def _extend(sample: _Sample, past: Frame, codes: Integers) -> _Sample:
    usable = past.take(np.isin(past["sweep"], codes))
    return _Sample(
        variance=np.concatenate((sample.variance, usable["variance"])),
        df=np.concatenate((sample.df, usable["df"])),
        sweep=np.concatenate((sample.sweep, np.searchsorted(codes, usable["sweep"]))),
        sweeps=sample.sweeps,
    )


def _explain(sample: _Sample, prior: Sequence[float]) -> tuple[Floats, Floats]:
    # For each prior df and sweep: the probability of that df and its common variance, shape (prior
    # dfs, sweeps). Observed variances over the common one follow an F distribution (Smyth, section
    # 4).
    number = sample.sum(np.ones_like(sample.df))
    centre = (
        np.log(sample.variance) - scipy.special.digamma(sample.df / 2.0) + np.log(sample.df / 2.0)
    )
    scales, logs = [], []
    for prior_df in PRIOR_DF:
        shift = scipy.special.digamma(prior_df / 2.0) - np.log(prior_df / 2.0)
        scale = np.exp(sample.sum(centre) / number + shift)
        for _ in range(STEPS):
            spread = prior_df * scale[sample.sweep] + sample.df * sample.variance
            scale = number / sample.sum((prior_df + sample.df) / spread)
        at = scale[sample.sweep]
        logs.append(sample.sum(log_f(sample.variance / at, sample.df, prior_df) - np.log(at)))
        scales.append(scale)
    weight = np.array(prior)[:, None] * np.exp(np.array(logs) - np.max(logs, axis=0))
    return weight / weight.sum(axis=0), np.array(scales)


def _with_rounds(
    estimates: Estimates, members: Integers, sweep: Integers, own: _Mixture
) -> _Mixture:
    # Pairs spend half of the degrees of freedom on the rounds. If there is no variance between
    # rounds, which is estimated from all rows of the sweep, the sums of pairs vary like their
    # differences, and these degrees of freedom are regained.
    both = np.copy(estimates.variance)
    both[members] = (estimates.variance[members] + estimates.sum_variance[members]) / 2.0
    free = _mix(both, 2.0 * estimates.inner_df, members, sweep, prior=PRIOR_OF_PAIRS)
    codes, inverse = np.unique(sweep[members], return_inverse=True)
    df, between, within = (
        add_up(values[members], inverse, len(codes))
        for values in (estimates.inner_df, estimates.sum_variance, estimates.variance)
    )
    weight = _rounds_do_not_matter(between / within, df)[inverse]
    return _Mixture(
        weight=np.concatenate((weight * free.weight, (1.0 - weight) * own.weight)),
        variance=np.concatenate((free.variance, own.variance)),
        df=np.concatenate((free.df, own.df)),
    )


def _rounds_do_not_matter(quotient: Floats, df: Floats) -> Floats:
    # Bayes' rule with a log-normal prior of the quotient of the two variances.
    prior = np.exp(-(ROUND_LOGS**2) / 2.0)
    prior /= prior.sum()
    alike = np.exp(log_f(quotient, df, df))
    factors = np.exp(ROUND_LOGS)[:, None]
    different = (prior[:, None] * np.exp(log_f(quotient / factors, df, df)) / factors).sum(axis=0)
    weight: Floats = np.asarray((1.0 - ROUNDS_MATTER) * alike)
    share: Floats = weight / (weight + ROUNDS_MATTER * different)
    return share


def past_variances(rows: Rows, history: Sequence[Frame]) -> Frame | None:
    """Return the variances of earlier runs of the same sweeps, for :func:`moderate`.

    :param history: completed tables; each side and point of a table has its own variance
    :return: columns ``sweep, variance, df``, the variance of logarithms; None without history
    """
    if not history:
        return None
    names = [name for name in SWEEP if name != "comparison"]
    sweeps: dict[tuple[object, ...], list[int]] = {}
    for number, question in zip(sweeps_of(rows).tolist(), rows.table.rows(names), strict=True):
        same = sweeps.setdefault(question, [])
        if number not in same:
            same.append(number)
    found = [
        (number, spread, df)
        for runs in history
        for question, spread, df in _variances(runs, names)
        for number in sweeps.get(question, ())
    ]
    sweep, variances, dfs = zip(*found, strict=True) if found else ((), (), ())
    return Frame(
        {
            "sweep": np.array(sweep, dtype=np.intp),
            "variance": np.array(variances, dtype=np.float64),
            "df": np.array(dfs, dtype=np.float64),
        }
    )


def _variances(
    runs: Frame, names: Sequence[str]
) -> Iterator[tuple[tuple[object, ...], float, float]]:
    # Sweep, variance of the logarithms and degrees of freedom of each side and point of a table.
    good = runs.take((runs["status"] == "ok") & ~runs["is_summary"] & (runs["value"] > 0.0))
    logs: dict[tuple[object, ...], list[float]] = {}
    cells = zip(good.rows(["side", "point", *names]), np.log(good["value"]).tolist(), strict=True)
    for cell, value in cells:
        logs.setdefault(cell, []).append(value)
    for (_, _, *question), values in logs.items():
        if len(values) > 1 and (spread := variance(values)) > 0.0:
            yield tuple(question), spread, len(values) - 1.0
