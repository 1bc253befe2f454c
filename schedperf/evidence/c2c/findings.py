# SPDX-License-Identifier: GPL-2.0-or-later
"""Yield findings for cache lines with a significant change of contention."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Literal, NamedTuple

from msgspec import Struct

from schedperf.evidence import finding
from schedperf.evidence.c2c.record import (
    C2c,
    C2cChange,
    C2cLineRow,
    C2cPairRow,
    C2cPoint,
    Observable,
    Sharing,
)
from schedperf.model.sections import Finding
from schedperf.model.units import format_number

# Largest number of findings per point; the section's table lists all lines.
MOST_FINDINGS = 5
# A pair of functions with a smaller part of the change of all pairs is not reported.
LEAST_PART = 0.05


_SHARING: Mapping[Sharing, str] = {
    "true": "true sharing: CPUs access the same bytes",
    "false": "false sharing: CPUs access different bytes of the line",
    "mixed": "true and false sharing",
}
# Names of a contended load, by observable.
_WORDS: Mapping[Observable, str] = {
    "hitm": "HITM",
    "ibs": "HITM (IBS)",
    "peer": "peer snoops",
    "unknown": "HITM",
}


class Size(NamedTuple):
    """The change of a rate, as reported in a finding.

    :param value: rate in new minus rate in base, in ``unit``; None if unknown
    :param interval: 95% CI of ``value``; None if unknown
    :param n: number of runs of base and of new
    """

    value: float | None
    interval: tuple[float, float] | None
    unit: str
    metric: str
    n: tuple[int, int]


class LoadChange(Struct, frozen=True, kw_only=True):
    """A change of a rate of contended loads.

    :param measure: whose rate it is
    """

    point: C2cPoint
    measure: Literal["remote", "local", "remote + local"]
    change: C2cChange

    @property
    def rises(self) -> bool:
        """Whether the rate is higher in new than in base; False if unknown."""
        return self.change.difference is not None and self.change.difference > 0.0

    @property
    def clause(self) -> str:
        """The change of the rate as text: ``remote HITM 3.1 -> 0.4 per 1000 messages``."""
        word = _WORDS[self.point.observable.new]
        base, new = map(_rate, self.change.rates)
        at = f" at {self.point.point}" if self.point.point else ""
        return f"{self.measure} {word} {base} -> {new} {self._unit}{at}"

    @property
    def interval(self) -> str:
        """The ratio of the rates and its 95% CI, as the text after the clause.

        If the rate in base is 0, the 95% CI of the difference.
        """
        return f" ({_ratio(self.change)})"

    @property
    def size(self) -> Size:
        """The difference of the rates, with its interval, unit and number of runs."""
        change, runs = self.change, self.point.runs
        low, high = change.difference_low, change.difference_high
        return Size(
            value=change.difference,
            interval=None if low is None or high is None else (low, high),
            unit=self._unit,
            metric=f"{self.measure} contended loads {self._unit}",
            n=(runs.base, runs.new),
        )

    @property
    def _unit(self) -> str:
        unit, per = self.point.unit, self.point.per
        return f"per {unit}" if per == 1 else f"per {per} {unit}s"


class Contention(LoadChange, frozen=True, kw_only=True):
    """A line with a significantly changed rate; if both rates changed, the one of smaller q."""

    line: C2cLineRow

    @property
    def subject(self) -> str:
        """Name of the line between backticks, then its key in parentheses.

        If base and new have different keys, both; without a name, only the keys.
        """
        keys = " -> ".join(dict.fromkeys(seen.key for seen in self.line.seen))
        return keys if self.line.name is None else f"`{self.line.name}` ({keys})"


def contentions(point: C2cPoint) -> Iterator[Contention]:
    """Yield the lines of a point that changed significantly, most contended first."""
    for line in point.lines:
        remote = Contention(point=point, line=line, measure="remote", change=line.remote)
        local = Contention(point=point, line=line, measure="local", change=line.local)
        changed = [contention for contention in (remote, local) if contention.change.changed]
        if changed:
            yield min(changed, key=lambda contention: contention.change.q or 0.0)


@finding("bouncing_lines", C2c)
def bouncing_lines(data: C2c) -> Iterator[Finding]:
    """Yield a finding for each changed line, most contended first.

    Each point of a side has at most :data:`MOST_FINDINGS` findings.
    """
    for compared in data.comparisons:
        for point in compared.points:
            for contention in islice(contentions(point), MOST_FINDINGS):
                yield _describe(compared.side, contention)


@finding("contending_functions", C2c)
def contending_functions(data: C2c) -> Iterator[Finding]:
    """Yield a finding for each pair of functions whose contention changed, largest change first.

    Each point of a side has at most :data:`MOST_FINDINGS` findings.
    """
    for compared in data.comparisons:
        for point in compared.points:
            pairs = [
                (f"`{line.name or line.row}`", pair) for line in point.lines for pair in line.pairs
            ]
            pairs += [("lines without a match", pair) for pair in point.pairs]
            changed = [(where, pair) for where, pair in pairs if pair.loads.changed]
            changed.sort(key=lambda each: -_size(each[1]))
            least = LEAST_PART * sum(_size(pair) for _, pair in changed)
            for where, pair in changed[:MOST_FINDINGS]:
                if _size(pair) >= least:
                    yield _describe_pair(compared.side, point, where, pair)


def _size(pair: C2cPairRow) -> float:
    return abs(pair.loads.difference or 0.0)


def _describe_pair(side: str, point: C2cPoint, where: str, pair: C2cPairRow) -> Finding:
    change = LoadChange(point=point, measure="remote + local", change=pair.loads)
    functions = f"{pair.reader} reads what {pair.writer} writes"
    return _finding(
        side,
        change,
        rule="contending_functions",
        row=pair.row,
        clause=f"{functions} on {where}: {change.clause}",
    )


def _describe(side: str, contention: Contention) -> Finding:
    return _finding(
        side,
        contention,
        rule="bouncing_lines",
        row=contention.line.row,
        clause=f"{contention.subject}: {contention.clause}",
        details=_sharing(contention.line),
    )


def _finding(
    side: str, change: LoadChange, *, rule: str, row: str, clause: str, details: str = ""
) -> Finding:
    size = change.size
    return Finding(
        id=f"{rule}#{row}",
        side=side,
        clause=clause,
        change=change.interval,
        details=details,
        metric=size.metric,
        value=size.value,
        ci=size.interval,
        unit=size.unit,
        better="lower",
        n=size.n,
        evidence=(f"c2c#{row}",),
        replication=f"{size.n[0]}+{size.n[1]} runs",
        attribution="correlated; causation not shown",
    )


def _sharing(line: C2cLineRow) -> str:
    # A different layout removes only false sharing.
    said = [_SHARING[seen.sharing] for seen in line.seen if seen.sharing is not None]
    if len(said) > 1 and said[0] != said[1]:
        return f"; base: {said[0]}; new: {said[1]}"
    return f"; {said[0]}" if said else ""


def _rate(value: float | None) -> str:
    return "unknown" if value is None else format_number(float(f"{value:.3g}"))


def _ratio(change: C2cChange) -> str:
    if change.ratio is None:
        low, high = _end(change.difference_low, "+"), _end(change.difference_high, "+")
        return f"none in base; 95% CI of the change [{low}, {high}]"
    low, high = _end(change.ratio_low), _end(change.ratio_high)
    return f"ratio {change.ratio:.3g}, 95% CI [{low}, {high}]"


def _end(value: float | None, sign: Literal["", "+"] = "") -> str:
    return "unbounded" if value is None else format(value, f"{sign}.3g")
