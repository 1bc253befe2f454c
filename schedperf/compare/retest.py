# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge a retest: the result that it was made for, at the looks and levels of its plan.

``ab --retest`` asks this module whether its boots suffice, and the comparison of its bundles asks
it for the verdict, so that both always agree. A plan comes from a bundle, which is untrusted: only
the levels of :data:`schedperf.stats.looks.RETEST` are used.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from schedperf.inputs.bundle.open import Retest
from schedperf.inputs.side import Side
from schedperf.model.base_new import BASE
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.frame import Frame
from schedperf.model.rows import Better, Verdict
from schedperf.model.text import join_names
from schedperf.model.units import interval_of, signed
from schedperf.model.verdict import Reason, count_units, reason_of
from schedperf.stats import JudgedRow
from schedperf.stats.looks import RETEST, Judged, Tested, judge_boots
from schedperf.stats.verdicts import fraction_of, ratio_of

_LOOKS = join_names([str(look.boots) for look in RETEST.looks])
UNKNOWN_PLAN = "recorded by ab --retest with looks or levels that this version does not know"


class Retests(Struct, frozen=True, kw_only=True):
    """The retests of a comparison.

    :param plans: plan of each side that base has, too, by name of the side
    :param looked: sides of which a retest decided the number of boots, or that of base
    :param unknown: those of ``looked`` whose plan has other looks or levels
    """

    plans: Mapping[str, Retest]
    looked: frozenset[str]
    unknown: frozenset[str]

    @classmethod
    def of(cls, sides: Sequence[Side]) -> "Retests":
        """Return the retests of the sides, base first."""
        base = sides[0].bundle.retest
        pairs = {side.name: (base, side.bundle.retest) for side in sides[1:]}
        given = {name: [each for each in pair if each is not None] for name, pair in pairs.items()}
        unknown = frozenset(name for name, plans in given.items() if not all(map(is_known, plans)))
        return cls(
            plans={
                name: new
                for name, (of_base, new) in pairs.items()
                if new is not None and new == of_base and name not in unknown
            },
            looked=frozenset(name for name, plans in given.items() if plans),
            unknown=unknown,
        )

    def budgets(self) -> Mapping[str, int]:
        """Return the largest number of boots of each side, for the correction of other results."""
        return dict.fromkeys(self.looked - self.unknown, RETEST.looks[-1].boots)

    def with_families(self, clean: Frame) -> Frame:
        """Return the runs with the retested result as the only primary one."""
        plan = next(iter(self.plans.values()), None)
        if plan is None:
            return clean
        families = [
            _family(plan, tuple(result), family)
            for *result, family in clean.rows(["workload", "point", "metric", "family"])
        ]
        return clean.assign(family=families)

    def overrule(self, row: JudgedRow, clean: Frame) -> JudgedRow:
        """Return the row with the verdict of the retest, if the row is of the retested result.

        :param clean: the runs that were compared
        """
        if row.side in self.unknown and row.family != "informational":
            return replace(row, verdict="inconclusive", reason=reason_of(UNKNOWN_PLAN))
        plan = self.plans.get(row.side)
        if plan is None or (row.workload, row.point, row.metric) != _result(plan):
            return row
        base, new = (boot_logs(clean, name, plan) for name in (BASE, row.side))
        if base is None or new is None:
            why = "the retest compares ratios, and a value is not above 0"
            return replace(row, verdict="inconclusive", reason=reason_of(why))
        judged = judge_retest(plan, base, new)
        verdict, reason = _decide(judged, plan, row.better, (len(base), len(new)))
        return replace(_with_numbers(row, judged.last), verdict=verdict, reason=reason)

    def caveats(self) -> Iterator[Caveat]:
        """Yield a caveat about each side whose number of boots a retest decided."""
        for name in sorted(self.looked - self.unknown):
            yield caveat("retest", side=name, looks=_LOOKS)


def is_known(plan: Retest) -> bool:
    """Return whether a plan has the looks and levels of a retest."""
    return plan.looks == RETEST.looks


