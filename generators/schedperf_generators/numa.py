# SPDX-License-Identifier: GPL-2.0-or-later
"""Define machines with several NUMA nodes, and the addresses of their per-CPU memory."""

from dataclasses import dataclass

# Direct mapping of x86-64, and the distance between the memory of two nodes.
DIRECT_MAP = 0xFFFF888000000000
NODE_BYTES = 1 << 37
_PER_CPU_AT = 0x7FC00000
# Memory for modules and percpu_alloc in the first chunk of each unit.
_RESERVED_BYTES, _DYNAMIC_BYTES = 8192, 28672


@dataclass(frozen=True, kw_only=True, slots=True)
class Numa:
    """A machine whose CPUs are spread over nodes, with per-CPU units in each node's own memory.

    :param unit_bytes: size of one CPU's unit
    :param static_bytes: bytes of it for variables that are linked into the kernel
    """

    cpus: int = 224
    nodes: int = 4
    unit_bytes: int = 1 << 18
    static_bytes: int = 217088

    def node(self, cpu: int) -> int:
        """Return the node of a CPU; nodes have consecutive CPUs."""
        return cpu * self.nodes // self.cpus

    def unit_bases(self) -> dict[int, int]:
        """Return the address of each CPU's unit, to which offsets in the unit are added."""
        return {cpu: DIRECT_MAP + self.unit_physical(cpu) for cpu in range(self.cpus)}

    def unit_physical(self, cpu: int) -> int:
        """Return the physical address of a CPU's unit."""
        node = self.node(cpu)
        first = next(candidate for candidate in range(self.cpus) if self.node(candidate) == node)
        return node * NODE_BYTES + _PER_CPU_AT + (cpu - first) * self.unit_bytes

    def percpu_lines(self) -> str:
        """Return the lines that the kernel's embedding per-CPU allocator writes to the log."""
        sizes = f"s{self.static_bytes} r{_RESERVED_BYTES} d{_DYNAMIC_BYTES} u{self.unit_bytes}"
        pages = (self.static_bytes + _RESERVED_BYTES + _DYNAMIC_BYTES) // 4096
        alloc = max(1, (1 << 21) // self.unit_bytes) * self.unit_bytes
        rows = [f"percpu: Embedded {pages} pages/cpu {sizes}"]
        rows.append(f"pcpu-alloc: {sizes} alloc=1*{alloc}")
        for node in range(self.nodes):
            cpus = " ".join(str(cpu) for cpu in range(self.cpus) if self.node(cpu) == node)
            rows.append(f"pcpu-alloc: [{node}] {cpus}")
        return "".join(f"{row}\n" for row in rows)
