# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the page of a series: strip, timeline, noise, steps, the same step elsewhere, and nights."""

import re
from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup, escape
from msgspec import Struct

from schedperf.history.periods import Change
from schedperf.history.questions.noise import WEEK
from schedperf.history.questions.open_steps import OpenStep
from schedperf.history.questions.recent import NightResult, Recent
from schedperf.history.questions.records import Step, StepChange
from schedperf.history.states import is_open
from schedperf.model.units import format_number, interval_of, scale_for, signed
from schedperf.publish.culprit.workloads import command_at
from schedperf.publish.dashboard.chart import CLASSES, Mark, draw_strip, draw_timeline
from schedperf.publish.dashboard.conditions import night_at, place_of
from schedperf.publish.dashboard.frame import Frame
from schedperf.publish.dashboard.lab import Lab, describe_result, short
from schedperf.publish.dashboard.shown import Shown
from schedperf.publish.dashboard.words import describe_change_of, describe_size
from schedperf.publish.pages.site import Entry
from schedperf_reports.history.words import describe_change, describe_step

# Longer tables of decisions are on the page of decisions.
_MOST_DECISIONS = 12
_DATE = 10
# Columns of numbers.
_NUMBERS = range(2, 7)
_NUMBER = ' class="number"'
_BETWEEN, _END = "\n", "\n</tbody></table>"
_ROW_NIGHT = re.compile(r' data-night="([^"]*)"')


class Fact(Struct, frozen=True, kw_only=True):
    """One line of the list below the timeline.

    :param address: what the text links to; "" for nothing
    """

    name: str
    text: str
    address: str = ""
    label: str = ""


class ShownStep(Struct, frozen=True, kw_only=True):
    """A step of the series.

    :param words: direction, change, interval and state
    :param is_gone: whether it is not there in the last nights
    :param tone: class of these words
    :param kernels: last good and first bad kernel; "" if unknown
    :param machines: answers of the other machines to an open step
    :param together: other results of the machine that moved within a week
    :param is_cut: whether earlier decisions are left out
    :param record: the published record of the first bad commit
    :param request: what is requested; "" for nothing
    """

    step: Step
    words: str
    is_gone: bool
    tone: str
    kernels: str
    machines: Sequence[Mapping[str, str]]
    together: Sequence[Fact]
    decisions: Sequence[Mapping[str, str]]
    is_cut: bool
    record: Entry | None
    request: str


