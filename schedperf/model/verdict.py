# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the thresholds, reasons and overall verdict of a comparison.

:mod:`schedperf.stats.verdicts` judges rows by these thresholds; reports print them.
"""

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.comparison import Overall
from schedperf.model.rows import BootSd, Replication, Row, Verdict
from schedperf.model.sides import Difference
from schedperf.model.units import percent

# The level of every printed interval unless the text states another.
CONFIDENCE = 0.95

# Runs per side that a variance needs.
FEWEST_RUNS = 2

# If base was recorded completely before new, drift looks like a change; with fewer runs per side,
# one row cannot exclude it.
FEWEST_IN_BLOCKS = 10

# Share of false discoveries tolerated among the rows called changed: Benjamini & Hochberg,
# "Controlling the false discovery rate", J. R. Stat. Soc. B 57 (1995), at the customary level.
FALSE_DISCOVERY_RATE = 0.05

# Smallest change that counts, as a fraction of the value. Below 1% a scheduler benchmark's
# number moves with the link order of the kernel.
SMALLEST_EFFECT = 0.01
# A smaller change of the other load, as a part of the CPU time, does not explain a result.
LEAST_OTHER_LOAD = 0.1

# Half-width of the band inside which two sides count as equal, as a fraction of the value: the
# change that kernel developers usually accept without a question in benchmark tables. It is fixed
# before the data are seen and never depends on them.
MARGIN = 0.03

# Verdicts that mean a change, in either direction.
CHANGED: tuple[Verdict, ...] = ("regression", "improvement")

# `compare --strict` replaces the status of an inconclusive result; statuses of errors are in
# `model.errors` and `cli`.
EXIT_STATUS: dict[Verdict, int] = {
    "regression": 1,
    "improvement": 0,
    "no-change": 0,
    "inconclusive": 0,
    "invalid": 4,
}
STRICT_INCONCLUSIVE_STATUS = 3
# Printed as the number of values if the source does not record it.
UNKNOWN = "unknown"
# The path of a difference between the measured commands.
WORKLOAD = "workload"
# Ends the reason of a comparison without a primary row.
UNDECIDED = "no verdict is given"

# Names of independent units: singular and plural. A round is an interleaved pair of runs.
_UNITS: dict[Replication, tuple[str, str]] = {
    "runs": ("run", "runs"),
    "boots": ("boot", "boots"),
    "rounds": ("pair", "pairs"),
}


# Names of the sources of a standard deviation between boots.
BOOT_SD_SOURCES = {"assumed": "assumed", "given": "--boot-sd", "history": "--history"}


class Reason(Struct, frozen=True, kw_only=True):
    """Why a row has its verdict, in the forms that reports need.

    :param sentence: one sentence with the row's own numbers
    :param plain: the sentence without the numbers; for a significant change, which has no other
        reason, the whole sentence
    :param short: the first part of the reason, without advice: "worse" for a regression
    :param finds: clause about the smallest change that the row's runs detect; "" if unknown
    :param more: clause about how many more runs would decide the row; "" if unknown
    """

    sentence: str
    plain: str
    short: str
    finds: str = ""
    more: str = ""

    @property
    def text(self) -> str:
        """Return the whole reason as one sentence."""
        return "; ".join(filter(None, (self.sentence, self.finds, self.more)))


def reason_of(why: str, detail: str = "", *, numbers: str = "") -> Reason:
    """Build a reason.

    :param why: the reason as a clause; also its short form
    :param detail: advice, appended to the reason
    :param numbers: the numbers of the row, with which the sentence begins
    """
    plain = f"{why}; {detail}" if detail else why
    return Reason(sentence=f"{numbers}: {plain}" if numbers else plain, plain=plain, short=why)


def undecided(why: str) -> Reason:
    """Return the reason of a comparison that has no verdict because it has no primary row."""
    return replace(reason_of(why), sentence=f"{why}, so {UNDECIDED}")


def describe_mde(change: str) -> str:
    """Format the smallest detectable change.

    >>> describe_mde("1.2%")
    'smallest detectable change 1.2% (80% power)'
    """
    return f"smallest detectable change {change} (80% power)"


def describe_more_runs(more_runs: int | None, replication: Replication) -> str:
    """State how many more units would decide a row; return "" for None.

    >>> describe_more_runs(3, "boots"), describe_more_runs(1, "rounds")
    ('about 3 more boots per side would give a verdict', 'about 1 more pair would give a verdict')
    """
    if more_runs is None:
        return ""
    # A pair contains a run of each side.
    where = "" if replication == "rounds" else " per side"
    return (
        f"about {more_runs} more {name_units(more_runs, replication)}{where} would give a verdict"
    )


def describe_boot_sd(boot_sd: BootSd) -> str:
    """Format a standard deviation between boots with its source.

    >>> describe_boot_sd(BootSd(sd=0.1, source="assumed"))
    'boot-to-boot standard deviation 10% (assumed)'
    """
    df = f", {boot_sd.df} df" if boot_sd.df else ""
    source = f"{BOOT_SD_SOURCES[boot_sd.source]}{df}"
    return f"boot-to-boot standard deviation {percent(boot_sd.sd)} ({source})"


def name_units(number: int, replication: Replication) -> str:
    """Return the noun for a number of independent units: "run", "runs"; "pairs" for rounds."""
    return _UNITS[replication][number != 1]


def count_units(n_base: int | None, n_new: int | None, replication: Replication) -> str:
    """Format sample sizes with their unit: ``3+3 boots``, ``8+8 runs``, ``8 pairs``.

    If neither is known (None), return ``unknown`` without a unit.
    """
    values = count_values(n_base, n_new, replication)
    if values == UNKNOWN:
        return values
    return f"{values} {name_units(1 if values == '1' else 2, replication)}"


def count_values(n_base: int | None, n_new: int | None, replication: Replication) -> str:
    """Format the number of values per side: ``5+5``, ``unknown``, ``5+unknown``; 8 pairs as ``8``.

    A pair has a value of each side, so a number of pairs is printed once.
    """
    if n_base is None and n_new is None:
        return UNKNOWN
    numbers = [UNKNOWN if number is None else str(number) for number in (n_base, n_new)]
    return numbers[0] if replication == "rounds" else "+".join(numbers)


def decide_overall(
    rows: Sequence[Row], *, blocking: Sequence[Difference], absence: tuple[Verdict, Reason]
) -> Overall:
    """Return the verdict of the whole comparison from primary rows and blocking differences.

    The first that applies: a regression in any row; invalid with blocking differences or an invalid
    row; ``absence`` without primary rows; inconclusive if any row is; an improvement in any row; no
    change.

    :param rows: rows of all families; only primary ones are used
    :param blocking: differences that block a comparison
    :param absence: the verdict and its reason if there is no primary row
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


