# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the figures of a mail: the results of a first bad commit's comparisons, in one order.

Subject, text and table of a mail are drawn from the same rows, so they cannot disagree.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from schedperf.culprit.record import Culprit, Measured
from schedperf.model.comparison import BASE, Comparison, Row, SideSummary
from schedperf.model.errors import InputError
from schedperf.model.host import read_host

# A percentage from here on is written with an exponent.
_LARGEST_PERCENT = 1e5
# Digits of an id that tell comparisons apart in an error.
_ID_DIGITS = 16


class Evidence(Struct, frozen=True, kw_only=True):
    """A record about a first bad commit, and the comparisons that it refers to.

    :param comparisons: by their ids
    """

    culprit: Culprit
    comparisons: Mapping[str, Comparison]

    def comparison(self, measured: Measured) -> Comparison:
        """Return the comparison of a measurement.

        :raises InputError: it was not given, or lacks the side
        """
        comparison = self.comparisons.get(measured.comparison)
        if comparison is None:
            raise InputError(
                f"comparison {measured.comparison[:_ID_DIGITS]}: not given (the record of the "
                "first bad commit refers to it); name its JSON file"
            )
        if measured.side not in {side.name for side in comparison.sides[1:]}:
            raise InputError(
                f"comparison {measured.comparison[:_ID_DIGITS]}: no side {measured.side!r} "
                f"(expected one of its new sides); make the record again"
            )
        return comparison

    def side(self, measured: Measured) -> SideSummary:
        """Return the new side of a measurement."""
        sides = self.comparison(measured).sides
        return next(side for side in sides if side.name == measured.side)

    def rows(self, measured: Measured) -> list[Row]:
        """Return the results of a measurement that have a change and are not informational.

        Timings of an emulator are all informational, and are returned.
        """
        comparison = self.comparison(measured)
        rows = [row for row in comparison.rows if row.side == measured.side and has_change(row)]
        return [
            row
            for row in rows
            if row.same_as is None and (row.family != "informational" or is_emulated(row))
        ]

    def row_like(self, measured: Measured | None, row: Row) -> Row | None:
        """Return the same result of another measurement; None if it has none."""
        if measured is None:
            return None
        rows = self.comparison(measured).rows
        same = (each for each in rows if each.side == measured.side)
        return next((each for each in same if each.question == row.question), None)

    def regressions(self) -> list[Row]:
        """Return the results that regressed, the largest change first."""
        rows = [row for row in self.rows(self.culprit.main) if is_worse(row)]
        return sorted(rows, key=badness, reverse=True)

    def improvements(self) -> list[Row]:
        """Return the results that improved, the largest change first."""
        rows = [row for row in self.rows(self.culprit.main) if row.verdict == "improvement"]
        return sorted(rows, key=badness)

    def headline(self) -> Row:
        """Return the largest regression.

        :raises InputError: there is none, so there is nothing to report
        """
        regressions = self.regressions()
        if not regressions:
            overall = self.comparison(self.culprit.main).overall
            raise InputError(
                f"{self.culprit.id}: no mail is drafted: no significant regression "
                f"({overall.verdict}: {overall.reason_short}); record more boots, or do not report"
            )
        return regressions[0]


def has_change(row: Row) -> bool:
    """Return whether a row has finite means of both sides and a CI of their ratio."""
    figures = (row.base, row.new, row.ratio, row.ci_low, row.ci_high)
    return all(figure is not None and math.isfinite(figure) for figure in figures) and bool(
        row.ratio and row.ratio > 0.0
    )


def is_emulated(row: Row) -> bool:
    """Return whether a row's timings come from an emulator."""
    return any(caveat.code == "emulated" for caveat in row.caveats)


def is_worse(row: Row) -> bool:
    """Return whether a row regressed.

    Rows of an emulator have no verdict: their CI alone decides, for a draft that is held.
    """
    if row.verdict == "regression":
        return True
    if not is_emulated(row) or row.ci_low is None or row.ci_high is None:
        return False
    return row.ci_low > 1.0 if row.better == "lower" else row.ci_high < 1.0


def badness(row: Row) -> float:
    """Return the log of a row's change, positive in the worse direction."""
    change = math.log(row.ratio) if row.ratio else 0.0
    return -change if row.better == "higher" else change


def show_change(ratio: float) -> str:
    """Return a change with its sign: ``+21.8%``."""
    return f"{'-' if ratio < 1.0 and show_size(ratio) != '0.0%' else '+'}{show_size(ratio)}"


def show_size(ratio: float) -> str:
    """Return the size of a change without its sign: ``21.8%``."""
    value = abs(100.0 * (ratio - 1.0))
    return f"{value:.1f}%" if value < _LARGEST_PERCENT else f"{value:.2g}%"


def show_interval(row: Row) -> str:
    """Return the 95% CI of a row's change: ``[+16.1%, +27.9%]``."""
    assert row.ci_low is not None
    assert row.ci_high is not None
    return f"[{show_change(row.ci_low)}, {show_change(row.ci_high)}]"


def show_both(row: Row) -> str:
    """Return a row's change and its CI: ``+21.8% [+16.1%, +27.9%]``."""
    assert row.ratio is not None
    return f"{show_change(row.ratio)} {show_interval(row)}"


def name_machine(side: SideSummary) -> str:
    """Return a side's machine in a few words: ``2-socket, 96-CPU AMD EPYC``."""
    host = read_host(side.host)
    sockets = {cpu.socket for cpu in host.topology.cpus if cpu.socket is not None}
    parts = [
        f"{len(sockets)}-socket" if sockets else "",
        f"{host.cpu.count_online}-CPU" if host.cpu.count_online else "",
    ]
    model = host.cpu.model or "machine of unknown type"
    kind = host.virtualisation
    virtual = ""
    if kind.emulated:
        virtual = f" (emulated by {kind.machine})" if kind.machine not in model else " (emulated)"
    elif kind.kind not in (None, "none"):
        virtual = f" ({kind.machine} guest)"
    return f"{', '.join(filter(None, parts))} {model}".strip() + virtual


def count_replicates(rows: Sequence[Row], *, interleaved: bool) -> str:
    """Return n of the rows and its unit: ``8 boots per kernel, interleaved``."""
    counts = [n for row in rows for n in (row.n_base, row.n_new) if n is not None]
    unit = {"boots": "boot", "runs": "run", "rounds": "interleaved pair of runs"}[
        rows[0].replication
    ]
    if not counts:
        return f"number of {unit}s not recorded"
    least, most = min(counts), max(counts)
    number = f"{least}" if least == most else f"{least} to {most}"
    plural = unit.replace("pair", "pairs") if unit.startswith("inter") else f"{unit}s"
    noun = unit if most == 1 else plural
    if rows[0].replication == "rounds":
        return f"{number} {noun}"
    return f"{number} {noun} per kernel, {'' if interleaved else 'not '}interleaved"


def is_interleaved(comparison: Comparison) -> bool:
    """Return whether the runs of the sides were interleaved."""
    caveats = [*comparison.caveats, *(each for row in comparison.rows for each in row.caveats)]
    return all(caveat.code != "blocks" for caveat in caveats)


def base_of(comparison: Comparison) -> SideSummary:
    """Return the first side, which the others are compared with."""
    side = comparison.sides[0]
    assert side.name == BASE
    return side
