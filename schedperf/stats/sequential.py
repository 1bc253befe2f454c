# SPDX-License-Identifier: GPL-2.0-or-later
"""Group-sequential stopping: decide after each block of runs whether they suffice.

Base is recorded, new grows block by block, and after each block the two are
compared. Stopping at the first p below 5% has a false-positive rate of up to
27%, so each look uses a stricter level.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from schedperf.model.comparison import Row, Verdict
from schedperf.model.text import list_some
from schedperf.stats.verdicts import FEWEST_IN_BLOCKS, FEWEST_POINTS

# The level of each look that leaves 5% for all of them together, by the budget: looks after 3, 4,
# … runs of new against a base that does not grow, Welch's t on logarithms, one constant level
# (Pocock, "Group sequential methods in the design and analysis of clinical trials", Biometrika 64,
# 1977). The size of base matters (at 30 runs .0128 for 5 of them, .0032 for 70), so it is the
# smallest over bases of 3 to 200 runs. Budgets between two take the level of the larger one.
# Measured with 400 000 trials each; `bench/verdicts/looks.py` prints what becomes of them.
NOMINAL_LEVELS = (
    (3, 0.023), (4, 0.013), (5, 0.0098), (6, 0.0080), (8, 0.0062), (10, 0.0053), (12, 0.0048),
    (15, 0.0042), (20, 0.0037), (25, 0.0034), (30, 0.0032), (40, 0.0029), (50, 0.0028),
    (70, 0.0025), (100, 0.0023),
)  # fmt: skip

# What a change is tested with; fewer in base leave the looks nothing to be compared with.
FEWEST_IN_BASE = 3

_DECIDED: tuple[Verdict, ...] = ("regression", "improvement", "no-change")
# A line of progress names so many rows.
_NAMED_ROWS = 3


class Decision(Struct, frozen=True, kw_only=True):
    """The result of one look.

    :param text: the decision, or the undecided rows: one short line
    """

    is_over: bool
    text: str


def nominal_level(max_runs: int) -> float:
    """Return the level of each look that makes 5% of all looks together.

    :param max_runs: runs of each point after which the recording ends anyway
    :raises ValueError: no level is known for so large a budget
    """
    for budget, level in NOMINAL_LEVELS:
        if max_runs <= budget:
            return level
    raise ValueError(f"{max_runs} runs are too many (expected at most {NOMINAL_LEVELS[-1][0]})")


def equality_level(max_runs: int) -> float:
    """Return the level of each one-sided test against the margin, for the looks of a recording.

    Without a correction 14% of the recordings whose change is as large as the margin would end
    with "no-change". Twice the level of a change leaves 4% at most (`bench/verdicts/looks.py`);
    the interval that must lie inside the margin has a confidence of 1 - 2 * ``equality_level``.
    """
    return 2.0 * nominal_level(max_runs)


def decide_look(rows: Sequence[Row]) -> Decision:
    """Decide whether the runs are enough: every primary row is decided, or can never be.

    :param rows: of one comparison that is corrected for the looks
    """
    primary = [row for row in rows if row.family == "primary"]
    if not primary:
        text = "no verdict is possible, because there is no primary result to compare"
        return Decision(is_over=True, text=text)
    still = [row for row in primary if row.verdict not in _DECIDED]
    if not still:
        return Decision(is_over=True, text=_describe_decided(primary))
    points = Counter((row.workload, row.metric) for row in primary)
    if not any(_can_be_decided(row, points[row.workload, row.metric]) for row in still):
        return Decision(
            is_over=True,
            text=f"more runs would not give a verdict for {_name(still, len(primary))}",
        )
    needed = [_runs_needed(row, points[row.workload, row.metric]) for row in still]
    counted = [runs for runs in needed if runs is not None]
    more = f"; about {_count_more(max(counted))} may still be needed" if counted else ""
    return Decision(is_over=False, text=f"open: {_name(still, len(primary))}{more}")


def warn_of_blocks(n_base: int, max_runs: int, points: int) -> str | None:
    """State before the first run why too few runs cannot decide; None if they are enough.

    :param n_base: runs of base at the point that has the fewest
    :param max_runs: the budget
    :param points: how many points the metric has
    """
    if _is_enough(min(n_base, max_runs), points):
        return None
    few = f"base has {n_base} runs" if n_base < FEWEST_IN_BLOCKS else f"--max-runs is {max_runs}"
    return (
        f"{few}, but sides recorded one after the other need {FEWEST_IN_BLOCKS} runs each or "
        f"{FEWEST_POINTS} parameter values to separate a change from drift, so no verdict is "
        "possible"
    )


def _is_enough(runs: int, points: int) -> bool:
    return runs >= FEWEST_IN_BLOCKS or points >= FEWEST_POINTS


def _can_be_decided(row: Row, points: int) -> bool:
    # More runs of new do not help if base has no value or the machines differ.
    n_base = row.n_base or 0
    if row.verdict == "invalid":
        return n_base > 0 and not row.n_new
    return _is_enough(n_base, points)


def _runs_needed(row: Row, points: int) -> int | None:
    # More runs of new: as many as separate a change from drift, and as many as settle the row.
    n_new = row.n_new or 0
    of_blocks = None if _is_enough(n_new, points) else FEWEST_IN_BLOCKS - n_new
    return max((runs for runs in (of_blocks, row.more_runs) if runs is not None), default=None)


def _count_more(number: int) -> str:
    return f"{number} more run{'' if number == 1 else 's'}"


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
