# SPDX-License-Identifier: GPL-2.0-or-later
"""Where CPUs are, and what the programs share."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System
from schedperf_collectors.placement.machine import (
    MOST_SLOTS,
    Levels,
    Machine,
    Place,
    read_levels,
    read_machine,
)
from schedperf_collectors.placement.tracepoints import (
    MOVES_BUDGET_BYTES,
    Move,
    is_placed,
    move_of,
    moves_rows,
)
from schedperf_generators.asymmetric_machines import homogeneous, intel_hybrid

MakeSystem = Callable[..., System]


def cpu_files(cpu: int, **levels: object) -> dict[str, str]:
    """Return the files of a CPU: node, socket, core, cluster, and the CPUs of its cache."""
    folder = f"sys/devices/system/cpu/cpu{cpu}"
    return {
        f"{folder}/topology/physical_package_id": f"{levels['socket']}\n",
        f"{folder}/topology/core_id": f"{levels['core']}\n",
        f"{folder}/topology/cluster_id": f"{levels.get('cluster', 65535)}\n",
        f"{folder}/cache/index3/level": "3\n",
        f"{folder}/cache/index3/shared_cpu_list": f"{levels['llc']}\n",
        f"{folder}/node{levels['node']}/cpulist": "",
    }


@pytest.fixture
def machine(make_system: MakeSystem) -> Machine:
    """Two sockets of two cores with two threads each; core numbers begin anew in each socket."""
    files = {"sys/devices/system/cpu/online": "0-7\n", "sys/devices/system/cpu/possible": "0-9\n"}
    for cpu in range(8):
        socket, core = cpu // 4, cpu % 4 // 2
        llc = "0-3" if socket == 0 else "4-7"
        files |= cpu_files(cpu, socket=socket, core=core, llc=llc, node=socket)
    return read_machine(make_system(files), recorder=42)


def shared(machine: Machine, one: int, other: int) -> set[str]:
    first, second = machine.places[one], machine.places[other]
    pairs = zip(machine.levels, first.shares, second.shares, strict=True)
    return {level for level, mine, its in pairs if mine == its}


def test_cpus_share_what_the_machine_says(machine: Machine) -> None:
    assert machine.nodes == dict.fromkeys(range(4), 0) | dict.fromkeys(range(4, 8), 1)
    assert [group.node for group in machine.groups] == [0, 1]
    assert machine.levels_from == "topology"
    assert shared(machine, 0, 1) == {"SMT", "CLS", "MC", "PKG"}
    assert shared(machine, 0, 2) == {"MC", "PKG"}
    # Cores of one number in two sockets are two cores.
    assert shared(machine, 0, 4) == set()


def test_clusters_lie_between_cores_and_caches(make_system: MakeSystem) -> None:
    files = {"sys/devices/system/cpu/online": "0-2\n"}
    for cpu, cluster in enumerate((0, 0, 4)):
        files |= cpu_files(cpu, socket=0, core=cpu, cluster=cluster, llc="0-2", node=0)
    machine = read_machine(make_system(files))
    assert shared(machine, 0, 1) == {"CLS", "MC", "PKG"}
    assert shared(machine, 0, 2) == {"MC", "PKG"}
    assert machine.possible == 3


def test_without_caches_the_socket_is_the_cache(make_system: MakeSystem) -> None:
    files = {"sys/devices/system/cpu/online": "0-3\n"}
    for cpu in range(4):
        files |= cpu_files(cpu, socket=cpu // 2, core=cpu, llc="", node=0)
    places = {name: text for name, text in files.items() if "/cache/" not in name}
    machine = read_machine(make_system(places))
    assert shared(machine, 0, 1) == {"MC", "PKG"}
    assert shared(machine, 1, 2) == {"PKG"}


def test_a_cpu_that_says_nothing_shares_its_node_only(make_system: MakeSystem) -> None:
    machine = read_machine(make_system({"sys/devices/system/cpu/online": "0-1\n"}))
    assert shared(machine, 0, 1) == {"PKG"}


def test_a_machine_without_cpus_is_said(make_system: MakeSystem) -> None:
    with pytest.raises(Unavailable, match="/sys/devices/system/cpu/online: no such file"):
        read_machine(make_system({}))


def test_slots_are_a_power_of_two_and_bounded() -> None:
    def slots(possible: int) -> int:
        return Machine({0: Place(0, (0,))}, possible, 0, ("PKG",), "topology").slots

    assert slots(1) == slots(128) == 1 << 16
    assert slots(129) == 1 << 17
    assert slots(8192) == MOST_SLOTS


def test_nodes_are_numbered_without_gaps_for_the_programs() -> None:
    places = {0: Place(0, (0,)), 1: Place(8, (1,))}
    machine = Machine(places, 2, 0, ("PKG",), "topology")
    assert [machine.node_at(index) for index in range(4)] == [0, 8, None, None]


@pytest.mark.parametrize(("nodes", "cpus"), [(1, 1), (2, 224), (8, 1024), (64, 8192)])
def test_the_counters_of_moves_are_all_there_or_stay_in_their_budget(nodes: int, cpus: int) -> None:
    rows = moves_rows(nodes, cpus)
    complete = 10 * (nodes + 1) * (8 + nodes + 1)
    assert rows * 8 * cpus <= MOVES_BUDGET_BYTES
    assert rows % 8 == 0
    assert rows == 4096 if cpus == 8192 else 0 <= rows - complete < 8


def test_each_counter_of_moves_has_its_own_meaning() -> None:
    places = {cpu: Place(8 * (cpu // 2), (cpu, cpu // 2)) for cpu in range(4)}
    machine = Machine(places, 4, 0, ("MC", "PKG"), "domains")
    assert move_of(machine, 0) == Move("fork", None, 0, 0, "CPU")
    assert move_of(machine, 12) == Move("wakeup", None, 0, 0, "MC")
    # Behind three nodes of eight levels: from node 8, the second, to node 0, the first.
    row = 10 * (3 * 8 + 1 * 3 + 0) + 6
    assert move_of(machine, row) == Move("migration", "load_balance", 8, 0, "NUMA")


def hybrid(clusters: Sequence[int] = (0, 0, 1, 2)) -> Machine:
    """Return two P-cores and two E-cores that share the cache, and have these clusters."""
    places = {
        cpu: Place(0, (cluster, 0, 0), "cpu_core" if cpu < 2 else "cpu_atom")
        for cpu, cluster in enumerate(clusters)
    }
    return Machine(places, 4, 0, ("CLS", "MC", "PKG"), "domains")


def test_types_of_one_node_are_groups_with_counters_of_their_own() -> None:
    machine = hybrid()
    assert machine.groups == [(0, "cpu_atom"), (0, "cpu_core")]
    assert [machine.node_at(index) for index in range(3)] == [0, 0, None]
    assert move_of(machine, 10 * 8 + 2) == Move("wakeup", None, 0, 0, "CPU", "cpu_core", "cpu_core")
    # Behind three groups of eight levels: from the second group to the first.
    row = 10 * (3 * 8 + 1 * 3 + 0) + 6
    move = Move("migration", "load_balance", 0, 0, "MC", "cpu_core", "cpu_atom")
    assert move_of(machine, row) == move
    assert move.as_row()["to_type"] == "cpu_atom"
    assert "to_type" not in Move("wakeup", None, 0, 0, "MC").as_row()


def test_the_level_between_two_types_is_known_or_there_are_none(make_system: MakeSystem) -> None:
    core, atom = hybrid().groups[1], hybrid().groups[0]
    assert hybrid().level_between(core, atom) == "MC"
    # An E-core in the cluster of the P-cores, and another one in its own.
    assert hybrid((0, 0, 0, 1)).level_between(core, atom) is None
    typed = intel_hybrid()
    machine = read_machine(make_system(typed.files()))
    assert machine.types == {cpu: "cpu_core" if cpu < 8 else "cpu_atom" for cpu in range(12)}
    assert machine.level_between(*machine.groups) == "MC"
    assert read_machine(make_system(homogeneous().files())).types == {}


def test_a_move_to_a_cpu_that_came_up_later_has_no_place() -> None:
    assert is_placed(Move("wakeup", None, 0, 1, "NUMA"))
    assert not is_placed(Move("wakeup", None, 0, None, "NUMA"))


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
