"""Lines as they are shown: what lies on them, and who reads and who writes which bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from schedperf.evidence.c2c._samples import (
    CONTENDED,
    Part,
    columns_of,
    for_each_part,
    make_access,
    touched_by,
    written_by,
)
from schedperf.evidence.c2c.data_src import sums
from schedperf.evidence.c2c.lines import KERNEL_OWNER, LineTable
from schedperf.evidence.c2c.model import Access, Line
from schedperf.evidence.c2c.namer import Namer
from schedperf.evidence.c2c.naming import Named
from schedperf.evidence.c2c.record import Observable
from schedperf.evidence.c2c.sharing import df_false_share, sharing_of
from schedperf.evidence.c2c.totals import LOADS, RECORDS
from schedperf.perf_data.recording import (
    MODE_USER,
    NO_TASK,
    Integers,
    MemorySamples,
    Recording,
)

# Lines that two structs explain equally well, of which the notes name so many.
MOST_CONFLICTS = 5

# What is at an offset of a line; of other offsets nothing is known.
Names = Mapping[int, Named]


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Lines that are one: copies of a per-CPU line, or a line alone.

    :param lines: indices into the table of lines
    :param percpu: offset of the line in each CPU's unit; None where it is not per-CPU
    """

    lines: Integers
    percpu: int | None


class LineMaker:
    """Makes the lines of one recording.

    :ivar notes: names that could not be told apart, one sentence each
    """

    def __init__(
        self,
        recording: Recording,
        memory: MemorySamples,
        lines: LineTable,
        *,
        namer: Namer,
        observable: Observable,
        line_bytes: int,
    ) -> None:
        self.notes: list[str] = []
        self._recording = recording
        self._memory = memory
        self._lines = lines
        self._namer = namer
        self._contended = CONTENDED[observable]
        self._line_bytes = line_bytes
        self._commands = [task.comm for task in recording.tasks]

    def make(self, samples: pd.DataFrame, groups: Mapping[int, Group]) -> tuple[Line, ...]:
        """Return the lines that have samples, most contended first.

        :param samples: as :func:`df_samples` returns them, of all lines or of some
        :param groups: by the samples' ``line``
        """
        rows = samples["row"].to_numpy()
        functions, index = self._namer.name_code(self._recording, self._memory, rows)
        samples = samples.assign(function=index).sort_values(["line", "offset"], kind="stable")
        columns = columns_of(samples)
        names = {
            line: self._name_line(groups[line], part, functions)
            for line, part in for_each_part(columns, "line")
        }
        starts = [
            start
            for line, part in for_each_part(columns, "line")
            for start in _starts(part, names[line])
        ]
        false_share = df_false_share(samples.assign(bytes=np.array(starts, dtype=np.int64)))
        made = [
            self._line(groups[line], part, names[line], functions, float(false_share[line]))
            for line, part in for_each_part(columns, "line")
        ]
        return tuple(sorted(made, key=lambda line: (-self._slow(line), -line.records, line.key)))

    def _slow(self, line: Line) -> int:
        return sum(line.counts[name] for name in self._contended)

    def _start(self, group: Group) -> int:
        return int(self._lines.address[group.lines[0]])

    def _name_line(self, group: Group, part: Part, functions: Sequence[str]) -> Names:
        variables = self._namer.variables
        if variables is None or self._lines.owner[group.lines[0]] != KERNEL_OWNER:
            return {}
        offsets = np.unique(part["offset"]).tolist()
        found: dict[int, Named | None]
        if group.percpu is not None:
            found = {offset: variables.percpu(group.percpu + offset) for offset in offsets}
        else:
            start = self._start(group)
            found = {offset: variables.at(start + offset) for offset in offsets}
            if not any(found.values()):
                found = self._name_object(start, part, functions)
        return {offset: named for offset, named in found.items() if named is not None}

    def _name_object(
        self, start: int, part: Part, functions: Sequence[str]
    ) -> dict[int, Named | None]:
        variables = self._namer.variables
        if variables is None:
            return {}
        found = variables.find_object(
            touched_by(part, functions), written_by(part, functions), self._line_bytes
        )
        if len(found) > 1 and len(self.notes) < MOST_CONFLICTS:
            places = " or ".join(f"{unit} at {offset}" for unit, offset in found)
            self.notes.append(f"line {start:#x} may be of {places}, so it has no name")
        if len(found) != 1:
            return {}
        unit, line = found[0]
        return {
            offset: variables.field(unit, line + offset)
            for offset in np.unique(part["offset"]).tolist()
        }

    def _line(
        self,
        group: Group,
        part: Part,
        names: Names,
        functions: Sequence[str],
        false_share: float,
    ) -> Line:
        matrix = self._lines.matrix[group.lines]
        counts = sums(matrix)
        share = None if np.isnan(false_share) else false_share
        accesses = tuple(
            make_access(bytes_of, names.get(offset), functions, self._commands)
            for offset, bytes_of in for_each_part(part, "offset")
        )
        address = self._lines.address[group.lines]
        return Line(
            key=self._key(group, part, names),
            address=int(address[np.argmax(matrix.sum(axis=1))]),
            copies=len(np.unique(address)),
            name=_hottest_name(accesses),
            records=sum(counts[name] for name in RECORDS),
            counts={**counts, "loads": sum(counts[name] for name in LOADS)},
            sharing=sharing_of(share),
            false_share=share,
            accesses=accesses,
        )

    def _key(self, group: Group, part: Part, names: Names) -> str:
        first, start = int(group.lines[0]), self._start(group)
        if group.percpu is not None:
            return f"percpu+{group.percpu:#x}"
        for offset, named in names.items():
            return f"{named.unit.removeprefix('struct ')}+{named.at - offset:#x}"
        owner = int(self._lines.owner[first])
        if owner == KERNEL_OWNER:
            return f"{start:#x}"
        # perf tells what the kernel did to a process's memory from what the process did.
        is_own = self._lines.mode[first] == MODE_USER
        by_whom = "" if is_own else " (from the kernel)"
        if owner > KERNEL_OWNER:
            path = self._recording.files[owner - 1].path
            return f"{path}+{int(self._lines.place[first]):#x}{by_whom}"
        return f"{start:#x} of {self._process(int(part['row'][0]))}{by_whom}"

    def _process(self, row: int) -> str:
        task = int(self._memory.task[row])
        if task == NO_TASK:
            return f"address space {int(self._memory.space[row])}"
        return f"process {self._recording.tasks[task].pid}"


def _starts(part: Part, names: Names) -> list[int]:
    # Accesses to one named field are to the same bytes, wherever in it they begin.
    starts = {}
    for offset in np.unique(part["offset"]).tolist():
        named = names.get(offset)
        starts[offset] = offset if named is None else named.start - named.at + offset
    return [starts[offset] for offset in part["offset"].tolist()]


def _hottest_name(accesses: Sequence[Access]) -> str | None:
    named = [access for access in accesses if access.name is not None]
    hottest = max(
        named,
        key=lambda one: (one.local + one.remote, (one.reads or 0) + one.writes),
        default=None,
    )
    return None if hottest is None else hottest.name
