# SPDX-License-Identifier: GPL-2.0-or-later
"""What decides a comparison, in the record's terms: thresholds, reasons, the overall verdict.

:mod:`schedperf.stats.verdicts` judges rows by these thresholds; reports print them.
"""

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.comparison import Difference, Overall, Replication, Row, Verdict

# Of every interval that is shown, unless its words say otherwise.
CONFIDENCE = 0.95

# Runs per side that a variance needs.
FEWEST_RUNS = 2

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

# What says that something changed, whichever way.
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


class Reason(Struct, frozen=True, kw_only=True):
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

    :param detail: advice, appended to the reason
    :param numbers: the numbers of the row, with which the sentence begins
    """
    plain = f"{why}; {detail}" if detail else why
    return Reason(sentence=f"{numbers}: {plain}" if numbers else plain, plain=plain, short=why)


def undecided(why: str) -> Reason:
    """Return why a comparison has no verdict: it has no primary row."""
    return replace(reason_of(why), sentence=f"{why}, so {UNDECIDED}")


def say_smallest(change: str) -> str:
    """Write the smallest detectable change.

    >>> say_smallest("1.2%")
    'smallest detectable change 1.2% (80% power)'
    """
    return f"smallest detectable change {change} (80% power)"


def say_more(more_runs: int | None, replication: Replication) -> str:
    """State how many more units would decide a row; "" if unknown.

    >>> say_more(3, "boots"), say_more(1, "rounds")
    ('about 3 more boots per side would give a verdict', 'about 1 more pair would give a verdict')
    """
    if more_runs is None:
        return ""
    # A pair holds a run of each side.
    where = "" if replication == "rounds" else " per side"
    return (
        f"about {more_runs} more {name_units(more_runs, replication)}{where} would give a verdict"
    )


def name_units(number: int, replication: Replication) -> str:
    """Return what so many independent units are called: "run", "runs"; of rounds "pairs"."""
    return _UNITS[replication][number != 1]


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
    """Return the verdict of the whole comparison; only primary rows count.

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


def describe_blocking(blocking: Sequence[Difference]) -> Reason:
    """Return the first field that blocks a comparison, and how many more there are."""
    first = blocking[0]
    left = len(blocking) - 1
    more = f" (and {left} more {'field' if left == 1 else 'fields'})" if left else ""
    base, new = (_write_value(value) for value in (first.base, first.new))
    values = f"{base} in base, {new} in {first.side}"
    return reason_of(f"{first.path} differs{more}: {values}", first.reason)


def _write_value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else repr(value)


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
    count = f"; same verdict in {len(rows)} of {primary} primary rows" if primary > 1 else ""
    name = f"{row.metric}{point}{side}"
    short = f"{name}: {row.reason_short}"
    return Reason(sentence=f"{name}: {row.reason}{count}", plain=short, short=short)
