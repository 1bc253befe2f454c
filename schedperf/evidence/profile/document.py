# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record that ``schedperf profile`` writes: the samples of one or two sides.

Shares are in percent of the sum of the event's periods, their changes in percentage points (pp).
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Struct, UnsetType, field

from schedperf.evidence.profile.record import Clock, Independent, Level
from schedperf.model.perf_event import PerfEvent

SortKey = Literal["event", "cpu", "node", "comm", "dso", "symbol"]
SideName = Literal["base", "new"]
# A CPU, node or name; None if not recorded.
Value = int | str | None

BySide = Mapping[SideName, int]
Period = Annotated[int, "sum of the sample periods over the runs, in the unit of the event"]
MeanShare = Annotated[
    float | None,
    "share of the event count, in percent, mean over the runs; null if no run has samples",
]
Interval = Annotated[
    tuple[float, float] | None,
    "95% CI of the change; null if a side has fewer than 2 runs or the variance is 0",
]
CorrectedP = Annotated[
    float | None, "p-value after Benjamini-Hochberg correction; null if not tested"
]


class RowKeys(Struct, frozen=True, kw_only=True):
    """The keys of a row, as selected with ``--sort``."""

    event: str | UnsetType = UNSET
    cpu: int | UnsetType | None = UNSET
    node: int | UnsetType | None = UNSET
    comm: str | UnsetType | None = UNSET
    symbol: str | UnsetType = UNSET
    dso: str | UnsetType = UNSET

    def value(self, key: SortKey) -> Value:
        """Return the value of a key; None if not recorded, or not selected with ``--sort``."""
        value: Value | UnsetType = getattr(self, key)
        return None if value is UNSET else value


class SampleRow(RowKeys, frozen=True, kw_only=True):
    """One row if only one side was given."""

    samples: int
    period: Period
    share: MeanShare


class SampleCounts(Struct, frozen=True, kw_only=True):
    """Samples of one of two compared sides."""

    samples: int
    period: Period
    share: MeanShare


class SampleCost(Struct, frozen=True, kw_only=True):
    """Cost per operation of the benchmark on both sides, in the unit of the event."""

    base: float | None
    new: float | None
    change: float | None
    interval: Interval
    q: CorrectedP
    changed: Annotated[bool, "true if the cost changed significantly (q < 0.05)"]


class ComparedRow(RowKeys, frozen=True, kw_only=True):
    """One row of a comparison: samples of both sides and the change."""

    base: SampleCounts
    new: SampleCounts
    change: Annotated[float | None, "change in the share, new - base, in percentage points"]
    interval: Interval
    q: CorrectedP
    changed: Annotated[
        bool, "true if the share changed significantly (q < 0.05), by 0.1 percentage points or more"
    ]
    cost: Annotated[
        SampleCost | None, "cost per operation; null if the number of operations is unknown"
    ]


class ProfileSight(Struct, frozen=True, kw_only=True):
    """Which code an event can sample."""

    side: Annotated[SideName | None, "side that the description applies to; null for all sides"]
    clock: Annotated[
        Clock | None,
        "trigger of a sample: a timer or the PMU; null for tracepoints and other software events",
    ]
    unit: Annotated[str, "unit of the sample periods"]
    nmi: Annotated[
        bool | None,
        "true if the event also samples code that runs with interrupts off (NMI); null if unknown",
    ]
    blind: Annotated[
        bool | None,
        "true if the event cannot sample code that runs with interrupts off; null if unknown",
    ]
    reason: str
    precise: Annotated[int, "precise level of the event, 0 (arbitrary skid) to 3 (no skid)"]
    emulated: Annotated[bool | None, "true if an emulator provides the counter; null if unknown"]
    remedy: Annotated[
        str | None, "how to measure code with interrupts off; null if the event samples it"
    ]
    excluded: Annotated[
        tuple[Level, ...],
        "privilege levels that the event does not count; code that runs at these levels has no "
        "samples",
    ] = ()
    caveats: tuple[str, ...]


class SampledEvent(Struct, frozen=True, kw_only=True):
    """An event and the number of its samples and runs."""

    event: Annotated[str, "event with its modifiers, as perf prints it, e.g. cycles:u"]
    perf_event: Annotated[
        Mapping[SideName, PerfEvent],
        "event as passed to the kernel, per side; only base if one side is given",
    ]
    independent: Independent
    n: Annotated[
        BySide,
        "number of runs (or boots) with samples of the event, per side; "
        "only base if one side is given",
    ]
    samples: Annotated[
        BySide, "number of samples in all runs, per side; only base if one side is given"
    ]
    period: Annotated[
        BySide,
        "sum of the sample periods, in the unit of the event, per side; "
        "only base if one side is given",
    ]
    lost: Annotated[
        Mapping[SideName, int | None],
        "number of lost samples in all runs, per side; only base if one side is given; null if a "
        "recording does not count them by event",
    ] = field(default_factory=dict)
    sight: tuple[ProfileSight, ...]


class ProfileLosses(Struct, frozen=True, kw_only=True):
    """Samples and records that a recording lacks."""

    records: Annotated[int, "number of records of any type lost by the kernel"]
    samples: Annotated[int, "number of lost records known to be samples"]
    throttled: Annotated[int, "number of times that the kernel throttled an event"]
    unknown_ids: Annotated[int, "number of samples with an event id that the file does not define"]


class ProfileSide(Struct, frozen=True, kw_only=True):
    """One bundle or perf.data."""

    side: Annotated[SideName | None, "base or new; null if only one source was given"]
    label: str
    path: str
    point: Annotated[str, "workload and parameters; empty for a perf.data file"]
    runs: int
    lost: ProfileLosses
    loss: Annotated[str | None, "`lost` as a sentence; null if all its counts are 0"]
    notes: Annotated[
        tuple[str, ...], "parts of the recording that could not be parsed, one sentence each"
    ]


class ProfileDocument(Struct, frozen=True, kw_only=True):
    """The samples of one source, or of two compared."""

    schema: Literal["schedperf/profile/1"] = "schedperf/profile/1"
    tool_version: str
    sort: tuple[SortKey, ...]
    operation: Annotated[
        str | None,
        "unit of an operation in `cost`, e.g. message; null if unknown or different between runs",
    ]
    took_turns: Annotated[bool, "false if drift may confound the comparison"]
    cautions: Annotated[tuple[str, ...], "caveats, one sentence each"]
    sides: tuple[ProfileSide, ...]
    events: tuple[SampledEvent, ...]
    rows: Annotated[
        tuple[SampleRow, ...] | tuple[ComparedRow, ...],
        "one row per combination of the keys in `sort`, for one side or for a comparison",
    ]
