# SPDX-License-Identifier: GPL-2.0-or-later
"""Empirical-Bayes variance shrinkage over the rows of a sweep (moderated t).

With three runs a row's own variance is worth little, but the rows of a sweep vary
about alike. Each variance is drawn towards their common one as in Smyth, "Linear
models and empirical Bayes methods for assessing differential expression",
Stat. Appl. Genet. Mol. Biol. 3 (2004): s~^2 = (d0 s0^2 + d s^2) / (d0 + d).

How alike the rows are, d0, is not estimated as one number, which few rows cannot
give and which goes wrong by far too many false alarms where the rows differ:
the answers of several d0 are averaged by how well each explains the variances that
were seen. That is the robust part, and no d0 is above 12, so that rows are never
believed to vary more alike than within a factor of four of each other.
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

# Before the pairs are seen, rounds are as likely to matter as not; if they do, the variance
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


def moderate(rows: Rows, found: Estimates, history: pd.DataFrame | None = None) -> None:
    """Replace the standard errors of all rows whose sweep has enough rows.

    :param history: variances of earlier bundles: ``sweep`` (as of :func:`sweeps_of`),
        ``variance, df``; they count like rows of the sweep
    """
    usable = (found.variance > 0.0) & (found.inner_df >= 1.0) & found.is_even & rows.is_log
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
        own, own_df = moderate_variances(found.variance, found.inner_df, members, sweep, past)
        if is_paired:
            own, own_df = _with_rounds(found, members, sweep, own, own_df)
        found.se[members] = np.sqrt(own * found.factor[members])
        found.df[members] = own_df
        found.is_moderated[members] = True


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
    known = past[past["sweep"].isin(codes)]
    return _Sample(
        variance=np.concatenate((sample.variance, known["variance"].to_numpy())),
        df=np.concatenate((sample.df, known["df"].to_numpy())),
        sweep=np.concatenate((sample.sweep, np.searchsorted(codes, known["sweep"].to_numpy()))),
        sweeps=sample.sweeps,
    )


def _explain(sample: _Sample) -> tuple[Floats, Floats]:
    # For each prior df and sweep: the weight of that df, and the common variance that goes with
    # it. Seen variances over the common one follow an F distribution (Smyth, section 4).
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
    found: Estimates, members: Integers, sweep: Integers, own: Floats, own_df: Floats
) -> tuple[Floats, Floats]:
    # Pairs spend half of the degrees of freedom on the rounds. Where the rounds do not matter,
    # which all rows of the sweep tell together, sums vary as differences do and give them back.
    both = np.copy(found.variance)
    both[members] = (found.variance[members] + found.sum_variance[members]) / 2.0
    free, free_df = moderate_variances(both, 2.0 * found.inner_df, members, sweep)
    codes, places = np.unique(sweep[members], return_inverse=True)
    df, between, within = (
        add_up(values[members], places, len(codes))
        for values in (found.inner_df, found.sum_variance, found.variance)
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
    known = past.merge(sweeps, on=names)
    return pd.DataFrame(
        {"sweep": known["sweep"], "variance": known["var"], "df": known["size"] - 1.0}
    )
