# SPDX-License-Identifier: GPL-2.0-or-later
"""List which conditions of measurements changed in the last nights, on which machines."""

from collections.abc import Iterator

from msgspec import Struct

from schedperf.history.questions.recent import Recent
from schedperf.history.store.nights import position_of
from schedperf.publish.culprit.figures import name_benchmark
from schedperf.publish.dashboard.lab import Lab, Machine
from schedperf_reports.history.words import describe_change

# Changes of so many dates are listed.
_DATES = 14
_DATE = 10


class ChangedConditions(Struct, frozen=True, kw_only=True):
    """A change of the conditions of one benchmark.

    :param night: date of the first night after it
    :param what: what changed, and whether a baseline period begins
    """

    night: str
    benchmark: str
    what: str
    machines: tuple[Machine, ...]


def list_conditions(lab: Lab) -> Iterator[ChangedConditions]:
    """Yield the changes of the last dates of the lab, the newest one first."""
    found: dict[tuple[str, str, str], dict[str, Machine]] = {}
    dates = {*sorted(lab.night_marks)[-_DATES:]}
    for recent in lab.series:
        for change in lab.changes.get(recent.series.key, ()):
            night = (night_at(recent, change.order) or "")[:_DATE]
            if night in dates:
                key = night, name_benchmark(recent.series.workload), describe_change(change)
                machine = lab.machine(recent.series)
                found.setdefault(key, {})[machine.name] = machine
    for (night, benchmark, what), machines in sorted(found.items(), reverse=True):
        of_change = tuple(machines[name] for name in sorted(machines))
        yield ChangedConditions(night=night, benchmark=benchmark, what=what, machines=of_change)


def night_at(recent: Recent, position: int) -> str | None:
    """Return the night at a position; None if it is not among the last ones."""
    return next((each.night for each in recent.nights if place_of(each.night) == position), None)


def place_of(night: str) -> int | None:
    """Return the position of a night; None if its name has none."""
    try:
        return position_of(night)
    except ValueError:
        return int(night) if night.isdecimal() else None
