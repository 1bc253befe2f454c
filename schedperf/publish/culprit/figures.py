# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the results that mails and pages about a first bad commit report, in one order.

Subjects, sentences, tables and counts use the same rows, so they cannot disagree.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison
from schedperf.model.errors import InputError
from schedperf.model.host import read_host
from schedperf.model.row_groups import SideBySide
from schedperf.model.rows import Row, Verdict
from schedperf.model.sections import Finding
from schedperf.model.sides import SideSummary
from schedperf.model.text import clean_line
from schedperf.model.worse import is_emulated, is_worse
from schedperf.publish.culprit.record import (
    COMMIT_DIGITS,
    Bisection,
    Culprit,
    Elsewhere,
    Measured,
)

# A percentage of at least this is written with an exponent.
_LARGEST_PERCENT = 1e5
# Number of words that name a benchmark: perf bench sched pipe.
_MOST_WORDS = 4
# Digits of an id that distinguish comparisons in an error.
ID_DIGITS = 16
# Words of a CPU's model name that do not distinguish it, or repeat the number of its CPUs.
_EMPTY_WORDS = re.compile(r"\((?:R|TM)\)|\b\d+-Core\b|\bProcessor\b|\bCPU\b|@ .*", re.IGNORECASE)
_STEP_METHOD = "step from the side before, corrected by Holm"


def _name_comparison(comparison_id: str) -> str:
    return f"comparison {comparison_id[:ID_DIGITS]}"


class Evidence(Struct, frozen=True, kw_only=True):
    """A record about a first bad commit, and the comparisons that it refers to.

    :param comparisons: by their ids
    """

    culprit: Culprit
    comparisons: Mapping[str, Comparison]

    def comparison(self, measured: Measured) -> Comparison:
        """Return the comparison of a measurement.

        All methods that use a comparison raise this error.

        :raises InputError: it was not given, or :func:`check_sides` rejects it
        """
        comparison = self.listed(measured.comparison)
        check_sides(comparison, measured, _name_comparison(measured.comparison))
        return comparison

    def listed(self, comparison_id: str) -> Comparison:
        """Return a comparison that the record lists.

        :raises InputError: it was not given
        """
        comparison = self.comparisons.get(comparison_id)
        if comparison is None:
            raise InputError(
                f"{_name_comparison(comparison_id)}: not found (the record of the first bad commit "
                "refers to it); copy its JSON file to the record's directory"
            )
        return comparison

    @property
    def main(self) -> Comparison:
        """Return the comparison that mails and pages report."""
        return self.comparison(self.culprit.main)

    @property
    def main_sides(self) -> tuple[SideSummary, SideSummary]:
        """Return the good and the bad side of the main comparison."""
        measured = self.culprit.main
        return side_of(self.main, measured.before), side_of(self.main, measured.side)

    def side(self, measured: Measured) -> SideSummary:
        """Return the new side of a measurement."""
        return side_of(self.comparison(measured), measured.side)

    def rows(self, measured: Measured) -> list[Row]:
        """Return the results of a measurement, as :func:`results_of` does."""
        return results_of(self.comparison(measured), measured)

    def row_like(self, measured: Measured | None, row: Row) -> Row | None:
        """Return the same result of another measurement.

        :param measured: the measurement; None if there is none
        :return: None if there is no measurement, or it lacks the result
        """
        if measured is None:
            return None
        rows = rows_of(self.comparison(measured), measured)
        return next((each for each in rows if each.question == row.question), None)

    def regressions(self) -> list[Row]:
        """Return the results that regressed, in the order in which they decide.

        Those of a step of the record come first, then primary ones, then the largest change.
        """
        seen = {(each.workload, each.point, each.metric) for each in self.culprit.steps}
        worse = worst_first([row for row in self.rows(self.culprit.main) if is_worse(row)])
        return sorted(
            worse,
            key=lambda row: (
                (row.workload, row.point, row.metric) not in seen,
                row.family != "primary",
            ),
        )

    def improvements(self) -> list[Row]:
        """Return the results that improved, the largest change first."""
        rows = [row for row in self.rows(self.culprit.main) if row.verdict == "improvement"]
        return sorted(rows, key=badness)

    def reasons(self) -> list[Finding]:
        """Return the findings of the main comparison that may explain the regression."""
        main = self.culprit.main
        found = self.main.findings
        return [each for each in found if each.bearing == "reason" and each.side == main.side]

    def has_only_layout(self) -> bool:
        """Return whether all reasons are changes of the cache-line layout; false without any."""
        evidence = [name for each in self.reasons() for name in each.evidence]
        return bool(evidence) and all(name.startswith("layout#") for name in evidence)

    def headline(self) -> Row:
        """Return the regression that decided, as :meth:`regressions` orders them.

        :raises InputError: no result regressed
        """
        regressions = self.regressions()
        if not regressions:
            overall = self.main.overall
            raise InputError(
                f"{self.culprit.id}: no significant regression "
                f"({overall.verdict}: {overall.reason_short}); record more boots, or do not report"
            )
        return regressions[0]


