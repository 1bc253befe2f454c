# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw compared histograms of the record as mirrored bars; in text as bars side by side."""

from collections.abc import Callable, Sequence

from schedperf.model.counted import BinsRow
from schedperf_reports.blocks import Drawing, DrawingLine
from schedperf_reports.graphics.mirror import Mirror, describe_bins, mirror_bins
from schedperf_reports.words.quantities import format_share, scale_for
from schedperf_reports.words.rows import side_place

# Lines of a drawing in text; more bins are merged.
MOST_BARS = 12
# A label, a bar, a share and two blanks are 36 columns: two such columns fit into piped text.
LABEL_WIDTH, BAR_WIDTH, SHARE_WIDTH = 9, 17, 8


def write_time(seconds: float) -> str:
    """Format the edge of a bin of times, given in seconds: ``512 ns``."""
    scale = scale_for("s", seconds)
    return f"{scale.format(seconds)} {scale.unit}" if seconds else "0 ns"


def mirror_of(
    row: BinsRow,
    title: str,
    *,
    what: str,
    events: str,
    write: Callable[[float], str] = write_time,
    note: str = "",
) -> Mirror:
    """Return the drawing of two compared histograms.

    :param title: subject of the histogram
    :param what: label of the edges: "a call takes from"
    :param events: the events that are counted in the bins, in plural: "calls"
    :param write: formats a lower edge
    :param note: appended to the captions; "" for none
    """
    labels = [write(low) for low in row.low]
    sides = ("base", row.side)
    totals = [f"{count} {events}" for count in (row.events_base, row.events_new)]
    tail = f"; {note}" if note else ""
    caption = f"{title}: {events} per bin; each line begins with the lower edge of its bin{tail}"
    return Mirror(
        caption=f"{title}: {describe_bins(row, labels, events)}{tail}",
        what=what,
        sides=sides,
        totals=(totals[0], totals[1]),
        bins=mirror_bins(row, labels),
        words=(_draw(row, labels, [*zip(sides, totals, strict=True)], caption),),
    )


def _draw(
    row: BinsRow, labels: Sequence[str], titles: Sequence[tuple[str, str]], caption: str
) -> Drawing:
    each = -(-len(labels) // MOST_BARS)
    starts = range(0, len(labels), each)
    shares = [
        [sum(share or 0.0 for share in of_side[start : start + each]) for start in starts]
        for of_side in (row.base, row.new)
    ]
    longest = max(max(of_side) for of_side in shares)
    return Drawing(
        caption=caption,
        titles=tuple(f"{name}: {total}" for name, total in titles),
        places=tuple(side_place(name) for name, _ in titles),
        columns=tuple(
            tuple(
                _line(labels[start], share, longest)
                for start, share in zip(starts, of_side, strict=True)
            )
            for of_side in shares
        ),
    )


def _line(label: str, share: float, longest: float) -> DrawingLine:
    bar = "#" * round(BAR_WIDTH * share / longest) or ("." if share else "")
    text = f"{label:>{LABEL_WIDTH}} {bar:<{BAR_WIDTH}} {format_share(share):>{SHARE_WIDTH}}"
    return DrawingLine(text=text)
