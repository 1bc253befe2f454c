# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of layouts, each with defaults for what a test does not care about."""

from typing import Any

from schedperf.evidence.layout.record import (
    Layout,
    LayoutAlarm,
    LayoutAlarmEntry,
    LayoutCause,
    LayoutColumn,
    LayoutComparison,
    LayoutCounts,
    LayoutLines,
    LayoutPairCounts,
    LayoutRow,
    LayoutUse,
    LayoutWindow,
)


def make_entry(name: str, address: int, size: int | None = 8, **changes: Any) -> LayoutRow:
    """Return a row of a name: ``make_entry("llc_id", 0x238, 4, is_hot=True)``."""
    values: dict[str, Any] = {"kind": "entry", "letter": "D", "type": "u64"}
    return LayoutRow(name=name, address=address, size=size, **values | changes)


def make_hole(address: int, size: int) -> LayoutRow:
    """Return a row of bytes between two members."""
    return LayoutRow(kind="hole", address=address, size=size)


def make_column(
    side: str, *rows: LayoutRow, lines: tuple[int, ...] = (), **changes: Any
) -> LayoutColumn:
    """Return the rows of one side: ``make_column("base", *rows, lines=(0, 64))``."""
    values: dict[str, Any] = {"label": side, "bytes": None, "reason": None}
    return LayoutColumn(side=side, rows=rows, lines=lines, **values | changes)


def make_window(*columns: LayoutColumn, **changes: Any) -> LayoutWindow:
    """Put the columns of the sides beside each other."""
    values: dict[str, Any] = {
        "unit": "percpu",
        "kind": "percpu",
        "alarms": (),
        "inserted": (),
        "uses": (),
    }
    return LayoutWindow(columns=columns, **values | changes)


def make_use(name: str, **changes: Any) -> LayoutUse:
    """Return what the table of hot variables knows of a name."""
    values: dict[str, Any] = {
        "paths": ("wakeup",),
        "written": "rarely",
        "read": "remote",
        "functions": (),
    }
    return LayoutUse(name=name, **values | changes)


def make_alarm(*names: str, **changes: Any) -> LayoutAlarm:
    """Return the alarm that the first two of these names parted."""
    values: dict[str, Any] = {
        "row": f"percpu/{'+'.join(names[:2])}",
        "rule": "separated",
        "grade": "inferred",
        "unit": "percpu",
        "line_bytes": 64,
        "pairs": (names[:2],),
        "entries": tuple(
            LayoutAlarmEntry(name=name, base_offset=None, new_offset=None) for name in names
        ),
        "boundary": 64,
        "adjacent": None,
        "functions": (),
        "paths": (),
        "claim": f"{' and '.join(names[:2])} parted",
        "cause": None,
        "causes": 0,
        "effect": None,
        "reference": "",
        "hitm": None,
        "limits": (),
    }
    return LayoutAlarm(**values | changes)


def make_cause(**changes: Any) -> LayoutCause:
    """Return a cause without any effect."""
    values: dict[str, Any] = {
        "text": "",
        "edits": (),
        "shift": None,
        "is_sufficient": True,
        "together_with": (),
        "alternatives": (),
        "counts": LayoutPairCounts(separated=0, joined=0),
        "separated": (),
        "joined": (),
        "by_entry_alone": (),
    }
    return LayoutCause(**values | changes)


def make_layout(*alarms: LayoutAlarm, side: str = "new", **changes: Any) -> Layout:
    """Return the comparison of one side with base, with these alarms and without units."""
    counts = LayoutCounts(units=0, unchanged_units=0, alarms=len(alarms), unknown_heat=0)
    compared = LayoutComparison(
        side=side,
        label=side,
        is_unchanged=not alarms,
        alarms=alarms,
        regained=(),
        hot=(),
        advice=(),
        units=(),
        missing=(),
        counts=counts,
        notes=(),
    )
    values: dict[str, Any] = {
        "line_bytes": LayoutLines(used=64, from_="assumed", differs=()),
        "kernels": (),
        "notes": (),
        "comparisons": (compared,),
        "windows": (),
        "missing": (),
    }
    return Layout(**values | changes)
