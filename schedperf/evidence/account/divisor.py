# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose what the times of a run are divided by: operations, a duration, or the run itself."""

from collections.abc import Iterable
from typing import TypeVar

from schedperf.model.counted import Basis
from schedperf.model.run import Captured

Content = TypeVar("Content")
# If a benchmark does a fixed amount of work, the run is the operation.
RUN = "run"


def per_operation(run: Captured[object], times: Iterable[float]) -> list[float]:
    """Return the times of a run, divided as :func:`divide_by` says."""
    count = divide_by(run)[1]
    return [time / count for time in times]


def divide_by(run: Captured[Content]) -> tuple[Basis, float, str]:
    """Return basis, number and name of what the times of a run are divided by.

    These are its operations; the recorded time, if only a part of the run was recorded, e.g. by a
    tracer; or ("share", 1, "run"), if the operations are unknown, or if the run is the operation.
    """
    if run.ops is not None and run.ops.count and run.ops.unit != RUN:
        return "operation", run.ops.count, run.ops.unit
    if run.period_s and run.wall_s is None:
        return "time", run.period_s, "s"
    return "share", 1.0, RUN
