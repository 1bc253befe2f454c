"""From memory samples to cache lines: counted, folded, named, and told true from false sharing.

::

    profile = analyse_memory(recording, namer=namer, node_of_cpu=nodes, line_bytes=64)
    profile.lines[0].key, profile.totals["load_remote_hitm"]
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from schedperf.evidence.c2c._making import Group, LineMaker
from schedperf.evidence.c2c._samples import df_samples
from schedperf.evidence.c2c.blindness import least_latency, notes_of_recording, period_of
from schedperf.evidence.c2c.data_src import count_samples, sums
from schedperf.evidence.c2c.lines import LineTable, make_lines, place_data
from schedperf.evidence.c2c.model import MemoryProfile
from schedperf.evidence.c2c.namer import Namer
from schedperf.evidence.c2c.record import Observable
from schedperf.evidence.c2c.totals import make_totals
from schedperf.evidence.c2c.units import Folded, fold_addresses
from schedperf.model.errors import InputError
from schedperf.perf_data.recording import Integers, Recording

# Lines that are kept, most contended first; of all others only the totals are. A machine has some
# hundreds that matter; in a damaged file every sample may be a line of its own.
MOST_LINES = 10_000
# Bytes. Of real machines: 32 (some ARMv7), 64, 128 (POWER), 256 (s390).
LINE_BYTES = frozenset({16, 32, 64, 128, 256})

_PEER_MACHINES = ("aarch64", "arm64")


def analyse_memory(
    recording: Recording, *, namer: Namer, node_of_cpu: Mapping[int, int], line_bytes: int
) -> MemoryProfile:
    """Find the lines that several CPUs fought for.

    :param recording: read with its memory samples kept
    :param namer: what is known of names; nothing is guessed where it knows none
    :param node_of_cpu: CPU number to NUMA node
    :param line_bytes: what the machine's caches have
    :raises InputError: there is no memory sample in it, or no machine has such lines
    """
    memory = recording.memory
    if memory is None or not len(memory):
        raise InputError(
            "no memory samples: no event has data addresses and data sources; record with "
            "`perf c2c record` or the collector perf_c2c"
        )
    if line_bytes not in LINE_BYTES:
        raise InputError(f"cache lines of {line_bytes} bytes: no machine has them; give another")
    places = place_data(recording, memory)
    counts = count_samples(memory.data_src, memory.address, places.is_mapped)
    lines = make_lines(memory, places, counts, line_bytes)
    totals, shared = sums(lines.matrix), lines.matrix[lines.is_shared()]
    observable = _observable(recording, totals)
    is_foldable = lines.is_shared() & lines.is_kernel()
    addresses = np.where(is_foldable, lines.address, np.uint64(0))
    folded = fold_addresses(addresses, namer.units, line_bytes)
    of_line = _group(folded, line_bytes)
    samples = df_samples(
        memory,
        counts,
        lines,
        of_line=of_line,
        observable=observable,
        node_of_cpu=node_of_cpu,
        line_bytes=line_bytes,
    )
    kept, left_out = _keep_most_contended(samples)
    maker = LineMaker(
        recording, memory, lines, namer=namer, observable=observable, line_bytes=line_bytes
    )
    made = maker.make(kept, _groups(lines, of_line, folded, line_bytes))
    notes = [*notes_of_recording(recording, memory, totals, observable), folded.note, left_out]
    return MemoryProfile(
        observable=observable,
        is_text=False,
        event=tuple(event.name for event in recording.events),
        period=period_of(recording, memory),
        ldlat=least_latency(event.name for event in recording.events),
        line_bytes=line_bytes,
        totals=make_totals(len(memory), totals, len(shared), sums(shared)),
        lines=made,
        notes=tuple(dict.fromkeys(note for note in (*notes, *namer.notes, *maker.notes) if note)),
    )


def _observable(recording: Recording, totals: Mapping[str, int]) -> Observable:
    # By the event, then by the machine; a file that was put together by hand says neither.
    names = " ".join(event.name for event in recording.events)
    if "ibs_op" in names:
        return "ibs"
    is_peer = "arm_spe" in names or recording.features.arch in _PEER_MACHINES
    has_hitm = totals["lcl_hitm"] or totals["rmt_hitm"]
    has_peer = totals["lcl_peer"] or totals["rmt_peer"]
    return "peer" if is_peer or (has_peer and not has_hitm) else "hitm"


def _group(folded: Folded, line_bytes: int) -> Integers:
    # Every line is a group of its own, but the copies of one per-CPU line are one.
    own = -1 - np.arange(len(folded.offset))
    keys = np.where(folded.is_folded, folded.offset // line_bytes, own)
    found: Integers = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    return found


def _groups(
    lines: LineTable, of_line: Integers, folded: Folded, line_bytes: int
) -> dict[int, Group]:
    # Of the lines that perf takes for shared; copies that nobody fought for are not counted.
    members: dict[int, list[int]] = {}
    for line in np.flatnonzero(lines.is_shared()):
        members.setdefault(int(of_line[line]), []).append(int(line))
    return {
        group: Group(
            lines=np.array(copies, dtype=np.int64),
            percpu=int(folded.offset[copies[0]]) // line_bytes * line_bytes
            if folded.is_folded[copies[0]]
            else None,
        )
        for group, copies in members.items()
    }


def _keep_most_contended(samples: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    slow = samples.groupby("line")["slow"].agg(["sum", "size"])
    if len(slow) <= MOST_LINES:
        return samples, ""
    ranked = slow.sort_values(["sum", "size"], ascending=False, kind="stable")
    left_out = ranked.iloc[MOST_LINES:]
    note = (
        f"{len(left_out)} more lines, none with more than {left_out['sum'].iloc[0]} contended "
        "samples, are in the totals alone"
    )
    return samples[samples["line"].isin(ranked.index[:MOST_LINES])], note
