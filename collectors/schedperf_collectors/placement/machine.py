"""Where CPUs are, for the programs of the bpf_placement collector, and what these share."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from schedperf_collectors.bpf.libbpf import BpfObject
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.cpu import CPUS, online_cpus, possible_cpus, topology_finders
from schedperf_collectors.machine.system import System, attempt
from schedperf_collectors.placement.levels import MOST_LEVELS, read_levels

# What CPUs of two nodes share, and a CPU with itself.
NUMA, SAME_CPU = "NUMA", "CPU"
# struct place: node, ids of levels.
PLACE = struct.Struct(f"={1 + MOST_LEVELS}H")
# struct settings: recorder, slot_mask, nodes, rows.
SETTINGS = struct.Struct("=4I")
U32 = struct.Struct("=I")

# Direct-mapped slots for tasks, 64 bytes each: 4 MiB on small machines, at most 64 MiB.
LEAST_SLOTS, MOST_SLOTS = 1 << 16, 1 << 20
SLOTS_PER_CPU = 512


@dataclass(frozen=True)
class Place:
    """Where one CPU is.

    :param shares: an id for each level of the machine, equal for CPUs that share it
    """

    node: int
    shares: tuple[int, ...]


@dataclass(frozen=True)
class Machine:
    """The CPUs of this machine.

    :param places: of each CPU that was online
    :param possible: number of CPU numbers that the kernel may use
    :param recorder: process id of the recorder as the kernel counts; 0 where it is not known
    :param levels: what CPUs of one node may share, the smallest first; the last is the node
    :param levels_from: "domains": of the kernel's scheduler; "topology": of the hardware
    """

    places: dict[int, Place]
    possible: int
    recorder: int
    levels: tuple[str, ...]
    levels_from: str

    @property
    def nodes(self) -> dict[int, int]:
        """Return the node of each CPU that was online."""
        return {cpu: place.node for cpu, place in self.places.items()}

    @property
    def known_nodes(self) -> list[int]:
        """Return the nodes that have CPUs; programs number them by their place here."""
        return sorted(set(self.nodes.values()))

    def node_at(self, index: int) -> int | None:
        """Return a node by its index; None: that of CPUs which came up later."""
        known = self.known_nodes
        return known[index] if index < len(known) else None

    @property
    def slots(self) -> int:
        """Return the number of slots for tasks, a power of two."""
        wanted = 1 << (self.possible * SLOTS_PER_CPU - 1).bit_length()
        return min(max(wanted, LEAST_SLOTS), MOST_SLOTS)

    def level_of(self, one: Place, other: Place) -> str:
        """Return the smallest scheduling domain that holds two CPUs, as the programs do."""
        if one is other:
            return SAME_CPU
        if one.node != other.node:
            return NUMA
        pairs = zip(self.levels, one.shares, other.shares)
        return next(level for level, mine, its in pairs if mine == its)

    def prepare(self, loading: BpfObject, rows: int = 0) -> None:
        """Set the sizes and constants that all objects have, before loading.

        :param rows: counters of moves of each CPU
        :raises Unavailable: it is not one of our objects
        """
        loading.resize("places", self.possible)
        nodes = len(self.known_nodes) + 1
        loading.set_constants(SETTINGS.pack(self.recorder, self.slots - 1, nodes, rows))

    def publish(self, loaded: BpfObject) -> None:
        """Tell a loaded object where the CPUs are.

        :raises Unavailable: the kernel refuses
        """
        places = loaded.map("places")
        nodes = {node: index for index, node in enumerate(self.known_nodes)}
        unknown = PLACE.pack(len(nodes), *[0] * MOST_LEVELS)
        packed = {
            cpu: PLACE.pack(nodes[place.node], *_padded(place.shares))
            for cpu, place in self.places.items()
        }
        for cpu in range(self.possible):
            places.write(U32.pack(cpu), packed.get(cpu, unknown))


def _padded(shares: tuple[int, ...]) -> list[int]:
    """Return an id for each level that the programs have: those beyond are the node, too."""
    return [*shares, *[shares[-1]] * (MOST_LEVELS - len(shares))]


def read_machine(system: System, recorder: int = 0) -> Machine:
    """Return the CPUs of a machine.

    :raises Unavailable: /sys does not say which CPUs there are
    """
    finders = topology_finders(system)
    rows = finders["cpus"]()
    assert isinstance(rows, list)
    possible, _ = attempt(possible_cpus, system)
    last = max(possible or online_cpus(system), default=-1)
    if not rows or last < 0:
        raise Unavailable(f"{CPUS}: no cpus")
    levels = read_levels(system, rows)
    places = {row["cpu"]: Place(row["node"] or 0, levels.shares[row["cpu"]]) for row in rows}
    return Machine(places, last + 1, recorder, levels.names, levels.source)


def set_gate(loaded: BpfObject, *, is_open: bool) -> None:
    """Let the programs of an object count, or stop.

    :raises Unavailable: the kernel refuses
    """
    loaded.map(".bss").write(U32.pack(0), U32.pack(int(is_open)))
