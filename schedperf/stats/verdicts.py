# SPDX-License-Identifier: GPL-2.0-or-later
"""Derive the verdict of a row and its reason from its effect and its CI.

The rules are pure functions with named thresholds; all inputs are arguments, so that each rule can
be tested with hand-computed numbers.
"""

import math
from collections.abc import Sequence

import scipy
from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.rows import Better, BootSd, Replication, RowNumbers, Verdict
from schedperf.model.units import interval_of, percent, signed
from schedperf.model.verdict import (
    CONFIDENCE,
    FALSE_DISCOVERY_RATE,
    FEWEST_RUNS,
    SMALLEST_EFFECT,
    Reason,
    count_units,
    describe_boot_sd,
    describe_mde,
    describe_more_runs,
    name_units,
    reason_of,
)

# Fewest rows of one metric from which common properties are estimated: their variance, or drift of
# the machine.
FEWEST_POINTS = 4

# Two printed numbers that hardly vary may differ by almost this many steps without any
# difference between what was measured: half a step of rounding on each end of each number.
FEWEST_STEPS = 2.0

ONE_BOOT = "one boot per side; two boots of one kernel can differ by this much"
MORE_BOOTS = "record two boots per side or more"
ONE_BOOT_OF_MAXIMA = "one boot per side, and tests of maxima exclude boot-to-boot variance"
# One boot per side: 1 / B_base + 1 / B_new.
BOOTS_FACTOR = 2.0
# Two one-sided tests at 5% each are one 90% interval: Schuirmann, "A comparison of the two
# one-sided tests procedure and the power approach", J. Pharmacokin. Biopharm. 15 (1987).
EQUALITY_LEVEL = 0.05

# exp of this is 1e304, which a float still holds.
LARGEST_LOG = 700.0


class Evidence(Struct, frozen=True, kw_only=True):
    """The statistics of one row before its verdict.

    Effects are relative: natural logarithms of new / base if ``is_log``, else differences divided
    by the larger of the two sides' absolute means.

    :param effect: new relative to base; None if a side has no values, or if both means are 0 and
        values vary or are too few for a variance
    :param deciding: the effect that ``q`` belongs to; None for ``effect``
    :param ci: 95% CI of ``effect``; None if not available
    :param equivalence_ci: interval of ``effect`` for the equivalence test, which is two one-sided
        tests at ``equality_level``: 90% for a level of 5%
    :param q: None without a p; the effect is then exact if there is an interval
    :param n_base: independent units of the kind that ``replication`` names; None if unknown
    :param fewest: independent units per side that a CI requires
    :param is_maximum: True for maxima of runs, which are tested by ranks only
    :param steps: size of the difference in printed steps if rounding is the only variance; else
        None
    :param boot_sd: standard deviation between boots, for a row whose sides have one boot each
    :param obstacle: what prevents a verdict regardless of the numbers, such as drift
    :param mde: the smallest detectable change; a fraction
    :param more_runs: additional units per side that would decide the row; if ``n_base`` is unknown,
        the total
    """

    better: Better
    n_base: int | None
    n_new: int | None
    fewest: int = FEWEST_RUNS
    is_maximum: bool = False
    replication: Replication = "runs"
    is_log: bool
    effect: float | None
    deciding: float | None = None
    ci: tuple[float, float] | None
    equivalence_ci: tuple[float, float] | None
    equality_level: float = EQUALITY_LEVEL
    q: float | None
    steps: float | None
    boot_sd: BootSd | None = None
    obstacle: Reason | None = None
    mde: float | None = None
    more_runs: int | None = None


