# SPDX-License-Identifier: GPL-2.0-or-later
"""Empirical-Bayes variance shrinkage over the rows of a sweep (moderated t).

The variance estimate of a row with three runs is imprecise, but the rows of a sweep
have similar variances. Each one is shrunk towards the common variance as in Smyth, "Linear
models and empirical Bayes methods for assessing differential expression",
Stat. Appl. Genet. Mol. Biol. 3 (2004): s~^2 = (d0 s0^2 + d s^2) / (d0 + d).

d0 states how similar the variances are. A single estimate of d0 from few rows is imprecise
and causes false positives, so the results of several d0 are averaged, weighted by their
likelihood given the observed variances. d0 is at most 12, which corresponds to variances
that differ by a factor of up to four.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special, stats

from schedperf.stats._estimates import Estimates
from schedperf.stats._rows import QUESTION, Floats, Integers, Rows, add_up, number_of
from schedperf.stats.verdicts import FEWEST_POINTS

# Degrees of freedom of the common variance. 12 is where the logarithms of variances scatter as
# those of variances that are spread evenly over a factor of four do: trigamma(6) = 0.18.
PRIOR_DF = (1.0, 2.0, 4.0, 8.0, 12.0)

# Steps towards the common variance that explains the rows best; each halves the distance at least.
STEPS = 15

# Prior: rounds matter with a probability of one half; if they do, the variance
# between rounds is about e times that within, or 1/e times it.
ROUNDS_MATTER = 0.5
ROUND_LOGS = np.linspace(-2.5, 2.5, 21)

SWEEP = [name for name in QUESTION if name != "point"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sample:
    # Variances with their degrees of freedom, and the sweep of each.
    variance: Floats
    df: Floats
    sweep: Integers
    sweeps: int

    def sum(self, values: Floats) -> Floats:
        return add_up(values, self.sweep, self.sweeps)


def moderate(rows: Rows, estimates: Estimates, history: pd.DataFrame | None = None) -> None:
    """Replace the standard errors of all rows whose sweep has enough rows.

    :param history: variances of earlier bundles: ``sweep`` (as of :func:`sweeps_of`),
        ``variance, df``; they count like rows of the sweep
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
            size = size + np.bincount(past["sweep"].to_numpy(), minlength=len(rows))
        members = members[size[sweep[members]] >= FEWEST_POINTS]
        if not len(members):
            continue
        own, own_df = moderate_variances(
            estimates.variance, estimates.inner_df, members, sweep, past
        )
        if is_paired:
            own, own_df = _with_rounds(estimates, members, sweep, own, own_df)
        estimates.se[members] = np.sqrt(own * estimates.factor[members])
        estimates.df[members] = own_df
        estimates.is_moderated[members] = True


def sweeps_of(rows: Rows) -> Integers:
    """Return the number of each row's sweep: one metric of one workload, all points."""
    columns = ["side", *SWEEP]
    return number_of(rows.table, columns)


def moderate_variances(
    variance: Floats,
    df: Floats,
    members: Integers,
    sweep: Integers,
    past: pd.DataFrame | None = None,
) -> tuple[Floats, Floats]:
    """Return the members' variances and their degrees of freedom, averaged over the prior's.

    :param variance: of all rows, shape (rows,); those of the members are positive
    :param df: degrees of freedom of each, at least 1
    :param members: numbers of the rows to moderate, shape (members,)
    :param sweep: rows of one number help each other, shape (rows,)
    :param past: as ``history`` of :func:`moderate`
    """
    codes, places = np.unique(sweep[members], return_inverse=True)
    sample = _Sample(variance=variance[members], df=df[members], sweep=places, sweeps=len(codes))
    whole = sample if past is None else _extend(sample, past, codes)
    weights, scales = _explain(whole)
    total = whole.sum(whole.df)
    mean = np.zeros(len(members))
    inverse_df = np.zeros(len(members))
    for prior_df, weight, scale in zip(PRIOR_DF, weights, scales, strict=True):
        drawn = (prior_df * scale[places] + sample.df * sample.variance) / (prior_df + sample.df)
        mean += weight[places] * drawn
        inverse_df += weight[places] / np.minimum(prior_df + sample.df, total[places])
    return mean, 1.0 / inverse_df


