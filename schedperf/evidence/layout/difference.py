"""Compares two layouts of one unit: who shares lines, and which edit changed that."""

from schedperf.evidence.layout.causes import explain
from schedperf.evidence.layout.changes import UnitChange
from schedperf.evidence.layout.cotenancy import (
    check_line_bytes,
    comparable_spans,
    compare_tenants,
    sized_on_both,
)
from schedperf.evidence.layout.matching import match_entries
from schedperf.evidence.layout.model import Unit


def compare_units(base: Unit, new: Unit, line_bytes: int) -> UnitChange:
    """Say what differs between two layouts at cache lines of ``line_bytes`` bytes.

    :raises InputError: a line size that no cache has, or units beyond what kernels have
    """
    check_line_bytes(line_bytes)
    matching = match_entries(base, new)
    spans = comparable_spans(matching, base, new)
    lines, separated, joined = compare_tenants(matching, spans, line_bytes, base.name)
    line_pairs, _, _ = compare_tenants(matching, spans, 2 * line_bytes, base.name)
    return UnitChange(
        name=base.name,
        kind=base.kind,
        entries_base=len(base.entries),
        entries_new=len(new.entries),
        common=len(matching.common),
        unsized=tuple(sorted(matching.common - sized_on_both(matching))),
        added=matching.added,
        removed=matching.removed,
        renamed=matching.renamed,
        resized=matching.resized,
        is_coverage_equal=matching.is_coverage_equal,
        lines=lines,
        line_pairs=line_pairs,
        causes=explain(matching, base, new, (separated, joined), line_bytes),
        are_lines_certain=_are_lines_certain(base, new, line_bytes),
        noise={
            what: (base.noise.get(what, 0), new.noise.get(what, 0))
            for what in sorted(base.noise.keys() | new.noise.keys())
        },
        notes=tuple(dict.fromkeys((*base.notes, *new.notes))),
    )


def _are_lines_certain(base: Unit, new: Unit, line_bytes: int) -> bool | None:
    # A struct that may start anywhere in a line has no lines of its own.
    if base.alignment is None or new.alignment is None:
        return None
    return base.alignment % line_bytes == 0 and new.alignment % line_bytes == 0
