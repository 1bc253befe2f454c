# SPDX-License-Identifier: GPL-2.0-or-later
"""Import counters that ``perf stat -x, -o FILE`` or ``perf stat -j -o FILE`` wrote, a file per run.

Each counter is a value of the run, and is in the capture that the section "Counters" reads. Which
direction of a counter is better depends on the question, so counters are informational.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.benchmarks.imported_values import LONGEST_NAME, LONGEST_UNIT, format_values
from schedperf.evidence.perf_stat.capture import CSV, FACTS, FOLDER, NO_VALUE
from schedperf.importers import Imported, ImportedBoot, ImportedRun, importer
from schedperf.importers._tree import Tree, natural_order
from schedperf.model.comparison import Better
from schedperf.model.errors import InputError
from schedperf.model.numbers import read_number
from schedperf.model.text import list_some

# perf accepts any separator; these occur in no number and no name of an event.
SEPARATORS = (",", ";", "\t", "|")
MOST_EVENTS = 1_000
LONGEST_LINE = 4_000
MOST_NAMES = 5

_EVENT = re.compile(r"[A-Za-z_][\w./:,=@{}-]{0,200}", re.ASCII)


class _Line(Struct, frozen=True, kw_only=True):
    """One counter.

    :param value: as perf printed it; one of ``NO_VALUE`` if the event was not counted
    :param runtime_ns: how long the event was counted; "" if the line does not contain it
    :param percent: share of that time in which it was on the hardware
    """

    event: str
    value: str
    unit: str
    runtime_ns: str = ""
    percent: str = ""

    @property
    def why_not_counted(self) -> str:
        """Why the capture cannot contain the counter; "" if it can."""
        if self.value in NO_VALUE:
            return f"{self.value.strip('<>')} by perf"
        if "," in self.event:
            return "its name contains a comma, which separates the fields of the capture"
        return "" if self.runtime_ns and self.percent else "perf printed no time of counting"


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
        lines = list(_read(text, file, unread))
        is_counted = any(line.value not in NO_VALUE for line in lines)
        # A second value of an event is of another CPU or interval, and no other run.
        if is_counted and len({line.event for line in lines}) == len(lines) <= MOST_EVENTS:
            used.append(file)
            runs.append(_run(lines))
        elif is_counted:
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


def _run(lines: Sequence[_Line]) -> ImportedRun:
    unknown: Better = "unknown"
    rows = [
        (line.event, line.value, line.unit or "count", unknown)
        for line in lines
        if line.value not in NO_VALUE
    ]
    return ImportedRun(
        workload="perf stat",
        command=("perf", "stat"),
        point={},
        text=format_values(rows),
        captures={f"{FOLDER}/{name}": content for name, content in _capture(lines).items()},
    )


def _capture(lines: Sequence[_Line]) -> Mapping[str, bytes]:
    """Return the counters in the form in which the collector stores them."""
    counted = [line for line in lines if not line.why_not_counted]
    rows = (
        f"{line.value},{line.unit},{line.event},{line.runtime_ns},{line.percent}"
        for line in counted
    )
    facts = {
        "events": [line.event for line in counted],
        "not_counted": {line.event: line.why_not_counted for line in lines if line.why_not_counted},
        "per_node": False,
    }
    return {
        CSV: "".join(f"{row}\n" for row in rows).encode(),
        FACTS: (json.dumps(facts, indent=1) + "\n").encode(),
    }


def _read(text: str, file: str, unread: list[str]) -> Iterator[_Line]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        read = _read_line(line) if len(line) <= LONGEST_LINE else None
        if read is None:
            unread.append(f"{file}:{number}")
        else:
            yield read


def _read_line(text: str) -> _Line | None:
    line = _from_json(text) if text.startswith("{") else _from_fields(text)
    if line is None or _EVENT.fullmatch(line.event) is None or len(line.event) > LONGEST_NAME:
        return None
    is_unit = line.unit.isprintable() and len(line.unit) <= LONGEST_UNIT and "," not in line.unit
    return line if is_unit and _is_value(line.value) else None


def _is_value(text: str) -> bool:
    return text in NO_VALUE or read_number(text) is not None


def _from_fields(text: str) -> _Line | None:
    for separator in SEPARATORS:
        fields = text.split(separator)
        # With -I and -A a time or a CPU precedes the value.
        if len(fields) > 2 and _is_value(fields[0]):  # noqa: PLR2004 # unit, event
            value, unit, event, *rest = fields
            if _is_value(unit):
                return None
            while event.count("/") % 2 and rest:
                # A name such as cpu/event=0x3c,umask=0x0/ contains the separator.
                event += f"{separator}{rest.pop(0)}"
            if rest and rest[0].endswith("%"):
                # With -r the variation of the repetitions precedes the time.
                del rest[0]
            return _line(value, unit, event, rest[:2])
    return None


def _from_json(text: str) -> _Line | None:
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or entry.keys() & {"interval", "cpu", "core", "socket"}:
        return None
    value, unit, event = (entry.get(key) for key in ("counter-value", "unit", "event"))
    if isinstance(value, str) and isinstance(unit, str) and isinstance(event, str):
        times = [str(entry.get(key, "")) for key in ("event-runtime", "pcnt-running")]
        return _line(value, unit, event, times)
    return None


def _line(value: str, unit: str, event: str, times: Sequence[str]) -> _Line:
    is_timed = len(times) == 2 and all(read_number(time) is not None for time in times)  # noqa: PLR2004 # time, percent
    runtime_ns, percent = times if is_timed else ("", "")
    return _Line(event=event, value=value, unit=unit, runtime_ns=runtime_ns, percent=percent)
