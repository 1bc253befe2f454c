# SPDX-License-Identifier: GPL-2.0-or-later
"""Keep each lasting change of a series as one object, a step, over all nights.

The alarms of all nights make the steps. A step that is still there the next night stays the same
step; so does one whose place moves within its 95% confidence set when a night comes late.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import astuple

from schedperf.history.series import SeriesKey
from schedperf.history.watch.state import Alarm
from schedperf.model.rows import digest_of

# Digits of the name of a step.
STEP_DIGITS = 12


class StepKey(Struct, frozen=True, kw_only=True, order=True):
    """The identity of a step.

    :param place: order of the first night of the new level
    :param rises: whether the new level is the larger one
    """

    series: SeriesKey
    place: int
    rises: bool

    @property
    def name(self) -> str:
        """Return 12 hexadecimal digits that name the step on a command line."""
        return digest_of([*astuple(self.series), self.place, self.rises])[:STEP_DIGITS]


class Step(Struct, frozen=True, kw_only=True):
    """A lasting change of a series.

    :param key: its identity: the place is the one of the first alarm
    :param alarm: the first alarm
    """

    key: StepKey
    alarm: Alarm

    def concerns(self, key: StepKey) -> bool:
        """Return whether a key names this step, although its place may have been another one."""
        is_same = (self.key.series, self.key.rises) == (key.series, key.rises)
        return is_same and self.alarm.earliest <= key.place <= self.alarm.latest


def form_steps(alarms: Iterable[Alarm]) -> tuple[Step, ...]:
    """Return the steps that alarms make, in the order of the alarms.

    :param alarms: of any number of series; those of one series oldest first
    """
    steps: list[Step] = []
    for alarm in alarms:
        key = StepKey(series=alarm.key, place=alarm.place, rises=alarm.rises)
        if not any(step.concerns(key) for step in steps):
            steps.append(Step(key=key, alarm=alarm))
    return tuple(steps)
