# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the memory samples of each instrumented run of a bundle, with the names of variables."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import numpy as np

from schedperf.evidence.c2c.entries import contended_entries
from schedperf.evidence.c2c.merge import MemorySamples, see_lines
from schedperf.evidence.c2c.namer import COLLECTOR, BootNames
from schedperf.evidence.layout.compare import USUAL_LINE_BYTES
from schedperf.evidence.needs import HEAT
from schedperf.inputs.bundle.open import Boot, Run
from schedperf.inputs.perf_data import Keep
from schedperf.inputs.perf_data.recorded import read_recorded, recorded_runs, why_not_recorded
from schedperf.inputs.perf_data.recording import Recording
from schedperf.inputs.side import Side
from schedperf.inputs.symbols.boot_symbols import BootSymbols
from schedperf.model.errors import InputError
from schedperf.model.run import Captured, SideOf
from schedperf.runs.captured import key_of
from schedperf.runs.printed import printed_by

# Collector of loads only, if the hardware samples loads and stores separately; used if no other has
# data.
LOADS_COLLECTOR = "perf_mem"


def load_memory(side: Side) -> SideOf[MemorySamples]:
    """Read the memory samples of every successful instrumented run.

    Runs that cannot be read are left out, with a note. If no run has samples, the first note is the
    reason.
    """
    return _Loader(side).load()


@HEAT.provide
def measure_heat(sides: Iterable[Side]) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
    """Count the contended accesses of each side by unit and entry of its layout.

    :return: counts by side, unit and entry; sides without samples are left out, and so are entries
        without contended accesses
    """
    sampled = {side.name: side.once(load_memory).runs for side in sides}
    return {
        name: contended_entries(see_lines(runs).values()) for name, runs in sampled.items() if runs
    }


class _Loader:
    # One side, and the notes on its unreadable parts.

    def __init__(self, side: Side) -> None:
        self._side = side
        self._bundle = side.bundle
        self._notes: list[str] = []

    def load(self) -> SideOf[MemorySamples]:
        runs = tuple(self._runs())
        notes = tuple(dict.fromkeys(self._notes))
        if not runs and not notes:
            notes = (why_not_recorded(self._bundle, COLLECTOR, LOADS_COLLECTOR),)
        return SideOf(
            name=self._side.name,
            label=self._bundle.label,
            kind="instrumented",
            runs=runs,
            notes=notes,
        )

    def _runs(self) -> Iterator[Captured[MemorySamples]]:
        sampled = recorded_runs(self._bundle, COLLECTOR, LOADS_COLLECTOR)
        for _, group in groupby(sampled, key=lambda recorded: recorded[0].number):
            runs = list(group)
            boot = runs[0][0]
            symbols = BootSymbols(self._side, boot, self._notes.append)
            names = BootNames(self._side, boot)
            for _, run, member in runs:
                try:
                    yield self._read_run(boot, run, member, symbols, names)
                except InputError as error:
                    self._notes.append(str(error))

    def _read_run(
        self, boot: Boot, run: Run, name: str, symbols: BootSymbols, names: BootNames
    ) -> Captured[MemorySamples]:
        # Imported here because it imports pandas, and most bundles have no memory samples.
        from schedperf.evidence.c2c.analysis import analyse_memory  # noqa: PLC0415

        recording = read_recorded(self._bundle, name, name, {Keep.MEMORY})
        profile = analyse_memory(
            recording,
            namer=names.namer(run, recording, symbols.of(recording)),
            node_of_cpu={
                **recording.features.node_of_cpu,
                **boot.host.topology.node_of_cpu(),
            },
            line_bytes=boot.host.cpu.l1_line_bytes or USUAL_LINE_BYTES,
        )
        if name == f"{run.folder}/{LOADS_COLLECTOR}/perf.data":
            self._notes.append(
                f"runs without `{COLLECTOR}` data use samples of `{LOADS_COLLECTOR}`, which record "
                "only loads and the cache that served them"
            )
        return Captured(
            key=key_of(self._side, run),
            ops=printed_by(self._side, run).ops,
            wall_s=run.wall_s,
            content=MemorySamples(
                profile=profile,
                store_period=store_period(recording),
                # A boot or build without an id counts as different from those of other bundles.
                boot=run.boot_id or f"{self._bundle.path}:{boot.number}",
                kernel=boot.host.kernel.build_id or str(self._bundle.path),
            ),
        )


def store_period(recording: Recording) -> int | None:
    """Return the sampling period of stores: memory operations per sample.

    Loads and stores may be two events with separate periods, or one event (IBS, SPE). If no event
    has "store" in its name, all events with memory samples count.

    :return: None without memory samples, if perf adapted the period, or if the periods of several
        such events differ
    """
    if recording.memory is None:
        return None
    events = [recording.events[index] for index in np.unique(recording.memory.event)]
    stores = [event for event in events if "store" in event.name] or events
    rates = {None if event.by_frequency else event.rate for event in stores}
    return rates.pop() if len(rates) == 1 else None
