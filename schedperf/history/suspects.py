# SPDX-License-Identifier: GPL-2.0-or-later
"""Make suspected steps of what the comparison of one night found, where the watch cannot judge yet.

The watch needs 30 nights of a baseline period. Before, a regression that a comparison has found is
a suspected step, so that a new series is retested, too: once, not each night.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from msgspec import Struct
from sqlalchemy import select

from schedperf.history.questions.causes import EARLIEST, FOUND, LATEST
from schedperf.history.questions.history import History
from schedperf.history.questions.records import Series, Step
from schedperf.history.questions.watched import key_of
from schedperf.history.store.decisions import Direction, StepChanged
from schedperf.history.store.nights import position_of
from schedperf.history.store.tables import INPUT
from schedperf.history.watch.detector import FEWEST_NIGHTS
from schedperf.history.watch.steps import StepKey
from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.worse import is_emulated, is_worse

# A step in another state is about the same regression, or a person has decided about it.
_AGAIN = ("not reproduced", "fixed")
# A retest reproduces no smaller change.
_LEAST_CHANGE = 0.01
_WEEK_DAYS = 7
_DATE = 10


class Suspected(Struct, frozen=True, kw_only=True):
    """What was decided about a step, and its series."""

    series: Series
    step: StepChanged


class _Measured(NamedTuple):
    """Of what, and in which night, a side of a comparison is."""

    machine_class: str
    tree: str
    night: str
    revision: str


def find_suspects(
    history: History,
    comparisons: Collection[Comparison],
    counted: Mapping[str, int],
    decided: Collection[str],
    *,
    acts_on_emulated: bool = False,
) -> Iterator[Suspected]:
    """Yield a suspected step for each regression that a comparison found in a short series.

    Sides that are not in the store as a night's new kernel are left out.

    :param counted: nights that the watch has bet on since the last break, by the key of the series
    :param decided: keys of series with a step that is about to be stored
    :param acts_on_emulated: whether results from an emulator are suspected, too, by their CIs
    """
    series = {
        (each.machine_class, each.tree, each.workload, each.point, each.metric): each
        for each in history.series()
    }
    stored = history.steps()
    done = set(decided)
    for comparison in comparisons:
        measured = _read_measured(history, comparison)
        for row in comparison.rows:
            if row.ratio is None or not _has_regressed(row, acts_on_emulated=acts_on_emulated):
                continue
            side = measured.get(row.side)
            names = side and (side.machine_class, side.tree, row.workload, row.point, row.metric)
            found = series.get(names) if names else None
            if found is None or side is None or found.key in done:
                continue
            if counted.get(found.key, 0) >= FEWEST_NIGHTS:
                continue
            step = _suspect(found, row, side, counted.get(found.key, 0))
            if not _is_known(history, step, [each for each in stored if each.series == found.key]):
                done.add(found.key)
                yield Suspected(series=found, step=step)


def _has_regressed(row: Row, *, acts_on_emulated: bool) -> bool:
    """Return whether a comparison found a regression: by its verdict, or under emulation by its CI.

    All results from an emulator are informational.
    """
    if not is_emulated(row):
        return row.verdict == "regression" and row.family == "primary"
    is_large = row.ratio is not None and abs(row.ratio - 1.0) >= _LEAST_CHANGE
    return acts_on_emulated and is_large and row.same_as is None and is_worse(row)


def _read_measured(history: History, comparison: Comparison) -> Mapping[str, _Measured]:
    """Return of what the new sides of a comparison are that the store has, by their names."""
    digests = {side.digest: side.name for side in comparison.sides if side.name != BASE}
    query = select(INPUT).where(
        INPUT.c.digest.in_([*digests]), INPUT.c.role == "new", INPUT.c.purpose == "night"
    )
    with history.database.transaction() as connection:
        rows = connection.execute(query).all()
    return {
        digests[row.digest]: _Measured(
            machine_class=row.machine_class or "",
            tree=row.tree or "",
            night=row.night,
            revision=row.commit_hash or row.kernel or "",
        )
        for row in rows
    }


def _suspect(series: Series, row: Row, side: _Measured, nights: int) -> StepChanged:
    assert row.ratio is not None
    position = position_of(side.night)
    key = StepKey(series=key_of(series), place=position, rises=row.ratio > 1.0)
    direction: Direction = "worse"
    return StepChanged(
        step=key.name,
        series=series.key,
        position=position,
        night=side.night,
        direction=direction,
        state="suspected",
        change=row.ratio - 1.0,
        ci_low=None if row.ci_low is None else row.ci_low - 1.0,
        ci_high=None if row.ci_high is None else row.ci_high - 1.0,
        reason=(
            f"found by the comparison of one night; the series has {nights} nights, and the watch "
            f"needs {FEWEST_NIGHTS}"
        ),
        numbers={"nights": nights, EARLIEST: position, LATEST: position, FOUND: position},
    )


def _days_between(first: str, second: str) -> int:
    days = [date.fromisoformat(each[:_DATE]).toordinal() for each in (first, second)]
    return abs(days[1] - days[0])


def _is_known(history: History, step: StepChanged, stored: Sequence[Step]) -> bool:
    """Return whether a step of the series is about the same regression.

    One that was not reproduced is, if it was seen on the same kernel or less than a week before.
    """
    for each in stored:
        if each.id == step.step:
            return True
        if each.direction == step.direction and each.state not in _AGAIN:
            return True
        if each.state == "not reproduced" and _days_between(each.night, step.night) < _WEEK_DAYS:
            return True
        if each.state == "not reproduced" and _revisions(history, each) & _revisions(history, step):
            return True
    return False


def _revisions(history: History, step: Step | StepChanged) -> set[str]:
    """Return the revisions of the new kernels in the first night of a step."""
    [series] = [each for each in history.series() if each.key == step.series]
    nights = history.nights(series, step.position)
    return {each.revision for each in nights if each.position == step.position}
