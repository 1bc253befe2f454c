"""From numbers to a verdict and its reason: rows first, then the whole comparison.

Pure rules with named thresholds; what they need is passed in, so that each of
them can be tested with numbers on paper.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from schedperf.model import Better, Difference, Overall, Row, Verdict
from schedperf.welch import FEWEST_RUNS

# Share of false discoveries tolerated among the rows called changed: Benjamini & Hochberg,
# "Controlling the false discovery rate", J. R. Stat. Soc. B 57 (1995), at the customary level.
FALSE_DISCOVERY_RATE = 0.05

# Smallest change that counts, as a fraction of the value. Below 1 % a scheduler benchmark's
# number moves with the link order of the kernel.
SMALLEST_EFFECT = 0.01

# Half-width of the band inside which two sides count as equal, as a fraction of the value: the
# change that kernel developers let pass without a question in benchmark tables. It is fixed
# before the data are seen and never follows them.
MARGIN = 0.03

# Two printed numbers that hardly vary may differ by almost this many steps without any
# difference between what was measured: half a step of rounding on each end of each number.
FEWEST_STEPS = 2.0

# exp of this is 1e304, which a float still holds.
LARGEST_LOG = 700.0

# Percentages from here on are printed with an exponent, and those below get a second decimal.
LARGEST_PLAIN_PERCENT = 1e6
SMALLEST_SHORT_PERCENT = 0.1

EXIT_STATUS: dict[Verdict, int] = {
    "regression": 1,
    "improvement": 0,
    "no-change": 0,
    "inconclusive": 0,
    "invalid": 4,
}
STRICT_INCONCLUSIVE_STATUS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What is known about one row before its verdict.

    Effects are relative: natural logarithms of new / base when ``is_log``, else
    differences divided by the larger of the two sides' absolute means.

    :param effect: new against base; None without a value on both sides
    :param ci: 95 % interval of ``effect``; None where there is no interval
    :param equivalence_ci: 90 % interval of ``effect``, for the equivalence test
    :param q: None where there is no p; the effect is then exact if there is an interval
    :param steps: size of the difference in printed steps where rounding is all the
        variance there is; None elsewhere
    """

    better: Better
    n_base: int
    n_new: int
    is_log: bool
    effect: float | None
    ci: tuple[float, float] | None
    equivalence_ci: tuple[float, float] | None
    q: float | None
    steps: float | None


