# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the answers of ``schedperf history`` as text."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from schedperf.commands._outputs import draw_for_stdout
from schedperf.history.nightly import Suspected, Together
from schedperf.history.periods import Change as PeriodChange
from schedperf.history.periods import Reason
from schedperf.history.questions.change import Change
from schedperf.history.questions.listing import Listed
from schedperf.history.questions.noise import Noise
from schedperf.history.questions.records import Night, Series, Step, StepChange
from schedperf.history.questions.timeline import Timeline
from schedperf.model.text import clean_line, cut
from schedperf.model.units import format_number, interval_of, percent, signed
from schedperf_reports.blocks import (
    Block,
    Cell,
    Column,
    Drawing,
    DrawingLine,
    Item,
    Items,
    Table,
    Text,
)

_REASONS: Mapping[Reason, str] = {
    "environment": "other settings of the machine",
    "parser": "another version of the parser",
    "workload": "other programs of the workload",
    "reference": "another reference kernel",
    "serviced": "the machine was serviced",
    "reference-step": "a step of the reference kernel",
}
_BLOCKS = "▁▂▃▄▅▆▇█"
_LOST = "·"
_NOTHING = "-"
_LONGEST_NAME = 40
_PLOT_COLUMNS = 36
_HASH_DIGITS = 12
_SEE = "--limit or --json"


def draw_list(listed: Sequence[Listed], limit: int) -> str:
    """Return the table of ``history list``."""
    has_steps = any(each.step for each in listed)
    columns = (
        Column(title="key", code=True),
        Column(title="machine", priority=6),
        Column(title="result"),
        Column(title="nights", align="right", priority=4),
        Column(title="change", align="right"),
        Column(title="smallest step", align="right", priority=1),
        *([Column(title="state", priority=2)] if has_steps else []),
        Column(title="last nights", priority=3),
    )
    rows = tuple(
        _cells(
            each.series.key,
            _machine(each.series),
            each.series.name,
            str(each.noise.nights),
            _scaled(each.now, is_log=each.noise.is_log),
            _steps_seen(each.noise),
            *([each.step.state if each.step else ""] if has_steps else []),
            sparkline(each.recent),
        )
        for each in listed
    )
    caption = (
        "Change of new / reference now, and the smallest step that one night and seven nights show"
    )
    table = Table(caption=caption, columns=columns, rows=rows, limit=limit)
    return draw_for_stdout(f"{len(listed)} series", [table], see=_SEE)


def draw_noise(ranked: Sequence[Noise], limit: int) -> str:
    """Return the table of ``history noise``."""
    columns = (
        Column(title="key", code=True),
        Column(title="machine", priority=4),
        Column(title="result"),
        Column(title="nights", align="right", priority=2),
        Column(title="lost", align="right", priority=3),
        Column(title="smallest step", align="right"),
        Column(title="sd of nights", align="right", priority=1),
        Column(title="sd of boots", align="right", priority=1),
        Column(title="A/A", align="right", priority=3),
    )
    rows = tuple(
        _cells(
            each.series.key,
            _machine(each.series),
            each.series.name,
            str(each.nights),
            str(each.lost),
            _steps_seen(each),
            _size(each.sd_nights, each),
            _size(each.sd_boots, each),
            f"{each.aa_differ}/{each.aa_nights}" if each.aa_nights else _NOTHING,
        )
        for each in ranked
    )
    table = Table(
        caption="The smallest step that one night and seven nights show, the worst first",
        columns=columns,
        rows=rows,
        limit=limit,
    )
    return draw_for_stdout(f"Noise of {len(ranked)} series", [table], see=_SEE)


def draw_changes(changes: Sequence[Change], span: str, limit: int) -> str:
    """Return the table of ``history diff``.

    :param span: the two dates
    """
    return draw_for_stdout(f"Changes from {span}", [*_change_blocks(changes, limit)], see=_SEE)


