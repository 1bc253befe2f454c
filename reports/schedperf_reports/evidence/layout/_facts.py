"""What a drawing of cache lines says of one variable or field when somebody asks."""

from collections.abc import Iterator

from schedperf.evidence.layout.record import LayoutRow, LayoutUse
from schedperf_reports.words.rows import count_of

# Functions that are named.
MOST_FUNCTIONS = 4

_WRITTEN = {
    "rarely": "rarely written",
    "own": "written by its own CPU",
    "remote": "written by other CPUs",
}
_MARKS = {"mates changed": "others share its line now"}
_READ = {"own": "read by its own CPU", "remote": "read by other CPUs"}


def describe_occupant(row: LayoutRow, line_bytes: int, use: LayoutUse | None) -> tuple[str, ...]:
    """Return type, size, place, what became of it, and who touches it, one sentence each.

    :param row: an entry or a hole of the analysis' drawing
    :param use: what the table of hot variables knows of it; None: nothing
    """
    if row.kind == "hole":
        return (f"hole of {count_of(row.size or 0, 'byte')} at 0x{row.address:x}",)
    return tuple(_facts(row, line_bytes, use))


def _facts(row: LayoutRow, line_bytes: int, use: LayoutUse | None) -> Iterator[str]:
    yield ", ".join([row.type or "type not known", _size(row)])
    yield f"at 0x{row.address:x}, byte {row.address % line_bytes} of its line"
    if row.mark:
        yield _MARKS.get(row.mark, row.mark)
    if use is None or use.written is None or use.read is None:
        yield "heat unknown: in no row of the table of hot variables"
        return
    yield f"{_WRITTEN[use.written]}, {_READ[use.read]}, on {', '.join(use.paths)} paths"
    names = [one.rpartition(":")[2] for one in use.functions]
    more = len(names) - MOST_FUNCTIONS
    tail = f" and {more} more" if more > 0 else ""
    yield f"touched by {', '.join(names[:MOST_FUNCTIONS])}{tail}"


def _size(row: LayoutRow) -> str:
    if row.bits:
        return count_of(row.bits[1], "bit")
    return "size not known" if row.size is None else count_of(row.size, "byte")
