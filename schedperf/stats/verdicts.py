# SPDX-License-Identifier: GPL-2.0-or-later
"""From numbers to a verdict and its reason: rows first, then the whole comparison.

Pure rules with named thresholds; what they need is passed in, so that each of
them can be tested with numbers on paper.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedperf.model.comparison import (
    Better,
    Difference,
    Overall,
    Replication,
    Row,
    RowNumbers,
    Verdict,
)
from schedperf.stats.welch import FEWEST_RUNS

# Share of false discoveries tolerated among the rows called changed: Benjamini & Hochberg,
# "Controlling the false discovery rate", J. R. Stat. Soc. B 57 (1995), at the customary level.
FALSE_DISCOVERY_RATE = 0.05

# Smallest change that counts, as a fraction of the value. Below 1% a scheduler benchmark's
# number moves with the link order of the kernel.
SMALLEST_EFFECT = 0.01

# Half-width of the band inside which two sides count as equal, as a fraction of the value: the
# change that kernel developers let pass without a question in benchmark tables. It is fixed
# before the data are seen and never follows them.
MARGIN = 0.03

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

# Percentages from here on are printed with an exponent, and those below get a second decimal.
LARGEST_PERCENT_IN_REASONS = 1e6
SMALLEST_SHORT_PERCENT = 0.1

# What says that something changed, whichever way.
CHANGED: tuple[Verdict, ...] = ("regression", "improvement")

EXIT_STATUS: dict[Verdict, int] = {
    "regression": 1,
    "improvement": 0,
    "no-change": 0,
    "inconclusive": 0,
    "invalid": 4,
}
STRICT_INCONCLUSIVE_STATUS = 3
# How many values there are, where the source does not record it.
UNKNOWN = "unknown"
# How a comparison without a primary row ends.
UNDECIDED = "no verdict is given"

# What independent units are called: one, and several. A round is an interleaved pair of runs.
_UNITS: dict[Replication, tuple[str, str]] = {
    "runs": ("run", "runs"),
    "boots": ("boot", "boots"),
    "rounds": ("pair", "pairs"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Why a row has its verdict, in the forms that reports need.

    :param sentence: with the row's own numbers
    :param plain: the same without them, where it says more than they do
    :param short: the first part of ``plain``
    :param finds: the smallest change that the row's runs detect; ""
    :param more: how many more runs would decide the row; ""
    """

    sentence: str
    plain: str
    short: str
    finds: str = ""
    more: str = ""

    @property
    def text(self) -> str:
        """All of it as one sentence."""
        return "; ".join(filter(None, (self.sentence, self.finds, self.more)))


def reason_of(why: str, detail: str = "", *, numbers: str = "") -> Reason:
    """Return a reason.

    :param detail: what else is to be said, mostly how to get further
    :param numbers: of the row, with which the sentence begins
    """
    plain = f"{why}; {detail}" if detail else why
    return Reason(sentence=f"{numbers}: {plain}" if numbers else plain, plain=plain, short=why)


