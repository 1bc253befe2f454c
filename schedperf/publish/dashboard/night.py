# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the page of a night: all results of all machines, and how the machines ended.

It follows from the rows of the night alone, so that the pages of earlier nights stay as they are.
"""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.history.questions.recent import NightOfSeries
from schedperf.model.units import interval_of, scale_for, signed
from schedperf.publish.dashboard.chart import CLASSES
from schedperf.publish.dashboard.frame import Frame
from schedperf.publish.dashboard.lab import Lab, describe_result, short
from schedperf.publish.dashboard.shown import Shown


def draw_night(
    date: str, results: Sequence[NightOfSeries], lab: Lab, shown: Shown, frame: Frame
) -> bytes:
    """Return the page of a night.

    :param results: of the series that the site shows
    """
    rows = [*_rows(results, lab, shown)]
    counts = {word: sum(each["verdict"] == word for each in rows) for word in CLASSES}
    return frame.render(
        "site/night.html.j2",
        root="../",
        title=f"Night of {date}",
        date=date,
        rows=rows,
        counts=[(word, number) for word, number in counts.items() if number],
        missing=lab.missing.get(date, ()),
        outcomes=[each for each in lab.outcomes if each.night[: len(date)] == date],
    )


def _rows(
    results: Sequence[NightOfSeries], lab: Lab, shown: Shown
) -> Iterator[Mapping[str, object]]:
    for each in results:
        series, night = lab.shown_series[each.key], each.result
        is_ratio = each.is_paired and each.is_log
        scale = scale_for(series.unit, night.new)
        change = interval = "-"
        if night.change is not None and is_ratio:
            change = signed(night.change)
            if night.low is not None and night.high is not None:
                interval = interval_of(night.low, night.high)
        elif night.change is not None and each.is_paired:
            change = f"{scale.format_change(night.change)} {scale.unit}".strip()
        yield {
            "key": each.key,
            "machine": lab.machine(series),
            "what": describe_result(series),
            "tree": series.tree,
            "kernel": shown.text(short(night.revision)),
            "change": change,
            "interval": interval,
            "value": f"{scale.format(night.new)} {scale.unit}".strip()
            if night.new is not None
            else "-",
            "boots": f"{night.boots or '?'}"
            + (f" + {night.reference_boots or '?'}" if each.is_paired else ""),
            "verdict": night.verdict,
            "tone": CLASSES[night.verdict],
        }