class SeriesPages:
    """Draws the pages of series.

    :ivar shown: the texts of the pages
    """

    def __init__(self, lab: Lab, shown: Shown, frame: Frame) -> None:
        self._lab = lab
        self.shown = shown
        self._frame = frame
        self._shell = frame.shell(root="../")
        self._gone = lab.gone
        self._open: dict[str, list[OpenStep]] = {}
        for each in lab.open:
            self._open.setdefault(each.found.series.key, []).append(each)

    def draw(self, recent: Recent, before: bytes = b"") -> bytes:
        """Return the page of a series.

        :param before: the page as it was, whose nights have not changed, except those that it
            lacks; b"" to draw all
        """
        lab, series = self._lab, recent.series
        marks = [*_marks(recent, lab.steps.get(series.key, ()), lab.changes.get(series.key, ()))]
        steps = [*self._steps(recent)]
        result, machine = describe_result(series), lab.machine(series)
        content = self._frame.render_part(
            "site/series.html.j2",
            recent=recent,
            series=series,
            command=command_at(series.workload, series.point).line,
            machine=machine,
            result=result,
            now=describe_change_of(recent, recent.last),
            lost=lab.lost.get(series.key),
            opened=next((each for each in steps if is_open(each.step.state)), None),
            strip=draw_strip(recent.nights),
            timeline=draw_timeline(recent, marks),
            marks=marks,
            facts=[*self._facts(recent)],
            steps=steps,
            unit=_unit_words(recent),
            pair_half=recent.pair_half,
            table=self._table(recent, before),
        )
        return self._shell.fill(escape(f"{result}, {machine.name}"), content)

    def _table(self, recent: Recent, before: bytes) -> Markup:
        """Return the table of the nights, the newest one first."""
        unit = _Unit(recent)
        head = "".join(
            f'<th scope="col"{_NUMBER if index in _NUMBERS else ""}>{escape(column)}</th>'
            for index, column in enumerate(_columns(recent, unit))
        )
        start = f'<table class="nights" id="table"><thead><tr>{head}</tr></thead>\n<tbody>\n'
        newer, known = _rows_of(before, start, recent)
        rows = [self._row(night, unit) for night in recent.nights[: -newer - 1 : -1]]
        rows += [known] if known else []
        return Markup(f"{start}{_BETWEEN.join(rows)}{_END}")  # noqa: S704 # each part is escaped

    def _facts(self, recent: Recent) -> Iterator[Fact]:
        yield Fact(name="noise", text=_describe_noise(recent))
        yield Fact(name="sees", text=_describe_sees(recent))
        if recent.reference:
            yield Fact(name="reference", text=self.shown.text(short(recent.reference)))
        for change in reversed(self._lab.changes.get(recent.series.key, ())):
            night = night_at(recent, change.order)
            if night is not None:
                yield Fact(name="conditions", text=f"{night}: {describe_change(change)}")

    def _steps(self, recent: Recent) -> Iterator[ShownStep]:
        """Yield what is known about each step, the newest one first."""
        key = recent.series.key
        opened = {each.found.step.id: each for each in self._open.get(key, ())}
        for step in reversed(self._lab.steps.get(key, ())):
            decisions = self._lab.decisions.get(step.id, ())
            yield ShownStep(
                step=step,
                words=describe_step(step),
                is_gone=step.id in self._gone,
                tone=CLASSES.get(step.direction, "moved"),
                kernels=self._kernels(opened.get(step.id)),
                machines=_machines(opened.get(step.id), self._lab),
                together=[*self._together(step, recent)],
                decisions=[*_decisions(decisions)],
                is_cut=len(decisions) > _MOST_DECISIONS,
                record=self._lab.of_step.get(step.id),
                request=self._lab.request_of(step),
            )

    def _kernels(self, opened: OpenStep | None) -> str:
        if opened is None or not (opened.before and opened.first):
            return ""
        return f"last good {short(opened.before)}, first bad {short(opened.first)}"

    def _together(self, step: Step, recent: Recent) -> Iterator[Fact]:
        """Yield the other results of the machine that moved within a week of a step."""
        machine = self._lab.machine(recent.series)
        for each in self._lab.all_steps:
            is_other = each.step.id != step.id and each.series.key != recent.series.key
            if not is_other or self._lab.machine(each.series).id != machine.id:
                continue
            days = (step.day, each.step.day)
            if days[0] is not None and days[1] is not None and abs(days[0] - days[1]) <= WEEK:
                yield Fact(
                    name=describe_result(each.series),
                    text=f"{each.step.night}, {describe_step(each.step)}",
                    address=f"{each.series.key}.html",
                )

    def _row(self, night: NightResult, unit: "_Unit") -> str:
        html = self.shown.html
        reason = html(night.reason or "no result")
        return _row(night, (html(night.night), html(short(night.revision)), reason), unit)


class _Unit:
    """How values of a series are printed."""

    def __init__(self, recent: Recent) -> None:
        self.is_ratio = recent.is_paired and recent.is_log
        self.is_paired = recent.is_paired
        levels = [each.new for each in recent.nights]
        self.scale = scale_for(recent.series.unit, *levels)


def _row(night: NightResult, texts: tuple[str, str, str], unit: _Unit) -> str:
    """Return the row of a night.

    :param texts: date, kernel, and why there is no result; escaped
    """
    date, revision, reason = texts
    name = CLASSES[night.verdict]
    link = f'<a href="../n/{date[:_DATE]}.html">{date}</a>' if "-" in date else date
    start = (
        f'<tr class="{name}" data-night="{date}"><th scope="row">{link}</th>'
        f"<td><code>{revision}</code></td>"
    )
    if night.change is None:
        return f'{start}<td colspan="5">{reason}</td><td>lost</td></tr>'
    level = unit.scale.format(night.new)
    reference = unit.scale.format(night.reference) if night.reference is not None else "-"
    if unit.is_ratio:
        change = signed(night.change)
        interval = (
            "-" if night.low is None or night.high is None else interval_of(night.low, night.high)
        )
        data = f' data-change="{night.change:.6g}"'
    else:
        change = unit.scale.format_change(night.change) if unit.is_paired else "-"
        interval = (
            "-"
            if night.low is None or night.high is None
            else f"[{unit.scale.format(night.low)}, {unit.scale.format(night.high)}]"
        )
        data = f' data-change="{night.change:.6g}"'
    ends = "" if night.low is None else f' data-low="{night.low:.6g}" data-high="{night.high:.6g}"'
    boots = (
        f"{night.boots or '?'} + {night.reference_boots or '?'}"
        if unit.is_paired
        else f"{night.boots or '?'}"
    )
    return (
        f'{start}<td class="number"{data}{ends}>{change}</td><td class="number">{interval}</td>'
        f'<td class="number">{level}</td><td class="number">{reference}</td>'
        f'<td class="number">{boots}</td><td class="verdict">{night.verdict}</td></tr>'
    )


