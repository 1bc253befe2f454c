# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of the section ``realtime``: exceedances and maxima, never means."""

from typing import Annotated, ClassVar

from msgspec import Struct

from schedperf.model.rows import Replication
from schedperf.model.sections import SectionData
from schedperf.model.units import format_number, scale_for


def write_seconds(seconds: float) -> str:
    """Format a latency with a suitable unit.

    >>> write_seconds(0.0002), write_seconds(0.0713)
    ('200 us', '71.3 ms')
    """
    scale = scale_for("s", seconds)
    return f"{scale.format(seconds)} {scale.unit}"


def write_share(count: int, samples: int) -> str:
    """Format a share of samples.

    >>> write_share(3, 60_000), write_share(0, 60_000)
    ('0.005%', '0%')
    """
    return f"{format_number(100.0 * count / samples, 2)}%"


class _RealtimeRow(Struct, frozen=True, kw_only=True):
    row: Annotated[str, "id of the row; findings refer to this id"]
    side: str
    workload: str
    point: str
    metric: Annotated[str, "what was measured, e.g. cyclictest latency"]
    n_base: Annotated[int, "sample size of base, in units of `replication`"]
    n_new: int
    replication: Annotated[Replication, "unit of replication: what `n_base` and `n_new` count"]
    ratio: Annotated[float | None, "ratio new / base; null if not available"]
    ci_low: Annotated[float | None, "lower bound of the 95% CI of `ratio`; null if not available"]
    ci_high: Annotated[
        float | None, "upper bound; null if not available, or if there is none (base has 0)"
    ]
    p: float | None
    q: Annotated[
        float | None, "p, corrected for multiple testing over all rows of the same kind and side"
    ]
    changed: Annotated[
        bool | None, "true if the change is significant; null if it cannot be tested"
    ]


class ExceedanceRow(_RealtimeRow, frozen=True, kw_only=True):
    """Samples of at least a threshold, base against a new side."""

    threshold_s: Annotated[float, "threshold in s; samples of at least this latency are counted"]
    above_base: Annotated[int, "samples of at least the threshold, in all runs of base"]
    above_new: int
    samples_base: Annotated[int, "all samples, in all runs of base"]
    samples_new: int
    share_low_base: Annotated[
        float | None, "lower bound of the 95% CI of `above_base` / `samples_base`"
    ]
    share_high_base: float | None
    share_low_new: float | None
    share_high_new: float | None
    values_base: Annotated[
        tuple[int, ...],
        "samples of at least the threshold in each run of base, in the order of the runs in the "
        "bundle",
    ]
    values_new: tuple[int, ...]


class MaximumRow(_RealtimeRow, frozen=True, kw_only=True):
    """The largest latency, base against a new side.

    ``ratio`` is the typical ratio of the maximum of a run (or boot) of new to one of base: the
    shift of Hodges and Lehmann, with its exact interval.
    """

    base: Annotated[float, "largest latency of all runs of base, in s"]
    new: float
    samples_base: Annotated[float, "mean number of samples per run of base"]
    samples_new: float
    values_base: Annotated[
        tuple[float, ...],
        "largest latency of each run of base, in s, in the order of the runs in the bundle",
    ]
    values_new: tuple[float, ...]
    why_invalid: Annotated[str | None, "why the maxima must not be compared; null if they may"]


class Realtime(SectionData, frozen=True, kw_only=True):
    """Latencies of real-time benchmarks (cyclictest, rtla): exceedances and maxima."""

    section: ClassVar[str] = "realtime"
    version: ClassVar[int] = 1
    table: ClassVar[str] = "exceedances"

    exceedances: tuple[ExceedanceRow, ...]
    maxima: tuple[MaximumRow, ...]
    notes: Annotated[tuple[str, ...], "what could not be counted"]
