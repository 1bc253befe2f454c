# SPDX-License-Identifier: GPL-2.0-or-later
"""The analysis as data: what is compared, what is refused, what is said of it."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from schedperf.evidence.layout.compare import analyse_kernels
from schedperf.evidence.layout.maps import map_kernel
from schedperf.evidence.layout.model import Entry, Kernel, Unit
from schedperf.evidence.layout.record import (
    Layout,
    LayoutLines,
    LayoutMissingUnit,
    LayoutRename,
    LineBytes,
    UnitKind,
)
from schedperf.evidence.layout.sources import load_kernel
from schedperf.evidence.layout.unit_pairs import compare_pair, compare_units
from schedperf.model.base_new import BaseNew
from schedperf.model.errors import InputError
from tests.record_schema import check_schema
from tests.shared_data import shared

SEEDS = ("tip", "patch-1", "moved-declaration", "align-first", "custom-layout")

Places = Mapping[str, tuple[int, int | None]]
BASE: Places = {
    "root_cpuacct_cpuusage": (0x08, 8),
    "sd_llc_shared": (0x30, 8),
    "sd_llc_id": (0x38, 4),
    "sd_llc": (0x40, 8),
}
NEW: Places = {
    "root_cpuacct_cpuusage": (0x08, 8),
    "sd_llc_shared": (0x30, 8),
    "sd_cluster": (0x38, 8),
    "sd_llc_id": (0x40, 4),
    "sd_llc": (0x48, 8),
}


def unit(name: str, places: Places) -> Unit:
    kinds: Mapping[str, UnitKind] = {"percpu": "percpu", "globals": "globals"}
    return Unit(
        name=name,
        kind=kinds.get(name, "struct"),
        size=4096,
        alignment=4096,
        is_alignment_inferred=False,
        entries=tuple(Entry(name=n, offset=o, size=s) for n, (o, s) in places.items()),
        groups={},
        sources=("System.map",),
        noise={},
        notes=(),
    )


def kernel(label: str, *units: Unit, **changes: Any) -> Kernel:
    values: dict[str, Any] = {
        "label": label,
        "machine": "x86_64",
        "pointer_bytes": 8,
        "is_big_endian": False,
        "line_bytes": LineBytes(compile_time=64, hardware=64),
        "units": {one.name: one for one in units},
        "unknown": {},
        "notes": (),
    }
    return Kernel(**values | changes)


def percpu(label: str, places: Places, **changes: Any) -> Kernel:
    return kernel(label, unit("percpu", places), **changes)


def analyse(*kernels: Kernel, **asked: Any) -> Layout:
    layout = analyse_kernels(kernels, **asked)
    check_schema(layout)
    return layout


def test_the_first_alarm_has_claim_cause_place_and_advice() -> None:
    data = analyse(percpu("tip", BASE), percpu("cluster", NEW))
    (found,) = data.comparisons
    first = found.alarms[0]
    assert first.row == "percpu/root_cpuacct_cpuusage+sd_llc_id"
    assert first.boundary == 0x40
    assert first.cause is not None
    assert first.cause.text == "sd_cluster (inserted, 8 bytes)"
    advice = found.advice[0]
    assert (advice.about, advice.is_change, advice.lines_after) == (first.row, True, 1)
    lines = {row.address // 64 for row in advice.predicted if row.is_hot}
    assert len(lines) == 1


def test_each_new_kernel_has_a_column_beside_base() -> None:
    data = analyse(percpu("tip", BASE), percpu("cluster", NEW), percpu("again", BASE))
    (window,) = data.windows
    assert [column.label for column in window.columns] == ["tip", "cluster", "again"]
    names = [[(row.name or row.kind, row.mark) for row in column.rows] for column in window.columns]
    assert names[0] == names[2]
    assert ("sd_cluster", "added") in names[1]
    assert ("sd_llc_id", "moved") in names[1]
    assert [one.is_unchanged for one in data.comparisons] == [False, True]
    assert data.comparisons[1].side == "new2"


def test_the_best_alarm_of_all_units_is_the_first_and_drawn_first() -> None:
    fields: Places = {"curr": (0, 8), "clock_update_flags": (8, 4)}
    parted: Places = {"curr": (0, 8), "clock_update_flags": (64, 4)}
    kernels = [
        kernel(name, unit("struct rq", rq), unit("globals", {"a": (0, 8)}), unit("percpu", places))
        for name, rq, places in (("tip", fields, BASE), ("cluster", parted, NEW))
    ]
    data = analyse(*kernels)
    alarms = data.comparisons[0].alarms
    grades = [alarm.grade for alarm in alarms]
    assert (grades[0], grades[-1]) == ("measured", "inferred")
    assert alarms[-1].unit == "struct rq"
    assert [window.unit for window in data.windows] == ["percpu", "struct rq"]
    assert data.windows[0].alarms[0] == alarms[0].row


def test_what_was_removed_is_marked_in_base() -> None:
    (window,) = analyse(percpu("cluster", NEW), percpu("tip", BASE)).windows
    marks = {row.name: row.mark for row in window.columns[0].rows}
    assert marks["sd_cluster"] == "removed"


def test_a_kernel_without_the_unit_says_why_in_its_column() -> None:
    fields: Places = {"a": (0, 8), "b": (8, 8)}
    blind = percpu(
        "blind", BASE, unknown={"struct rq": "struct layouts need BTF or DWARF, not a symbol table"}
    )
    moved: Places = {"a": (0, 8), "b": (64, 8)}
    kernels = [
        kernel("tip", unit("percpu", BASE), unit("struct rq", fields)),
        blind,
        kernel("new", unit("percpu", BASE), unit("struct rq", moved)),
    ]
    data = analyse(*kernels, kinds=("percpu", "struct"))
    assert data.comparisons[0].missing == (
        LayoutMissingUnit(
            unit="struct rq", reason="blind: struct layouts need BTF or DWARF, not a symbol table"
        ),
    )
    (window,) = data.windows
    assert [column.reason for column in window.columns] == [
        None,
        "struct layouts need BTF or DWARF, not a symbol table",
        None,
    ]


def test_an_entry_that_only_new_has_is_drawn_beside_what_it_came_between() -> None:
    base: Places = {"one": (0, 8), "two": (64, 8)}
    new: Places = {"one": (0, 8), "two": (64, 8), "three": (72, 8)}
    (window,) = analyse(percpu("a", base), percpu("b", new)).windows
    assert [row.name for row in window.columns[0].rows] == ["two"]
    assert [row.name for row in window.columns[1].rows] == ["two", "three"]


def test_a_given_line_size_comes_first_and_differing_ones_are_said() -> None:
    hardware = LineBytes(compile_time=64, hardware=128)
    base = percpu("tip", BASE, line_bytes=hardware)
    data = analyse(base, percpu("cluster", NEW))
    assert data.line_bytes == LayoutLines(
        used=64, from_="compile_time", differs=("base has hardware with 128-byte lines",)
    )
    wide = analyse(base, percpu("cluster", NEW), line_bytes=128)
    assert (wide.line_bytes.used, wide.line_bytes.from_) == (128, "given")
    assert wide.comparisons[0].alarms == ()


def test_prefetchers_of_two_lines_are_a_second_view() -> None:
    (found,) = analyse(percpu("tip", BASE), percpu("cluster", NEW)).comparisons
    adjacent = found.units[0].adjacent
    assert adjacent is not None
    assert (adjacent.line_bytes, adjacent.separated) == (128, 0)
    assert ("root_cpuacct_cpuusage", "sd_llc_id") in adjacent.still_together
    assert found.alarms[0].adjacent is True
    shifted = {name: (offset + 64, size) for name, (offset, size) in BASE.items()}
    apart = {name: (offset + 64, size) for name, (offset, size) in NEW.items()}
    (found,) = analyse(percpu("tip", shifted), percpu("cluster", apart)).comparisons
    assert found.alarms[0].adjacent is False


def test_samples_outrank_the_table() -> None:
    hitm = {"new": {"percpu": {"sd_llc": 500, "sd_llc_id": 500}}}
    (found,) = analyse(percpu("tip", BASE), percpu("cluster", NEW), hitm=hitm).comparisons
    assert (found.alarms[0].grade, (found.alarms[0].hitm or 0) >= 500) == ("sampled", True)


def test_a_hot_set_of_ones_own_is_counted_and_advised() -> None:
    fields: Places = {"a": (0, 8), "b": (64, 8)}
    kernels = [
        kernel(name, unit("percpu", places), unit("struct rq", fields))
        for name, places in (("tip", BASE), ("cluster", NEW))
    ]
    hot = ["sd_llc_id", "sd_llc_shared", "rq.a", "rq.b"]
    (found,) = analyse(*kernels, hot=hot).comparisons
    by_unit = {one.unit: one for one in found.hot}
    assert by_unit["percpu"].lines == BaseNew(base=1, new=2)
    assert by_unit["percpu"].separated == (("sd_llc_shared", "sd_llc_id"),)
    assert by_unit["struct rq"].lines == BaseNew(base=2, new=2)
    own = [one for one in found.advice if one.about == "hot"]
    assert [(one.unit, one.lines_after) for one in own] == [("percpu", 1), ("struct rq", 1)]


def test_a_renamed_entry_is_found_under_its_new_name() -> None:
    new = {("cpuusage" if name == "root_cpuacct_cpuusage" else name): at
           for name, at in NEW.items()}  # fmt: skip
    data = analyse(percpu("tip", BASE), percpu("cluster", new), hot=["root_cpuacct_cpuusage"])
    (found,) = data.comparisons
    assert found.units[0].renamed == (
        LayoutRename(base_name="root_cpuacct_cpuusage", new_name="cpuusage", commit=None),
    )
    assert found.hot[0].lines == BaseNew(base=1, new=1)
    rows = data.windows[0].columns[1].rows
    assert [row.is_hot for row in rows if row.name == "cpuusage"] == [True]


@pytest.mark.parametrize(
    ("changes", "asked", "message"),
    [
        ({"machine": "arm64"}, {}, "new has architecture arm64, but tip has architecture x86_64"),
        ({"pointer_bytes": 4}, {}, "new has 4-byte pointers, but tip has 8-byte pointers; compare"),
        ({"is_big_endian": True}, {}, "new has big-endian byte order, but tip has little-endian"),
        ({"units": {}}, {}, "tip and new have no section or struct in common .new: was not read."),
        ({}, {"kinds": ("globals",)}, "no section or struct in common .tip: was not read."),
        ({}, {"kinds": ()}, "no section or struct in common .nothing requested."),
        (
            {},
            {"line_bytes": 63},
            "invalid cache line size 63 .expected a power of two from 16 to 4096",
        ),
        ({}, {"hot": ["nobody"]}, "hot set: unknown variable or field 'nobody'"),
    ],
)
def test_what_cannot_be_compared_is_one_clear_line(
    changes: dict[str, Any], asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        analyse_kernels([percpu("tip", BASE), percpu("new", BASE, **changes)], **asked)
    assert "\n" not in str(error.value)


def test_one_kernel_alone_is_no_comparison() -> None:
    with pytest.raises(InputError, match="layout: 1 kernel given .expected at least 2"):
        analyse_kernels([percpu("tip", BASE)])


def test_unknown_facts_of_a_machine_compare_with_any() -> None:
    unknown = percpu("map", BASE, machine=None, pointer_bytes=None, is_big_endian=None)
    assert analyse(percpu("tip", BASE), unknown).comparisons[0].is_unchanged is True


@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.sampled_from([1, 4, 8, 40, None])),
        unique_by=lambda place: place[0],
        max_size=20,
    )
)
def test_equal_units_are_not_compared_and_the_result_is_the_same(
    places: list[tuple[int, int | None]],
) -> None:
    one = unit("percpu", {f"v{at}": (at, size) for at, size in sorted(places)})
    assert compare_pair(one, one, 64, None, "").change == compare_units(one, one, 64)


def test_the_published_layouts_are_five_columns_of_one_drawing(
    typed_layout: Callable[[str], Unit],
) -> None:
    kernels = [kernel(name, typed_layout(name)) for name in SEEDS]
    data = analyse(*kernels)
    window = data.windows[0]
    assert [column.label for column in window.columns] == list(SEEDS)
    separated = {
        found.label
        for found in data.comparisons
        for alarm in found.alarms
        if alarm.row.endswith("percpu/root_cpuacct_cpuusage+sd_llc_id")
    }
    assert separated == {"patch-1", "align-first"}


def test_task_groups_load_average_stays_and_has_other_line_mates() -> None:
    names = ("sched-types-6.14-x86", "vmlinux-6.18.44-x86_64-vm")
    samples = [shared(f"data/btf/{name}.btf") for name in names]
    kernels = [load_kernel(path, structs=("task_group",)) for path in samples]
    data = analyse(*kernels, kinds=("struct",), structs=("task_group",))
    (found,) = data.comparisons[0].units
    (average,) = [one for one in found.entries if one.name.startswith("load_avg")]
    assert average.keeps_offset is True
    assert average.lost
    assert average.gained


def test_one_kernel_alone_is_a_map_that_its_schema_describes() -> None:
    found = map_kernel(percpu("tip", BASE), hot=["sd_llc_id", "sd_llc"])
    check_schema(found)
    (section,) = found.maps
    assert [use.name for use in section.hot] == ["sd_llc_id", "sd_llc"]
    assert (section.counts.hot_lines, section.counts.holes) == (2, None)
    assert [(advice.about, advice.lines_before) for advice in section.advice] == [("hot", 2)]


@pytest.mark.parametrize(
    ("places", "bytes_", "lines"),
    [
        # mm_struct: an empty flexible array behind the last whole line.
        ({"owner": (0, 8), "pad": (56, 8), "cpu_bitmap": (64, 0)}, 64, 1),
        ({"owner": (0, 8), "cpu_bitmap": (8, 0)}, 64, 1),
        # Padding and holes are lines of the struct too.
        ({"lock": (0, 4)}, 128, 2),
        ({"lock": (0, 4), "count": (192, 4)}, 256, 4),
        ({}, 0, 0),
    ],
)
def test_a_struct_has_the_lines_of_its_bytes(places: Places, bytes_: int, lines: int) -> None:
    struct = replace(unit("struct mm_struct", places), size=bytes_)
    (found,) = map_kernel(kernel("a", struct)).maps
    assert found.counts.lines == lines


def test_a_struct_is_drawn_whole_however_many_fields_it_has() -> None:
    large = unit("struct large", {f"field{number}": (8 * number, 8) for number in range(3000)})
    (found,) = map_kernel(kernel("a", replace(large, size=24_000)), whole=["large"]).maps
    assert sum(row.kind == "entry" for row in found.rows) == 3000


def test_an_entry_without_bytes_has_no_line_of_a_section_either() -> None:
    empty = unit("percpu", {"sd_llc": (0, 8), "empty": (64, 0), "sd_llc_id": (128, None)})
    (found,) = map_kernel(kernel("a", empty)).maps
    assert found.counts.lines == 2


def test_damaged_units_end_in_one_line() -> None:
    one = unit("percpu", BASE)
    beyond = replace(one, entries=(Entry(name="x", offset=1 << 50, size=8),))
    with pytest.raises(InputError, match="percpu: x has offset .*; copy the kernel's symbol"):
        analyse_kernels([kernel("a", one), kernel("b", beyond)])
