# SPDX-License-Identifier: GPL-2.0-or-later
"""Attribute the contended loads of a cache line to pairs of functions: which reads, which writes.

A sample does not record which write made a load slow. As in :mod:`schedperf.evidence.c2c.sharing`,
each contended load is attributed to the writes of all other CPUs to the line in proportion, here by
the function that writes.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schedperf.evidence.c2c.lines import Part
from schedperf.evidence.c2c.model import Functions
from schedperf.inputs.perf_data.recording import NO_CPU, Integers

# Functions of a line that are distinguished, of those that read and of those that write.
MOST_FUNCTIONS = 20
OTHERS = "(other functions)"


def attribute_loads(part: Part, names: Sequence[str]) -> dict[Functions, float]:
    """Divide the contended loads of a line among pairs of functions.

    Loads without a sampled write by another CPU are not attributed; nor are samples without a CPU.
    Of the functions that read and of those that write, the :data:`MOST_FUNCTIONS` with most samples
    are distinguished; the rest is :data:`OTHERS`.

    :param part: samples of one line, with the columns ``copy``, ``cpu``, ``function``, ``slow``
        (number of contended loads) and ``writes``
    :param names: of functions, by the samples' ``function``
    :return: expected number of contended loads of each pair, above 0
    """
    is_placed = part["cpu"] != NO_CPU
    slow = part["slow"][is_placed]
    writes = part["writes"][is_placed].astype(np.int64)
    if not (slow.any() and writes.any()):
        return {}
    copy, cpu, function = (part[name][is_placed] for name in ("copy", "cpu", "function"))
    # A cell is one CPU's use of one copy of the line.
    cpus, cpu_index = np.unique(cpu, return_inverse=True)
    copies, copy_index = np.unique(copy, return_inverse=True)
    cells, cell = np.unique(copy_index * len(cpus) + cpu_index, return_inverse=True)
    readers, reads = _by_function(cell, function, slow, len(cells))
    writers, written = _by_function(cell, function, writes, len(cells))
    of_copy, copy_of_cell = np.zeros((len(copies), len(writers))), cells // len(cpus)
    np.add.at(of_copy, copy_of_cell, written)
    by_others = of_copy[copy_of_cell] - written
    total = by_others.sum(axis=1, keepdims=True)
    shares = np.divide(by_others, total, out=np.zeros_like(by_others), where=total > 0.0)
    loads = reads.T @ shares
    return {
        Functions(_name(names, readers[row]), _name(names, writers[column])): float(
            loads[row, column]
        )
        for row, column in zip(*np.nonzero(loads), strict=True)
    }


def _by_function(
    cell: Integers, function: Integers, counts: Integers, cells: int
) -> tuple[Integers, NDArray[np.float64]]:
    # The functions with most samples, -1 for the rest, and the sums by cell and function.
    used, index = np.unique(function, return_inverse=True)
    sums = np.bincount(index, weights=counts, minlength=len(used))
    kept = np.argsort(-sums, kind="stable")[:MOST_FUNCTIONS]
    column = np.full(len(used), len(kept))
    column[kept] = np.arange(len(kept))
    table = np.zeros((cells, len(kept) + 1))
    np.add.at(table, (cell, column[index]), counts)
    return np.append(used[kept], -1), table


def _name(names: Sequence[str], function: int) -> str:
    return names[function] if function >= 0 else OTHERS
