# SPDX-License-Identifier: GPL-2.0-or-later
"""Build tables of the functions that contend for one cache line."""

from collections.abc import Sequence

from schedperf.evidence.c2c.record import (
    C2cLineRow,
    C2cPair,
    C2cPairRow,
    C2cPoint,
    C2cSampledLine,
    C2cSeen,
    C2cSource,
)
from schedperf.model.base_new import BaseNew
from schedperf_reports.blocks import Cell, Column, Table, Text
from schedperf_reports.evidence.c2c._tables import (
    called,
    change_cells,
    change_columns,
    format_rate,
    measured,
    word_of,
)
from schedperf_reports.words.quantities import format_share

# How the loads are attributed; the legend of all tables.
ATTRIBUTION = Text(
    text="functions: each contended load of the first is divided among the writes of other CPUs "
    "to the line, because a sample does not record which write made it slow; a function that "
    "reads and writes may contend with itself",
    tone="muted",
)
# From this fraction of attributed loads on, the rest rounds to 0.0%.
ALL = 0.9995
_FUNCTIONS = (Column(title="reads", code=True), Column(title="writes", code=True))


def pairs_table(point: C2cPoint, line: C2cLineRow) -> Table:
    """Return the functions that contend for a line, with the change of their contended loads."""
    return _compared(
        point,
        line.pairs,
        f"{called(line)}: which functions contend",
        _rest(line.sides, word_of(point.observable)),
    )


def unmatched_pairs_table(point: C2cPoint) -> Table:
    """Return the functions that contend for the lines that are not compared, all together."""
    return _compared(point, point.pairs, "lines without a match: which functions contend")


def _compared(point: C2cPoint, pairs: Sequence[C2cPairRow], title: str, rest: str = "") -> Table:
    share = Column(title="share", align="right", priority=3)
    is_unknown = point.reason is None and any(pair.loads.base is None for pair in pairs)
    return Table(
        caption=f"{title}, remote + local {word_of(point.observable)} {measured(point)}{rest}"
        f"{'; rates not compared, because the writers are unknown' if is_unknown else ''}",
        columns=(*_FUNCTIONS, *change_columns(point), share),
        rows=tuple(
            (
                *_functions(pair),
                *change_cells(point, pair.loads),
                Cell(text=" -> ".join(map(format_share, pair.share))),
            )
            for pair in pairs
        ),
        anchors=tuple(pair.row for pair in pairs),
    )


def seen_pairs_table(source: C2cSource, line: C2cSampledLine) -> Table:
    """Return the functions that contend for a line of a source that is not compared."""
    word = word_of((source.observable,))
    return Table(
        caption=f"{line.name or line.key}: which functions contend, samples of {word}"
        f"{_rest(BaseNew(base=line, new=None), word)}",
        columns=(
            *_FUNCTIONS,
            Column(title=word, align="right"),
            Column(title="share", align="right"),
        ),
        rows=tuple(
            (
                *_functions(pair),
                Cell(text=format_rate(pair.samples)),
                Cell(text=format_share(pair.share)),
            )
            for pair in line.pairs
        ),
    )


def _functions(pair: C2cPair) -> tuple[Cell, Cell]:
    return Cell(text=pair.reader), Cell(text=pair.writer)


def _rest(sides: BaseNew[C2cSeen | None], word: str) -> str:
    # The part of the contended loads whose writer was not sampled.
    parts = {
        side: format_share(1.0 - seen.attributed)
        for side, seen in sides.items()
        if seen is not None and seen.attributed is not None and seen.attributed < ALL
    }
    if not parts:
        return ""
    listed = " and ".join(
        f"{part} in {side}" if sides.new is not None else part for side, part in parts.items()
    )
    return f"; no write by another CPU sampled: {listed} of the {word}"
