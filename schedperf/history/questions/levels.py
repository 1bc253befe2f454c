# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare two groups of nights of a series: the change of its level, with its interval.

The unit of replication is the night; two groups are compared by Welch's test. Between two single
nights, the error is that of the nights before them. Levels go on over a renewal of the reference
kernel if a chain night compared both, whose standard error is added.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from schedperf.history.periods import Reason
from schedperf.history.questions.chains import ChainNight, chain_references
from schedperf.history.questions.noise import FEWEST, WINDOW, sd_between_nights
from schedperf.history.questions.records import Analysed, Night, Series
from schedperf.history.series import Chain, Scale
from schedperf.stats.welch import Difference, student_difference, welch_difference

# Values of a group that an interval needs.
_FEWEST = 2
_CONDITIONS: Mapping[Reason, str] = {
    "environment": "environment",
    "parser": "parser",
    "workload": "program",
    "reference": "reference_revision",
}
Word = Literal["worse", "better", "higher", "lower", "no significant change", "unknown"]


class LevelChange(Struct, frozen=True, kw_only=True):
    """The change of a series between two groups of nights.

    :param nights_before: nights of the first group
    :param is_paired: whether the series has references
    :param change: of new / reference, of the value if ``is_paired`` is false, or of the reference
        if that was asked for; a fraction, or a difference in the unit if ``is_log`` is false; None
        if it cannot be stated
    :param ci_low: lower end of its 95% CI
    :param p: two-sided; None as ``change``
    :param q: p value after multiple-testing correction
    :param why: why nothing is stated; None if something is
    :param differs: conditions that differ between the groups
    :param revision_before: the last new kernel of the first group; "" if unknown
    """

    series: Series
    is_paired: bool
    is_log: bool
    nights_before: int
    nights_after: int
    change: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    q: float | None
    word: Word
    why: str | None
    differs: tuple[Reason, ...]
    revision_before: str
    revision_after: str


class Levels:
    """The levels of a series that can be compared with each other.

    :param nights: in their order
    :param chain_nights: those of the series
    :param of_reference: whether they are those of the reference kernel alone
    """

    def __init__(
        self,
        series: Series,
        nights: Sequence[Night],
        chain_nights: Sequence[ChainNight],
        *,
        of_reference: bool = False,
    ) -> None:
        analysed = Analysed.of(nights)
        self.series = series
        self.nights = nights
        self.is_paired = analysed.is_paired
        self.is_log = analysed.is_log
        self._renewed = chain_references(nights, chain_nights, is_log=self.is_log)
        values = analysed.values
        if of_reference:
            scale = Scale(is_paired=False, is_log=self.is_log)
            values = tuple(scale.analysed(night.reference, None) for night in nights)
        sign = -1.0 if of_reference else 1.0
        self.values = [
            None if value is None else value + sign * self._shift(night.position)
            for value, night in zip(values, nights, strict=True)
        ]

    def up_to(self, day: int, number: int, most_days: int) -> list[int]:
        """Return the indexes of the last nights with a value up to a day.

        :param number: how many at most
        :param most_days: how old they may be
        """
        return [
            index
            for index, night in enumerate(self.nights)
            if self.values[index] is not None
            and night.day is not None
            and day - most_days < night.day <= day
        ][-number:]

    def compare(self, before: Sequence[int], after: Sequence[int]) -> LevelChange:
        """Return the change between two groups of nights with values; p is not corrected.

        :param before: indexes of nights, in their order; later ones in ``after``
        """
        why, difference = self._difference(before, after)
        scale = math.expm1 if self.is_log else float

        def scaled(number: float | None) -> float | None:
            return None if number is None else scale(number)

        return LevelChange(
            series=self.series,
            is_paired=self.is_paired,
            is_log=self.is_log,
            nights_before=len(before),
            nights_after=len(after),
            change=scaled(difference.difference),
            ci_low=scaled(difference.ci_low),
            ci_high=scaled(difference.ci_high),
            p=difference.p,
            q=None,
            word="unknown",
            why=why,
            differs=tuple(
                reason for reason, name in _CONDITIONS.items() if self._differs(before, after, name)
            ),
            revision_before=self._revision(before),
            revision_after=self._revision(after),
        )

    def _shift(self, position: int) -> float:
        """Return the change from the first reference kernel to that of a night."""
        chains = (chain for at, chain in self._renewed.items() if at <= position)
        return math.fsum(chain.shift for chain in chains if chain is not None)

    def _difference(
        self, before: Sequence[int], after: Sequence[int]
    ) -> tuple[str | None, Difference]:
        """Return why nothing is stated, and the difference."""
        nothing = Difference(difference=None, ci_low=None, ci_high=None, p=None)
        groups = [
            [value for index in group if (value := self.values[index]) is not None]
            for group in (before, after)
        ]
        chains = self._chains(before, after)
        if None in chains:
            return "the reference kernel was renewed without a chain night", nothing
        error = math.hypot(*(chain.sd for chain in chains if chain is not None))
        if min(map(len, groups)) >= _FEWEST:
            return None, welch_difference(*groups, error=error)
        earlier = self.values[: after[0] if after else 0][-WINDOW:]
        known = [value for value in earlier if value is not None]
        sd = sd_between_nights(known)
        if not all(groups) or sd is None:
            return f"too few nights (expected {_FEWEST} of each time, or {FEWEST} before)", nothing
        error = math.hypot(error, sd * math.sqrt(sum(1.0 / len(group) for group in groups)))
        first, second = (math.fsum(group) / len(group) for group in groups)
        if error == 0.0:
            exact = second - first
            return None, Difference(difference=exact, ci_low=exact, ci_high=exact, p=None)
        return None, student_difference(second - first, error, len(known) - 1.0)

    def _chains(self, before: Sequence[int], after: Sequence[int]) -> list[Chain | None]:
        if not before or not after:
            return []
        first, last = (self.nights[index].position for index in (before[0], after[-1]))
        return [chain for at, chain in self._renewed.items() if first < at <= last]

    def _differs(self, before: Sequence[int], after: Sequence[int], name: str) -> bool:
        first, second = (
            {getattr(self.nights[index], name) for index in group} - {None}
            for group in (before, after)
        )
        return bool(first) and bool(second) and first != second

    def _revision(self, group: Sequence[int]) -> str:
        return self.nights[group[-1]].revision if group else ""