def decide(evidence: Evidence, *, side: str, margin: float) -> tuple[Verdict, str]:
    """Return a row's verdict and the sentence that says why.

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
    is_within = _is_within(evidence.equivalence_ci, _bound(margin, evidence))
    if _is_significant(evidence):
        if evidence.steps is not None and evidence.steps < FEWEST_STEPS:
            return "inconclusive", f"{numbers}: less than two steps of the printed number"
        if abs(evidence.effect) >= _bound(SMALLEST_EFFECT, evidence):
            within = f", within the margin of ±{percent(margin)}" if is_within else ""
            quality = "worse" if _direction(evidence) == "regression" else "better"
            return _direction(evidence), f"{quality}: {numbers}{within}"
    if is_within:
        low, high = (_fraction(end, evidence) for end in evidence.equivalence_ci)
        interval = f"90 % interval {signed(low)} to {signed(high)}"
        return "no-change", f"{numbers}; {interval} inside the margin of ±{percent(margin)}"
    return (
        "inconclusive",
        f"{numbers}: no significant change, and not shown equal within ±{percent(margin)}",
    )


def _missing(evidence: Evidence, side: str) -> tuple[Verdict, str] | None:
    for name, n in (("base", evidence.n_base), (side, evidence.n_new)):
        if n == 0:
            return "invalid", f"no value in {name}, so there is nothing to compare"
    for name, n in (("base", evidence.n_base), (side, evidence.n_new)):
        if n < FEWEST_RUNS:
            runs = "run" if n == 1 else "runs"
            return (
                "inconclusive",
                f"{name} has {n} {runs}; at least {FEWEST_RUNS} are needed for an interval",
            )
    if evidence.ci is None:
        return (
            "inconclusive",
            "the values of both sides are 0 on average, so no share has a meaning",
        )
    return None


def _is_significant(evidence: Evidence) -> bool:
    if evidence.q is None:
        # Values that never vary and are not rounded are exact: any difference is real.
        return evidence.effect != 0.0
    return evidence.q < FALSE_DISCOVERY_RATE


def _is_within(interval: tuple[float, float], bound: float) -> bool:
    return -bound < interval[0] and interval[1] < bound


def _bound(fraction: float, evidence: Evidence) -> float:
    return math.log1p(fraction) if evidence.is_log else fraction


def _direction(evidence: Evidence) -> Verdict:
    assert evidence.effect is not None
    rose = evidence.effect > 0.0
    return "improvement" if rose == (evidence.better == "higher") else "regression"


def _fraction(effect: float, evidence: Evidence) -> float:
    return math.expm1(min(effect, LARGEST_LOG)) if evidence.is_log else effect


def _numbers(evidence: Evidence) -> str:
    assert evidence.effect is not None
    assert evidence.ci is not None
    low, high = (_fraction(end, evidence) for end in evidence.ci)
    effect = signed(_fraction(evidence.effect, evidence))
    certainty = "exact" if evidence.q is None else f"q = {evidence.q:.2g}"
    interval = f"95 % interval {signed(low)} to {signed(high)}"
    return f"{effect} ({interval}, {certainty}, {evidence.n_base}+{evidence.n_new} runs)"


def decide_overall(
    rows: Sequence[Row], *, blocking: Sequence[Difference], absence: tuple[Verdict, str]
) -> Overall:
    """Return the verdict of the whole comparison; only primary rows have a say.

    :param blocking: differences that forbid a comparison
    :param absence: the verdict and its reason where there is no primary row
    """
    primary = [row for row in rows if row.family == "primary"]
    by_verdict = {verdict: [r for r in primary if r.verdict == verdict] for verdict in EXIT_STATUS}
    if by_verdict["regression"]:
        return _overall("regression", _summarise(by_verdict["regression"], len(primary)))
    if blocking:
        return _overall("invalid", describe_blocking(blocking))
    if by_verdict["invalid"]:
        return _overall("invalid", _summarise(by_verdict["invalid"], len(primary)))
    if not primary:
        return _overall(*absence)
    if by_verdict["inconclusive"]:
        return _overall("inconclusive", _summarise(by_verdict["inconclusive"], len(primary)))
    verdict: Verdict = "improvement" if by_verdict["improvement"] else "no-change"
    return _overall(verdict, _summarise(by_verdict[verdict], len(primary)))


def describe_blocking(blocking: Sequence[Difference]) -> str:
    """Name the first field that forbids a comparison, and how many more there are."""
    first = blocking[0]
    more = f" (and {len(blocking) - 1} more)" if len(blocking) > 1 else ""
    values = f"{first.base!r} in base, {first.new!r} in {first.side}"
    return f"{first.path} differs{more}: {values}; {first.reason}"


def _overall(verdict: Verdict, reason: str) -> Overall:
    return Overall(verdict=verdict, reason=reason, exit_status=EXIT_STATUS[verdict])


def _summarise(rows: Sequence[Row], primary: int) -> str:
    # The largest change speaks for the rows that share its verdict.
    row = max(rows, key=lambda row: abs(math.log(row.ratio)) if row.ratio else 0.0)
    point = f" at {row.point}" if row.point else ""
    side = f" of {row.side}" if row.side != "new" else ""
    count = f"; {len(rows)} of {primary} primary rows alike" if primary > 1 else ""
    return f"{row.metric}{point}{side}: {row.reason}{count}"


def percent(fraction: float) -> str:
    """Write a fraction as a percentage: ``3 %``, ``37.2 %``, ``0.04 %``, ``1.2e+09 %``."""
    value = 100.0 * fraction
    if abs(value) >= LARGEST_PLAIN_PERCENT:
        return f"{value:.3g} %"
    digits = 1 if abs(value) >= SMALLEST_SHORT_PERCENT or value == 0.0 else 2
    return f"{value:.{digits}f}".removesuffix(".0") + " %"


def signed(fraction: float) -> str:
    """Write a fraction as a percentage with its sign."""
    return ("+" if fraction >= 0.0 else "") + percent(fraction)
