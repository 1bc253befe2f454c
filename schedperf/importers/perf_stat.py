# SPDX-License-Identifier: GPL-2.0-or-later
"""Import counters that ``perf stat -x, -o FILE`` or ``perf stat -j -o FILE`` wrote, a file per run.

Which direction of a counter is better depends on the question, so counters are informational.
"""

import json
import re
from collections.abc import Iterator

from schedperf.benchmarks.imported_values import LONGEST_NAME, LONGEST_UNIT, format_values
from schedperf.importers import Imported, ImportedBoot, ImportedRun, importer
from schedperf.importers._tree import Tree, natural_order
from schedperf.model.comparison import Better
from schedperf.model.errors import InputError
from schedperf.model.numbers import read_number
from schedperf.model.text import list_some

Row = tuple[str, str, str, Better]

# perf accepts any separator; these occur in no number and no name of an event.
SEPARATORS = (",", ";", "\t", "|")
MOST_EVENTS = 1_000
LONGEST_LINE = 4_000
MOST_NAMES = 5

_EVENT = re.compile(r"[A-Za-z_][\w./:,=@{}-]{0,200}", re.ASCII)
# Counted by another event of the same group, or not counted by this CPU.
_WITHOUT = ("<not counted>", "<not supported>")


@importer("perf-stat", summary="files written by perf stat -x, or perf stat -j, one per run")
def import_perf_stat(tree: Tree) -> Imported:
    """Read all files in the order of their names; each is a run.

    :raises InputError: there is no counter
    """
    runs: list[ImportedRun] = []
    used: list[str] = []
    unread: list[str] = []
    for file in sorted(tree.files(), key=natural_order):
        text = (tree.read_or_skip(file) or b"").decode(errors="replace")
        rows = list(_read(text, file, unread))
        # A second value of an event is of another CPU or interval, and no other run.
        if rows and len({name for name, *_ in rows}) == len(rows) <= MOST_EVENTS:
            used.append(file)
            values = format_values(rows)
            runs.append(
                ImportedRun(workload="perf stat", command=("perf", "stat"), point={}, text=values)
            )
        elif rows:
            unread.append(file)
    if not runs:
        raise InputError(
            f"{tree.root}: no counters of perf stat (expected totals written by perf stat -x, or "
            "perf stat -j, without -I and -A); record again"
        )
    notes = [f"not read: {list_some(list(dict.fromkeys(unread)), MOST_NAMES)}"] if unread else []
    return Imported(
        label=tree.name,
        boots=(ImportedBoot(host={}, runs=tuple(runs)),),
        originals=tuple(used),
        notes=(*notes, *tree.skipped),
    )


def _read(text: str, file: str, unread: list[str]) -> Iterator[Row]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#") or any(mark in line for mark in _WITHOUT):
            continue
        row = _row(line) if len(line) <= LONGEST_LINE else None
        if row is None:
            unread.append(f"{file}:{number}")
        else:
            yield row


def _row(line: str) -> Row | None:
    found = _from_json(line) if line.startswith("{") else _from_fields(line)
    if found is None:
        return None
    value, unit, event = found
    is_valid = read_number(value) is not None and _EVENT.fullmatch(event) is not None
    if not is_valid or len(event) > LONGEST_NAME or len(unit) > LONGEST_UNIT:
        return None
    return (event, value, unit or "count", "unknown") if unit.isprintable() else None


def _from_fields(line: str) -> tuple[str, str, str] | None:
    for separator in SEPARATORS:
        fields = line.split(separator)
        # With -I and -A a time or a CPU precedes the value.
        if len(fields) > 2 and read_number(fields[0]) is not None:  # noqa: PLR2004 # unit, event
            is_total = read_number(fields[1]) is None
            return (fields[0], fields[1], fields[2]) if is_total else None
    return None


def _from_json(line: str) -> tuple[str, str, str] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or entry.keys() & {"interval", "cpu", "core", "socket"}:
        return None
    value, unit, event = (entry.get(key) for key in ("counter-value", "unit", "event"))
    if isinstance(value, str) and isinstance(unit, str) and isinstance(event, str):
        return value, unit, event
    return None