def deciding_row(rows: Sequence[Row], verdict: Verdict) -> Row | None:
    """Return the row that the reason of an overall verdict describes; None if it is none of a row.

    :param rows: as in :func:`decide_overall`
    :param verdict: its result
    """
    alike = [row for row in rows if row.family == "primary" and row.verdict == verdict]
    return _largest(alike) if alike and verdict != "invalid" else None


def describe_blocking(blocking: Sequence[Difference]) -> Reason:
    """Return a reason that names the first blocking field and counts the others.

    :param blocking: one or more differences
    """
    first = blocking[0]
    left = len(blocking) - 1
    more = f" (and {left} more {'field' if left == 1 else 'fields'})" if left else ""
    base, new = map(_write_value, (first.base, first.new))
    return reason_of(name_differing_field(first, base, new, more), first.reason)


def name_differing_field(difference: Difference, base: str, new: str, more: str = "") -> str:
    """State which field differs: ``sched.hz differs: base 250, new 1000``.

    :param base: value of the field on base, as text; values with spaces are quoted
    :param more: a text about further differing fields; "" for none
    """
    what = "workloads differ" if difference.path == WORKLOAD else f"{difference.path} differs"
    base, new = (f"`{text}`" if " " in text else text for text in (base, new))
    return f"{what}{more}: base {base}, {difference.side} {new}"


def _write_value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _overall(verdict: Verdict, reason: Reason) -> Overall:
    return Overall(
        verdict=verdict,
        reason=reason.text,
        reason_short=reason.short,
        exit_status=EXIT_STATUS[verdict],
    )


def _largest(rows: Sequence[Row]) -> Row:
    """Return the row with the largest change."""
    return max(rows, key=lambda row: abs(math.log(row.ratio)) if row.ratio else 0.0)


def _summarise(rows: Sequence[Row], primary: int) -> Reason:
    # It represents all rows that share its verdict.
    row = _largest(rows)
    point = f" at {row.point}" if row.point else ""
    side = f" of {row.side}" if row.side != "new" else ""
    count = f"; same verdict in {len(rows)} of {primary} primary rows" if primary > 1 else ""
    name = f"{row.metric}{point}{side}"
    short = f"{name}: {row.reason_short}"
    return Reason(sentence=f"{name}: {row.reason}{count}", plain=short, short=short)
