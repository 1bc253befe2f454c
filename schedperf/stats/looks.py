# SPDX-License-Identifier: GPL-2.0-or-later
"""Reproduce a change on fresh boots: a one-sided test that is repeated as boots are added.

After so many boots of both sides as each *look* has, Welch's test in the direction of the change
that was seen decides. Every look has its own level, because a level of 5% at each of them would
find changes that do not exist. A design may also stop for futility: when the 95% CI excludes what
would be left of the change.

A bisection checks and proves commits by such a design; ``ab --retest`` and the comparison of what
it records use one, too. ``bench/retest`` prints how often each result is right.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import scipy
from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.verdict import SMALLEST_EFFECT
from schedperf.stats.welch import welch_difference

# Power at which a design is able to reproduce a change.
POWER = 0.8
# Smallest standard deviation that is derived from boots: few of them may agree by chance.
LEAST_SD = 0.002

Result = Literal["reproduced", "futile", "undecided", "open"]


class Look(NamedTuple):
    """One look.

    :param boots: fresh boots per side
    :param level: one-sided p below which the change is reproduced
    """

    boots: int
    level: float


class Design(Struct, frozen=True, kw_only=True):
    """When to look, and what decides.

    :param looks: with increasing numbers of boots
    :param smallest: smallest change that is reproduced, as a fraction
    :param futile_below: part of the change that was seen (on logarithms); if the 95% CI ends below,
        the change is not looked for any longer. None to go on to the last look
    """

    looks: tuple[Look, ...]
    smallest: float = 0.0
    futile_below: float | None = None


# The check of a commit that a bisection has found.
CHECK = Design(looks=(Look(4, 0.01), Look(8, 0.025), Look(12, 0.03)))
# A trial of what the change of a named commit needs.
TRIAL = replace(CHECK, futile_below=0.5)
# A suspected change of a series, of which there are many: 0.01% to 0.4% of those that do not exist
# are reproduced, at boot standard deviations of 0.5% to 6%.
RETEST = Design(
    looks=(Look(4, 0.0005), Look(8, 0.0012), Look(12, 0.002), Look(16, 0.0025)),
    smallest=SMALLEST_EFFECT,
    futile_below=0.5,
)


class Tested(Struct, frozen=True, kw_only=True):
    """The last look that was possible.

    :param p: one-sided, in the direction of the change that was seen
    :param difference: new - base of the means of logarithms
    :param ci_low: lower bound of its 95% CI
    """

    boots: int
    level: float
    p: float
    difference: float
    ci_low: float
    ci_high: float


class Judged(Struct, frozen=True, kw_only=True):
    """What boots show of a change.

    :param result: "reproduced"; "futile": what is left of the change is too small; "undecided": the
        last look has decided nothing; "open": more boots are needed
    :param last: None before the first look
    :param wants: boots per side at the next look; None if the result is not "open"
    """

    result: Result
    last: Tested | None
    wants: int | None = None


def judge_boots(
    design: Design, base: Sequence[float], new: Sequence[float], *, seen: float
) -> Judged:
    """Look at boots in their order until a look decides; later boots are ignored.

    :param base: natural logarithm of the value of each fresh boot, shape (boots,); so is ``new``,
        whose number of boots may differ
    :param seen: the change to reproduce, new - base on logarithms; not 0
    """
    last: Tested | None = None
    for look in design.looks:
        if min(len(base), len(new)) < look.boots:
            return Judged(result="open", last=last, wants=look.boots)
        last = _test(look, base[: look.boots], new[: look.boots], rises=seen > 0.0)
        if last.p < look.level and _size(last, seen) >= math.log1p(design.smallest):
            return Judged(result="reproduced", last=last)
        if design.futile_below is not None:
            upper = last.ci_high if seen > 0.0 else -last.ci_low
            if upper < design.futile_below * abs(seen):
                return Judged(result="futile", last=last)
    return Judged(result="undecided", last=last)


def least_reproduced(design: Design, sd: float) -> float:
    """Return the smallest true change that the last look reproduces with a power of 80%.

    The statistic of a true change has a noncentral t distribution (Chow, Shao & Wang, "Sample Size
    Calculations in Clinical Research", section 3.2.1); earlier looks are not counted.

    :param sd: standard deviation between boots of one kernel, on logarithms; at least
        ``LEAST_SD`` is used
    :return: on logarithms
    """
    last = design.looks[-1]
    error = max(sd, LEAST_SD) * math.sqrt(2.0 / last.boots)
    df = 2.0 * (last.boots - 1)
    limit = max(
        float(scipy.special.stdtrit(df, 1.0 - last.level)), math.log1p(design.smallest) / error
    )
    return float(scipy.special.nctdtrinc(df, 1.0 - POWER, limit)) * error


def _test(look: Look, base: Sequence[float], new: Sequence[float], *, rises: bool) -> Tested:
    found = welch_difference(base, new)
    assert found.difference is not None
    assert found.ci_low is not None
    assert found.ci_high is not None
    # Without variance, the difference is exact and has no p.
    half = (found.p or 0.0) / 2.0
    is_expected = (found.difference > 0.0) == rises and found.difference != 0.0
    return Tested(
        boots=look.boots,
        level=look.level,
        p=half if is_expected else 1.0 - half,
        difference=found.difference,
        ci_low=found.ci_low,
        ci_high=found.ci_high,
    )


def _size(tested: Tested, seen: float) -> float:
    return math.copysign(1.0, seen) * tested.difference
