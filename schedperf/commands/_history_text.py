# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the answers of ``schedperf history`` as text."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from schedperf.commands._outputs import draw_for_stdout
from schedperf.history.nightly import Found
from schedperf.history.questions.change import NewKernels, Times
from schedperf.history.questions.explain import Explained
from schedperf.history.questions.levels import LevelChange
from schedperf.history.questions.listing import Listed, SeriesStep
from schedperf.history.questions.noise import Noise
from schedperf.history.questions.records import Night, Series, Step, StepChange
from schedperf.history.questions.timeline import Timeline
from schedperf.history.suspects import Suspected
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
from schedperf_reports.history.words import (
    HASH_DIGITS,
    REASONS,
    describe_change,
    describe_series,
    describe_step,
)

_BLOCKS = "▁▂▃▄▅▆▇█"
_LOST = "·"
_NOTHING = "-"
_LONGEST_NAME = 40
_PLOT_COLUMNS = 36
# The class of a machine that has a name.
_DIGITS = re.compile(r"(?<=.)-[0-9a-f]{12}\Z")
_SEE = "--limit or --json"
_SEE_DECISIONS = "schedperf history why STEP"
_OF_REFERENCE = "Change of the reference kernel itself, which is drift of the machine"
_CHANGES = "Change of new / reference; of the value, for series without reference"