def decide(evidence: Evidence, *, side: str, margin: float) -> tuple[Verdict, Reason]:
    """Return the verdict of a row and its reason.

    The effect and the equivalence band are symmetric on the scale of the test: a factor of 1.03 and
    its inverse are equally far from 1. Swapping the sides therefore only swaps regression and
    improvement.

    :param side: name of the new side, for the reason
    :param margin: half-width of the equivalence band, as a fraction of the value
    """
    missing = _missing(evidence, side)
    if missing is not None:
        return missing
    assert evidence.effect is not None
    assert evidence.ci is not None
    assert evidence.equivalence_ci is not None
    numbers = _numbers(evidence)
    is_within = _is_within(evidence.equivalence_ci, _bound(margin, evidence))
    is_significant = _is_significant(evidence)
    obstacle = evidence.obstacle
    boot_sd = evidence.boot_sd
    if boot_sd is not None and not (is_within or is_significant):
        bound = _bound(margin, evidence)
        if is_hidden_by_boots(evidence.effect, boot_sd, margin=bound):
            obstacle = _one_boot_reason(evidence, boot_sd)
    if obstacle is not None:
        return "inconclusive", replace(obstacle, sentence=f"{numbers}: {obstacle.plain}")
    is_coarse = evidence.steps is not None and evidence.steps < FEWEST_STEPS
    if is_significant and not is_coarse:
        change = _change(evidence, numbers, f"+-{percent(margin)}" if is_within else None)
        if change is not None:
            return change
    if is_significant and is_coarse and not (is_within and _is_equal_at_worst(evidence, margin)):
        fix = "let the benchmark print more digits or run longer"
        why = "the change is less than twice the resolution of the printed values"
        return "inconclusive", reason_of(why, fix, numbers=numbers)
    if is_within:
        low, high = (_fraction(end, evidence) for end in evidence.equivalence_ci)
        confidence = percent(1.0 - 2.0 * evidence.equality_level)
        interval = f"{confidence} CI {interval_of(low, high)}"
        is_small = is_significant and not is_coarse
        small = f", significant but below {percent(SMALLEST_EFFECT)}" if is_small else ""
        why = f"{interval} within the equivalence margin of +-{percent(margin)}{small}"
        return "no-change", Reason(sentence=f"{numbers}; {why}", plain=why, short=why)
    why = f"not significant, and equivalence within +-{percent(margin)} is not shown"
    finds = "" if evidence.mde is None else describe_mde(percent(evidence.mde))
    more = describe_more_runs(evidence.more_runs, evidence.replication)
    return "inconclusive", replace(reason_of(why, numbers=numbers), finds=finds, more=more)


def _one_boot_reason(evidence: Evidence, boot_sd: BootSd) -> Reason:
    reason = reason_of(ONE_BOOT, f"{describe_boot_sd(boot_sd)}; {MORE_BOOTS}")
    finds = "" if evidence.mde is None else describe_mde(percent(evidence.mde))
    return replace(reason, finds=finds)


def least_by_boots(boot_sd: BootSd, *, level: float = 1.0 - CONFIDENCE) -> float:
    """Return the smallest effect that the difference between two boots does not explain.

    More runs do not reduce it.

    :param level: significance level of a two-sided test
    :return: on the scale of ``boot_sd``, natural logarithms
    """
    p = 1.0 - level / 2.0
    quantile = (
        scipy.special.ndtri(p) if boot_sd.df is None else scipy.special.stdtrit(boot_sd.df, p)
    )
    return float(quantile) * math.sqrt(BOOTS_FACTOR) * boot_sd.sd


def is_hidden_by_boots(effect: float, boot_sd: BootSd, *, margin: float) -> bool:
    """Return whether boot variance prevents a verdict on this effect, however many runs are added.

    :param effect: new - base, on the scale of ``boot_sd``
    :param margin: half-width of the equivalence band, on the same scale
    """
    size = abs(effect)
    is_explained = size < least_by_boots(boot_sd)
    return is_explained and size + least_by_boots(boot_sd, level=2.0 * EQUALITY_LEVEL) >= margin


def lacks_direction(evidence: Evidence) -> bool:
    """Return whether a change is significant but the better direction is unknown."""
    return evidence.better == "unknown" and evidence.ci is not None and _is_significant(evidence)


def _is_equal_at_worst(evidence: Evidence, margin: float) -> bool:
    # Numbers that hardly vary are all rounded the same way, which can hide half a step on each
    # side, whatever the number of runs.
    assert evidence.effect is not None
    assert evidence.steps
    return abs(evidence.effect) * (1.0 + 1.0 / evidence.steps) < _bound(margin, evidence)


def _change(evidence: Evidence, numbers: str, margin: str | None) -> tuple[Verdict, Reason] | None:
    # The verdict of a significant change that is large enough to count; else None.
    assert evidence.effect is not None
    deciding = evidence.effect if evidence.deciding is None else evidence.deciding
    if abs(deciding) < _bound(SMALLEST_EFFECT, evidence):
        return None
    if deciding * evidence.effect < 0.0:
        within = signed(_fraction(deciding, evidence))
        why = f"the within-mode change, {within}, contradicts the mean"
        return "inconclusive", reason_of(why, numbers=numbers)
    within = f", within the equivalence margin of {margin}" if margin else ""
    if evidence.better == "unknown":
        why = f"significant change{within}, but the better direction is unknown"
        fix = "add --better NAME=lower or NAME=higher"
        return "inconclusive", reason_of(why, fix, numbers=numbers)
    rose = deciding > 0.0
    verdict: Verdict = "improvement" if rose == (evidence.better == "higher") else "regression"
    word = "better" if verdict == "improvement" else "worse"
    sentence = f"{word}: {numbers}{within}"
    return verdict, Reason(sentence=sentence, plain=sentence, short=word)