def check_sides(comparison: Comparison, measured: Measured, where: str) -> None:
    """Reject a measurement whose sides the comparison lacks, or cannot compare.

    A side can be measured against base, or against the side before it.

    :param where: name of the comparison, for messages
    :raises InputError: a side is missing, or it is measured against another side
    """
    names = [side.name for side in comparison.sides]
    if measured.side not in names[1:]:
        raise InputError(
            f"{where}: unknown side {measured.side!r} (expected one of {', '.join(names[1:])})"
        )
    earlier = dict.fromkeys((BASE, names[names.index(measured.side) - 1]))
    if measured.before not in earlier:
        raise InputError(
            f"{where}: {measured.side} cannot be measured against {measured.before!r} (expected "
            f"{' or '.join(earlier)})"
        )


def side_of(comparison: Comparison, name: str) -> SideSummary:
    """Return the side with this name; it must exist in the comparison."""
    return next(side for side in comparison.sides if side.name == name)


def rows_of(comparison: Comparison, measured: Measured) -> list[Row]:
    """Return all results of a measurement.

    If a side is measured against the side before it, each row has the values and the CI of that
    step, and results that one of the sides lacks are left out.
    """
    rows = [row for row in comparison.rows if row.side == measured.side]
    if measured.before == BASE:
        return rows
    before = {row.question: row for row in comparison.rows if row.side == measured.before}
    beside = {
        (each.workload, each.point, each.metric, each.unit, each.better): each
        for each in comparison.side_by_side
    }
    return [
        _step_row(row, before[row.question], beside[row.question])
        for row in rows
        if row.question in before and row.question in beside
    ]


def results_of(comparison: Comparison, measured: Measured) -> list[Row]:
    """Return the results of a measurement that have a change and are not informational.

    Timings from an emulator are all informational, but are returned nevertheless. Rows that repeat
    the measurement of another metric, e.g. as its reciprocal, are left out.
    """
    return [
        row
        for row in rows_of(comparison, measured)
        if has_change(row)
        and row.same_as is None
        and (row.family != "informational" or is_emulated(row))
    ]


def _step_row(row: Row, before: Row, beside: SideBySide) -> Row:
    """Return a row that compares a side with the side before it.

    A step that is not significant is inconclusive.
    """
    step = next((cell.step for cell in beside.cells if cell.side == row.side), None)
    verdict: Verdict = "inconclusive"
    if step is not None and step.significant and step.ratio is not None:
        is_better = (step.ratio > 1.0) == (row.better == "higher")
        verdict = "improvement" if is_better else "regression"
    reason = "significant step" if verdict != "inconclusive" else "no significant step"
    return replace(
        row,
        n_base=before.n_new,
        base=before.new,
        values_base=before.values_new,
        statistics_base=before.statistics_new,
        ratio=step and step.ratio,
        ci_low=step and step.ci_low,
        ci_high=step and step.ci_high,
        p=step and step.p,
        q=step and step.p_corrected,
        verdict=verdict,
        method=_STEP_METHOD,
        reason=reason,
        reason_plain=reason,
        reason_short=reason,
        **dict.fromkeys(
            ("mde", "more_runs", "icc", "design_effect", "p_rank", "rank_ratio", "rank_low",
             "rank_high", "p_t", "p_rank_min", "mode_boundary", "runs_above")
        ),
    )  # fmt: skip


def has_change(row: Row) -> bool:
    """Return whether a row has finite means of both sides, and a positive ratio with a CI."""
    figures = (row.base, row.new, row.ratio, row.ci_low, row.ci_high)
    return all(figure is not None and math.isfinite(figure) for figure in figures) and bool(
        row.ratio and row.ratio > 0.0
    )


def is_interleaved(comparison: Comparison, rows: Sequence[Row]) -> bool | None:
    """Return whether the runs of the sides were interleaved.

    :return: None if the order of a run is not recorded, or the values of the runs are missing
    """
    caveats = [*comparison.caveats, *(each for row in rows for each in row.caveats)]
    if any(caveat.code == "blocks" for caveat in caveats):
        return False
    values = [value for row in rows for value in (*row.values_base, *row.values_new)]
    is_known = bool(values) and all(value.order is not None for value in values)
    return True if is_known else None


def badness(row: Row) -> float:
    """Return the natural log of a row's ratio, with the sign that makes worse values positive.

    It is 0 without a ratio. If the better direction is unknown, larger values count as worse.
    """
    change = math.log(row.ratio) if row.ratio else 0.0
    return -change if row.better == "higher" else change


def worst_first(rows: Sequence[Row]) -> list[Row]:
    """Sort rows as in tables: the largest change for the worse first."""
    return sorted(rows, key=badness, reverse=True)