def _change_blocks(changes: Sequence[Change], limit: int) -> Iterator[Block]:
    columns = (
        Column(title="key", code=True, priority=2),
        Column(title="machine", priority=4),
        Column(title="result"),
        Column(title="change", align="right"),
        Column(title="95% CI", align="right"),
        Column(title="q", align="right", priority=3),
        Column(title="nights", align="right", priority=1),
        Column(title=""),
    )
    rows = tuple(
        _cells(
            each.series.key,
            _machine(each.series),
            each.series.name,
            _scaled(each.change, is_log=each.is_log),
            _interval(each.ci_low, each.ci_high, is_log=each.is_log),
            _NOTHING if each.q is None else f"{each.q:.2g}",
            f"{each.nights_before}+{each.nights_after}",
            each.word if each.is_paired else f"{each.word} (no reference)",
        )
        for each in changes
        if each.why is None
    )
    caption = "Change of new / reference; of the value, for series without reference"
    if rows:
        yield Table(caption=caption, columns=columns, rows=rows, limit=limit)
    left_out = Counter(each.why for each in changes if each.why is not None)
    if left_out:
        items = (Item(text=f"{number} series: {why}") for why, number in left_out.most_common())
        yield Text(text="Not compared:")
        yield Items(items=tuple(items))


def draw_timeline(timeline: Timeline, limit: int) -> str:
    """Return the screen of ``history show``."""
    return draw_for_stdout(
        clean_line(f"{timeline.series.name} ({timeline.series.key})"),
        [*_timeline_blocks(timeline, limit)],
        see=_SEE,
    )


def describe_suspected(together: Together) -> str:
    """Return new steps that are likely to have one cause, a line each; others are indented."""
    lines = map(_describe_suspected, together.suspected)
    return "".join(f"{'  ' * (i > 0)}{line}\n" for i, line in enumerate(lines))


def _describe_suspected(found: Suspected) -> str:
    """Return a new step: its direction and size, since when, and where."""
    step, series = found.step, found.series
    change = _NOTHING if step.change is None else signed(step.change)
    interval = _interval(step.ci_low, step.ci_high, is_log=True)
    where = ", ".join(filter(None, (series.workload, series.machine_class)))
    return clean_line(
        f"suspected: {series.name} ({where}) {step.direction} since {step.night}: {change} "
        f"{interval}; step {step.step}, series {series.key}"
    )


def draw_step_changes(step: str, changes: Sequence[StepChange]) -> str:
    """Return the screen of ``history why``."""
    items = tuple(
        Item(
            text=clean_line(f"{each.at} {each.state}: {each.reason}"),
            detail=_numbers(each),
        )
        for each in changes
    )
    return draw_for_stdout(f"Step {step}", [Items(items=items, ordered=True)], see="--json")


def sparkline(values: Sequence[float | None]) -> str:
    """Draw values as a line of characters, a dot for a lost night.

    >>> sparkline([1.0, None, 2.0, 3.0])
    '▁·▅█'
    """
    measured = [value for value in values if value is not None]
    low, high = min(measured, default=0.0), max(measured, default=0.0)
    span = high - low
    return "".join(
        _LOST
        if value is None
        else _BLOCKS[round((value - low) / span * (len(_BLOCKS) - 1)) if span else 0]
        for value in values
    )


def _timeline_blocks(timeline: Timeline, limit: int) -> Iterator[Block]:
    noise = timeline.noise
    yield Text(text=_describe(timeline.series))
    yield Text(text=", ".join(_noise_words(noise)))
    if timeline.steps:
        yield Items(items=tuple(map(_step, timeline.steps)))
    yield _plot(timeline, limit)


def _noise_words(noise: Noise) -> Iterator[str]:
    yield f"{noise.nights} night{'s' * (noise.nights != 1)}"
    if noise.lost:
        yield f"{noise.lost} lost"
    if noise.sd_nights is not None:
        yield f"sd of nights {_size(noise.sd_nights, noise)}"
    if noise.sd_boots is not None:
        yield f"sd of boots {_size(noise.sd_boots, noise)}"
    if noise.seen_in_one_night is not None:
        yield f"smallest step of one night {_size(noise.seen_in_one_night, noise)}"
        yield f"of seven nights {_size(noise.seen_in_seven_nights, noise)}"
    if noise.aa_nights:
        yield f"A/A: {noise.aa_differ} of {noise.aa_nights} nights differ"