def draw_list(listed: Sequence[Listed], limit: int) -> str:
    """Return the table of ``history list``."""
    has_steps = any(each.step for each in listed)
    columns = (
        Column(title="key", code=True),
        Column(title="machine"),
        Column(title="result"),
        Column(title="nights", align="right", priority=4),
        Column(title="change", align="right"),
        Column(title="smallest step", align="right", priority=2),
        *([Column(title="state", priority=1)] if has_steps else []),
        Column(title="last nights", priority=3),
    )
    names = _machine_names(each.series for each in listed)
    rows = tuple(
        _cells(
            each.series.key,
            names[each.series.key],
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


def draw_steps(steps: Sequence[SeriesStep], limit: int) -> str:
    """Return the table of ``history list --open``."""
    caption = "Steps about which something is left to be done, by their first night"
    table = _steps_table(caption, steps, limit)
    return draw_for_stdout(
        f"{len(steps)} open step{'s' * (len(steps) != 1)}",
        [table, Text(text=f"decisions of a step: {_SEE_DECISIONS}")] if steps else [],
        see=_SEE,
    )


def _steps_table(caption: str, steps: Sequence[SeriesStep], limit: int) -> Table:
    columns = (
        Column(title="step", code=True),
        Column(title="machine", priority=1),
        Column(title="result"),
        Column(title="since"),
        Column(title="direction", priority=2),
        Column(title="change", align="right"),
        Column(title="95% CI", align="right", priority=4),
        Column(title="state", priority=3),
    )
    names = _machine_names(each.series for each in steps)
    rows = tuple(
        _cells(
            each.step.id,
            names[each.series.key],
            each.series.name,
            each.step.night,
            each.step.direction,
            _scaled(each.step.change, is_log=True),
            _interval(each.step.ci_low, each.step.ci_high, is_log=True),
            each.step.state,
        )
        for each in steps
    )
    return Table(caption=caption, columns=columns, rows=rows, limit=limit)


def draw_noise(ranked: Sequence[Noise], limit: int) -> str:
    """Return the table of ``history noise``."""
    columns = (
        Column(title="key", code=True),
        Column(title="machine"),
        Column(title="result"),
        Column(title="nights", align="right", priority=2),
        Column(title="lost", align="right", priority=3),
        Column(title="smallest step", align="right"),
        Column(title="sd of nights", align="right", priority=1),
        Column(title="sd of boots", align="right", priority=1),
        Column(title="A/A", align="right", priority=3),
    )
    names = _machine_names(each.series for each in ranked)
    rows = tuple(
        _cells(
            each.series.key,
            names[each.series.key],
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


def draw_times(times: Times, limit: int) -> str:
    """Return the screen of ``history diff``."""
    caption = _OF_REFERENCE if times.of_reference else _CHANGES
    blocks = [
        *_change_blocks(times.changes, caption, limit),
        *_difference_blocks(times.changes),
        *(block for each in times.kernels for block in _kernel_blocks(each, limit)),
    ]
    return draw_for_stdout(f"Changes from {times.before} to {times.after}", blocks, see=_SEE)


def _change_blocks(changes: Sequence[LevelChange], caption: str, limit: int) -> Iterator[Block]:
    columns = (
        Column(title="key", code=True, priority=4),
        Column(title="machine"),
        Column(title="result"),
        Column(title="change", align="right"),
        Column(title="95% CI", align="right"),
        Column(title="q", align="right", priority=3),
        Column(title="nights", align="right", priority=1),
        Column(title=""),
    )
    names = _machine_names(each.series for each in changes)
    rows = tuple(
        _cells(
            each.series.key,
            names[each.series.key],
            each.series.name,
            _scaled(each.change, is_log=each.is_log),
            _interval(each.ci_low, each.ci_high, is_log=each.is_log),
            _NOTHING if each.q is None else f"{each.q:.2g}",
            f"{each.nights_before}+{each.nights_after}",
            _word(each),
        )
        for each in changes
        if each.why is None
    )
    if rows:
        yield Table(caption=caption, columns=columns, rows=rows, limit=limit)
    left_out = Counter(each.why for each in changes if each.why is not None)
    if left_out:
        items = (Item(text=f"{number} series: {why}") for why, number in left_out.most_common())
        yield Text(text="Not compared:")
        yield Items(items=tuple(items))


def _difference_blocks(changes: Sequence[LevelChange]) -> Iterator[Block]:
    """Yield what else differs between the times, by machine."""
    names = _machine_names(each.series for each in changes)
    differing = Counter(
        (names[each.series.key], each.series.workload, reason)
        for each in changes
        for reason in each.differs
    )
    if differing:
        items = (
            Item(text=clean_line(f"{REASONS[reason]}: {workload} on {machine}, {number} series"))
            for (machine, workload, reason), number in sorted(differing.items())
        )
        yield Text(text="Also changed between the dates:")
        yield Items(items=tuple(items))


def _kernel_blocks(kernels: NewKernels, limit: int) -> Iterator[Block]:
    """Yield the range of the new kernels, and its commits."""
    before, after = (clean_line(each)[:HASH_DIGITS] for each in (kernels.before, kernels.after))
    tree = clean_line(cut(kernels.tree, _LONGEST_NAME))
    words = f"New kernels{f' of {tree}' if tree else ''}: {before}..{after}"
    if kernels.commits is None:
        yield Text(text=words)
        return
    yield Text(text=f"{words}, {len(kernels.commits)} commits")
    shown = kernels.commits[:limit]
    items = [Item(text=clean_line(f"{each.short} {each.subject}")) for each in shown]
    if len(shown) < len(kernels.commits):
        items.append(Item(text=f"{len(kernels.commits) - len(shown)} earlier ones (--limit)"))
    yield Items(items=tuple(items))


def draw_timeline(timeline: Timeline, limit: int) -> str:
    """Return the screen of ``history show``."""
    return draw_for_stdout(
        clean_line(f"{timeline.series.name} ({timeline.series.key})"),
        [*_timeline_blocks(timeline, limit)],
        see=_SEE,
    )


def describe_found(found: Found) -> str:
    """Return what the watch found, a line per step; those with one cause are indented."""
    lines = [
        f"{'  ' * (i > 0)}{_describe_decided(each)}"
        for together in found.new
        for i, each in enumerate(together.suspected)
    ]
    return "".join(f"{line}\n" for line in (*lines, *map(_describe_decided, found.stale)))


def _describe_decided(found: Suspected) -> str:
    """Return a step whose state is new: its direction and size, since when, and where."""
    step, series = found.step, found.series
    change = "" if step.change is None else f": {signed(step.change)}"
    if step.ci_low is not None and step.ci_high is not None:
        change += f" {interval_of(step.ci_low, step.ci_high)}"
    where = ", ".join(filter(None, (series.workload, series.machine_class)))
    return clean_line(
        f"{step.state}: {series.name} ({where}) {step.direction} since {step.night}{change}; "
        f"step {step.step}, series {series.key}"
    )


def draw_explained(explained: Explained, limit: int) -> str:
    """Return the screen of ``history why``."""
    return draw_for_stdout(
        f"Step {explained.step.id}", [*_explained_blocks(explained, limit)], see=_SEE
    )


def _explained_blocks(explained: Explained, limit: int) -> Iterator[Block]:
    yield Text(text=describe_series(explained.series))
    items = tuple(
        Item(
            text=clean_line(f"{each.at} {each.state}: {each.reason}"),
            detail=_numbers(each),
        )
        for each in explained.decisions
    )
    yield Items(items=items, ordered=True)
    if len(explained.machines) > 1:
        caption = f"This result on all machines, from {explained.step.night}"
        yield from _change_blocks(explained.machines, caption, limit)
    if explained.together:
        caption = "Other steps that began within 7 nights of it"
        yield _steps_table(caption, explained.together, limit)


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
    yield Text(text=describe_series(timeline.series))
    yield Text(text=", ".join(_noise_words(noise)))
    if timeline.drift is not None:
        yield Text(text=_drift_words(timeline.drift))
    if timeline.steps:
        yield Items(items=tuple(map(_step, timeline.steps)))
    names = {night.position: night.night for night in timeline.nights}
    changes = tuple(
        Item(text=f"{names[each.order]}: {describe_change(each)}")
        for each in timeline.changes
        if each.order in names
    )
    if changes:
        yield Items(items=changes)
    yield _plot(timeline, limit)


def _drift_words(drift: LevelChange) -> str:
    """Return how the reference kernel itself changed, which is drift of the machine."""
    if drift.change is None:
        return f"reference kernel in 30 days: unknown, {drift.why}"
    change = _scaled(drift.change, is_log=drift.is_log)
    interval = _interval(drift.ci_low, drift.ci_high, is_log=drift.is_log)
    return f"reference kernel in 30 days: {change} {interval}"


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
    gaps = _describe_gaps(timeline)
    for night, value in pairs:
        if gap := gaps.get(night.position):
            lines.append(DrawingLine(text=f"--- {gap}"))
        if change := changes.get(night.position):
            lines.append(DrawingLine(text=f"--- {describe_change(change)}", tone="strong"))
        if step := states.get(night.position):
            lines.append(DrawingLine(text=f"--- {step.direction}, {step.state}", tone="strong"))
        lines.append(DrawingLine(text=_line(night, value, timeline, (low, high))))
    left_out = len(timeline.nights) - len(pairs)
    caption = "new / reference" if timeline.analysed.is_paired else "value"
    if left_out:
        caption += f"; {left_out} earlier nights are left out (--limit)"
    return Drawing(caption=caption, titles=("",), columns=(tuple(lines),))


def _describe_gaps(timeline: Timeline) -> Mapping[int, str]:
    """Return what to say before each night that others were lost before.

    Gaps are longer than twice the usual time between nights, or have nights without a result.
    """
    dated = [(night.day, night) for night in timeline.nights if night.day is not None]
    gaps = [
        (after - before - 1, (first.position, last.position))
        for (before, first), (after, last) in pairwise(dated)
    ]
    usual = median(days for days, _ in gaps) if gaps else 0
    described = {}
    for days, (first, last) in gaps:
        outcomes = [each.outcome for each in timeline.failed if first < each.position < last]
        if days > 2 * usual + 1 or (days and outcomes):
            words = f"{days} day{'s' * (days > 1)} without a night"
            described[last] = clean_line(": ".join((words, *outcomes[:1])))
    return described


def _line(
    night: Night, value: float | None, timeline: Timeline, bounds: tuple[float, float]
) -> str:
    low, high = bounds
    revision = clean_line(night.revision)[:HASH_DIGITS]
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


def _step(step: Step) -> Item:
    return Item(
        text=clean_line(f"{step.night}: {describe_step(step)}"),
        detail=f"schedperf history why {step.id}",
    )


def _numbers(change: StepChange) -> str:
    parts = [] if change.change is None else [signed(change.change)]
    if change.ci_low is not None and change.ci_high is not None:
        parts.append(interval_of(change.ci_low, change.ci_high))
    parts += [f"by {change.decided_by}"]
    if numbers := json.loads(change.numbers):
        named = (f"{name.replace('_', ' ')} {number:g}" for name, number in numbers.items())
        parts.append(f"({', '.join(named)})")
    return clean_line(" ".join(parts))


def _word(change: LevelChange) -> str:
    word = "not significant" if change.word == "no significant change" else change.word
    return word if change.is_paired else f"{word} (no reference)"


def _cells(*texts: str) -> tuple[Cell, ...]:
    return tuple(Cell(text=cut(clean_line(text), _LONGEST_NAME)) for text in texts)


def _machine_names(series: Iterable[Series]) -> Mapping[str, str]:
    """Return what to call the machine of each series, by its key.

    It is the name that the site gives, if it has one class; the whole class otherwise.
    """
    # A foreign history has none.
    by_key = {each.key: each.machine_class or each.workload for each in series}
    names = {each: _DIGITS.sub("", each) for each in by_key.values()}
    classes = Counter(names.values())
    return {key: names[each] if classes[names[each]] == 1 else each for key, each in by_key.items()}


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
