# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the page of decisions about steps: what was decided, why, on which numbers, and by whom."""

from collections.abc import Iterator, Mapping

from schedperf.model.units import interval_of, signed
from schedperf.publish.dashboard.frame import Frame
from schedperf.publish.dashboard.lab import Lab, describe_result

_MOST = 1000


def draw_decisions(lab: Lab, frame: Frame) -> bytes:
    """Return the page of decisions, the newest one first."""
    rows = sorted(_rows(lab), key=lambda row: (row["at"], row["step"], row["number"]), reverse=True)
    return frame.render(
        "site/decisions.html.j2",
        root="",
        title="Decisions",
        rows=rows[:_MOST],
        left_out=max(0, len(rows) - _MOST),
        steps=len(lab.all_steps),
    )


def _rows(lab: Lab) -> Iterator[Mapping[str, str]]:
    for found in lab.all_steps:
        for each in lab.decisions.get(found.step.id, ()):
            size = "" if each.change is None else signed(each.change)
            if each.ci_low is not None and each.ci_high is not None:
                size += f" {interval_of(each.ci_low, each.ci_high)}"
            yield {
                "at": each.at.replace("T", " ").removesuffix("Z"),
                "number": f"{each.number:06d}",
                "step": found.step.id,
                "key": found.series.key,
                "what": describe_result(found.series),
                "machine": lab.machine(found.series).name,
                "night": found.step.night,
                "direction": found.step.direction,
                "state": each.state,
                "size": size or "-",
                "reason": each.reason,
                "by": each.decided_by,
            }
