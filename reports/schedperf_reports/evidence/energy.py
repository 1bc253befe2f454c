# SPDX-License-Identifier: GPL-2.0-or-later
"""Report energy per operation, energy per run and mean power of each counter, new vs base."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence.energy.record import Energy, EnergyRow, EnergySide, leading_rows
from schedperf.model.comparison import Comparison
from schedperf.model.counted import Basis
from schedperf.model.sections import data_of
from schedperf_reports.blocks import Block, Column, Text
from schedperf_reports.rates.cells import (
    MEANS,
    gather_twins,
    lead,
    state_of,
)
from schedperf_reports.rates.tables import Rates, by_subject, notes_below, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.rows import count_of, group_by_reason, merge_sides
from schedperf_reports.words.states import State

# Energy per operation, energy per run and power of two packages.
MOST_ROWS = 6
# Energy per operation of the packages.
MAIL_ROWS = 4
# Energy per operation first: energy per run also depends on the amount of work, power on its speed.
ORDER: Sequence[Basis] = ("operation", "share", "time")
# The column of denominators shows the operation.
WHAT: Mapping[Basis, str] = {
    "operation": "energy",
    "share": "energy per run",
    "time": "mean power",
}

DIRECTION = "energy: lower is better; power: neither direction is better"
OVERLAP = (
    "counters overlap and are not added: core and uncore are parts of a package, dram is not, "
    "psys includes the packages; they count the whole machine, not only the workload"
)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Energy)
    # An effect of the change cannot be its reason.
    return None if data is None else state_of(data.rows, _name, lambda _: False)


@report_section(
    "energy",
    title="Energy",
    chapter="scheduler",
    order=45,
    is_analysis=True,
    mail_rows=MAIL_ROWS,
    state=_state,
)
def energy(comparison: Comparison) -> Iterator[Block]:
    """Show the energy of each workload and point, packages first, and counters without energy."""
    data = record_of(comparison, Energy)
    if isinstance(data, Text):
        yield data
        return
    leading = leading_rows(data.rows)
    yield from lead(leading, _name)
    yield Text(text="; ".join(map(_describe_side, data.sides)), tone="muted")
    first = {row.row for row in leading}
    for _, subject, rows in by_subject(data.rows):
        ordered = sorted(
            gather_twins(rows),
            key=lambda shown: (shown.row.row not in first, ORDER.index(shown.row.basis)),
        )
        yield from RATES.blocks(titled(subject, "energy"), ordered, MOST_ROWS)
    if data.rows:
        yield Text(text=f"{DIRECTION}; {MEANS}", tone="muted")
        yield Text(text=OVERLAP, tone="muted")
    if data.zeros:
        text = f"counters that counted nothing in all runs: {', '.join(data.zeros)}"
        yield Text(text=text, tone="muted")
    for sides, reason, counters in group_by_reason(
        (entry.side, entry.counter, entry.reason) for entry in data.missing
    ):
        text = f"no energy in {sides} ({reason}): {', '.join(counters)}"
        yield Text(text=text, tone="muted")
    yield from notes_below(merge_sides(data.notes))


def _describe_side(side: EnergySide) -> str:
    kind = f"{side.kind} run"
    return f"{side.side}: {count_of(side.runs, kind)}"


def _name(row: EnergyRow) -> str:
    return f"{row.domain} {WHAT[row.basis]}"


RATES: Rates[EnergyRow] = Rates(
    first=Column(title="counter", code=True),
    name=_name,
    about=lambda _: "",
    direction=DIRECTION,
)