def undecided(why: str) -> Reason:
    """Return why a comparison has no verdict: it has no primary row."""
    return replace(reason_of(why), sentence=f"{why}, so {UNDECIDED}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What is known about one row before its verdict.

    Effects are relative: natural logarithms of new / base when ``is_log``, else
    differences divided by the larger of the two sides' absolute means.

    :param effect: new against base; None without a value on both sides
    :param deciding: the effect that ``q`` belongs to, where it is not ``effect``
    :param ci: 95% CI of ``effect``; None where there is no interval
    :param equivalence_ci: interval of ``effect`` for the equivalence test, which is two one-sided
        tests at ``equality_level``: 90% for a level of 5%
    :param q: None where there is no p; the effect is then exact if there is an interval
    :param n_base: independent units, of the kind that ``replication`` names; None where unknown
    :param steps: size of the difference in printed steps where rounding is all the
        variance there is; None elsewhere
    :param obstacle: what stands between the sides whatever the numbers are, drift for one
    :param mde: the smallest detectable change; a fraction
    :param more_runs: further units per side that would decide the row; where ``n_base`` is unknown
        all units that it takes
    """

    better: Better
    n_base: int | None
    n_new: int | None
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
        fix = "print more digits, or make the runs longer"
        why = "the change is less than two steps of the printed number"
        return "inconclusive", reason_of(why, fix, numbers=numbers)
    if is_within:
        low, high = (_fraction(end, evidence) for end in evidence.equivalence_ci)
        confidence = percent(1.0 - 2.0 * evidence.equality_level)
        interval = f"{confidence} CI {interval_of(low, high)}"
        small = ", significant but too small to count" if is_significant and not is_coarse else ""
        why = f"{interval} within the equivalence margin of +-{percent(margin)}{small}"
        return "no-change", Reason(sentence=f"{numbers}; {why}", plain=why, short=why)
    why = f"not significant, and not shown equivalent within +-{percent(margin)}"
    finds = "" if evidence.mde is None else say_smallest(percent(evidence.mde))
    more = say_more(evidence.more_runs, evidence.replication)
    return "inconclusive", replace(reason_of(why, numbers=numbers), finds=finds, more=more)


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
    rose = deciding > 0.0
    verdict: Verdict = "improvement" if rose == (evidence.better == "higher") else "regression"
    word = "better" if verdict == "improvement" else "worse"
    sentence = f"{word}: {numbers}{within}"
    return verdict, Reason(sentence=sentence, plain=sentence, short=word)


def _missing(evidence: Evidence, side: str) -> tuple[Verdict, Reason] | None:
    numbers = (("base", evidence.n_base), (side, evidence.n_new))
    for name, n in numbers:
        if n == 0:
            why = f"{name} has no value"
            return "invalid", reason_of(why)
    if evidence.effect is None:
        why = "the mean of both sides is 0, so a relative change is undefined"
        return "inconclusive", reason_of(why)
    if evidence.ci is not None:
        return None
    for name, n in numbers:
        if n is not None and n < FEWEST_RUNS:
            why = f"{name} has {n} {name_units(n, evidence.replication)}"
            needed = f"a CI needs at least {FEWEST_RUNS}"
            return "inconclusive", reason_of(why, needed)
    return "inconclusive", _unknown(evidence, [name for name, n in numbers if n is None])


def _unknown(evidence: Evidence, without_n: Sequence[str]) -> Reason:
    # A published mean comes without a number of runs, or without a standard deviation.
    assert evidence.effect is not None
    change = signed(_fraction(evidence.effect, evidence))
    if not without_n:
        why = "no standard deviation recorded, so the significance is unknown"
        return reason_of(why, numbers=change)
    if evidence.more_runs is None:
        why = "neither the number of runs nor a standard deviation recorded"
        return reason_of(why, numbers=change)
    settling = (
        f"with the recorded standard deviation, {evidence.more_runs} runs per side would decide it"
    )
    return reason_of("number of runs not recorded", settling, numbers=change)


def say_more(more_runs: int | None, replication: Replication) -> str:
    """Say how many more units would decide a row, as its reason ends; "" where it is not known.

    >>> say_more(3, "boots"), say_more(1, "rounds")
    ('about 3 more boots per side would decide it', 'about 1 more pair would decide it')
    """
    if more_runs is None:
        return ""
    # A pair holds a run of each side.
    where = "" if replication == "rounds" else " per side"
    return f"about {more_runs} more {name_units(more_runs, replication)}{where} would decide it"


def name_units(number: int, replication: Replication) -> str:
    """Return what so many independent units are called: "run", "runs"; of rounds "pairs"."""
    return _UNITS[replication][number != 1]


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


def count_units(n_base: int | None, n_new: int | None, replication: Replication) -> str:
    """Say what was compared: ``3+3 boots``, ``8+8 runs``, ``8 pairs``; ``unknown``."""
    values = count_values(n_base, n_new, replication)
    if values == UNKNOWN:
        return values
    return f"{values} {name_units(1 if values == '1' else 2, replication)}"


def count_values(n_base: int | None, n_new: int | None, replication: Replication) -> str:
    """Write how many there are on each side: ``5+5``, ``unknown``, ``5+unknown``; 8 pairs as ``8``.

    A pair has a value of both sides, so pairs are one number.
    """
    if n_base is None and n_new is None:
        return UNKNOWN
    numbers = [UNKNOWN if number is None else str(number) for number in (n_base, n_new)]
    return numbers[0] if replication == "rounds" else "+".join(numbers)


def decide_overall(
    rows: Sequence[Row], *, blocking: Sequence[Difference], absence: tuple[Verdict, Reason]
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


def describe_blocking(blocking: Sequence[Difference]) -> Reason:
    """Name the first field that forbids a comparison, and how many more there are."""
    first = blocking[0]
    more = f" (and {len(blocking) - 1} more)" if len(blocking) > 1 else ""
    values = f"{first.base!r} in base, {first.new!r} in {first.side}"
    return reason_of(f"{first.path} differs{more}: {values}", first.reason)


def _overall(verdict: Verdict, reason: Reason) -> Overall:
    return Overall(
        verdict=verdict,
        reason=reason.text,
        reason_short=reason.short,
        exit_status=EXIT_STATUS[verdict],
    )


def _summarise(rows: Sequence[Row], primary: int) -> Reason:
    # The largest change speaks for the rows that share its verdict.
    row = max(rows, key=lambda row: abs(math.log(row.ratio)) if row.ratio else 0.0)
    point = f" at {row.point}" if row.point else ""
    side = f" of {row.side}" if row.side != "new" else ""
    count = f"; {len(rows)} of {primary} primary rows have this verdict" if primary > 1 else ""
    name = f"{row.metric}{point}{side}"
    short = f"{name}: {row.reason_short}"
    return Reason(sentence=f"{name}: {row.reason}{count}", plain=short, short=short)


def percent(fraction: float) -> str:
    """Write a fraction as a percentage: ``3%``, ``37.2%``, ``0.04%``, ``1.2e+09%``."""
    value = 100.0 * fraction
    if abs(value) >= LARGEST_PERCENT_IN_REASONS:
        return f"{value:.3g}%"
    digits = 1 if abs(value) >= SMALLEST_SHORT_PERCENT or value == 0.0 else 2
    text = f"{value:.{digits}f}".removesuffix(".0")
    return (text if float(text) else text.removeprefix("-")) + "%"


def signed(fraction: float) -> str:
    """Write a fraction as a percentage with its sign."""
    return ("+" if fraction >= 0.0 else "") + percent(fraction)


def interval_of(low: float, high: float) -> str:
    """Write the ends of an interval, which are fractions: ``[+16.1%, +27.9%]``."""
    return f"[{signed(low)}, {signed(high)}]"


def say_smallest(change: str) -> str:
    """Say the smallest detectable change.

    >>> say_smallest("1.2%")
    'smallest detectable change 1.2% (80% power)'
    """
    return f"smallest detectable change {change} (80% power)"


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedRow(RowNumbers):
    """One metric of one point, base against one new side.

    :param comparison: which of the comparisons in the table it belongs to
    :param reason: in its parts, of which the record makes text
    """

    comparison: object
    reason: Reason
