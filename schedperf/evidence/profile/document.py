# SPDX-License-Identifier: GPL-2.0-or-later
"""What ``schedperf profile`` found in one recording, or between two: counted samples by row.

Shares are in per cent of what the event counted (periods), changes of them in percentage points.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from schedperf.evidence.profile.record import Clock, Independent
from schedperf.model.perf_event import PerfEvent
from schedperf.model.schema import UNSET, Unset

SortKey = Literal["event", "cpu", "node", "comm", "dso", "symbol"]
SideName = Literal["base", "new"]
# A CPU, node or name; None where the recording does not say.
Value = int | str | None

BySide = Mapping[SideName, int]
Period = Annotated[int, "sum over the runs, in the unit of the event"]
MeanShare = Annotated[
    float | None, "mean of the runs, in per cent of what the event counted (periods); null: none"
]
Interval = Annotated[
    tuple[float, float] | None, "95% CI of the change; null with fewer than two runs on a side"
]
CorrectedP = Annotated[
    float | None, "p after Benjamini and Hochberg's correction; null where nothing was tested"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowKeys:
    """What a row is of: those of the keys that were asked for."""

    event: str | Unset = UNSET
    cpu: int | Unset | None = UNSET
    node: int | Unset | None = UNSET
    comm: str | Unset | None = UNSET
    symbol: str | Unset = UNSET
    dso: str | Unset = UNSET

    def value(self, key: SortKey) -> Value:
        """Return the value of a key; None where the recording does not say."""
        value: Value | Unset = getattr(self, key)
        return None if value is UNSET else value


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleRow(RowKeys):
    """Samples of one side alone."""

    samples: int
    period: Period
    share: MeanShare


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleCounts:
    """Samples of one of two sides."""

    samples: int
    period: Period
    share: MeanShare


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleCost:
    """The same per operation of the benchmark, in the unit of the event."""

    base: float | None
    new: float | None
    change: float | None
    interval: Interval
    q: CorrectedP
    changed: Annotated[bool, "q below 0.05"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedRow(RowKeys):
    """Samples of both sides, and what changed."""

    base: SampleCounts
    new: SampleCounts
    change: Annotated[float | None, "new - base, percentage points"]
    interval: Interval
    q: CorrectedP
    changed: Annotated[bool, "q below 0.05, and by 0.1 percentage points at least"]
    cost: Annotated[SampleCost | None, "per operation; null where these are not known"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileSight:
    """What an event sees."""

    side: Annotated[SideName | None, "null: of all sides"]
    clock: Annotated[Clock | None, "null: not a time"]
    unit: Annotated[str, "what periods count"]
    nmi: Annotated[bool | None, "does it interrupt where interrupts are off?"]
    blind: Annotated[bool | None, "is code that runs with interrupts off invisible?"]
    reason: str
    precise: Annotated[int, "0: the address may be late, to 3: it is exact"]
    emulated: Annotated[bool | None, "is it a counter of an emulator?"]
    remedy: Annotated[str | None, "what to record instead"]
    caveats: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledEvent:
    """What the rows of an event rest on."""

    event: str
    perf_event: Annotated[
        Mapping[SideName, PerfEvent],
        "as the kernel was asked for it; of several with this name, on hybrid CPUs, the first; one "
        "side alone is base",
    ]
    independent: Independent
    n: Annotated[BySide, "independent ones that have samples of the event; one side alone is base"]
    samples: Annotated[BySide, "over the runs; one side alone is base"]
    period: Annotated[BySide, "over the runs, in the unit of the event; one side alone is base"]
    sight: tuple[ProfileSight, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileLosses:
    """What a recording does not hold."""

    records: Annotated[int, "of any kind, that the kernel could not deliver"]
    samples: Annotated[int, "known to be among them"]
    throttled: Annotated[int, "how often the kernel paused an event"]
    unknown_ids: Annotated[int, "samples that belong to no event of the file"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileSide:
    """One source."""

    side: Annotated[SideName | None, "null of one side alone"]
    label: str
    path: str
    point: Annotated[str, "workload and point; empty for perf.data by itself"]
    runs: int
    lost: ProfileLosses
    loss: Annotated[str | None, "the same as a sentence; null: nothing was lost"]
    notes: Annotated[tuple[str, ...], "what could not be parsed, one sentence each"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileDocument:
    """The samples of one source, or of two against each other."""

    schema: Literal["schedperf/profile/1"] = "schedperf/profile/1"
    tool_version: str
    sort: tuple[SortKey, ...]
    operation: Annotated[
        str | None, "what `cost` is for; null: unknown, or runs with different units"
    ]
    took_turns: Annotated[bool, "false: drift confounds the comparison"]
    cautions: Annotated[tuple[str, ...], "caveats of the numbers"]
    sides: tuple[ProfileSide, ...]
    events: tuple[SampledEvent, ...]
    rows: Annotated[
        tuple[SampleRow, ...] | tuple[ComparedRow, ...],
        "of one side, or of two; each has the keys of `sort`",
    ]
