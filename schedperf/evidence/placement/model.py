"""What is asked of a run's placement: keys of numbers, and the runs of a side."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from schedperf.evidence.placement.placement_records import PlacementCapture
from schedperf.evidence.placement.record import Idle, Part


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """Names one number of a run.

    :param field: of :mod:`schedperf.evidence.placement.fields`
    :param cause: of a migration, or "fork" or "other" of a destination; "": all, or none
    :param level: of the scheduling domains; "": all, or none
    :param idle: "idle", "busy" or "newidle"; "": none
    :param nodes: one that it was seen on, or from one to another; empty: all
    :param groups: cgroups, by path
    """

    part: Part
    field: str
    cause: str = ""
    level: str = ""
    idle: Literal["", Idle] = ""
    nodes: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()


class Quotient(NamedTuple):
    """A share or a mean.

    :param unit: "": a fraction
    :param events: that it rests on
    """

    value: float
    unit: str
    events: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedRun:
    """One run and what was seen of it.

    :param boot: number of the boot; runs of one boot are not independent of it
    :param order: place in time over all sides; None where that is unknown
    :param round: where sides took turns
    :param operations: what its benchmark did; None where that is unknown
    :param operation: one of them, in words
    """

    workload: str
    point: str
    boot: int
    run: int
    order: int | None
    round: int | None
    operations: float | None
    operation: str | None
    placement: PlacementCapture


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedSide:
    """The runs of one side.

    :param notes: what could not be read
    """

    name: str
    runs: tuple[PlacedRun, ...]
    notes: tuple[str, ...]
