# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the verdict in one sentence per side: the result, its interval, n and direction.

::

    hackbench time +34.5% [+15.5%, +56.7%] (n = 5+5 runs, lower is better)
    none of 5 results changed, all within +-3%; changes of 1.2% or more detectable (80% power)
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison, Overall
from schedperf.model.rows import Row, Verdict
from schedperf.model.text import join_names
from schedperf.model.units import percent
from schedperf.model.verdict import (
    FALSE_DISCOVERY_RATE,
    decide_overall,
    describe_mde,
    reason_of,
)
from schedperf_reports.words.quantities import format_share
from schedperf_reports.words.remarks import advise
from schedperf_reports.words.rows import (
    count_of,
    describe_change,
    has_same_data,
    name_rows,
    name_side,
    name_with_role,
    size_of_change,
)

RESULT_WORDS: Mapping[Verdict, str] = {
    "regression": "regressed",
    "improvement": "improved",
    "no-change": "unchanged",
    "inconclusive": "inconclusive",
    "invalid": "not comparable",
}


class SideVerdict(Struct, frozen=True, kw_only=True):
    """The verdict of one new side.

    :param side: its name: "new", "new2"
    :param label: its label with its name if there are several new sides; "" otherwise
    :param text: the sentence, without side and verdict
    :param is_mixed: whether some of its results regressed and others improved
    """

    side: str
    label: str
    verdict: Verdict
    text: str
    is_mixed: bool

    @property
    def headline(self) -> str:
        """Return the sentence, preceded by the side if there are several."""
        return f"{self.label}: {self.text}" if self.label else self.text


def describe_verdict(comparison: Comparison) -> str:
    """Return the sentence that follows the verdict of the comparison.

    It is that of the deciding side; without one, the reason of the verdict.
    """
    deciding = deciding_side(comparison)
    return comparison.overall.reason if deciding is None else deciding.headline


def deciding_side(comparison: Comparison) -> SideVerdict | None:
    """Return the first side that has the verdict of the comparison.

    Return None if there is none, or if the comparison has no results.
    """
    if not comparison.rows:
        return None
    sides = judge_sides(comparison)
    return next((side for side in sides if side.verdict == comparison.overall.verdict), None)


def judge_sides(comparison: Comparison) -> tuple[SideVerdict, ...]:
    """Return the verdict of each new side, in their order."""
    rows = [line for line in _named(comparison.rows) if line[0].family == "primary"]
    several = len(comparison.sides) > 2  # noqa: PLR2004 # base and one new
    verdicts = []
    for side in comparison.sides[1:]:
        mine = tuple((row, name) for row, name in rows if row.side == side.name)
        overall = _overall_of(comparison, side.name) if several else comparison.overall
        changed = {row.verdict for row, _ in mine} & {"regression", "improvement"}
        is_mixed = len(changed) > 1
        sentence = _Sentence(comparison=comparison, side=side.name, overall=overall, rows=mine)
        text = sentence.write()
        label = name_with_role(side) if several else ""
        verdicts.append(
            SideVerdict(
                side=side.name,
                label=label,
                verdict=overall.verdict,
                text=text,
                is_mixed=is_mixed,
            )
        )
    return tuple(verdicts)


def _named(rows: Sequence[Row]) -> list[tuple[Row, str]]:
    return list(zip(rows, name_rows(rows).values(), strict=True))


def _overall_of(comparison: Comparison, side: str) -> Overall:
    digests = {entry.name: entry.digest for entry in comparison.sides}
    blocking = [
        difference
        for difference in comparison.comparability.differences
        if difference.severity == "blocking" and difference.side in (BASE, side)
    ]
    rows = [row for row in comparison.rows if row.side == side]
    is_same = digests[side] == digests[BASE]
    return decide_overall(
        rows,
        blocking=() if is_same else blocking,
        absence=("inconclusive", reason_of(f"no primary result recorded for {side}")),
    )


