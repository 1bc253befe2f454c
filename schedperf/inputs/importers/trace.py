# SPDX-License-Identifier: GPL-2.0-or-later
"""Import traces of the scheduler: files of trace-cmd, and perf.data with tracepoints, one per run.

A trace becomes the files that collectors write around a run: wakeup latencies, the time account,
its waits, and blocked times. They are those of the command that the tracer started, or of all
tasks.
"""

import mmap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from schedperf.inputs.importers import Imported, ImportedBoot, ImportedRun, importer
from schedperf.inputs.importers._trace_documents import SWITCH, Traced
from schedperf.inputs.importers._trace_events import EventReader
from schedperf.inputs.importers._trace_lines import (
    CLOCKS,
    Facts,
    Kind,
    event_lines,
    read_facts,
    recognise,
)
from schedperf.inputs.importers.host_fields import (
    Fields,
    merge,
    read_perf_header,
    refuse_several_kernels,
)
from schedperf.inputs.importers.tree import Tree, natural_order
from schedperf.model.errors import InputError
from schedperf.model.text import list_some

MOST_NAMES = 5
ALL_TASKS = "all tasks"


class _Trace(Struct, frozen=True, kw_only=True):
    """One file.

    :param counts: what the trace lacks, with its number
    """

    run: ImportedRun
    host: Fields
    counts: Mapping[str, int]
    notes: tuple[str, ...]


@importer("trace", summary="traces of the scheduler: trace-cmd, perf.data with tracepoints")
def import_trace(tree: Tree) -> Imported:
    """Read all traces in the order of their names; each file is a run.

    :raises InputError: no file is a trace, a trace cannot be read or has no context switches, or
        the traces are of several kernels
    """
    traces: list[_Trace] = []
    others: list[str] = []
    for file in sorted(tree.files(), key=natural_order):
        kind = recognise(tree.path(file))
        if kind is None:
            others.append(file)
        else:
            traces.append(_read(tree.path(file), kind, file))
    if not traces:
        raise InputError(
            f"{tree.root}: no trace (expected a file of `trace-cmd record -e sched`, or of `perf "
            "sched record`); check the path"
        )
    refuse_several_kernels(tree, [trace.host for trace in traces])
    not_read = [f"not read, because they are other files: {list_some(others, MOST_NAMES)}"]
    name = tree.name
    return Imported(
        label=name.removesuffix(Path(name).suffix) if name.endswith((".dat", ".data")) else name,
        boots=(
            ImportedBoot(
                host=merge(trace.host for trace in traces),
                runs=tuple(trace.run for trace in traces),
            ),
        ),
        originals=(),
        notes=(*_notes(traces), *(not_read if others else []), *tree.skipped),
    )


def _notes(traces: Sequence[_Trace]) -> Iterator[str]:
    if len(traces) == 1:
        yield (
            "one trace has no repeats, so changes are effect sizes without a verdict; import a "
            "directory with several traces per side"
        )
    counts = Counter[str]()
    for trace in traces:
        counts.update(dict(trace.counts))
    for what, count in counts.items():
        yield f"{what}: {count}"
    files: dict[str, list[str]] = {}
    for trace in traces:
        for note in trace.notes:
            files.setdefault(note, []).append(str(trace.run.source))
    for note, names in files.items():
        some = f"{list_some(names, MOST_NAMES)}: " if len(names) < len(traces) else ""
        yield f"{some}{note}"


def _read(path: Path, kind: Kind, file: str) -> _Trace:
    facts = read_facts(path) if kind == "trace-cmd" else None
    if facts is not None and facts.clock is not None and facts.clock not in CLOCKS:
        raise InputError(
            f"{path}: the clock {facts.clock!r} does not count time; record with `trace-cmd record "
            "-C mono`"
        )
    reader = EventReader()
    reader.read(event_lines(path, kind))
    traced = Traced(reader, _lost(reader, facts))
    _check(traced, reader, path)
    workload = traced.command or ALL_TASKS
    run = ImportedRun(
        workload=workload if workload.isprintable() else "command",
        command=(workload,),
        point={},
        text=b"",
        captures=dict(traced.captures()),
        source=file,
        wall_s=traced.elapsed_s,
        period_s=traced.seconds,
        usage=traced.usage,
    )
    host = facts.host if facts is not None else _perf_host(path)
    counts = dict(traced.counts())
    if facts is not None and facts.read is not None and reader.lines < facts.read:
        counts["events missing, because the file is damaged"] = facts.read - reader.lines
    return _Trace(run=run, host=host, counts=counts, notes=tuple(traced.notes()))


def _lost(reader: EventReader, facts: Facts | None) -> int | None:
    # The kernel's statistics count the losses at the end, too; older files do not have them.
    if facts is not None:
        return None if facts.lost is None and not reader.lost else max(facts.lost or 0, reader.lost)
    return reader.lost


def _check(traced: Traced, reader: EventReader, path: Path) -> None:
    """Refuse a trace from which nothing follows.

    :raises InputError: it has no context switches, has the events of some tasks only, or no time
        passes in it
    """
    if not reader.seen[SWITCH]:
        why = "it is damaged or was" if reader.lines == 0 else "it was"
        raise InputError(
            f"{path}: no context switches ({why} recorded without sched_switch); record with "
            "`trace-cmd record -e sched` or `perf sched record`"
        )
    if traced.is_partial:
        raise InputError(
            f"{path}: the events of some tasks only (expected those of all CPUs and tasks); record "
            "with `perf sched record`, or with `trace-cmd record -e sched` without -P and -F"
        )
    if traced.seconds <= 0.0:
        raise InputError(f"{path}: no time passes between its events; record for longer")


def _perf_host(path: Path) -> Fields:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return read_perf_header(content, str(path))
