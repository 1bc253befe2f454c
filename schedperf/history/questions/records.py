# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the records of a history: series, nights, steps and their changes of state."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, ClassVar

from msgspec import Struct

from schedperf.history.series import Scale
from schedperf.history.states import StepState
from schedperf.history.store.decisions import PROGRAM, Direction, StepChanged

# Characters of 2026-11-30.
_DATE = 10


def _day(night: str) -> int | None:
    try:
        return date.fromisoformat(night[:_DATE]).toordinal()
    except ValueError:
        return None


class Series(Struct, frozen=True, kw_only=True):
    """What is followed over nights: one result of one machine class and tree.

    :param machine_class: "" for a foreign history
    :param tree: URL of the repository of the new kernels; "" if unknown
    """

    derived: ClassVar[tuple[str, ...]] = ("name",)

    key: Annotated[str, "12 hexadecimal digits, the same in all stores"]
    machine_class: str
    tree: str
    workload: str
    point: str
    metric: str
    unit: str
    better: str
    family: str

    @property
    def name(self) -> str:
        """Return the metric and, if there are several, the parameters: "time groups=4"."""
        return f"{self.metric} {self.point}".rstrip()


class Night(Struct, frozen=True, kw_only=True):
    """One night of a series.

    :param position: order of the nights
    :param night: date, with a number if it has several nights; or the order of a foreign history
    :param revision: commit or release of the new kernel; "" if unknown
    :param new: level of the new kernel, in the unit of the series; None if the night is lost
    :param new_sd: standard deviation between boots, of logarithms if the series is positive
    :param reference: level of the reference kernel; None if it was not measured
    :param environment: hash of the settings of the machine; None if unknown
    :param parser: version of what parsed the output of the workload; None if unknown
    :param program: hash of the programs of the workload; None if unknown
    """

    position: int
    night: str
    revision: str
    scale: str
    new: float | None
    new_sd: float | None
    new_boots: int | None
    new_runs: int | None
    reference: float | None
    reference_sd: float | None
    reference_boots: int | None
    reference_runs: int | None
    reference_revision: str | None
    environment: str | None
    reference_environment: str | None
    parser: str | None
    program: str | None
    emulated: bool | None

    @property
    def day(self) -> int | None:
        """Return the date as days since the year 1; None if only an order is known."""
        return _day(self.night)


class Step(Struct, frozen=True, kw_only=True):
    """A lasting change of a series, one object over all nights.

    :param night: the first night after the change
    :param direction: "worse", "better", or "higher", "lower" if the direction is unknown
    :param change: as a fraction; None if unknown
    """

    id: str
    series: str
    position: int
    night: str
    direction: Direction
    state: StepState
    change: float | None
    ci_low: float | None
    ci_high: float | None

    @property
    def day(self) -> int | None:
        """Return the first night as days since the year 1; None if only an order is known."""
        return _day(self.night)

    def changed(
        self,
        state: StepState,
        *,
        reason: str,
        by: str = PROGRAM,
        numbers: Mapping[str, float] = {},
    ) -> StepChanged:
        """Return the decision that gives it a state; its change stays.

        :param reason: why, one line
        :param by: who decides
        :param numbers: what the decision is based on, by name
        """
        return StepChanged(
            step=self.id,
            series=self.series,
            position=self.position,
            night=self.night,
            direction=self.direction,
            state=state,
            change=self.change,
            ci_low=self.ci_low,
            ci_high=self.ci_high,
            reason=reason,
            numbers=numbers,
            by=by,
        )


class StepChange(Struct, frozen=True, kw_only=True):
    """A decision about a step.

    :param at: when it was made, ISO 8601, UTC
    :param numbers: what it is based on, as JSON
    """

    step_id: str
    number: int
    at: str
    state: str
    change: float | None
    ci_low: float | None
    ci_high: float | None
    reason: str
    numbers: str
    decided_by: str


class Analysed(Struct, frozen=True, kw_only=True):
    """The values of a series that questions analyse, one per night.

    :param is_paired: whether they are of new / reference
    :param is_log: whether they are logarithms; otherwise they are differences, or values
    :param values: shape (nights,); None for a lost night
    """

    is_paired: bool
    is_log: bool
    values: tuple[float | None, ...]

    @classmethod
    def of(cls, nights: Sequence[Night]) -> "Analysed":
        """Return log(new / reference), or log(new) if no night has a reference.

        Values that are not all above 0 are not transformed, and references are subtracted.
        """
        scale = Scale(
            is_paired=any(night.reference is not None for night in nights),
            is_log=all(night.scale == "log" for night in nights),
        )
        return cls(
            is_paired=scale.is_paired,
            is_log=scale.is_log,
            values=tuple(scale.analysed(night.new, night.reference) for night in nights),
        )

    @property
    def measured(self) -> list[float]:
        """The values without lost nights."""
        return [value for value in self.values if value is not None]