def _extend(sample: _Sample, past: pd.DataFrame, codes: Integers) -> _Sample:
    usable = past[past["sweep"].isin(codes)]
    return _Sample(
        variance=np.concatenate((sample.variance, usable["variance"].to_numpy())),
        df=np.concatenate((sample.df, usable["df"].to_numpy())),
        sweep=np.concatenate((sample.sweep, np.searchsorted(codes, usable["sweep"].to_numpy()))),
        sweeps=sample.sweeps,
    )


def _explain(sample: _Sample) -> tuple[Floats, Floats]:
    # For each prior df and sweep: the weight of that df, and the common variance that goes with
    # it. Observed variances over the common one follow an F distribution (Smyth, section 4).
    number = sample.sum(np.ones_like(sample.df))
    centre = np.log(sample.variance) - special.digamma(sample.df / 2.0) + np.log(sample.df / 2.0)
    scales, logs = [], []
    for prior_df in PRIOR_DF:
        shift = special.digamma(prior_df / 2.0) - np.log(prior_df / 2.0)
        scale = np.exp(sample.sum(centre) / number + shift)
        for _ in range(STEPS):
            spread = prior_df * scale[sample.sweep] + sample.df * sample.variance
            scale = number / sample.sum((prior_df + sample.df) / spread)
        at = scale[sample.sweep]
        logs.append(
            sample.sum(stats.f.logpdf(sample.variance / at, sample.df, prior_df) - np.log(at))
        )
        scales.append(scale)
    likelihood = np.exp(np.array(logs) - np.max(logs, axis=0))
    return likelihood / likelihood.sum(axis=0), np.array(scales)


def _with_rounds(
    estimates: Estimates, members: Integers, sweep: Integers, own: Floats, own_df: Floats
) -> tuple[Floats, Floats]:
    # Pairs spend half of the degrees of freedom on the rounds. Where the rounds do not matter,
    # which all rows of the sweep tell together, sums vary as differences do and give them back.
    both = np.copy(estimates.variance)
    both[members] = (estimates.variance[members] + estimates.sum_variance[members]) / 2.0
    free, free_df = moderate_variances(both, 2.0 * estimates.inner_df, members, sweep)
    codes, places = np.unique(sweep[members], return_inverse=True)
    df, between, within = (
        add_up(values[members], places, len(codes))
        for values in (estimates.inner_df, estimates.sum_variance, estimates.variance)
    )
    weight = _rounds_do_not_matter(between / within, df)[places]
    variance = weight * free + (1.0 - weight) * own
    return variance, 1.0 / (weight / free_df + (1.0 - weight) / own_df)


def _rounds_do_not_matter(quotient: Floats, df: Floats) -> Floats:
    # Bayes' rule with a log-normal prior of the quotient of the two variances.
    prior = np.exp(-(ROUND_LOGS**2) / 2.0)
    prior /= prior.sum()
    alike = stats.f.pdf(quotient, df, df)
    factors = np.exp(ROUND_LOGS)[:, None]
    different = (prior[:, None] * stats.f.pdf(quotient / factors, df, df) / factors).sum(axis=0)
    weight: Floats = np.asarray((1.0 - ROUNDS_MATTER) * alike)
    share: Floats = weight / (weight + ROUNDS_MATTER * different)
    return share


def past_variances(rows: Rows, history: Sequence[pd.DataFrame]) -> pd.DataFrame | None:
    """Return the variances of earlier runs of the same questions, for :func:`moderate`.

    :param history: completed tables; each of their sides is a sample of its own
    """
    if not history:
        return None
    names = [name for name in SWEEP if name != "comparison"]
    parts = []
    for runs in history:
        good = runs[(runs["status"] == "ok") & ~runs["is_summary"] & (runs["value"] > 0.0)]
        logs = good.assign(log=np.log(good["value"]))
        cells = logs.groupby(["side", *names, "point"], sort=False)["log"].agg(["var", "size"])
        parts.append(cells[cells["var"] > 0.0].reset_index())
    past = pd.concat(parts, ignore_index=True)
    sweeps = rows.table[names].assign(sweep=sweeps_of(rows)).drop_duplicates()
    matched = past.merge(sweeps, on=names)
    return pd.DataFrame(
        {"sweep": matched["sweep"], "variance": matched["var"], "df": matched["size"] - 1.0}
    )