def _missing(evidence: Evidence, side: str) -> tuple[Verdict, Reason] | None:
    numbers = (("base", evidence.n_base), (side, evidence.n_new))
    for name, n in numbers:
        if n == 0:
            why = f"no value recorded in {name}"
            return "invalid", reason_of(why)
    if evidence.is_maximum and evidence.boot_sd is not None:
        change = "" if evidence.effect is None else signed(_fraction(evidence.effect, evidence))
        needed = f"record at least {evidence.fewest} boots per side"
        return "inconclusive", reason_of(ONE_BOOT_OF_MAXIMA, needed, numbers=change)
    if evidence.effect is None:
        why = "the means of both sides are 0, so a relative change is undefined"
        return "inconclusive", reason_of(why)
    if evidence.ci is not None:
        return None
    for name, n in numbers:
        if n is not None and n < evidence.fewest:
            why = f"{name} has {n} {name_units(n, evidence.replication)}"
            needed = f"a CI requires at least {evidence.fewest}"
            return "inconclusive", reason_of(why, needed)
    return "inconclusive", _unknown(evidence, [name for name, n in numbers if n is None])


def _unknown(evidence: Evidence, without_n: Sequence[str]) -> Reason:
    # A published mean may lack a number of runs or a standard deviation.
    assert evidence.effect is not None
    change = signed(_fraction(evidence.effect, evidence))
    if not without_n:
        why = "the standard deviation is not recorded, so significance is unknown"
        return reason_of(why, numbers=change)
    if evidence.more_runs is None:
        why = "the number of runs and the standard deviation are not recorded"
        return reason_of(why, numbers=change)
    settling = (
        f"with the recorded standard deviation, {evidence.more_runs} runs per side would give a "
        "verdict"
    )
    return reason_of("the number of runs is not recorded", settling, numbers=change)


def _is_significant(evidence: Evidence) -> bool:
    if evidence.q is None:
        # Values without variance and rounding are exact: any difference is real.
        return evidence.effect != 0.0
    return evidence.q < FALSE_DISCOVERY_RATE


def _is_within(interval: tuple[float, float], bound: float) -> bool:
    return -bound < interval[0] and interval[1] < bound


def _bound(fraction: float, evidence: Evidence) -> float:
    return math.log1p(fraction) if evidence.is_log else fraction


def ratio_of(log: float | None) -> float | None:
    """Return the exponential of a log ratio, at most 1e304; None for None."""
    return None if log is None else math.exp(min(log, LARGEST_LOG))


def fraction_of(effect: float, *, is_log: bool) -> float:
    """Return an effect as the fraction by which new differs from base, at most 1e304."""
    return math.expm1(min(effect, LARGEST_LOG)) if is_log else effect


def _fraction(effect: float, evidence: Evidence) -> float:
    return fraction_of(effect, is_log=evidence.is_log)


def _numbers(evidence: Evidence) -> str:
    assert evidence.effect is not None
    assert evidence.ci is not None
    low, high = (_fraction(end, evidence) for end in evidence.ci)
    effect = signed(_fraction(evidence.effect, evidence))
    certainty = "exact" if evidence.q is None else f"q = {evidence.q:.2g}"
    interval = interval_of(low, high)
    numbers = count_units(evidence.n_base, evidence.n_new, evidence.replication)
    # Effects that are not logarithms have no ratio, and base may be 0.
    share = "" if evidence.is_log else " of the larger mean"
    return f"{effect}{share} {interval} ({certainty}, n = {numbers})"


class JudgedRow(RowNumbers, frozen=True, kw_only=True):
    """One metric of one point, base against one new side.

    :param comparison: value of the table's column ``comparison``, 0 by default
    :param reason: why the row has its verdict; the record stores it as text
    :param is_maximum: whether its values are maxima of runs
    """

    comparison: object
    reason: Reason
    is_maximum: bool = False
