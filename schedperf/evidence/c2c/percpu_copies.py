# SPDX-License-Identifier: GPL-2.0-or-later
"""Merge the copies of per-CPU lines by the per-CPU units.

Every CPU has its own copy of a per-CPU variable, so a variable that bounces on 224 CPUs is 224
lines with few samples each. The address minus the start of the CPU's unit is the same for all
copies::

    folded = fold_addresses(lines, units, line_bytes)
    folded.offset[folded.is_folded]
"""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from schedperf.inputs.kernel.percpu_units import PercpuUnits
from schedperf.inputs.perf_data.recording import Addresses, Integers

# If only the alignment is known, an offset is accepted if it occurs in this many units, or in all
# units of a smaller machine. Among 50 contended lines at random addresses, two have the same offset
# in a unit of 1 MiB with a probability of 7%, three with less than 0.01%.
LEAST_COPIES = 3
# Kernel addresses have the highest bit set on all machines with 64-bit kernels that record
# memory samples.
KERNEL_HALF = np.uint64(1 << 63)


class Folded(Struct, frozen=True, kw_only=True):
    """Addresses in per-CPU memory; arrays of shape (addresses,).

    :param is_folded: whether an address is a copy of per-CPU memory
    :param offset: from the start of the unit; 0 for other addresses
    :param note: limitation of the method, one sentence; "" if there is none
    """

    is_folded: NDArray[np.bool_]
    offset: Integers
    note: str


def fold_addresses(addresses: Addresses, units: PercpuUnits | None, line_bytes: int) -> Folded:
    """Find the offset of each kernel address in its CPU's unit.

    :param addresses: addresses of contended lines, shape (addresses,); 0 is never folded
    :param units: None if unknown: nothing is folded
    :param line_bytes: line size; if only the alignment is known, copies of one line confirm each
        other
    """
    if units is None:
        nothing = np.zeros(len(addresses), dtype=bool)
        return Folded(is_folded=nothing, offset=np.zeros(len(addresses), dtype=np.int64), note="")
    if units.units:
        return _fold_by_units(addresses, units)
    return _fold_by_alignment(addresses, units, line_bytes)


def _fold_by_units(addresses: Addresses, units: PercpuUnits) -> Folded:
    bases = np.array(sorted(units.units.values()), dtype=np.uint64)
    index = np.searchsorted(bases, addresses, side="right") - 1
    offset = addresses - bases[np.maximum(index, 0)]
    is_folded = (index >= 0) & (offset < np.uint64(_bytes_of_one(bases, units)))
    return Folded(is_folded=is_folded, offset=_signed(offset, is_folded), note="")


def _bytes_of_one(bases: Addresses, units: PercpuUnits) -> int:
    # After the first chunk of a unit there may be other memory, even of CPUs on another node.
    sizes = [size for size in (units.first_chunk_bytes, units.unit_bytes) if size is not None]
    if len(bases) > 1:
        sizes.append(int(np.diff(bases).min()))
    return min(sizes, default=0)


def _fold_by_alignment(addresses: Addresses, units: PercpuUnits, line_bytes: int) -> Folded:
    unit_bytes = np.uint64(units.unit_bytes or 1)
    offset = addresses & (unit_bytes - np.uint64(1))
    inside = np.uint64(min(units.first_chunk_bytes or int(unit_bytes), int(unit_bytes)))
    candidate = (addresses >= KERNEL_HALF) & (offset < inside)
    line = offset // np.uint64(line_bytes)
    least = LEAST_COPIES if units.cpus is None else min(LEAST_COPIES, units.cpus)
    confirmed = _confirmed(line[candidate], (addresses - offset)[candidate], least)
    is_folded = candidate & np.isin(line, confirmed)
    bases = np.unique((addresses - offset)[is_folded])
    note = (
        f"copies of per-CPU lines are detected by alignment only ({least} or more contended lines "
        f"at distances that are multiples of {int(unit_bytes)} bytes are merged)"
    )
    if units.cpus is not None and len(bases) > units.cpus:
        is_folded = np.zeros(len(addresses), dtype=bool)
        note = (
            f"{len(bases)} memory blocks look like per-CPU units, but there are {units.cpus} CPUs, "
            "so copies of per-CPU lines are not merged"
        )
    return Folded(
        is_folded=is_folded, offset=_signed(offset, is_folded), note=note if len(bases) else ""
    )


def _confirmed(lines: Addresses, bases: Addresses, least: int) -> Addresses:
    # Offsets of lines that occur in several units.
    pairs = np.unique(np.stack((lines, bases), axis=1), axis=0)
    distinct, copies = np.unique(pairs[:, 0], return_counts=True)
    confirmed: Addresses = distinct[copies >= least]
    return confirmed


def _signed(offset: Addresses, is_folded: NDArray[np.bool_]) -> Integers:
    return np.where(is_folded, offset, np.uint64(0)).astype(np.int64)