class _Sentence(Struct, frozen=True, kw_only=True):
    # The primary rows of one side with their names.
    comparison: Comparison
    side: str
    overall: Overall
    rows: Sequence[tuple[Row, str]]

    def write(self) -> str:
        verdict = self.overall.verdict
        of_verdict = [line for line in self.rows if line[0].verdict == verdict]
        same = {side.digest for side in self.comparison.sides if side.name in (BASE, self.side)}
        if verdict == "no-change" and len(same) == 1:
            return self._same_data()
        if not of_verdict or verdict == "invalid":
            return self.overall.reason
        if verdict == "no-change":
            return self._unchanged()
        if verdict == "inconclusive":
            return self._open(of_verdict)
        return self._moved(of_verdict)

    def _names(self) -> tuple[str, str]:
        # Base is the first side, whatever its name in the record.
        base, *others = self.comparison.sides
        new = next(side for side in others if side.name == self.side)
        return name_side(base), name_side(new)

    def _same_data(self) -> str:
        number = len([row for row in self.comparison.rows if row.side == self.side])
        names = join_names(self._names())
        who = "the sides" if has_same_data(self.comparison) else names
        results = count_of(number, "result")
        return f"{who} contain the same data (equal digests), so there is no change in {results}"

    def _moved(self, moved: Sequence[tuple[Row, str]]) -> str:
        if len(self.rows) == 1:
            return _change(*moved[0])
        parts = [self._largest(self.overall.verdict)]
        opposite: Verdict = "improvement" if self.overall.verdict == "regression" else "regression"
        if any(row.verdict == opposite for row, _ in self.rows):
            parts.append(self._largest(opposite))
        return "; ".join((*parts, *self._others(self.overall.verdict, opposite)))

    def _largest(self, verdict: Verdict) -> str:
        rows = [line for line in self.rows if line[0].verdict == verdict]
        row, name = max(rows, key=lambda line: size_of_change(line[0]))
        most = "" if len(rows) == 1 else "; largest"
        count = f"{len(rows)} of {count_of(len(self.rows), 'result')}"
        return f"{count} {RESULT_WORDS[verdict]}{most}: {_change(row, name)}"

    def _others(self, *named: Verdict) -> Iterator[str]:
        counts = Counter(row.verdict for row, _ in self.rows)
        listed = [
            f"{counts[verdict]} {word}"
            for verdict, word in RESULT_WORDS.items()
            if counts[verdict] and verdict not in named
        ]
        if listed:
            yield ", ".join(listed)

    def _unchanged(self) -> str:
        margins = {f"+-{percent(row.margin)}" for row, _ in self.rows}
        within = f"within {' or '.join(sorted(margins))}"
        smallest = [row.mde for row, _ in self.rows if row.mde is not None]
        is_known = len(smallest) == len(self.rows)
        if len(self.rows) == 1:
            tail = f"; {describe_mde(format_share(smallest[0]))}" if is_known else ""
            return f"{_change(*self.rows[0])}, {within}{tail}"
        largest = f"changes of {format_share(max(smallest))} or more" if is_known else ""
        tail = f"; {largest} detectable (80% power)" if is_known else ""
        return f"none of {len(self.rows)} results changed, all {within}{tail}"

    def _open(self, rows: Sequence[tuple[Row, str]]) -> str:
        row, name = max(rows, key=lambda line: size_of_change(line[0]))
        advice = advise(row)
        # The text that follows is advice, which the next steps give as commands.
        why = "; ".join(filter(None, (row.reason_short, advice)))
        if len(self.rows) == 1:
            return f"{_change(row, name)}: {why}"
        number = f"{len(rows)} of {len(self.rows)} results inconclusive"
        return "; ".join((f"{number}; {_change(row, name)}: {why}", *self._others("inconclusive")))


def _change(row: Row, name: str) -> str:
    return f"{name} {describe_change(row)}"


def describe_informational(comparison: Comparison) -> str | None:
    """Describe one result if no result is used for the verdict.

    Return None if a result is primary, and is thus used, or if no result has a CI. Among several,
    choose the significant change that is largest; if none is significant, the one with the
    narrowest CI. Results that repeat the measurement of another one are ignored.
    """
    rows = [line for line in _named(comparison.rows) if line[0].same_as is None]
    known = [line for line in rows if line[0].ci_low and line[0].ci_high is not None]
    if not known or any(row.family == "primary" for row, _ in rows):
        return None
    changed = [line for line in known if _is_beyond_chance(line[0])]
    row, name = (
        max(changed, key=lambda line: size_of_change(line[0]))
        if changed
        else min(known, key=lambda line: _width(line[0]))
    )
    side = f" on {row.side}" if len(comparison.sides) > 2 else ""  # noqa: PLR2004
    change = f"{_change(row, name)}{side}"
    if len(rows) == 1:
        return f"not used for the verdict: {change}"
    which = (
        f"{len(changed)} changed significantly, most: "
        if changed
        else "none changed significantly; narrowest CI: "
    )
    return f"{len(rows)} results, not used for the verdict: {which}{change}"


def _width(row: Row) -> float:
    return row.ci_high / row.ci_low if row.ci_low and row.ci_high is not None else math.inf


def _is_beyond_chance(row: Row) -> bool:
    return row.q is not None and row.q < FALSE_DISCOVERY_RATE
