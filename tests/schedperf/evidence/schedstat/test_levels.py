"""A domain's level: by its name, by the topology, by the CPUs of a side that has names."""

from dataclasses import replace

from schedperf.evidence.schedstat.capture import Domain
from schedperf.evidence.schedstat.levels import CpuGroups, Level, levels_of, match_levels
from schedperf.model.host import Cpu, Topology

# Two nodes, each of two cores of two threads behind one cache.
TWO_NODES = Topology(
    cpus=tuple(
        Cpu(cpu=cpu, core=cpu // 2 % 2, llc=cpu // 4, socket=cpu // 4, node=cpu // 4)
        for cpu in range(8)
    )
)
UNKNOWN = CpuGroups(Topology())


def domain(number: int, span: int | None, name: str | None = None, cpu: int = 0) -> Domain:
    return Domain(cpu=cpu, number=number, name=name, span=span)


def labels(levels: tuple[Level, ...]) -> list[tuple[str, bool]]:
    return [(level.label, level.is_named) for level in levels]


def test_the_topology_names_numbered_domains() -> None:
    domains = [domain(0, 0b11), domain(1, 0b1111), domain(2, 0xFF)]
    found = levels_of(domains, CpuGroups(TWO_NODES))
    assert labels(found) == [("SMT", True), ("MC", True), ("NUMA", True)]
    assert [level.widest for level in found] == [2, 4, 8]


def test_a_cluster_that_is_all_of_the_cache_is_the_cache() -> None:
    smaller = [
        Cpu(cpu=cpu, core=cpu, cluster=cpu // 2, llc=0, socket=0, node=0) for cpu in range(4)
    ]
    groups = CpuGroups(Topology(cpus=tuple(smaller)))
    assert groups.name(domain(0, 0b11)) == "CLS"
    equal = CpuGroups(Topology(cpus=tuple(replace(one, cluster=0) for one in smaller)))
    assert equal.name(domain(0, 0b1111)) == "MC"


def test_what_the_topology_does_not_explain_has_no_name() -> None:
    groups = CpuGroups(TWO_NODES)
    assert groups.name(domain(0, 0b101)) is None
    assert groups.name(domain(0, None)) is None
    assert groups.name(domain(0, 0b11, cpu=77)) is None
    assert UNKNOWN.name(domain(0, 0b11)) is None
    assert labels(levels_of([domain(0, 0b101)], groups)) == [("domain0", False)]


def test_names_of_the_kernel_win_and_the_former_name_is_translated() -> None:
    domains = [domain(0, 0b11, "MC"), domain(1, 0xFF, "DIE")]
    assert labels(levels_of(domains, CpuGroups(TWO_NODES))) == [("MC", True), ("PKG", True)]


def test_two_levels_of_one_name_stay_two() -> None:
    domains = [domain(0, 0b11, "NUMA"), domain(1, 0b1111, "NUMA"), domain(0, 0b11, "NUMA", cpu=1)]
    found = levels_of(domains, UNKNOWN)
    assert [(level.label, level.rows) for level in found] == [("NUMA", (0, 2)), ("NUMA2", (1,))]


def test_a_domain_with_neither_name_nor_cpus_is_left_out() -> None:
    assert levels_of([domain(0, None)], CpuGroups(TWO_NODES)) == ()


def test_the_same_cpus_get_the_name_of_the_other_side() -> None:
    old = levels_of([domain(0, 0b11), domain(0, 0b11, cpu=1)], UNKNOWN)
    new = levels_of([domain(0, 0b11, "MC"), domain(0, 0b11, "MC", cpu=1)], UNKNOWN)
    assert match_levels([old, new]) == {("domain0", old[0].spans): "MC"}


def test_equal_numbers_with_other_cpus_never_meet() -> None:
    one = levels_of([domain(0, 0b11)], UNKNOWN)
    two = levels_of([domain(0, 0b1111)], UNKNOWN)
    assert list(match_levels([one, two]).values()) == ["domain0", "domain0 (2)"]
    assert list(match_levels([one, one]).values()) == ["domain0"]
