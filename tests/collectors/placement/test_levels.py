"""Which levels CPUs of a node share: the kernel's scheduling domains, else the topology."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from schedperf_collectors.machine.system import System
from schedperf_collectors.placement.levels import Levels, read_levels

MakeSystem = Callable[..., System]
NUMBERS = " 0" * 36
DEBUGFS = "sys/kernel/debug/sched/domains"
SYSCTL = "proc/sys/kernel/sched_domain"


def rows(cpus: int, nodes: int = 1, **ids: int) -> list[dict[str, int | None]]:
    """Return what /sys says: each CPU a core and a cache of its own, unless told otherwise."""
    return [
        {"cpu": cpu, "core": cpu, "cluster": None, "llc": cpu, "socket": 0,
         "node": cpu * nodes // cpus, **ids}
        for cpu in range(cpus)
    ]  # fmt: skip


def files(
    domains: Mapping[int, Sequence[tuple[str, int]]], version: int = 15, folder: str = DEBUGFS
) -> dict[str, str]:
    """Return the kernel's files for these domains of each CPU: name and mask of CPUs."""
    found = {}
    lines = [f"version {version}", "timestamp 4295"]
    for cpu, chain in domains.items():
        lines.append(f"cpu{cpu} 0 0 0 0 0 0 1 2 3")
        for number, (name, span) in enumerate(chain):
            shown = f"{name} " if version >= 17 else ""
            lines.append(f"domain{number} {shown}00000000,{span:08x}{NUMBERS}")
            if version < 17:
                found[f"{folder}/cpu{cpu}/domain{number}/name"] = f"{name}\n"
    return {**found, "proc/schedstat": "\n".join(lines) + "\n"}


TWO_NODES = {
    0: [("MC", 0b0011), ("NUMA", 0b1111)],
    1: [("MC", 0b0011), ("NUMA", 0b1111)],
    2: [("MC", 0b1100), ("NUMA", 0b1111)],
    3: [("MC", 0b1100), ("NUMA", 0b1111)],
}


def smallest(levels: Levels, one: int, other: int) -> str:
    pairs = zip(levels.names, levels.shares[one], levels.shares[other], strict=True)
    return next(level for level, mine, its in pairs if mine == its)


@pytest.mark.parametrize("version", [15, 16, 17])
@pytest.mark.parametrize("folder", [DEBUGFS, SYSCTL])
def test_levels_are_the_domains_of_the_kernel(
    make_system: MakeSystem, version: int, folder: str
) -> None:
    # By their caches these CPUs would share nothing but the package.
    levels = read_levels(make_system(files(TWO_NODES, version, folder)), rows(4, nodes=2))
    assert (levels.source, levels.names) == ("domains", ("MC", "PKG"))
    assert smallest(levels, 0, 1) == smallest(levels, 2, 3) == "MC"


def test_levels_that_some_cpus_lack_are_in_the_kernels_order(make_system: MakeSystem) -> None:
    # One core has two threads, and the kernel removed the level of which the other has one.
    domains = {
        0: [("SMT", 0b0011), ("CLS", 0b0111), ("PKG", 0b1111)],
        1: [("SMT", 0b0011), ("CLS", 0b0111), ("PKG", 0b1111)],
        2: [("CLS", 0b0111), ("PKG", 0b1111)],
        3: [("PKG", 0b1111)],
    }
    levels = read_levels(make_system(files(domains)), rows(4))
    assert levels.names == ("SMT", "CLS", "PKG", "PKG")
    found = [smallest(levels, one, other) for one, other in ((0, 1), (1, 2), (2, 3), (0, 3))]
    assert found == ["SMT", "CLS", "PKG", "PKG"]


def test_an_isolated_cpu_shares_the_node_only(make_system: MakeSystem) -> None:
    domains = {0: [("MC", 0b011)], 1: [("MC", 0b011)], 2: []}
    levels = read_levels(make_system(files(domains)), rows(3))
    assert smallest(levels, 0, 1) == "MC"
    assert smallest(levels, 1, 2) == "PKG"


BAD = {
    "no schedstat": {"proc/schedstat": None},
    "no names": {f"{DEBUGFS}/cpu1/domain0/name": None},
    "an empty name": {f"{DEBUGFS}/cpu1/domain0/name": ""},
    "nothing in it": {"proc/schedstat": "version 15\n"},
    "cut off": {"proc/schedstat": "version 15\ncpu0 0\ndomain0 0000"},
    "a domain is missing": {"proc/schedstat": f"cpu0 0\ndomain1 3{NUMBERS}\n"},
    "no mask": {"proc/schedstat": f"cpu0 0\ndomain0 xyz{NUMBERS}\n"},
    "bytes": {"proc/schedstat": b"cpu0 0\ndomain0 \xff\xfe\n"},
    "more levels than there are": {
        "proc/schedstat": "cpu0 0\n"
        + "".join(f"domain{number} L{number} 3{NUMBERS}\n" for number in range(9))
    },
}


@pytest.mark.parametrize("changed", BAD.values(), ids=BAD)
def test_where_domains_cannot_be_known_the_topology_tells(
    make_system: MakeSystem, changed: Mapping[str, str | bytes | None]
) -> None:
    all_files = {**files(TWO_NODES), **changed}
    kept = {name: content for name, content in all_files.items() if content is not None}
    levels = read_levels(make_system(kept), rows(4, nodes=2))
    assert (levels.source, levels.names) == ("topology", ("SMT", "CLS", "MC", "PKG"))
    assert smallest(levels, 0, 1) == "PKG"


def test_ids_fit_into_sixteen_bits_on_the_largest_machine(make_system: MakeSystem) -> None:
    levels = read_levels(make_system({}), rows(8192, nodes=64))
    assert max(max(shares) for shares in levels.shares.values()) < 1 << 16
