# SPDX-License-Identifier: GPL-2.0-or-later
"""Import counters from output of ``perf stat -x, -o FILE`` or ``-j -o FILE``, one file per run.

Each counter becomes a value of the run, and part of the capture for the section "Counters". The
better direction of a counter depends on the question, so counters are informational.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from schedperf.evidence.perf_stat.capture import CSV, FACTS, FOLDER, NO_VALUE
from schedperf.inputs.benchmarks.imported_values import LONGEST_NAME, LONGEST_UNIT, format_values
from schedperf.inputs.importers import Imported, ImportedBoot, ImportedRun, importer
from schedperf.inputs.importers.tree import Tree, natural_order
from schedperf.model.errors import InputError
from schedperf.model.numbers import read_number
from schedperf.model.rows import Better
from schedperf.model.text import clean_line, list_some

# perf accepts any separator; these never occur in numbers or event names.
SEPARATORS = (",", ";", "\t", "|")
MOST_EVENTS = 1_000
LONGEST_LINE = 4_000
MOST_NAMES = 5

PER_INTERVAL = "a value per interval or CPU; record without -I and -A"

# A second metric that perf derives from a counter is on a separate line.
_METRIC_ONLY = re.compile(
    r"([,;\t|])\1{3,5}-?[\d.]{1,30}\1[^,;\t|]{1,200}"
    r'|\{"metric-value" : "[^"]{1,40}", "metric-unit" : "[^"]{1,200}"\}',
    re.ASCII,
)
_CPU = re.compile(r"CPU\d+|S\d+(?:-\w+)*|N\d+", re.ASCII)
_EVENT = re.compile(r"[A-Za-z_][\w./:,=@{}-]{0,200}", re.ASCII)


class _Line(Struct, frozen=True, kw_only=True):
    """One counter.

    :param value: as perf printed it; one of ``NO_VALUE`` if the event was not counted
    :param runtime_ns: counting time of the event; "" if the line does not contain it
    :param percent: share of that time in which it was on the hardware, in percent; "" if the line
        does not contain it
    """

    event: str
    value: str
    unit: str
    runtime_ns: str = ""
    percent: str = ""

    @property
    def why_not_counted(self) -> str:
        """Return why the capture cannot contain the counter; "" if it can."""
        if self.value in NO_VALUE:
            return f"{self.value.strip('<>')} by perf"
        if "," in self.event:
            return "its name contains a comma, which separates the fields of the capture"
        return "" if self.runtime_ns and self.percent else "perf printed no time of counting"


@importer("perf-stat", summary="files written by perf stat -x, or perf stat -j, one per run")
def import_perf_stat(tree: Tree) -> Imported:
    """Read all files in the order of their names; each file with counters is a run.

    Other files, and lines that are not counters, are left out, with a note.

    :raises InputError: the files contain no counter
    """
    runs: list[ImportedRun] = []
    used: list[str] = []
    unread: list[str] = []
    for file in sorted(tree.files(), key=natural_order):
        content = tree.read_or_skip(file)
        if content is None:
            continue
        lines, problems = _read(content.decode(errors="replace"))
        problem = _problem_of_file(lines, problems)
        if problem is None:
            used.append(file)
            runs.append(_run(lines, file))
            unread += [f"{file}:{number} ({why})" for number, why in problems]
        else:
            unread.append(f"{file} ({problem})")
    if not runs:
        raise InputError(
            f"{tree.root}: no counters of perf stat (expected totals written by perf stat -x, or "
            f"perf stat -j, without -I and -A){_first(unread)}; record again"
        )
    notes = [f"not read: {list_some(unread, MOST_NAMES)}"] if unread else []
    return Imported(
        label=tree.name,
        boots=(ImportedBoot(host={}, runs=tuple(runs)),),
        originals=tuple(used),
        notes=(*notes, *tree.skipped),
    )


def _first(unread: Sequence[str]) -> str:
    return f"; first file: {clean_line(unread[0])}" if unread else ""


def _problem_of_file(lines: Sequence[_Line], problems: Sequence[tuple[int, str]]) -> str | None:
    """Return why a file is not a run; None if it is one."""
    if not any(line.value not in NO_VALUE for line in lines):
        if not lines and problems:
            number, why = problems[0]
            return f"no counters; line {number}: {why}"
        return "no counters"
    counts = Counter(line.event for line in lines)
    event, count = counts.most_common(1)[0]
    if count > 1:
        # A repeated event belongs to another CPU or interval, not to another run.
        return f"{count} values of {event}; expected one, without -I and -A"
    return f"more than {MOST_EVENTS} events" if len(lines) > MOST_EVENTS else None


def _run(lines: Sequence[_Line], file: str) -> ImportedRun:
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
        source=file,
        captures={f"{FOLDER}/{name}": content for name, content in _capture(lines).items()},
    )


def _capture(lines: Sequence[_Line]) -> Mapping[str, bytes]:
    """Return the counters in the collector's format."""
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


