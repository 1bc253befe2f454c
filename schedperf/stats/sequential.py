# SPDX-License-Identifier: GPL-2.0-or-later
"""Group-sequential stopping: decide after each block of runs whether they suffice.

Either base is complete and new grows block by block, or both grow by one run per round. After each
block the two are compared. Stopping at the first p below 5% has a false-positive rate of up to 27%,
so each look uses a stricter level.
"""

import math
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from schedperf.model.rows import BootSd, Row, Verdict
from schedperf.model.text import list_some
from schedperf.model.verdict import FEWEST_IN_BLOCKS
from schedperf.stats._boots import ASSUMED_SD
from schedperf.stats.verdicts import FEWEST_POINTS, is_hidden_by_boots, least_by_boots

# Significance level of each look that gives 5% over all looks, by the maximum number of runs: looks
# after 3, 4, … runs of new against a base that does not grow, Welch's t on logarithms, one constant
# level (Pocock, "Group sequential methods in the design and analysis of clinical trials",
# Biometrika 64, 1977). The size of base matters (at 30 runs .0128 for 5 of them, .0032 for 70), so
# it is the smallest over bases of 3 to 200 runs. Other budgets use the level of the next larger
# one. Measured with 400 000 trials each; `bench/verdicts/looks.py` prints the resulting error
# rates.
NOMINAL_LEVELS = (
    (3, 0.023), (4, 0.013), (5, 0.0098), (6, 0.0080), (8, 0.0062), (10, 0.0053), (12, 0.0048),
    (15, 0.0042), (20, 0.0037), (25, 0.0034), (30, 0.0032), (40, 0.0029), (50, 0.0028),
    (70, 0.0025), (100, 0.0023),
)  # fmt: skip

# The same for pairs, whose two sides grow together: a paired t test after 3, 4, … pairs. Sweeps
# that share a variance have more degrees of freedom, and larger levels than these. 400 000 trials;
# `bench/verdicts/pairs.py` prints the resulting error rates.
LEVELS_OF_PAIRS = (
    (3, 0.049), (4, 0.030), (5, 0.022), (6, 0.018), (8, 0.014), (10, 0.0118), (12, 0.0104),
    (15, 0.0090), (20, 0.0076), (25, 0.0067), (30, 0.0062), (40, 0.0054), (50, 0.0049),
    (70, 0.0043), (100, 0.0038),
)  # fmt: skip

# Fewest runs of base that a change can be tested with.
FEWEST_IN_BASE = 3

_DECIDED: tuple[Verdict, ...] = ("regression", "improvement", "no-change")
# Largest number of rows that a progress line names.
_NAMED_ROWS = 3


class Decision(Struct, frozen=True, kw_only=True):
    """The result of one look.

    :param is_over: True to stop recording
    :param text: the decision, or the undecided rows: one short line
    """

    is_over: bool
    text: str


def nominal_level(max_runs: int, *, is_paired: bool = False) -> float:
    """Return the significance level of each look that gives 5% over all looks.

    :param max_runs: runs of each point after which the recording ends anyway
    :param is_paired: True if values are pairs, i.e. both sides grew together
    :raises ValueError: ``max_runs`` is larger than 100
    """
    levels = LEVELS_OF_PAIRS if is_paired else NOMINAL_LEVELS
    for budget, level in levels:
        if max_runs <= budget:
            return level
    raise ValueError(f"{max_runs} runs are too many (expected at most {levels[-1][0]})")


def equality_level(max_runs: int, *, is_paired: bool = False) -> float:
    """Return the level of each one-sided test against the margin, corrected for the looks.

    Without a correction 14% of the recordings whose change is as large as the margin would end with
    "no-change". Twice the level of a change test gives at most 4% (`bench/verdicts/looks.py`); for
    pairs the same level is used (`bench/verdicts/pairs.py`). The interval that must lie inside the
    margin has a confidence of 1 - 2 * ``equality_level``.

    :param max_runs: as for :func:`nominal_level`; so is ``is_paired``
    :raises ValueError: ``max_runs`` is larger than 100
    """
    return (1.0 if is_paired else 2.0) * nominal_level(max_runs, is_paired=is_paired)


