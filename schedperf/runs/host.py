"""Single facts of host.json that several kinds of evidence need: CPUs, nodes, build and machine.

host.json comes from another machine: what is missing or has another type is None.
"""

from collections.abc import Mapping


def nodes_of_host(host: Mapping[str, object]) -> dict[int, int]:
    """Return the NUMA node of each CPU, as host.json says it; empty where it does not."""
    topology = host.get("topology")
    cpus = topology.get("cpus") if isinstance(topology, dict) else None
    pairs = [
        (entry.get("cpu"), entry.get("node"))
        for entry in (cpus if isinstance(cpus, list) else [])
        if isinstance(entry, dict)
    ]
    return {cpu: node for cpu, node in pairs if isinstance(cpu, int) and isinstance(node, int)}


def machine_facts(host: Mapping[str, object]) -> tuple[str | None, bool | None]:
    """Return the machine's kind and whether it is emulated, as host.json says them."""
    machine = _find(host, "kernel", "machine")
    emulated = _find(host, "virtualisation", "emulated")
    return (
        machine if isinstance(machine, str) else None,
        emulated if isinstance(emulated, bool) else None,
    )


def build_of_host(host: Mapping[str, object]) -> str | None:
    """Return the kernel's build id; None where host.json has none."""
    found = _find(host, "kernel", "build_id")
    return found if isinstance(found, str) else None


def line_bytes_of_host(host: Mapping[str, object]) -> int | None:
    """Return the size of the hardware's cache lines, whatever the kernel was compiled for."""
    found = _find(host, "cpu", "l1_line_bytes")
    return found if isinstance(found, int) else None


def _find(host: Mapping[str, object], group: str, key: str) -> object:
    values = host.get(group)
    return values.get(key) if isinstance(values, dict) else None