def _rows_of(page: bytes, start: str, recent: Recent) -> tuple[int, str]:
    """Return how many nights are newer than the table of a page, and its rows that stay.

    :param start: of the table; with another one, all nights are newer
    """
    nights = recent.nights
    nothing = len(nights), ""
    first = page.find(start.encode())
    end = page.find(_END.encode(), first)
    if first < 0 or end < 0:
        return nothing
    rows = page[first + len(start.encode()) : end].decode()
    newest = _night_of(rows)
    newer = next(
        (
            number
            for number, night in enumerate(reversed(nights))
            if str(escape(night.night)) == newest
        ),
        len(nights),
    )
    # Rows of nights that are not among the last ones any more.
    for _ in range(rows.count(_BETWEEN) + 1 - (len(nights) - newer)):
        rows = rows[: max(rows.rfind(_BETWEEN), 0)]
    is_whole = rows.count(_BETWEEN) + 1 == len(nights) - newer
    oldest = _night_of(rows[rows.rfind(_BETWEEN) + 1 :])
    return (newer, rows) if is_whole and oldest == str(escape(nights[0].night)) else nothing


def _night_of(row: str) -> str | None:
    match = _ROW_NIGHT.search(row)
    return None if match is None else match[1]


def _columns(recent: Recent, chosen: "_Unit") -> tuple[str, ...]:
    unit = chosen.scale.unit
    of_unit = f", {unit}" if unit else ""
    change = "change" if recent.is_paired and recent.is_log else f"new - reference{of_unit}"
    if not recent.is_paired:
        change = "without reference"
    return (
        "night",
        "new kernel",
        change,
        "95% CI",
        f"new{of_unit}",
        f"reference{of_unit}",
        "boots",
        "verdict",
    )


def _unit_words(recent: Recent) -> str:
    series = recent.series
    better = f"{series.better} is better" if series.better in {"higher", "lower"} else ""
    return ", ".join(filter(None, (series.unit, better)))


def _describe_noise(recent: Recent) -> str:
    measured = len(recent.nights) - recent.lost
    parts = [
        f"{measured} nights with a result, {recent.lost} without, in the last {len(recent.nights)}"
    ]
    if recent.sd_nights is not None:
        what = "new / reference" if recent.is_paired else "the value"
        parts.append(f"SD of {what} between nights {describe_size(recent.sd_nights, recent)}")
    if recent.sd_boots is not None:
        parts.append(f"SD between boots {describe_size(recent.sd_boots, recent)}")
    if recent.aa_nights:
        parts.append(f"A/A nights with p < 0.05: {recent.aa_differ} of {recent.aa_nights}")
    return "; ".join(parts)


def _describe_sees(recent: Recent) -> str:
    one, week = recent.seen_in_one_night, recent.seen_in_seven_nights
    if one is None or week is None:
        return "unknown with fewer than 8 nights"
    sizes = (describe_size(one, recent), describe_size(week, recent))
    return f"a change of {sizes[0]} in one night, {sizes[1]} in seven nights (80% power at 5%)"


def _marks(recent: Recent, steps: Sequence[Step], changes: Sequence[Change]) -> Iterator[Mark]:
    if not steps and not changes:
        return
    indexes = {place_of(each.night): index for index, each in enumerate(recent.nights)}
    for change in changes:
        if change.order in indexes:
            yield Mark(index=indexes[change.order], kind="break", label=describe_change(change))
    for step in steps:
        if step.position in indexes:
            kind = CLASSES.get(step.direction, "moved")
            yield Mark(index=indexes[step.position], kind=kind, label=describe_step(step))


def _machines(opened: OpenStep | None, lab: Lab) -> list[Mapping[str, str]]:
    """Return the answer of each other machine to an open step."""
    if opened is None:
        return []
    return [
        {
            "key": each.series.key,
            "name": lab.machine(each.series).name,
            "answer": "lost" if each.series.key in lab.lost else each.answer,
            "change": _describe_level(
                each.change.change,
                each.change.ci_low,
                each.change.ci_high,
                is_log=each.change.is_log,
            ),
        }
        for each in opened.machines[1:]
        if each.series.key in lab.machines
    ]


def _describe_level(
    change: float | None, low: float | None, high: float | None, *, is_log: bool
) -> str:
    if change is None:
        return ""
    if not is_log:
        return format_number(change)
    return (
        signed(change)
        if low is None or high is None
        else f"{signed(change)} {interval_of(low, high)}"
    )


def _decisions(decisions: Sequence[StepChange]) -> Iterator[Mapping[str, str]]:
    for each in decisions[-_MOST_DECISIONS:]:
        yield {
            "at": each.at[:_DATE],
            "state": each.state,
            "reason": each.reason,
            "by": each.decided_by,
        }
