"""Advice on where to declare a hot set, with the map that follows."""

from collections.abc import Iterator, Sequence

from schedperf.evidence.layout.record import (
    LayoutAdvice,
    LayoutColumn,
    LayoutComparison,
    LayoutKernel,
)
from schedperf_reports.blocks import Block, Text
from schedperf_reports.evidence.layout._graphic import draw_rows
from schedperf_reports.evidence.layout._text_drawing import call_unit, list_names
from schedperf_reports.words.rows import count_of


def describe_advice(
    advised: Sequence[tuple[LayoutAdvice, LayoutComparison | LayoutKernel]],
) -> Iterator[Block]:
    """Yield what to declare where, what follows from it, and the predicted maps.

    :param advised: advice, and the kernel that it is about
    """
    for advice, kernel in advised:
        yield Text(text=_what_to_do(advice, kernel.label), tone="strong")
        yield from _conditions(advice)
        if advice.is_change:
            lines = f"{count_of(advice.lines_after, 'line')} instead of {advice.lines_before}"
            caption = f"{call_unit(advice.unit)} as predicted: {', '.join(advice.order)} on {lines}"
            column = LayoutColumn(
                side=kernel.side,
                label=f"{kernel.label}, with that order",
                rows=advice.predicted,
                lines=(),
                bytes=None,
                reason=None,
            )
            yield draw_rows(advice.unit, column, caption, advice.line_bytes, advice.uses)
    # What holds for all advice is said once.
    for note in dict.fromkeys(note for advice, _ in advised for note in advice.notes):
        yield Text(text=f"advice: {note}", tone="muted")


def _what_to_do(advice: LayoutAdvice, label: str) -> str:
    before, fewest, moved = advice.lines_before, advice.fewest, advice.moved
    names = ", ".join(advice.order)
    if not advice.is_change:
        why = (
            "no order takes fewer"
            if before <= fewest
            else f"{fewest} would do, but no place nearby has them without harm"
        )
        return (
            f"advice for {label}: leave {names} as they are, on {count_of(before, 'line')}: {why}"
        )
    after = f"after {advice.after}" if advice.after else "at the start"
    aligned = ", the first of them ____cacheline_aligned" if advice.is_aligned else ""
    others = "1 other entry goes" if moved == 1 else f"{moved} other entries go"
    return (
        f"advice for {label}: declare {names} in this order {after}{aligned}: "
        f"{count_of(advice.lines_after, 'line')} instead of {before}, fewest possible {fewest}; "
        f"{others} to another line"
    )


def _conditions(advice: LayoutAdvice) -> Iterator[Block]:
    writers: dict[str, list[str]] = {}
    for member, reader in advice.joins:
        writers.setdefault(member, []).append(reader)
    for member, readers in writers.items():
        joined = list_names(readers, len(readers))
        yield Text(
            text=f"{member} is written by its own CPU and shares the line of read-mostly {joined}",
            tone="muted",
        )
    for one in advice.left_out:
        yield Text(text=f"{one.name} is left out: {one.reason}", tone="muted")