def _plot(timeline: Timeline, limit: int) -> Drawing:
    """Draw one line per night, the last ones at the end."""
    pairs = list(zip(timeline.nights, timeline.analysed.values, strict=True))[-limit:]
    measured = [value for _, value in pairs if value is not None]
    low, high = min(measured, default=0.0), max(measured, default=0.0)
    states = {step.position: step for step in timeline.steps}
    changes = {change.order: change for change in timeline.changes}
    lines = []
    for night, value in pairs:
        if change := changes.get(night.position):
            lines.append(DrawingLine(text=f"--- {_describe_change(change)}", tone="strong"))
        if step := states.get(night.position):
            lines.append(DrawingLine(text=f"--- {step.direction}, {step.state}", tone="strong"))
        lines.append(DrawingLine(text=_line(night, value, timeline, (low, high))))
    left_out = len(timeline.nights) - len(pairs)
    caption = "new / reference" if timeline.analysed.is_paired else "value"
    if left_out:
        caption += f"; {left_out} earlier nights are left out (--limit)"
    return Drawing(caption=caption, titles=("",), columns=(tuple(lines),))


def _describe_change(change: PeriodChange) -> str:
    """Return what has changed, and whether a baseline period begins."""
    reasons = ", ".join(_REASONS[each.reason] for each in change.differences)
    if change.is_break:
        return f"a baseline period begins: {reasons}"
    return f"the baseline period goes on: {reasons}"


def _line(
    night: Night, value: float | None, timeline: Timeline, bounds: tuple[float, float]
) -> str:
    low, high = bounds
    revision = clean_line(night.revision)[:_HASH_DIGITS]
    if value is None:
        return f"{night.night:<12} {'lost':>9} {'':<{_PLOT_COLUMNS}} {revision}".rstrip()
    share = (value - low) / (high - low) if high > low else 0.5
    mark = round(share * (_PLOT_COLUMNS - 1))
    shown = _scaled(
        math.expm1(value) if timeline.analysed.is_log else value,
        is_log=timeline.analysed.is_log,
    )
    if not timeline.analysed.is_paired:
        shown = format_number(math.exp(value) if timeline.analysed.is_log else value)
    return f"{night.night:<12} {shown:>9} {'*':>{mark + 1}}{'':<{_PLOT_COLUMNS - mark}}{revision}"


def _describe(series: Series) -> str:
    unit = f" in {series.unit}" if series.unit else ""
    better = f", {series.better} is better" if series.better in {"higher", "lower"} else ""
    where = [f"machine {series.machine_class}"] if series.machine_class else []
    where += [f"tree {series.tree}"] if series.tree else []
    return clean_line("; ".join((f"{series.workload}: {series.name}{unit}{better}", *where)))


def _step(step: Step) -> Item:
    change = _NOTHING if step.change is None else signed(step.change)
    interval = _interval(step.ci_low, step.ci_high, is_log=True)
    return Item(
        text=clean_line(f"{step.night}: {step.direction}, {change} {interval}, {step.state}"),
        detail=f"schedperf history why {step.id}",
    )


def _numbers(change: StepChange) -> str:
    parts = [] if change.change is None else [signed(change.change)]
    if change.ci_low is not None and change.ci_high is not None:
        parts.append(interval_of(change.ci_low, change.ci_high))
    parts += [] if change.numbers == "{}" else [change.numbers]
    return clean_line(" ".join((*parts, f"by {change.decided_by}")))


def _cells(*texts: str) -> tuple[Cell, ...]:
    return tuple(Cell(text=cut(clean_line(text), _LONGEST_NAME)) for text in texts)


def _machine(series: Series) -> str:
    # A foreign history has none.
    return series.machine_class or series.workload


def _steps_seen(noise: Noise) -> str:
    """Return the smallest steps of one night and of seven: "15.3% / 5.7%"."""
    if noise.seen_in_one_night is None:
        return _NOTHING
    return f"{_size(noise.seen_in_one_night, noise)} / {_size(noise.seen_in_seven_nights, noise)}"


def _scaled(value: float | None, *, is_log: bool) -> str:
    if value is None:
        return _NOTHING
    return signed(value) if is_log else f"{value:+.4g}"


def _size(value: float | None, noise: Noise) -> str:
    if value is None:
        return _NOTHING
    return percent(value) if noise.is_log else f"{value:.3g}"


def _interval(low: float | None, high: float | None, *, is_log: bool) -> str:
    if low is None or high is None:
        return _NOTHING
    return interval_of(low, high) if is_log else f"[{low:+.4g}, {high:+.4g}]"