def _read(text: str) -> tuple[list[_Line], list[tuple[int, str]]]:
    """Return the counters, and the number and problem of each unreadable line."""
    lines: list[_Line] = []
    problems: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#") or _METRIC_ONLY.fullmatch(line):
            continue
        try:
            lines.append(_read_line(line.rstrip()))
        except ValueError as error:
            problems.append((number, str(error)))
    return lines, problems


def _read_line(text: str) -> _Line:
    """Parse a line.

    :raises ValueError: the line is invalid; the argument is the reason
    """
    if len(text) > LONGEST_LINE:
        raise ValueError(f"longer than {LONGEST_LINE} characters")
    line = _from_json(text) if text.startswith("{") else _from_fields(text)
    if _EVENT.fullmatch(line.event) is None or len(line.event) > LONGEST_NAME:
        raise ValueError("invalid name of an event")
    if not line.unit.isprintable() or len(line.unit) > LONGEST_UNIT or "," in line.unit:
        raise ValueError("invalid unit")
    if not _is_value(line.value):
        raise ValueError("invalid value")
    return line


def _is_value(text: str) -> bool:
    return text in NO_VALUE or read_number(text) is not None


def _from_fields(text: str) -> _Line:
    for separator in SEPARATORS:
        fields = text.split(separator)
        # With -I and -A a time or a CPU precedes the value.
        if len(fields) > 2 and _is_value(fields[0]):  # noqa: PLR2004 # unit, event
            value, unit, event, *rest = fields
            if _is_value(unit):
                raise ValueError(PER_INTERVAL)
            while event.count("/") % 2 and rest:
                # A name such as cpu/event=0x3c,umask=0x0/ contains the separator.
                event += f"{separator}{rest.pop(0)}"
            if rest and rest[0].endswith("%"):
                # With -r, the variation over the repetitions precedes the time.
                del rest[0]
            return _line(value, unit, event, rest[:2])
        if len(fields) > 2 and _CPU.fullmatch(fields[0]):  # noqa: PLR2004 # unit, event
            raise ValueError(PER_INTERVAL)
    raise ValueError("not a counter; expected a line of perf stat -x, or perf stat -j")


def _from_json(text: str) -> _Line:
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("invalid JSON") from None
    if entry.keys() & {"interval", "cpu", "core", "socket"}:
        raise ValueError(PER_INTERVAL)
    value, unit, event = (entry.get(key) for key in ("counter-value", "unit", "event"))
    if isinstance(value, str) and isinstance(unit, str) and isinstance(event, str):
        times = [str(entry.get(key, "")) for key in ("event-runtime", "pcnt-running")]
        return _line(value, unit, event, times)
    raise ValueError("no counter-value, unit and event")


def _line(value: str, unit: str, event: str, times: Sequence[str]) -> _Line:
    is_timed = len(times) == 2 and all(read_number(time) is not None for time in times)  # noqa: PLR2004 # time, percent
    runtime_ns, percent = times if is_timed else ("", "")
    return _Line(event=event, value=value, unit=unit, runtime_ns=runtime_ns, percent=percent)
