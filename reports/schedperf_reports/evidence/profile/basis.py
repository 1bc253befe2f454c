"""What the samples of a profile rest on: how each event samples, what it misses, what to do."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence.profile.record import ProfileEvent
from schedperf_reports.blocks import Cell, Column, Table

# Of the first row, to which the warning above the tables links.
BASIS = "samples"


def basis_table(events: Sequence[ProfileEvent], *, has_anchor: bool) -> Table:
    """Return a row for each event and side, and one for each remedy and caveat.

    :param has_anchor: does the first row have the id ``BASIS``?
    """
    rows = [row for event in events for row in _rows_of(event)]
    return Table(
        caption=f"what the samples rest on: {'; '.join(_said_of(event) for event in events)}",
        columns=(Column(title="event"), Column(title="side"), Column(title="what is known")),
        rows=tuple(rows),
        anchors=(BASIS if has_anchor else "", *[""] * (len(rows) - 1)),
    )


def _rows_of(event: ProfileEvent) -> Iterator[tuple[Cell, ...]]:
    name, (base, new) = event.event, _sights_of(event)
    # What is the same on both sides is said once.
    if base == new:
        yield _row(name, "base and new", base)
    else:
        yield _row(name, "base", base)
        yield _row(name, "new", new)
    if event.remedy:
        yield _row(name, "instead", event.remedy)
    for caveat in event.caveats:
        yield _row(name, "caveat", caveat)


def _sights_of(event: ProfileEvent) -> tuple[str, str]:
    base, new = (
        f"{_SEES[blind]}: {reason}"
        for blind, reason in zip(event.blind, event.blind_reason, strict=True)
    )
    return base, new


_SEES: Mapping[bool | None, str] = {
    True: "blind to code that runs with interrupts off, most of the scheduler",
    False: "sees code that runs with interrupts off too",
    None: "not known whether it sees code that runs with interrupts off",
}


def _said_of(event: ProfileEvent) -> str:
    # The worse of both sides: an event is only as good as where it saw least.
    sights = tuple(event.blind)
    worst = True if True in sights else None if None in sights else False
    return f"{event.event}: {_SEES[worst]}"


def _row(name: str, side: str, text: str) -> tuple[Cell, ...]:
    return (Cell(text=name), Cell(text=side), Cell(text=text))
