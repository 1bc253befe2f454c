# SPDX-License-Identifier: GPL-2.0-or-later
"""Findings name tg->load_avg where the evidence supports it, and nowhere else."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.compare.why.load_avg import CALLER, READER, WRITER, name_load_avg
from schedperf.evidence.layout.heat import heat_table
from schedperf.evidence.profile.findings import hotter_symbols
from schedperf.evidence.profile.record import MovedFunction, ProfileRow
from schedperf.model.sections import Finding, Section
from schedperf.model.sides import Difference
from tests.schedperf.evidence.c2c.records import with_point as with_lines
from tests.schedperf.evidence.profile.records import (
    SHARE,
    make_class_row,
    make_row,
    with_point,
)

DEEPER = Difference(
    path="cgroup.depth", side="new", base=0, new=8, severity="treatment", reason="the change"
)
ONE_NODE: Mapping[str, Any] = {"base_nodes": {0: 8.5}, "new_nodes": {0: 16.25}}
CONTENTION = "contention for the field's cache line was not measured (record --with perf_c2c)"


def name_in(
    *rows: ProfileRow,
    differences: Sequence[Difference] = (),
    sections: Mapping[str, Section] | None = None,
    **point: Any,
) -> list[Finding]:
    """Return the findings about a profile with these rows, in which no class changed."""
    profile = with_point(rows=rows, **{"classes": (), "explained": None, **point})
    every = {"profile": Section.of(profile), **(sections or {})}
    return list(name_load_avg(list(hotter_symbols(profile)), every, differences, {"new": "n.tar"}))


def named(findings: Sequence[Finding]) -> list[str]:
    return [finding.id for finding in findings if "tg->load_avg" in finding.claim]


def test_a_reader_that_increased_on_two_nodes_names_the_field_and_the_capture() -> None:
    (finding,) = name_in(make_row(READER))
    assert finding.details.endswith(
        "; update_cfs_group reads tg->load_avg: the time spent in this code increased on 2 "
        f"NUMA nodes; {CONTENTION}"
    )
    assert finding.attribution == "correlated; causation not shown"


def test_a_deeper_cgroup_is_named_on_a_single_node_as_well() -> None:
    (finding,) = name_in(make_row(READER, **ONE_NODE), differences=(DEEPER,))
    assert (
        "tg->load_avg: the time spent in this code increased with the cgroup depth (0 -> 8); "
        in finding.details
    )


@pytest.mark.parametrize(
    "differences",
    [
        (),
        (replace(DEEPER, base=8, new=0),),
        (replace(DEEPER, base=8, new=None),),
        (replace(DEEPER, side="new2"),),
        (replace(DEEPER, path="cgroup.cpu_max"),),
    ],
    ids=["equal", "flatter", "unknown", "another side", "another field"],
)
def test_one_node_without_a_deeper_cgroup_is_no_support(differences: tuple[Difference]) -> None:
    assert named(name_in(make_row(READER, **ONE_NODE), differences=differences)) == []


def test_an_increase_on_one_of_two_nodes_is_no_support() -> None:
    row = make_row(READER, base_nodes={0: 13.0, 1: 8.0}, new_nodes={0: 12.9, 1: 20.0})
    assert named(name_in(row)) == []


@pytest.mark.parametrize(
    "row",
    [
        make_row(READER, share=replace(SHARE, change=-7.75)),
        make_row(READER, dso="[fair]"),
        make_row("enqueue_entity"),
        make_row(CALLER),
    ],
    ids=["less", "module", "other function", "PELT sums alone"],
)
def test_what_does_not_show_more_accesses_does_not_name_it(row: ProfileRow) -> None:
    findings = name_in(row, differences=(DEEPER,))
    assert findings
    assert named(findings) == []


def test_a_change_within_noise_does_not_name_it() -> None:
    classes = (make_class_row(functions=(MovedFunction(symbol=READER, name=READER, change=1.0),)),)
    findings = name_in(make_row(READER, changed=False), classes=classes, differences=(DEEPER,))
    assert [finding.id for finding in findings] == ["hotter_symbols#class:PELT"]
    assert named(findings) == []


def test_a_class_names_the_reader_and_the_writer_among_its_functions() -> None:
    moved = tuple(MovedFunction(symbol=name, name=name, change=2.0) for name in (READER, CALLER))
    (finding,) = name_in(
        make_row(READER, scheduler=False),
        make_row(CALLER, scheduler=False),
        classes=(make_class_row(functions=moved),),
    )
    assert (
        "; update_cfs_group reads, update_load_avg writes (inlined update_tg_load_avg) "
        "tg->load_avg: the time spent in this code increased on 2 NUMA nodes; "
    ) in finding.details


def test_where_the_writer_is_a_function_its_caller_is_no_writer() -> None:
    findings = name_in(make_row(CALLER), make_row(WRITER))
    assert named(findings) == [f"hotter_symbols#{WRITER}"]


def test_sampled_memory_accesses_leave_the_field_to_their_own_section() -> None:
    sampled = Section.of(with_lines())
    assert named(name_in(make_row(READER), sections={"c2c": sampled})) == []
    unlike = Section.of(with_lines(reason="sampling periods differ", lines=()))
    assert len(named(name_in(make_row(READER), sections={"c2c": unlike}))) == 1


def test_the_table_of_hot_variables_knows_the_same_functions() -> None:
    use = heat_table().find("struct task_group", "load_avg")
    assert use is not None
    assert use.written == use.read == "remote"
    assert {READER, WRITER, CALLER} <= heat_table().sampled_names(use)
