# SPDX-License-Identifier: GPL-2.0-or-later
"""Add boot-to-boot variance to rows with one boot per side, whose runs cannot show it.

Two boots of one kernel differ: in memory layout, in the placement of buffers and in what the
firmware did. With one boot per side this difference is part of the change, and no number of runs
averages it out. On the scale of the rows

    Var(new - base) = s_b^2 (1 / B_base + 1 / B_new) + sum of s_w^2 / n

with s_b between boots and s_w between the runs of a boot. s_b is estimated from earlier boots,
stated by the user, or a large default that few machines exceed.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, variance
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from schedperf.model.frame import Frame
from schedperf.model.rows import BootSd
from schedperf.stats._estimates import Estimates
from schedperf.stats._rows import FEWEST_BOOTS, KEY, Flags, Floats, Rows
from schedperf.stats.verdicts import BOOTS_FACTOR

# Standard deviation between boots of one kernel if none is known, as a fraction. In 29 boots of one
# laboratory, compared at random with one boot per side, tests on runs found a change in 36% of the
# pairs; with this value a machine whose boots differ by 10% has 5% false positives, and one of 7%
# 0.5% (docs/method.md).
ASSUMED_SD = 0.10
# With fewer degrees of freedom the estimate from earlier boots is too uncertain to be used.
FEWEST_DF = 6
# Degrees of freedom of a variance that is taken as known.
LARGEST_DF = 1e9

# The values of KEY.
Question = tuple[object, ...]


class _Variance(NamedTuple):
    # uncertainty: half of the variance of ``value``, which for s^2 with df is s^4 / df
    value: float
    uncertainty: float

    @classmethod
    def known(cls, sd: float) -> "_Variance":
        return cls(value=sd**2, uncertainty=0.0)


class _PastBoots(NamedTuple):
    # between: variance of the means of boots; within: the part of it that comes from the runs
    between: float
    within: float
    df: int

    @property
    def variance(self) -> _Variance:
        # Method of moments: Searle, Casella & McCulloch, "Variance Components", section 3.6.
        value = max(self.between - self.within, 0.0)
        return _Variance(value=value, uncertainty=self.between**2 / self.df)


class BootVariance(Struct, frozen=True, kw_only=True):
    """The variance between boots that is added to rows.

    :param sd: standard deviation between boots, per row; None for rows without one boot per side
    """

    sd: Sequence[BootSd | None]

    @property
    def se(self) -> Floats:
        """Standard error of the effect due to boots, shape (rows,); 0 if not included."""
        return math.sqrt(BOOTS_FACTOR) * np.array([sd.sd if sd else 0.0 for sd in self.sd])

    @property
    def df(self) -> Floats:
        """Degrees of freedom of ``se``, shape (rows,); 1e9 if ``se`` is known or not included."""
        return np.array([sd.df if sd and sd.df else LARGEST_DF for sd in self.sd])

    @property
    def is_included(self) -> Flags:
        """Rows that include the boot variance, shape (rows,)."""
        return np.array([sd is not None for sd in self.sd], dtype=np.bool_)


def include_boots(
    rows: Rows, estimates: Estimates, history: Sequence[Frame], *, given: float | None
) -> BootVariance:
    """Add boot variance to rows whose sides have one boot each, if the boots are known to differ.

    Rows whose means are both 0 are left out.

    :param estimates: ``se`` and ``df`` are changed in place
    :param history: completed tables of earlier boots
    :param given: standard deviation between boots as stated by the user, as a fraction; None to
        estimate it from ``history``, or to assume 0.1 for rows with too few earlier boots and for
        rows that are compared by differences
    """
    # If all values are 0, boot variance is irrelevant.
    affected = np.flatnonzero(rows.is_one_boot_each & (rows.scale > 0.0)).tolist()
    past = _past_boots(history) if affected and given is None else {}
    sds: list[BootSd | None] = [None] * len(rows)
    questions = list(rows.table.rows(KEY))
    for row in affected:
        boots = past.get(questions[row]) if rows.is_log[row] else None
        if given is not None:
            sds[row], between = BootSd(sd=given, source="given"), _Variance.known(given)
        elif boots is not None and boots.df >= FEWEST_DF:
            between = boots.variance
            sds[row] = BootSd(sd=math.sqrt(between.value), source="history", df=boots.df)
        else:
            sds[row], between = BootSd(sd=ASSUMED_SD, source="assumed"), _Variance.known(ASSUMED_SD)
        _widen(estimates, row, between)
    return BootVariance(sd=sds)


def _widen(estimates: Estimates, row: int, between: _Variance) -> None:
    # Degrees of freedom of the sum: Satterthwaite, "An approximate distribution of estimates of
    # variance components", Biometrics Bulletin 2 (1946).
    runs = float(estimates.se[row]) ** 2
    if math.isnan(runs):
        return
    total = BOOTS_FACTOR * between.value + runs
    uncertainty = BOOTS_FACTOR**2 * between.uncertainty
    if runs > 0.0:
        uncertainty += runs**2 / float(estimates.df[row])
    estimates.se[row] = math.sqrt(total)
    estimates.df[row] = min(total**2 / uncertainty, LARGEST_DF) if uncertainty else LARGEST_DF


def _past_boots(history: Sequence[Frame]) -> Mapping[Question, _PastBoots]:
    # Boots of one kernel form one sample, across all tables. Boots without an id form a sample only
    # within their table, since another table may have the same boots.
    kernels: dict[tuple[Question, object], dict[object, list[float]]] = {}
    for number, table in enumerate(history):
        runs = table.take((table["status"] == "ok") & ~table["is_summary"] & (table["value"] > 0.0))
        places = runs.rows(["side", "kernel", "boot_id", "boot"])
        questions, logs = runs.rows(KEY), np.log(runs["value"]).tolist()
        for question, (side, kernel, boot_id, boot), log in zip(
            questions, places, logs, strict=True
        ):
            if boot_id is None and boot is None:
                continue
            is_known = kernel is not None and boot_id is not None
            sample = kernel if is_known else (number, side, kernel)
            boots = kernels.setdefault((question, sample), {})
            boots.setdefault(boot_id or boot, []).append(log)
    samples: dict[Question, list[Sequence[Sequence[float]]]] = {}
    for (question, _), of_kernel in kernels.items():
        if len(of_kernel) >= FEWEST_BOOTS:
            samples.setdefault(question, []).append(list(of_kernel.values()))
    return {question: _pool(of_question) for question, of_question in samples.items()}


def _pool(kernels: Sequence[Sequence[Sequence[float]]]) -> _PastBoots:
    # :param kernels: logarithms of the runs of each boot of each kernel
    df = sum(len(boots) - 1 for boots in kernels)
    between = sum((len(boots) - 1) * variance(map(fmean, boots)) for boots in kernels) / df
    boots = [runs for of_kernel in kernels for runs in of_kernel]
    inner_df = sum(len(runs) - 1 for runs in boots)
    if not inner_df:
        # Within-boot variance cannot be separated and counts as variance between boots.
        return _PastBoots(between=between, within=0.0, df=df)
    of_run = sum((len(runs) - 1) * variance(runs) for runs in boots if len(runs) > 1) / inner_df
    within = of_run * fmean(1.0 / len(runs) for runs in boots)
    return _PastBoots(between=between, within=within, df=df)
