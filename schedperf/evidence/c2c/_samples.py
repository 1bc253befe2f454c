"""The samples of shared lines as one table, and what one stretch of bytes had of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from schedperf.evidence.c2c.data_src import SampleCounts
from schedperf.evidence.c2c.lines import LineTable
from schedperf.evidence.c2c.model import Access, NodeAccesses
from schedperf.evidence.c2c.naming import Named, is_known_user
from schedperf.evidence.c2c.record import Grade, Observable
from schedperf.perf_data.recording import NO_TASK, Integers, MemorySamples

# Of each observable: what is a slow load that another CPU's write explains, near and far.
CONTENDED: Mapping[Observable, tuple[str, str]] = {
    "hitm": ("lcl_hitm", "rmt_hitm"),
    "ibs": ("lcl_hitm", "rmt_hitm"),
    "peer": ("lcl_peer", "rmt_peer"),
}
# The node of a CPU that belongs to none.
NO_NODE = -1

# Columns of some of the samples, by name.
Part = Mapping[str, NDArray[Any]]


def df_samples(
    memory: MemorySamples,
    counts: SampleCounts,
    lines: LineTable,
    *,
    of_line: Integers,
    observable: Observable,
    node_of_cpu: Mapping[int, int],
    line_bytes: int,
) -> pd.DataFrame:
    """Return the samples of shared lines, one row each.

    :param of_line: the group of each line
    :return: ``row`` (place in the recording), ``line`` (group), ``copy`` (line), ``offset`` (in the
        line), ``cpu``, ``task``, ``node``, ``reads``, ``stores``, ``local``, ``remote``, ``slow``
        (both), ``weight`` (all int64) and ``writes`` (bool)
    """
    rows = np.flatnonzero(lines.is_shared()[lines.of_sample])
    local, remote = (counts.of(name)[rows].astype(np.int64) for name in CONTENDED[observable])
    copy, cpu = lines.of_sample[rows], memory.cpu[rows]
    known, inverse = np.unique(cpu, return_inverse=True)
    nodes = np.array([node_of_cpu.get(int(one), NO_NODE) for one in known], dtype=np.int64)
    offset = memory.address[rows] & np.uint64(line_bytes - 1)
    return pd.DataFrame(
        {
            "row": rows,
            "line": of_line[copy],
            "copy": copy,
            "offset": offset.astype(np.int64),
            "cpu": cpu,
            "task": memory.task[rows],
            "node": nodes[inverse],
            "reads": counts.of("load")[rows].astype(np.int64),
            "stores": counts.of("store")[rows].astype(np.int64),
            "local": local,
            "remote": remote,
            "slow": local + remote,
            "weight": memory.weight[rows],
            "writes": counts.writes[rows],
        }
    )


def columns_of(samples: pd.DataFrame) -> Part:
    """Return the columns as arrays: slices of a table cost a hundred times as much."""
    return {str(name): samples[name].to_numpy() for name in samples.columns}


def for_each_part(samples: Part, column: str) -> Iterator[tuple[int, Part]]:
    """Yield each value of a column with its rows, which are next to each other."""
    values = samples[column]
    is_first = np.r_[True, values[1:] != values[:-1]][: len(values)]
    starts = np.flatnonzero(is_first).tolist()
    for start, stop in zip(starts, [*starts[1:], len(values)], strict=False):
        yield int(values[start]), {name: array[start:stop] for name, array in samples.items()}


def touched_by(part: Part, names: Sequence[str]) -> dict[int, Counter[str]]:
    """Return by offset how often each function was slowed down or wrote there.

    Reads that no other cache had to answer say nothing of what is shared.
    """
    return _by_function(part, names, (part["slow"] > 0) | part["writes"])


def written_by(part: Part, names: Sequence[str]) -> dict[int, Counter[str]]:
    """Return by offset how often each function wrote there."""
    return _by_function(part, names, part["writes"])


def _by_function(
    part: Part, names: Sequence[str], is_counted: NDArray[np.bool_]
) -> dict[int, Counter[str]]:
    found: dict[int, Counter[str]] = {}
    pairs = zip(part["offset"][is_counted], part["function"][is_counted], strict=True)
    for offset, function in pairs:
        found.setdefault(int(offset), Counter())[names[int(function)]] += 1
    return found


def make_access(
    part: Part, named: Named | None, names: Sequence[str], commands: Sequence[str]
) -> Access:
    """Return what one stretch of bytes had.

    :param part: samples of one offset of a line
    :param names: of functions, by the samples' ``function``
    :param commands: of tasks, by the samples' ``task``
    """
    symbols = _counted(part["function"], names)
    weights = part["weight"][(part["slow"] > 0) & (part["weight"] > 0)]
    reads, stores, cpus = part["reads"], part["stores"], part["cpu"]
    return Access(
        offset=int(part["offset"][0]),
        size=None if named is None or named.end is None else named.end - named.at,
        name=None if named is None else named.name,
        grade=None if named is None else _grade(named, symbols),
        reads=int(reads.sum()),
        writes=int(stores.sum()),
        local=int(part["local"].sum()),
        remote=int(part["remote"].sum()),
        readers=frozenset(np.unique(cpus[reads > 0]).tolist()),
        writers=frozenset(np.unique(cpus[part["writes"]]).tolist()),
        nodes={int(node): _of_node(part, node) for node in np.unique(part["node"])},
        symbols=symbols,
        writing_symbols=_counted(part["function"][stores > 0], names),
        commands=_counted(part["task"][part["task"] != NO_TASK], commands) or None,
        mean_weight=float(weights.mean()) if len(weights) else None,
    )


def _counted(indices: NDArray[Any], names: Sequence[str]) -> dict[str, int]:
    # Most samples first. Several tasks may have one name.
    counts: Counter[str] = Counter()
    for index, count in zip(*np.unique(indices, return_counts=True), strict=True):
        counts[names[int(index)]] += int(count)
    return dict(counts.most_common())


def _of_node(part: Part, node: int) -> NodeAccesses:
    is_of_node = part["node"] == node
    columns = ("reads", "stores", "local", "remote")
    return NodeAccesses(*(int(part[name][is_of_node].sum()) for name in columns))


def _grade(named: Named, symbols: Mapping[str, int]) -> Grade:
    # An object is recognised by the code alone: nobody asked the slab what is at its address.
    is_object = named.unit.startswith(("struct ", "union "))
    return "A" if not is_object and is_known_user(named.unit, named.name, symbols) else "B"
