# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge a row: its verdict and reason, from its effect and its CI.

Pure rules with named thresholds; what they need is passed in, so that each of
them can be tested with numbers on paper.
"""

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.comparison import Better, Replication, RowNumbers, Verdict
from schedperf.model.units import interval_of, percent, signed
from schedperf.model.verdict import (
    FALSE_DISCOVERY_RATE,
    FEWEST_RUNS,
    SMALLEST_EFFECT,
    Reason,
    count_units,
    name_units,
    reason_of,
    say_more,
    say_smallest,
)

# In two blocks, base then new, a drift of the machine looks like a change: with fewer runs per side
# it hides too well to be excluded by one row.
FEWEST_IN_BLOCKS = 10

# With fewer rows of one metric nothing is known of what they have in common: how much they vary, or
# whether the machine drifted.
FEWEST_POINTS = 4

# Two printed numbers that hardly vary may differ by almost this many steps without any
# difference between what was measured: half a step of rounding on each end of each number.
FEWEST_STEPS = 2.0

# exp of this is 1e304, which a float still holds.
LARGEST_LOG = 700.0


class Evidence(Struct, frozen=True, kw_only=True):
    """The statistics of one row before its verdict.

    Effects are relative: natural logarithms of new / base when ``is_log``, else
    differences divided by the larger of the two sides' absolute means.

    :param effect: new against base; None without a value on both sides
    :param deciding: the effect that ``q`` belongs to, if it is not ``effect``
    :param ci: 95% CI of ``effect``; None if not available
    :param equivalence_ci: interval of ``effect`` for the equivalence test, which is two one-sided
        tests at ``equality_level``: 90% for a level of 5%
    :param q: None where there is no p; the effect is then exact if there is an interval
    :param n_base: independent units, of the kind that ``replication`` names; None where unknown
    :param fewest: independent units per side that a CI requires
    :param steps: size of the difference in printed steps where rounding is all the
        variance there is; None elsewhere
    :param obstacle: what prevents a verdict regardless of the numbers, such as drift
    :param mde: the smallest detectable change; a fraction
    :param more_runs: further units per side that would decide the row; where ``n_base`` is unknown
        all units that it takes
    """

    better: Better
    n_base: int | None
    n_new: int | None
    fewest: int = FEWEST_RUNS
    replication: Replication = "runs"
    is_log: bool
    effect: float | None
    deciding: float | None = None
    ci: tuple[float, float] | None
    equivalence_ci: tuple[float, float] | None
    equality_level: float = 0.05
    q: float | None
    steps: float | None
    obstacle: Reason | None = None
    mde: float | None = None
    more_runs: int | None = None


def decide(evidence: Evidence, *, side: str, margin: float) -> tuple[Verdict, Reason]:
    """Return a row's verdict and why it has it.

    The effect and the band are symmetric on the scale of the test: a factor of
    1.03 and its inverse are equally far from 1, so that swapping the sides swaps
    regression and improvement and nothing else.
    """
    missing = _missing(evidence, side)
    if missing is not None:
        return missing
    assert evidence.effect is not None
    assert evidence.ci is not None
    assert evidence.equivalence_ci is not None
    numbers = _numbers(evidence)
    if evidence.obstacle is not None:
        obstacle = evidence.obstacle
        return "inconclusive", replace(obstacle, sentence=f"{numbers}: {obstacle.plain}")
    is_within = _is_within(evidence.equivalence_ci, _bound(margin, evidence))
    is_significant = _is_significant(evidence)
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
    finds = "" if evidence.mde is None else say_smallest(percent(evidence.mde))
    more = say_more(evidence.more_runs, evidence.replication)
    return "inconclusive", replace(reason_of(why, numbers=numbers), finds=finds, more=more)


def lacks_direction(evidence: Evidence) -> bool:
    """Return whether a change is significant, but has no verdict without a better direction."""
    return evidence.better == "unknown" and evidence.ci is not None and _is_significant(evidence)


def _is_equal_at_worst(evidence: Evidence, margin: float) -> bool:
    # Numbers that hardly vary are all rounded the same way, so that half a step may be hidden on
    # each side, however many runs there are.
    assert evidence.effect is not None
    assert evidence.steps
    return abs(evidence.effect) * (1.0 + 1.0 / evidence.steps) < _bound(margin, evidence)


def _change(evidence: Evidence, numbers: str, margin: str | None) -> tuple[Verdict, Reason] | None:
    # A significant change that is large enough to count; None where it is not.
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
    # A published mean comes without a number of runs, or without a standard deviation.
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
        # Values that never vary and are not rounded are exact: any difference is real.
        return evidence.effect != 0.0
    return evidence.q < FALSE_DISCOVERY_RATE


def _is_within(interval: tuple[float, float], bound: float) -> bool:
    return -bound < interval[0] and interval[1] < bound


def _bound(fraction: float, evidence: Evidence) -> float:
    return math.log1p(fraction) if evidence.is_log else fraction


def ratio_of(log: float | None) -> float | None:
    """Return the ratio of which this is the logarithm; None of None."""
    return None if log is None else math.exp(min(log, LARGEST_LOG))


def fraction_of(effect: float, *, is_log: bool) -> float:
    """Return an effect as the fraction by which new differs from base."""
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
    # Without a logarithm there is no ratio, and base may be 0.
    share = "" if evidence.is_log else " of the larger mean"
    return f"{effect}{share} {interval} ({certainty}, n = {numbers})"


class JudgedRow(RowNumbers, frozen=True, kw_only=True):
    """One metric of one point, base against one new side.

    :param comparison: which of the comparisons in the table it belongs to
    :param reason: in its parts, of which the record makes text
    """

    comparison: object
    reason: Reason