def decide_look(rows: Sequence[Row], *, is_paired: bool = False) -> Decision:
    """Decide whether to stop recording.

    Stop if all primary rows are decided, if more runs cannot decide any of the others, or without
    primary rows.

    :param rows: rows of one comparison, corrected for the looks
    :param is_paired: True if both sides grow, by one pair per round
    """
    units = "pairs" if is_paired else "runs"
    primary = [row for row in rows if row.family == "primary"]
    if not primary:
        text = "no verdict is possible without a primary result"
        return Decision(is_over=True, text=text)
    still = [row for row in primary if row.verdict not in _DECIDED]
    if not still:
        return Decision(is_over=True, text=_describe_decided(primary))
    points = Counter((row.workload, row.metric) for row in primary)
    of_metric = [points[row.workload, row.metric] for row in still]
    if not any(
        _can_be_decided(row, number, is_paired=is_paired)
        for row, number in zip(still, of_metric, strict=True)
    ):
        why = ": one boot per side" if any(row.boot_sd is not None for row in still) else ""
        return Decision(
            is_over=True,
            text=f"more {units} would not give a verdict for {_name(still, len(primary))}{why}",
        )
    few = not is_paired and any(
        not _is_enough(row.n_new or 0, number) for row, number in zip(still, of_metric, strict=True)
    )
    counted = [row.more_runs for row in still if row.more_runs is not None]
    if few:
        # This limit applies regardless of what the rows need.
        more = f"; no verdict is possible before run {FEWEST_IN_BLOCKS}"
    else:
        more = f"; about {_count_more(max(counted), units)} may still be needed" if counted else ""
    return Decision(is_over=False, text=f"open: {_name(still, len(primary))}{more}")


def warn_of_blocks(n_base: int, max_runs: int, points: int) -> str | None:
    """Return a warning before the first run if the runs are too few for a verdict; else None.

    :param n_base: smallest number of runs of base at any point
    :param max_runs: maximum number of runs
    :param points: number of points of the metric
    """
    if _is_enough(min(n_base, max_runs), points):
        return None
    few = f"base has {n_base} runs" if n_base < FEWEST_IN_BLOCKS else f"--max-runs is {max_runs}"
    return (
        f"{few}, but sides recorded one after the other need {FEWEST_IN_BLOCKS} runs each or "
        f"{FEWEST_POINTS} parameter values to separate a change from drift, so no verdict is "
        "possible"
    )


def warn_of_boots(of_base: AbstractSet[str | None], boot: str) -> str | None:
    """Return a warning before the first run if base has one boot, and new runs in another.

    :param of_base: ids of the boots of base, with None for an unknown one
    :param boot: id of the boot in which new is recorded
    :return: None without a reason to warn, or if the id of a boot of base is unknown
    """
    if len(of_base) != 1 or None in of_base or boot in of_base:
        return None
    least = math.expm1(least_by_boots(BootSd(sd=ASSUMED_SD, source="assumed")))
    return (
        "base has one boot, which is not the running one; two boots of one kernel can differ by as "
        f"much as most changes, so only changes of about {least:.0%} or more can be decided; "
        "record two boots per side or more"
    )


def _is_enough(runs: int, points: int) -> bool:
    return runs >= FEWEST_IN_BLOCKS or points >= FEWEST_POINTS


def _can_be_decided(row: Row, points: int, *, is_paired: bool) -> bool:
    if row.verdict == "invalid":
        # More runs can add missing values, but cannot make two machines comparable.
        return not row.n_new if row.n_base else is_paired
    # Pairs need no runs to separate drift from a change.
    is_enough = is_paired or _is_enough(row.n_base or 0, points)
    return is_enough and not _is_hidden_by_boots(row)


def _is_hidden_by_boots(row: Row) -> bool:
    if row.boot_sd is None:
        return False
    is_maximum = any(each.code == "maxima" for each in row.caveats)
    if is_maximum or not row.ratio:
        return True
    return is_hidden_by_boots(math.log(row.ratio), row.boot_sd, margin=math.log1p(row.margin))


def _count_more(number: int, units: str) -> str:
    return f"{number} more {units.removesuffix('s') if number == 1 else units}"


def _describe_decided(primary: Sequence[Row]) -> str:
    if len(primary) == 1:
        row = primary[0]
        return f"decided: {row.metric}{_place(row)}: {row.verdict}, {row.reason}"
    verdicts = Counter(row.verdict for row in primary)
    counts = ", ".join(f"{verdicts[name]} {name}" for name in _DECIDED if verdicts[name])
    return f"all {len(primary)} rows decided: {counts}"


def _name(rows: Sequence[Row], total: int) -> str:
    names = list_some([f"{row.metric}{_place(row)}" for row in rows], _NAMED_ROWS)
    return f"{names} ({len(rows)} of {total} rows)"


def _place(row: Row) -> str:
    return f" at {row.point}" if row.point else ""
