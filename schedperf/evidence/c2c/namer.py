"""All that is known of names on the machine that recorded: of its data and of its code."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from schedperf.evidence.c2c.naming import Variables
from schedperf.kernel.percpu_units import PercpuUnits
from schedperf.perf_data.recording import (
    NO_CHAIN,
    Integers,
    MemorySamples,
    Recording,
    Samples,
)
from schedperf.symbols.place import KERNEL, Place
from schedperf.symbols.places import Symbols, place_samples


@dataclass(frozen=True, kw_only=True, slots=True)
class Namer:
    """What names the bytes and the code of memory samples.

    :param units: where each CPU's per-CPU memory is; None: unknown, so nothing is folded
    :param variables: of the kernel; None: unknown, so data have no names
    :param symbols: of the kernel, its modules and user programs
    :param notes: why something of it is unknown, one sentence each
    """

    units: PercpuUnits | None
    variables: Variables | None
    symbols: Symbols
    notes: tuple[str, ...] = ()

    def name_code(
        self, recording: Recording, memory: MemorySamples, rows: Integers
    ) -> tuple[Sequence[str], Integers]:
        """Return the functions that some samples were in, and which each was in.

        :param rows: indices of the samples
        :return: names as "update_load_avg" or "nf_hook [nf_tables]"; for each row an index
        """
        ones, none = np.ones(len(rows), dtype=np.int64), np.full(len(rows), NO_CHAIN)
        samples = Samples(
            event=memory.event[rows],
            mode=memory.mode[rows],
            cpu=memory.cpu[rows],
            task=memory.task[rows],
            space=memory.space[rows],
            ip=memory.ip[rows],
            chain=none,
            count=ones,
            period=ones,
        )
        placed = place_samples(replace(recording, samples=samples), self.symbols, folded=True)
        return tuple(map(_call, placed.places)), placed.of_row


def _call(place: Place) -> str:
    if place.dso == KERNEL or place.symbol.startswith("["):
        return place.symbol
    return f"{place.symbol} [{place.dso.strip('[]')}]"