def name_result(row: Row) -> str:
    """Return the metric of a row, preceded by its benchmark if the metric does not name it.

    Examples are ``hackbench time`` and ``sec/op of DirectSend``.
    """
    benchmark = name_benchmark(row.workload)
    is_named = benchmark.split()[0].lower() in row.metric.lower()
    return row.metric if is_named else f"{row.metric} of {benchmark}"


def show_change(ratio: float) -> str:
    """Format a change with its sign: ``+21.8%``."""
    return f"{'-' if ratio < 1.0 and show_size(ratio) != '0.0%' else '+'}{show_size(ratio)}"


def show_size(ratio: float) -> str:
    """Format the size of a change without its sign: ``21.8%``."""
    value = abs(100.0 * (ratio - 1.0))
    return f"{value:.1f}%" if value < _LARGEST_PERCENT else f"{value:.2g}%"


def show_interval(row: Row) -> str:
    """Format the 95% CI of a row that has one: ``[+16.1%, +27.9%]``."""
    assert row.ci_low is not None
    assert row.ci_high is not None
    return f"[{show_change(row.ci_low)}, {show_change(row.ci_high)}]"


def show_both(row: Row) -> str:
    """Format change and CI of a row that has both: ``+21.8% [+16.1%, +27.9%]``."""
    assert row.ratio is not None
    return f"{show_change(row.ratio)} {show_interval(row)}"


def describe_effect(row: Row, metric: str | None = None) -> str:
    """Describe the effect of a commit on a result that has a change and a CI.

    An example is ``increases hackbench time by 21.8% [95% CI +16.1%, +27.9%]``.


    :param metric: the metric as the text spells it [default: as :func:`name_result`]
    """
    assert row.ratio is not None
    verb = "increases" if row.ratio >= 1.0 else "decreases"
    interval = show_interval(row).replace("[", "[95% CI ", 1)
    return f"{verb} {metric or name_result(row)} by {show_size(row.ratio)} {interval}"


def describe_bisection(bisection: Bisection) -> str:
    """Describe a bisection's effort, and the probability that its first bad commit is right.

    An example is ``10 builds and 40 boots, probability 0.996``. The probability is ``unknown`` if
    it was not computed.
    """
    builds = f"{bisection.builds} build{'s' * (bisection.builds != 1)}"
    boots = f"{bisection.boots} boot{'s' * (bisection.boots != 1)}"
    known = bisection.probability is not None
    probability = f"{bisection.probability:.3f}" if known else "unknown"
    return f"{builds} and {boots}, probability {probability}"


def describe_place(place: Elsewhere) -> str:
    """Describe where a commit was also measured: ``1-socket, 64-CPU EPYC, linux-6.12.y``.

    A backport is named by its hash after that.
    """
    backport = place.backport and f"backported as {place.backport[:COMMIT_DIGITS]}"
    return ", ".join(filter(None, (place.machine, place.tree, backport)))


def day_of(date: str | None) -> str:
    """Return the day of an ISO 8601 date; "" if the date is unknown.

    >>> day_of("2026-11-21T12:00:00Z")
    '2026-11-21'
    """
    return (date or "")[: len("2026-11-21")]


def boot_of(side: SideSummary) -> object:
    """Return the id of the first boot of a side; None if it is not recorded."""
    system = side.host.get("system")
    return system.get("boot_id") if isinstance(system, Mapping) else None


def name_benchmark(workload: str) -> str:
    """Return the name of a benchmark from its command: ``perf bench sched pipe``.

    It is ``unknown`` for an empty command.
    """
    words = clean_line(workload).split()
    # The path "." has no last part.
    first = PurePosixPath(words[0]).name or words[0] if words else "unknown"
    named = [first]
    # Only perf bench has subcommands, which belong to the name.
    for word in words[1:_MOST_WORDS] if first == "perf" else ():
        if not word.isalpha():
            break
        named.append(word)
    return " ".join(named)


def name_machine(side: SideSummary) -> str:
    """Describe a side's machine in a few words: ``2-socket, 96-CPU AMD EPYC``."""
    if not side.host:
        return "unknown machine"
    host = read_host(side.host)
    sockets = {cpu.socket for cpu in host.topology.cpus if cpu.socket is not None}
    parts = [
        f"{len(sockets)}-socket" if sockets else "",
        f"{host.cpu.count_online}-CPU" if host.cpu.count_online else "",
    ]
    kind = host.virtualisation
    named = _EMPTY_WORDS.sub(" ", host.cpu.model or "")
    model = " ".join(named.split()) or "unknown CPU"
    virtual = ""
    if kind.emulated:
        virtual = f" (emulated by {kind.machine})"
    elif kind.kind not in (None, "none"):
        virtual = f" ({kind.machine} guest)"
    return f"{', '.join(filter(None, parts))} {model}".strip() + virtual
