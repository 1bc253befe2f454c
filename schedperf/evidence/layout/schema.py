"""JSON Schema of what the comparison of layouts returns.

Offsets and addresses count from the start of the unit: for the per-CPU section of x86-64 up to 6.14
that is where ``System.map`` has address 0.
"""

from collections.abc import Mapping
from typing import get_args

from schedperf.evidence.layout.heat import Reader, Writer
from schedperf.evidence.layout.ranking import GRADES, RULES
from schedperf.model.schema import (
    COUNT,
    FLAG,
    FLAG_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    Schema,
    array,
    both,
    or_null,
    record,
)


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


OFFSET = _described(COUNT, "bytes from the start of the unit")
OFFSET_OR_NULL = _described(or_null(COUNT), "bytes from the start of the unit; null: not there")
BYTES = _described(or_null(COUNT), "null where unknown")
NUMBER: Schema = {"type": "integer"}
KIND: Schema = {"enum": ["percpu", "struct", "globals"]}
NAMES_OF_TWO: Schema = array({"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2})
SOURCES = _described(TEXTS, "where names come from, then where sizes come from")

EDIT_KIND: Schema = {
    "enum": ["inserted", "removed", "resized", "reordered", "realigned", "unexplained"]
}
EDIT = record(
    kind=EDIT_KIND,
    entry=TEXT,
    entries=TEXTS,
    base_bytes=or_null(NUMBER),
    new_bytes=or_null(NUMBER),
    is_at_most=FLAG,
)
SHIFT = record(entries=COUNT, first=TEXT, last=TEXT, smallest=NUMBER, largest=NUMBER, slide=NUMBER)
CAUSE = record(
    text=_described(TEXT, "the cause in words"),
    kind=EDIT_KIND,
    entry=TEXT_OR_NULL,
    edits=array(EDIT),
    shift=or_null(SHIFT),
    is_sufficient=_described(FLAG, "undoing it and nothing else brings all its pairs back"),
    together_with=TEXTS,
    alternatives=TEXTS,
    counts=record(separated=COUNT, joined=COUNT),
    separated=NAMES_OF_TWO,
    joined=NAMES_OF_TWO,
    by_entry_alone=NAMES_OF_TWO,
)
ALARM = record(
    row=_described(TEXT, "id of the alarm, for evidence: layout#ROW"),
    rule={"enum": list(RULES)},
    grade=_described({"enum": list(GRADES)}, "how well it is known, best first"),
    unit=TEXT,
    line_bytes=COUNT,
    pairs=NAMES_OF_TWO,
    entries=array(record(name=TEXT, base_offset=OFFSET_OR_NULL, new_offset=OFFSET_OR_NULL)),
    boundary=OFFSET_OR_NULL,
    adjacent=_described(
        FLAG_OR_NULL, "the separated pair still shares two adjacent lines; null: nothing separated"
    ),
    functions=TEXTS,
    paths=TEXTS,
    claim=TEXT,
    cause=or_null(CAUSE),
    causes=COUNT,
    effect=_described(TEXT_OR_NULL, "what somebody measured of exactly this"),
    reference=TEXT,
    hitm=_described(or_null(COUNT), "samples that hit a modified line; null: not sampled"),
    limits=TEXTS,
)
PAIR = record(
    row=_described(TEXT, "id of the pair, for evidence: layout#ROW"),
    a=TEXT,
    b=TEXT,
    a_base_offset=OFFSET,
    b_base_offset=OFFSET,
    a_new_offset=OFFSET,
    b_new_offset=OFFSET,
    is_alarm=FLAG,
)
ENTRY_CHANGE = record(
    name=TEXT,
    base_offset=OFFSET,
    new_offset=OFFSET,
    keeps_offset=FLAG,
    has_left=FLAG,
    lost=TEXTS,
    gained=TEXTS,
    straddles=both(FLAG_OR_NULL),
)
TENANT = record(name=TEXT, offset=OFFSET, size=BYTES)
UNIT_COUNTS = record(
    **dict.fromkeys(
        (
            "entries_base", "entries_new", "common", "unsized", "added", "removed", "renamed",
            "resized", "moved", "mates_changed", "separated", "joined", "slid_lines",
            "straddles_begun", "straddles_ended", "alarms", "unknown_heat", "quiet",
        ),
        COUNT,
    )
)  # fmt: skip
UNIT = record(
    unit=TEXT,
    kind=KIND,
    is_unchanged=FLAG,
    sources=both(SOURCES),
    bytes=both(BYTES),
    alignment=both(BYTES),
    is_alignment_inferred=FLAG,
    are_lines_certain=FLAG_OR_NULL,
    counts=UNIT_COUNTS,
    separated=array(PAIR),
    joined=array(PAIR),
    entries=array(ENTRY_CHANGE),
    added=array(TENANT),
    removed=array(TENANT),
    renamed=array(record(base_name=TEXT, new_name=TEXT, commit=TEXT_OR_NULL)),
    resized=array(record(name=TEXT, base_bytes=COUNT, new_bytes=COUNT)),
    causes=array(CAUSE),
    unknown_heat=TEXTS,
    quiet=TEXTS,
    adjacent=or_null(
        record(
            line_bytes=COUNT,
            separated=COUNT,
            joined=COUNT,
            still_together=NAMES_OF_TWO,
            parted=NAMES_OF_TWO,
        )
    ),
    coverage_equal=FLAG,
    noise=array(record(what=TEXT, base=COUNT, new=COUNT)),
    notes=TEXTS,
)
ROW = record(
    kind={
        "enum": ["entry", "boundary", "gap", "hole"],
        "description": "gap: entries between that are not shown, counted in its name",
    },
    address=OFFSET,
    letter=_described(TEXT, "nm's: D global, d static; empty where there is none"),
    type=TEXT_OR_NULL,
    name=TEXT,
    size=BYTES,
    bits=or_null({"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2}),
    mark={"enum": ["", "moved", "added", "removed", "renamed", "mates changed"]},
    is_hot=_described(FLAG, "an alarm of this drawing is about it"),
)
USE = record(
    name=TEXT,
    paths=TEXTS,
    written={"enum": list(get_args(Writer))},
    read={"enum": list(get_args(Reader))},
    functions=TEXTS,
)
USES = _described(array(USE), "who touches what is drawn, as far as the table of heat knows")
WINDOW = record(
    unit=TEXT,
    kind=KIND,
    alarms=TEXTS,
    inserted=TEXTS,
    columns=array(
        record(
            side=TEXT,
            label=TEXT,
            rows=array(ROW),
            lines=_described(array(OFFSET), "first bytes of the lines that it is about"),
            bytes=_described(BYTES, "of the whole unit; null where unknown"),
            reason=TEXT_OR_NULL,
        )
    ),
    uses=USES,
)
ADVICE = record(
    about=_described(TEXT, 'row of an alarm, or "hot": the set that was asked for'),
    unit=TEXT,
    line_bytes=COUNT,
    is_change=FLAG,
    order=TEXTS,
    after=TEXT_OR_NULL,
    is_aligned=FLAG,
    lines_before=COUNT,
    lines_after=COUNT,
    fewest=COUNT,
    moved=COUNT,
    joins=NAMES_OF_TWO,
    left_out=array(record(name=TEXT, reason=TEXT)),
    notes=TEXTS,
    predicted=array(ROW),
    uses=USES,
)
MISSING_UNITS = array(record(unit=TEXT, reason=TEXT))
COMPARISON = record(
    side=TEXT,
    label=TEXT,
    is_unchanged=_described(FLAG, "no unit that was compared has a change"),
    alarms=array(ALARM),
    regained=array(record(unit=TEXT, names=TEXTS, effect=TEXT, reference=TEXT)),
    hot=array(
        record(
            unit=TEXT,
            names=TEXTS,
            line_bytes=COUNT,
            lines=both(COUNT),
            separated=NAMES_OF_TWO,
            joined=NAMES_OF_TWO,
        )
    ),
    advice=array(ADVICE),
    units=array(UNIT),
    missing=MISSING_UNITS,
    counts=record(units=COUNT, unchanged_units=COUNT, alarms=COUNT, unknown_heat=COUNT),
    notes=_described(TEXTS, "what weakens this comparison, one sentence each"),
)
KERNEL = record(
    side=TEXT,
    label=TEXT,
    machine=TEXT_OR_NULL,
    pointer_bytes=or_null(COUNT),
    line_bytes=record(compile_time=BYTES, hardware=BYTES),
    unknown=MISSING_UNITS,
    notes=TEXTS,
)
ANALYSIS: Mapping[str, Schema] = {
    "line_bytes": record(
        used={"type": "integer", "minimum": 1},
        **{"from": {"enum": ["given", "compile_time", "hardware", "assumed"]}},
        differs=TEXTS,
    ),
    "kernels": array(KERNEL),
    "comparisons": array(COMPARISON),
    "notes": TEXTS,
    "windows": array(WINDOW),
}
