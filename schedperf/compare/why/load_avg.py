# SPDX-License-Identifier: GPL-2.0-or-later
"""Name ``tg->load_avg`` in findings about the functions that read or write it.

All CPUs that run tasks of a task group update the one ``load_avg`` of its ``struct task_group``. A
finding names the field if a function that accesses it uses significantly more CPU time, or is
slower, and the increase coincides with a deeper cgroup or occurs on several NUMA nodes. A profile
cannot distinguish contention for the cache line from more updates; the finding names the capture
that can.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.compare.advice.intent import as_argument
from schedperf.evidence.c2c.record import C2c
from schedperf.evidence.layout.record import Layout
from schedperf.evidence.pelt.record import Pelt, PeltRow
from schedperf.evidence.profile.record import Profile, ProfileClassRow, ProfilePoint, ProfileRow
from schedperf.inputs.symbols.functions import function_name
from schedperf.model.base_new import BaseNew
from schedperf.model.place import KERNEL
from schedperf.model.sections import Finding, Section, data_of
from schedperf.model.sides import Difference
from schedperf.model.text import join_names, list_some

FIELD = "tg->load_avg"
STRUCT = "task_group"
COLLECTOR = "perf_c2c"
DEPTH = "cgroup.depth"

READER, WRITER = "update_cfs_group", "update_tg_load_avg"
# Contains the writer if the compiler inlined it.
CALLER = "update_load_avg"
_ACCESS: Mapping[str, str] = {
    READER: "reads",
    WRITER: "writes",
    CALLER: "writes (inlined update_tg_load_avg)",
}
# An increase on fewer nodes does not show that CPUs of several nodes access the field.
FEWEST_NODES = 2


class _Increase(Struct, frozen=True, kw_only=True):
    # A function that accesses the field, and the nodes on which it increased.
    function: str
    nodes: int


def name_load_avg(
    findings: Sequence[Finding],
    sections: Mapping[str, Section],
    differences: Sequence[Difference],
    paths: Mapping[str, str],
) -> tuple[Finding, ...]:
    """Return all findings; details that name the field are added to those that support it.

    Merged findings, and findings of a side with memory samples, stay as they are.

    :param differences: differences between the sides, e.g. a deeper cgroup
    :param paths: file of each side's bundle, by name of the side
    """
    increases = dict(_increases(sections))
    measured = _sampled_sides(sections)
    return tuple(
        _name_field(finding, increases, sections, differences, paths)
        if finding.side not in measured
        else finding
        for finding in findings
    )


def _name_field(
    finding: Finding,
    increases: Mapping[str, Sequence[_Increase]],
    sections: Mapping[str, Section],
    differences: Sequence[Difference],
    paths: Mapping[str, str],
) -> Finding:
    if finding.rule == "joined":
        return finding
    found = [each for row in finding.evidence for each in increases.get(row, ())]
    nodes = max((each.nodes for each in found), default=0)
    support = [
        *_describe_depth(differences, finding.side),
        *([f"on {nodes} NUMA nodes"] if nodes >= FEWEST_NODES else []),
    ]
    if not support or not {READER, WRITER}.intersection(each.function for each in found):
        return finding
    accesses = list_some([f"{each.function} {_ACCESS[each.function]}" for each in found], 3)
    text = (
        f"; {accesses} {FIELD}: the time spent in this code increased {join_names(support)}; "
        f"contention for the field's cache line was not measured (record --with {COLLECTOR})"
    )
    if finding.side in paths and _has_struct(sections, finding.side):
        path = as_argument(paths[finding.side])
        text += f"; to list the fields on its cache line: schedperf layout {path} --struct {STRUCT}"
    return replace(finding, details=f"{finding.details}{text}")


def _describe_depth(differences: Sequence[Difference], side: str) -> Iterator[str]:
    for each in differences:
        if each.path == DEPTH and each.side == side:
            base, new = each.base, each.new
            if isinstance(base, int) and isinstance(new, int) and new > base:
                yield f"with the cgroup depth ({base} -> {new})"


def _sampled_sides(sections: Mapping[str, Section]) -> frozenset[str]:
    # If the memory accesses of a side were sampled, the cache-line section lists the field.
    data = data_of(sections, C2c)
    compared = () if data is None else data.comparisons
    return frozenset(
        each.side for each in compared if any(point.reason is None for point in each.points)
    )


def _has_struct(sections: Mapping[str, Section], side: str) -> bool:
    data = data_of(sections, Layout)
    compared = () if data is None else data.comparisons
    return any(
        unit.unit == f"struct {STRUCT}"
        for each in compared
        if each.side == side
        for unit in each.units
    )


def _increases(sections: Mapping[str, Section]) -> Iterator[tuple[str, tuple[_Increase, ...]]]:
    """Yield each row of evidence with the functions in it that access the field and increased."""
    profile, pelt = data_of(sections, Profile), data_of(sections, Pelt)
    for compared in profile.comparisons if profile else ():
        for event in compared.events:
            for point in event.points if event.sees_kernel else ():
                yield from _of_point(point)
    yield from _of_updates(pelt.rows if pelt else ())


def _of_point(point: ProfilePoint) -> Iterator[tuple[str, tuple[_Increase, ...]]]:
    names = {function_name(row.symbol) for row in point.rows if row.dso == KERNEL}
    accessing = {
        row.symbol: _Increase(function=function_name(row.symbol), nodes=_count_nodes(row.nodes))
        for row in point.rows
        if _is_hotter(row)
        and function_name(row.symbol) in _ACCESS
        # If the writer was not inlined, its caller does not contain it.
        and not (function_name(row.symbol) == CALLER and WRITER in names)
    }
    rows: list[ProfileRow | ProfileClassRow] = [*point.rows, *point.classes]
    for row in rows:
        found = tuple(accessing[name] for name in _functions_of(row) if name in accessing)
        if found:
            yield f"profile#{row.row}", found


def _functions_of(row: ProfileRow | ProfileClassRow) -> Iterator[str]:
    if isinstance(row, ProfileRow):
        yield row.symbol
    elif row.changed and row.share.change > 0.0:
        yield from (function.symbol for function in row.functions)


def _is_hotter(row: ProfileRow) -> bool:
    return row.dso == KERNEL and row.changed and row.share.change > 0.0


def _count_nodes(shares: BaseNew[Mapping[int, float]]) -> int:
    return sum(shares.new[node] > shares.base[node] for node in shares.base.keys() & shares.new)


def _of_updates(rows: Sequence[PeltRow]) -> Iterator[tuple[str, tuple[_Increase, ...]]]:
    for row in rows:
        is_slower = row.changed and not row.few_calls and (row.ratio or 0.0) > 1.0
        if is_slower and row.what != "calls" and row.function in (READER, WRITER):
            nodes = sum(
                part.node is not None and (part.new or 0.0) > (part.base or 0.0)
                for part in rows
                if part.what == "share"
                and not part.few_calls
                and (part.side, part.workload, part.point, part.function)
                == (row.side, row.workload, row.point, row.function)
            )
            yield f"pelt#{row.row}", (_Increase(function=row.function, nodes=nodes),)
