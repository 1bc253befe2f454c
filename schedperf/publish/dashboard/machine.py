# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the page of a machine: its series, its last nights, and services."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.history.questions.recent import Recent
from schedperf.publish.dashboard.chart import CLASSES, draw_sparkline
from schedperf.publish.dashboard.frame import Frame
from schedperf.publish.dashboard.lab import Lab, Machine, describe_result
from schedperf.publish.dashboard.words import describe_change_of, describe_size
from schedperf_reports.history.words import describe_step

_MOST_OUTCOMES = 60
_DATE = 10


def draw_machine(
    lab: Lab, machine: Machine, of_machine: Sequence[Recent], machine_class: str, frame: Frame
) -> bytes:
    """Return the page of a machine.

    :param machine_class: redacted
    """
    outcomes = [each for each in lab.outcomes if _is_of(each.machine, machine_class)]
    lost = [each for each in of_machine if each.series.key in lab.lost]
    return frame.render(
        "site/machine.html.j2",
        root="../",
        title=machine.name,
        machine=machine,
        rows=[*_rows(lab, of_machine)],
        has_trees=len({each.series.tree for each in of_machine}) > 1,
        lost=len(lost),
        last=max((_last_night(each) for each in of_machine), default=""),
        outcomes=outcomes[:_MOST_OUTCOMES],
        services=[each for each in lab.services if _is_of(each[0], machine_class)],
    )


def _last_night(recent: Recent) -> str:
    return "" if recent.last_result is None else recent.last_result.night[:_DATE]


def _is_of(name: str, machine_class: str) -> bool:
    return machine_class == name or machine_class.startswith(f"{name}-")


def _rows(lab: Lab, of_machine: Sequence[Recent]) -> Iterator[Mapping[str, object]]:
    gone = lab.gone
    for recent in of_machine:
        series = recent.series
        step = lab.step_of(series)
        is_gone = step is not None and step.id in gone
        lost = lab.lost.get(series.key)
        sees = recent.seen_in_one_night
        yield {
            "key": series.key,
            "what": describe_result(series),
            "tree": series.tree,
            "last": _last_night(recent),
            "change": "lost" if lost else describe_change_of(recent, recent.last),
            "tone": "lost"
            if lost
            else CLASSES.get(step.direction, "moved")
            if step and not is_gone
            else "",
            "sees": describe_size(sees, recent) if sees is not None else "-",
            "noise": describe_size(recent.sd_nights, recent)
            if recent.sd_nights is not None
            else "-",
            "lost": recent.lost,
            "nights": len(recent.nights),
            "step": f"{'went away: ' if is_gone else ''}{step.night[:_DATE]}, {describe_step(step)}"
            if step
            else "",
            "sparkline": draw_sparkline(recent),
        }