def boot_logs(runs: Frame, side: str, plan: Retest) -> Sequence[float] | None:
    """Return the mean of the logarithms of the runs of each boot, in the order of the boots.

    :param runs: with the columns of :func:`schedperf.runs.values.read_run_values`
    :return: shape (boots,), without boots that have no value; None if a value is not above 0
    """
    boots: dict[object, list[float]] = {}
    own = runs.take((runs["side"] == side) & (runs["metric"] == plan.metric))
    names = ["workload", "point", "metric", "kind", "status", "boot", "value"]
    for *result, kind, status, boot, value in own.rows(names):
        if tuple(result) == _result(plan) and (kind, status) == ("clean", "ok"):
            if value <= 0.0:
                return None
            boots.setdefault(boot, []).append(math.log(value))
    return [fmean(logs) for logs in boots.values()]


def judge_retest(plan: Retest, base: Sequence[float], new: Sequence[float]) -> Judged:
    """Return what the boots show of the change that was seen.

    :param plan: a known one
    :param base: of :func:`boot_logs`; so is ``new``
    """
    return judge_boots(RETEST, base, new, seen=math.log1p(plan.seen))


def is_not_reproduced(judged: Judged, plan: Retest) -> bool:
    """Return whether a change that is not reproduced may not exist at all: its 95% CI includes 0.

    :param judged: has a last look
    """
    assert judged.last is not None
    nearest = judged.last.ci_low if plan.seen > 0.0 else -judged.last.ci_high
    return nearest <= 0.0


def describe_retest(judged: Judged, plan: Retest) -> str:
    """Return the outcome of a retest in one line, with its numbers.

    :param judged: has a last look, and is over
    """
    assert judged.last is not None
    if judged.result == "reproduced":
        return f"reproduced: {_numbers(judged.last)}"
    return _describe_absence(judged, judged.last, plan).text


def _decide(
    judged: Judged, plan: Retest, better: Better, boots: tuple[int, int]
) -> tuple[Verdict, Reason]:
    if judged.wants is not None or judged.last is None:
        why = f"the retest has not ended: {count_units(*boots, 'boots')}"
        return "inconclusive", reason_of(why, f"its next look is at {judged.wants} per side")
    if judged.result != "reproduced":
        return "inconclusive", _describe_absence(judged, judged.last, plan)
    numbers = _numbers(judged.last)
    if better == "unknown":
        why = "the change is reproduced, but the better direction is unknown"
        fix = "add --better NAME=lower or NAME=higher"
        return "inconclusive", reason_of(why, fix, numbers=numbers)
    is_better = (better == "higher") == (plan.seen > 0.0)
    word = "better" if is_better else "worse"
    sentence = f"{word}, reproduced: {numbers}"
    verdict: Verdict = "improvement" if is_better else "regression"
    return verdict, Reason(sentence=sentence, plain=sentence, short=word)


def _describe_absence(judged: Judged, last: Tested, plan: Retest) -> Reason:
    seen, numbers = signed(plan.seen), _numbers(last)
    if judged.result == "undecided":
        why = f"neither reproduced nor excluded by the last look, at {last.boots} boots per side"
        return reason_of(why, f"{seen} was seen", numbers=numbers)
    part = f"smaller than half of what was seen ({seen})"
    why = f"not reproduced, {part}" if is_not_reproduced(judged, plan) else part
    return Reason(sentence=f"{why}: {numbers}", plain=why, short=why)


def _numbers(last: Tested) -> str:
    effect, low, high = (
        fraction_of(each, is_log=True) for each in (last.difference, last.ci_low, last.ci_high)
    )
    boots = count_units(last.boots, last.boots, "boots")
    level = f"one-sided p = {last.p:.2g}, level {last.level:g}"
    return f"{signed(effect)} {interval_of(low, high)} ({level}, n = {boots})"


def _with_numbers(row: JudgedRow, last: Tested | None) -> JudgedRow:
    if last is None:
        return replace(row, more_runs=None)
    two_sided = 2.0 * min(last.p, 1.0 - last.p)
    return replace(
        row,
        n_base=last.boots,
        n_new=last.boots,
        ratio=ratio_of(last.difference),
        ci_low=ratio_of(last.ci_low),
        ci_high=ratio_of(last.ci_high),
        p=two_sided,
        q=two_sided,
        p_t=two_sided,
        method="Welch t on logs, sequential",
        replication="boots",
        mde=None,
        more_runs=None,
        p_rank=None,
        rank_ratio=None,
        rank_low=None,
        rank_high=None,
        p_rank_min=None,
    )


def _family(plan: Retest, result: tuple[str, ...], family: str) -> str:
    if result == _result(plan):
        return "primary"
    return "secondary" if family == "primary" else family


def _result(plan: Retest) -> tuple[str, str, str]:
    return plan.workload, plan.point, plan.metric
