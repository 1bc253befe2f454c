# SPDX-License-Identifier: GPL-2.0-or-later
"""A domain's level: by its name, by the topology, by the CPUs of a side that has names."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.schedstat.capture import Domain
from schedperf.evidence.schedstat.levels import (
    CpuGroups,
    Level,
    domain_flags,
    domain_names,
    levels_of,
    match_levels,
    name_domains,
)
from schedperf.evidence.schedstat.section import schedstat
from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.errors import InputError
from schedperf.model.host import Cpu, Topology
from schedperf.runs.sched_debug import SchedDebug, read_sched_debug

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


CPU = "0 0 90 0 0 0 0 0 90"


@pytest.fixture
def open_with(tmp_path: Path, make_bundle: Callable[..., Path]) -> Callable[[bytes | str], Bundle]:
    """Open a bundle whose boot has this sched_debug.json."""

    def make(content: bytes | str) -> Bundle:
        files = {"boots/0/sched_debug/sched_debug.json": content}
        return open_bundle(make_bundle(tmp_path / "debug.tar", files=files))

    return make


def debug(*kinds: tuple[str, Sequence[str]], **changes: Any) -> str:
    """Write sched_debug.json of CPUs with these names of domains."""
    domains = [
        {"cpus": cpus, "settings": {f"domain{n}/name": name for n, name in enumerate(names)}}
        for cpus, names in kinds
    ]
    record = {
        "source": "/sys/kernel/debug/sched",
        "settings": {},
        "per_cpu": {"domains": domains},
        "missing": {},
    }
    return json.dumps({**record, **changes})


def domains(counts: Mapping[int, int]) -> list[Domain]:
    return [
        Domain(cpu=cpu, number=number, name=None, span=3)
        for cpu, count in counts.items()
        for number in range(count)
    ]


def sched_debug(bundle: Bundle) -> SchedDebug:
    [side] = name_sides([bundle])
    captured = read_sched_debug(side, bundle.boots[0])
    assert captured is not None
    return captured


def test_each_cpu_has_the_names_of_its_kind(open_with: Callable[[str], Bundle]) -> None:
    bundle = open_with(debug(("0-1,4", ["SMT", "PKG"]), ("2-3", ["PKG"])))
    names = domain_names(sched_debug(bundle))
    assert {cpu: list(found) for cpu, found in names.items()} == {
        0: ["SMT", "PKG"],
        1: ["SMT", "PKG"],
        4: ["SMT", "PKG"],
        2: ["PKG"],
        3: ["PKG"],
    }
    named = name_domains(domains({0: 2, 2: 1, 9: 1}), names)
    assert [one.name for one in named] == ["SMT", "PKG", "PKG", None]


def test_cpus_whose_domains_are_others_now_keep_their_numbers(
    open_with: Callable[[str], Bundle],
) -> None:
    bundle = open_with(debug(("0-1", ["SMT", "PKG"])))
    named = name_domains(domains({0: 1, 1: 2}), domain_names(sched_debug(bundle)))
    assert [one.name for one in named] == [None, "SMT", "PKG"]


def test_names_of_the_snapshot_itself_stay() -> None:
    own = Domain(cpu=0, number=0, name="MC", span=1)
    assert name_domains([own], {0: ["CLS"]}) == (own,)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (debug(("9-1", ["MC"])), {}),
        (debug(("0", ["MC", "\x1b[31m", "NUMA"])), {0: ["MC"]}),
        (debug(("0", [])), {0: []}),
        (debug(per_cpu={}), {}),
    ],
)
def test_what_is_no_name_and_no_cpu_is_passed_over(
    content: str, expected: Mapping[int, list[str]], open_with: Callable[[str], Bundle]
) -> None:
    bundle = open_with(content)
    assert domain_names(sched_debug(bundle)) == expected


@pytest.mark.parametrize(
    "content", ["", "[]", "{", debug(per_cpu={"domains": {}}), debug(per_cpu=7), "\0" * 99]
)
def test_a_damaged_copy_is_one_line(content: str, open_with: Callable[[str], Bundle]) -> None:
    bundle = open_with(content)
    with pytest.raises(InputError) as caught:
        sched_debug(bundle)
    assert "\n" not in str(caught.value)


def schedstat_runs(*pulls: int) -> list[dict[str, Any]]:
    # Version 16 has 8 counts of each idle type; lb_gained of busy is the fifth.
    def snapshot(count: int, jiffies: int) -> str:
        row = [0] * 4 + [count] + [0] * 31
        lines = [f"version 16\ntimestamp {jiffies}"]
        for cpu in range(4):
            lines += [f"cpu{cpu} {CPU}", f"domain0 5 {' '.join(map(str, row))}"]
        return "\n".join(lines) + "\n"

    return [
        {"files": {"schedstat/before": snapshot(0, 1000), "schedstat/after": snapshot(one, 1500)}}
        for one in pulls
    ]


def test_a_level_that_the_topology_does_not_tell_is_named_in_the_section(
    analyse_with: Callable[..., Callable[..., Any]],
) -> None:
    # CPUs 0 and 2 are neither a cache nor a node of the generated machine.
    analyse = analyse_with(schedstat)
    runs = schedstat_runs(90, 92)
    assert {row.level for row in analyse(runs, runs).rows} == {"domain0"}
    files = {"boots/0/sched_debug/sched_debug.json": debug(("0-3", ["CLS"]))}
    named = analyse(runs, runs, files=files)
    assert {row.level for row in named.rows} == {"CLS"}
    damaged = {"boots/0/sched_debug/sched_debug.json": "{"}
    found = analyse(runs, runs, files=damaged)
    assert {row.level for row in found.rows} == {"domain0"}
    assert [note.partition(":")[0] for note in found.notes] == ["base", "new"]


def test_a_level_has_the_flags_of_all_its_domains(open_with: Callable[[str], Bundle]) -> None:
    settings = [
        {"domain0/name": "SMT", "domain0/flags": "SD_SHARE_CPUCAPACITY SD_SHARE_LLC"},
        {"domain0/name": "SMT", "domain0/flags": "SD_SHARE_LLC SD_ASYM_PACKING",
         "domain1/name": "DIE", "domain1/flags": "SD_PREFER_SIBLING"},
    ]  # fmt: skip
    kinds = [{"cpus": str(cpu), "settings": one} for cpu, one in enumerate(settings)]
    bundle = open_with(debug(per_cpu={"domains": kinds}))
    assert domain_flags(sched_debug(bundle)) == {
        "SMT": ("SD_SHARE_CPUCAPACITY", "SD_SHARE_LLC", "SD_ASYM_PACKING"),
        "PKG": ("SD_PREFER_SIBLING",),
    }
    without = open_with(debug(("0", ["SMT"])))
    assert domain_flags(sched_debug(without)) == {}
