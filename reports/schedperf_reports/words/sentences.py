"""The verdict in one sentence a side: the direction, the number, its interval and n.

::

    B new is worse than A base: hackbench time is 34.5 % longer (95 % interval 15.5 % to 56.7 %, …
    B new is unchanged against A base: none of 5 results changed, all are equal within ±3 %; …
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedperf.model.comparison import Comparison, Overall, Row, Verdict
from schedperf.runs.side import BASE
from schedperf.stats.verdicts import UNDECIDED, decide_overall, reason_of, undecided
from schedperf_reports.words.remarks import advise
from schedperf_reports.words.rows import (
    count_of,
    describe_change,
    has_same_data,
    name_rows,
    name_side,
    size_of_change,
)
from schedperf_reports.words.units import format_share

# How a verdict is told of one side, before the name of base; and of results beside others.
SIDE_WORDS: Mapping[Verdict, str] = {
    "regression": "worse than",
    "improvement": "better than",
    "no-change": "unchanged against",
    "inconclusive": "undecided against",
    "invalid": "not comparable with",
}
MIXED = "mixed against"
# How a reason of the record begins that names what no result can overcome.

RESULT_WORDS: Mapping[Verdict, str] = {
    "regression": "worse",
    "improvement": "better",
    "no-change": "unchanged",
    "inconclusive": "inconclusive",
    "invalid": "not comparable",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SideVerdict:
    """What is said of one new side.

    :param is_mixed: some of its results got worse, and others better
    """

    side: str
    verdict: Verdict
    text: str
    is_mixed: bool


def describe_verdict(comparison: Comparison) -> str:
    """Say in one sentence what the verdict of the comparison rests on."""
    sides = judge_sides(comparison)
    found = [one for one in sides if one.verdict == comparison.overall.verdict]
    return found[0].text if found else comparison.overall.reason


def judge_sides(comparison: Comparison) -> tuple[SideVerdict, ...]:
    """Return the verdict of each new side, in their order."""
    rows = [one for one in _named(comparison.rows) if one[0].family == "primary"]
    several = len(comparison.sides) > 2  # noqa: PLR2004 # base and one new
    found = []
    for side in comparison.sides[1:]:
        mine = tuple((row, name) for row, name in rows if row.side == side.name)
        overall = _overall_of(comparison, side.name) if several else comparison.overall
        changed = {row.verdict for row, _ in mine} & {"regression", "improvement"}
        is_mixed = len(changed) > 1
        sentence = _Sentence(comparison=comparison, side=side.name, overall=overall, rows=mine)
        text = sentence.write(is_mixed=is_mixed)
        found.append(
            SideVerdict(side=side.name, verdict=overall.verdict, text=text, is_mixed=is_mixed)
        )
    return tuple(found)


def _named(rows: Sequence[Row]) -> list[tuple[Row, str]]:
    return list(zip(rows, name_rows(rows).values(), strict=True))


def _overall_of(comparison: Comparison, side: str) -> Overall:
    digests = {one.name: one.digest for one in comparison.sides}
    blocking = [
        one
        for one in comparison.comparability.differences
        if one.severity == "blocking" and one.side in (BASE, side)
    ]
    rows = [row for row in comparison.rows if row.side == side]
    is_same = digests[side] == digests[BASE]
    return decide_overall(
        rows,
        blocking=() if is_same else blocking,
        absence=("inconclusive", reason_of("no result of it can decide")),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sentence:
    # What one side's primary rows, with their names, say.
    comparison: Comparison
    side: str
    overall: Overall
    rows: Sequence[tuple[Row, str]]

    def write(self, *, is_mixed: bool) -> str:
        verdict = self.overall.verdict
        of_verdict = [one for one in self.rows if one[0].verdict == verdict]
        same = {one.digest for one in self.comparison.sides if one.name in (BASE, self.side)}
        if verdict == "no-change" and len(same) == 1:
            return self._same_data()
        if not of_verdict or verdict == "invalid":
            why = self.overall.reason_short
            is_undecided = self.overall.reason == undecided(why).text
            return self._say(
                f"{self._without_grounds(why)}, so {UNDECIDED}"
                if is_undecided
                else self.overall.reason
            )
        if verdict == "no-change":
            return self._say(self._unchanged())
        if verdict == "inconclusive":
            return self._say(self._open(of_verdict))
        return self._say(self._moved(of_verdict), MIXED if is_mixed else None)

    def _say(self, text: str, word: str | None = None) -> str:
        base, new = self._names()
        return f"{new} is {word or SIDE_WORDS[self.overall.verdict]} {base}: {text}"

    def _names(self) -> tuple[str, str]:
        # Base is the first; what it is called in the record, only its writer knows.
        base, *others = self.comparison.sides
        new = next(one for one in others if one.name == self.side)
        return name_side(base), name_side(new)

    def _without_grounds(self, why: str) -> str:
        # How anybody knows that a machine was emulated stands with what the verdict rests on.
        for one in self.comparison.caveats:
            if one.code == "emulated":
                why = why.replace(f" ({one.numbers['how']})", "")
        return why

    def _same_data(self) -> str:
        number = len([row for row in self.comparison.rows if row.side == self.side])
        itself = "itself" if number == 1 else "themselves"
        names = " and ".join(self._names())
        who = "the sides hold" if has_same_data(self.comparison) else f"{names} hold"
        return f"{who} the same data; {count_of(number, 'result')} compared with {itself}"

    def _moved(self, moved: Sequence[tuple[Row, str]]) -> str:
        if len(self.rows) == 1:
            return _change(*moved[0])
        parts = [self._largest(self.overall.verdict)]
        other: Verdict = "improvement" if self.overall.verdict == "regression" else "regression"
        if any(row.verdict == other for row, _ in self.rows):
            parts.append(self._largest(other))
        return "; ".join((*parts, *self._others(self.overall.verdict, other)))

    def _largest(self, verdict: Verdict) -> str:
        found = [one for one in self.rows if one[0].verdict == verdict]
        row, name = max(found, key=lambda one: size_of_change(one[0]))
        verb = "is" if len(found) == 1 else "are"
        most = "" if len(found) == 1 else ", the most"
        count = f"{len(found)} of {count_of(len(self.rows), 'result')} {verb}"
        return f"{count} {RESULT_WORDS[verdict]}{most}: {_change(row, name)}"

    def _others(self, *told: Verdict) -> Iterator[str]:
        counts = Counter(row.verdict for row, _ in self.rows)
        listed = [
            f"{counts[verdict]} {word}"
            for verdict, word in RESULT_WORDS.items()
            if counts[verdict] and verdict not in told
        ]
        if listed:
            yield ", ".join(listed)

    def _unchanged(self) -> str:
        margins = {f"±{format_share(row.margin)}" for row, _ in self.rows}
        within = f"equal within {' or '.join(sorted(margins))}"
        found = [row.mde for row, _ in self.rows]
        seen = [one for one in found if one is not None]
        smallest = (
            f"; a change of {format_share(max(seen))} would have been seen"
            if len(seen) == len(found)
            else ""
        )
        if len(self.rows) == 1:
            return f"{_looks(*self.rows[0])}, {within}{smallest}"
        every = " in each" if smallest else ""
        return f"none of {len(self.rows)} results changed, all are {within}{smallest}{every}"

    def _open(self, rows: Sequence[tuple[Row, str]]) -> str:
        row, name = max(rows, key=lambda one: size_of_change(one[0]))
        advice = advise(row)
        # What follows is advice, which the next steps give as commands.
        why = "; ".join(filter(None, (row.reason_short, advice)))
        if len(self.rows) == 1:
            return f"{_looks(row, name)}: {why}"
        number = f"{len(rows)} of {len(self.rows)} results cannot be decided"
        return "; ".join((f"{number}; {_looks(row, name)}: {why}", *self._others("inconclusive")))


def _change(row: Row, name: str) -> str:
    return f"{name}{describe_change(row)}"


def _looks(row: Row, name: str) -> str:
    # What is not beyond noise only looks so.
    return f"{name}{describe_change(row)}".replace(f"{name} is ", f"{name} looks ", 1)


def describe_informational(comparison: Comparison) -> str | None:
    """Say what was measured where nothing of it can decide; None where something can.

    Of several results the one with the narrowest interval is named.
    """
    rows = _named(comparison.rows)
    widths = [
        (row.ci_high / row.ci_low, row, name)
        for row, name in rows
        if row.ci_low and row.ci_high is not None
    ]
    if not widths or any(row.family == "primary" for row, _ in rows):
        return None
    _, row, name = min(widths, key=lambda one: one[0])
    side = f" on {row.side}" if len(comparison.sides) > 2 else ""  # noqa: PLR2004
    which = "" if len(rows) == 1 else f", narrowest interval of {len(rows)} results"
    return f"measured, but deciding nothing{which}: {_looks(row, name)}{side}"
