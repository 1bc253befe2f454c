# SPDX-License-Identifier: GPL-2.0-or-later
"""Define a series: one result of a machine, night by night, and the level that is analysed.

With a reference kernel that was measured in the same night, the level is log(value / reference), so
that the machine's own drift cancels. Without one it is log(value). A series that has a value or a
reference of 0 or less uses differences and values instead of logarithms.
"""

import math
from collections.abc import Iterable

from msgspec import Struct

from schedperf.model.errors import InputError
from schedperf.model.rows import Better
from schedperf.model.text import clean_line

# Squares of larger numbers have no finite sum.
LARGEST = 1e100


class SeriesKey(Struct, frozen=True, kw_only=True, order=True):
    """The identity of a series.

    :param tree: the branch whose kernels are measured, e.g. "tip/sched/core"
    :param point: parameters of the workload; "" if it has a single point
    """

    machine_class: str
    tree: str
    workload: str
    point: str
    metric: str


class Conditions(Struct, frozen=True, kw_only=True):
    """What was in force in a night; None is not recorded.

    :param environment: hash of the settings of the machine
    :param parser: version of the parser of the benchmark's output
    :param workload: hash of the binary of the workload
    :param reference: revision of the reference kernel
    """

    environment: str | None = None
    parser: str | None = None
    workload: str | None = None
    reference: str | None = None


class Chain(Struct, frozen=True, kw_only=True):
    """The change from one reference kernel to the next, measured by booting both in one night.

    :param shift: log(next / previous); next - previous if the series uses differences
    :param sd: standard error of ``shift``
    """

    shift: float
    sd: float


class WatchedNight(Struct, frozen=True, kw_only=True):
    """One night of a series, as the watch takes it; ``questions/records.py`` has the stored one.

    :param order: increases from night to night; nights of other series of the machine have the same
    :param value: of the new kernel, in the unit of the series; None if it was not measured
    :param reference: value of the reference kernel in the same night; None if it was not measured
    :param time: when it began, in seconds since 1970; None if unknown
    :param revision: of the new kernel; None if unknown
    :param is_serviced: whether the machine was serviced since the night before
    :param chain: present if this is the first night of another reference kernel, and both were
        compared
    """

    order: int
    value: float | None
    reference: float | None
    time: int | None = None
    revision: str | None = None
    conditions: Conditions = Conditions()
    is_serviced: bool = False
    chain: Chain | None = None

    def __post_init__(self) -> None:
        """Raise InputError for a number that cannot be used."""
        numbers = {"value": self.value, "reference": self.reference}
        if self.chain is not None:
            numbers |= {"shift of the chain": self.chain.shift, "sd of the chain": self.chain.sd}
        for name, number in numbers.items():
            if number is not None and not abs(number) <= LARGEST:
                raise InputError(
                    f"night {self.order}: invalid {name} {number} (expected a number up to "
                    f"{LARGEST:g}); remove it"
                )


class Scale(Struct, frozen=True, kw_only=True):
    """How levels are computed from values.

    :param is_paired: whether each value is compared with a reference of its night
    :param is_log: whether levels are natural logarithms; otherwise they have the unit of the series
    """

    is_paired: bool
    is_log: bool

    def with_night(self, night: WatchedNight) -> "Scale":
        """Return the scale of a series that has this night, too."""
        return Scale(
            is_paired=self.is_paired or night.reference is not None,
            is_log=self.is_log and all(x is None or x > 0 for x in (night.value, night.reference)),
        )

    def level(self, number: float) -> float:
        """Return the level of a value or of a reference alone."""
        return math.log(number) if self.is_log else number

    def analysed(self, value: float | None, reference: float | None) -> float | None:
        """Return what is analysed of a night; None if the night is lost."""
        if value is None or (self.is_paired and reference is None):
            return None
        level = self.level(value)
        return level - self.level(reference) if self.is_paired and reference is not None else level

    def is_lost(self, night: WatchedNight) -> bool:
        """Return whether a night has no level."""
        return night.value is None or (self.is_paired and night.reference is None)


EMPTY = Scale(is_paired=False, is_log=True)


def scale_of(nights: Iterable[WatchedNight]) -> Scale:
    """Return the scale of a series with these nights."""
    scale = EMPTY
    for night in nights:
        scale = scale.with_night(night)
    return scale


class WatchedSeries(Struct, frozen=True, kw_only=True):
    """The nights of one result as the watch takes them, oldest first.

    :param better: which direction is an improvement
    """

    key: SeriesKey
    unit: str
    better: Better
    nights: tuple[WatchedNight, ...]

    def __post_init__(self) -> None:
        """Raise InputError unless each night is later than the one before."""
        for before, night in zip(self.nights, self.nights[1:], strict=False):
            if night.order <= before.order:
                name = clean_line(self.key.workload)
                raise InputError(
                    f"{name}: night {night.order} follows night {before.order} (expected "
                    "increasing numbers); sort the nights, and merge equal ones"
                )

    @property
    def scale(self) -> Scale:
        """Return how its levels are computed."""
        return scale_of(self.nights)
