"""Levels of versions 15 and 16 get the names that debugfs had at the start of the boot."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.bundle.open import Bundle, open_bundle
from schedperf.evidence.schedstat.capture import Domain
from schedperf.evidence.schedstat.domain_names import (
    name_domains,
    read_domain_flags,
    read_domain_names,
)
from schedperf.evidence.schedstat.section import schedstat
from schedperf.model.errors import InputError

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


def test_each_cpu_has_the_names_of_its_kind(open_with: Callable[[str], Bundle]) -> None:
    bundle = open_with(debug(("0-1,4", ["SMT", "PKG"]), ("2-3", ["PKG"])))
    names = read_domain_names(bundle, bundle.boots[0])
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
    named = name_domains(domains({0: 1, 1: 2}), read_domain_names(bundle, bundle.boots[0]))
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
    assert read_domain_names(bundle, bundle.boots[0]) == expected


@pytest.mark.parametrize(
    "content", ["", "[]", "{", debug(per_cpu={"domains": {}}), debug(per_cpu=7), "\0" * 99]
)
def test_a_damaged_copy_is_one_line(content: str, open_with: Callable[[str], Bundle]) -> None:
    bundle = open_with(content)
    with pytest.raises(InputError) as caught:
        read_domain_names(bundle, bundle.boots[0])
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
    assert read_domain_flags(bundle, bundle.boots[0]) == {
        "SMT": ("SD_SHARE_CPUCAPACITY", "SD_SHARE_LLC", "SD_ASYM_PACKING"),
        "PKG": ("SD_PREFER_SIBLING",),
    }
    without = open_with(debug(("0", ["SMT"])))
    assert read_domain_flags(without, without.boots[0]) == {}
