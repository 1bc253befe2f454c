# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout section on bundles: sources, line sizes, boots, limits, and its published schema."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence import Absent
from schedperf.evidence.layout.findings import MOST_FINDINGS, layout_alarms
from schedperf.evidence.layout.record import (
    MOST_LISTED,
    Layout,
    LayoutAlarmEntry,
    LayoutUnit,
)
from schedperf.evidence.layout.section import layout
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.sections import Finding
from tests.record_schema import check_schema
from tests.schedperf.evidence.layout.records import make_layout

Rows = dict[str, int]

# Two scheduler variables on one line, and what follows them; then the same with one more.
BASE: Rows = {
    "root_cpuacct_cpuusage": 0x08,
    "sd_llc_shared": 0x30,
    "sd_llc_id": 0x38,
    "sd_llc": 0x40,
}
NEW: Rows = {
    "root_cpuacct_cpuusage": 0x08,
    "sd_llc_shared": 0x30,
    "sd_cluster": 0x38,
    "sd_llc_id": 0x40,
    "sd_llc": 0x48,
}
LINE_64 = json.dumps({"cacheline": {"compile_time_bytes": 64, "hardware_bytes": 64, "sources": {}}})


def system_map(rows: Rows, start: int = 0) -> str:
    lines = [(start, "D", "__per_cpu_start"), (start + 4096, "D", "__per_cpu_end")]
    lines += [(start + offset, "d", name) for name, offset in rows.items()]
    lines += [(0xFFFFFFFF81000000, "T", "_text"), (0xFFFFFFFF84000000, "B", "_end")]
    return "".join(f"{address:016x} {letter} {name}\n" for address, letter, name in sorted(lines))


Compare = Callable[..., Layout]


@pytest.fixture
def compare(tmp_path: Path, make_bundle: Callable[..., Path]) -> Compare:
    """Return the section's data for sides that are given as layout files by name."""

    def run(*sides: dict[str, str | bytes], **chosen: Any) -> Layout:
        paths = []
        for number, captured in enumerate(sides):
            members = {
                name if name.startswith("boots/") else f"boots/0/layout/{name}": content
                for name, content in captured.items()
            }
            path = tmp_path / f"{number}.tar"
            paths.append(make_bundle(path, runs=1, files=members, **chosen))
        found = layout(name_sides([open_bundle(path) for path in paths]), lambda _: {})
        check_schema(found)
        return found

    return run


def maps(rows: Rows, **more: str | bytes) -> dict[str, str | bytes]:
    return {"System.map": system_map(rows), "layout.json": LINE_64, **more}


def percpu_of(data: Layout) -> LayoutUnit:
    return next(unit for unit in data.comparisons[0].units if unit.unit == "percpu")


def findings_of(data: Layout) -> list[Finding]:
    return list(layout_alarms(data))


def test_the_first_alarm_is_the_measured_pair_with_the_inserted_variable_as_cause(
    compare: Compare,
) -> None:
    data = compare(maps(BASE), maps(NEW))
    first = data.comparisons[0].alarms[0]
    assert (first.row, first.rule, first.grade) == (
        "percpu/root_cpuacct_cpuusage+sd_llc_id",
        "separated",
        "measured",
    )
    assert first.boundary == 0x40
    assert first.cause is not None
    assert (first.cause.kind, first.cause.entry) == ("inserted", "sd_cluster")
    assert first.entries == (
        LayoutAlarmEntry(name="root_cpuacct_cpuusage", base_offset=0x08, new_offset=0x08),
        LayoutAlarmEntry(name="sd_llc_id", base_offset=0x38, new_offset=0x40),
    )
    assert first.adjacent is True
    window = data.windows[0]
    assert window.inserted == ("sd_cluster",)
    assert [column.lines for column in window.columns] == [(0x00, 0x40), (0x00, 0x40)]
    uses = {use.name: use for use in window.uses}
    assert (uses["sd_llc_id"].written, uses["sd_llc_id"].paths) == ("rarely", ("wakeup",))
    assert "core.c:cpus_share_cache" in uses["sd_llc_id"].functions


def test_a_section_at_another_address_is_an_unchanged_layout(compare: Compare) -> None:
    relative = {"System.map": system_map(BASE, 0xFFFFFFFF83447000), "layout.json": LINE_64}
    data = compare(maps(BASE), relative)
    assert data.comparisons[0].is_unchanged is True
    assert (data.comparisons[0].alarms, data.windows) == ((), ())
    assert percpu_of(data).counts.common == len(BASE)
    assert findings_of(data) == []


def test_btf_gives_sizes_to_the_names_of_system_map(
    compare: Compare, make_btf: Callable[..., bytes]
) -> None:
    btf = make_btf([(name, offset, 8, 0) for name, offset in BASE.items()])
    unit = percpu_of(compare(maps(BASE, btf=btf), maps(BASE, btf=btf)))
    assert unit.sources.base == ("System.map", "BTF")
    assert unit.counts.unsized == 0


def test_kallsyms_without_data_symbols_leaves_btf_and_asks_for_no_remedy(
    compare: Compare, make_btf: Callable[..., bytes]
) -> None:
    captured: dict[str, str | bytes] = {
        "kallsyms": "ffffffff81000000 T _text\n",
        "btf": make_btf([(name, offset, 8, 1) for name, offset in BASE.items()]),
        "layout.json": LINE_64,
    }
    data = compare(captured, captured)
    assert percpu_of(data).sources.new == ("BTF",)
    notes = [note for kernel in data.kernels for note in kernel.notes]
    assert not [note for note in notes if "; use" in note]


def test_btf_against_a_symbol_table_compares_the_common_names_and_says_so(
    compare: Compare, make_btf: Callable[..., bytes]
) -> None:
    btf = make_btf(
        [("sd_llc_id", 0x40, 4, 1), ("root_cpuacct_cpuusage", 0x08, 8, 0), ("z", 0x80, 8, 0)]
    )
    unit = percpu_of(compare(maps(BASE), {"btf": btf, "layout.json": LINE_64}))
    assert unit.counts.separated == 1
    assert (unit.added, unit.removed, unit.coverage_equal) == ((), (), False)
    assert any("so only the 2 common names" in note for note in unit.notes)


@pytest.mark.parametrize(
    ("cacheline", "used", "origin", "note"),
    [
        (None, 64, "assumed", "64 bytes are assumed"),
        ({"compile_time_bytes": None, "hardware_bytes": 128}, 128, "hardware", None),
        (
            {"compile_time_bytes": 64, "hardware_bytes": 128},
            64,
            "compile_time",
            "base has hardware",
        ),
        ({"compile_time_bytes": 48}, 64, "assumed", "compile_time_bytes is 48 (expected a power"),
        ({"compile_time_bytes": 1 << 40}, 64, "assumed", "a power of two from 16 to 4096"),
        ({"compile_time_bytes": "64"}, 64, "assumed", 'is "64" (expected int'),
    ],
)
def test_the_line_size_comes_from_the_capture_or_is_assumed_aloud(
    compare: Compare, cacheline: dict[str, object] | None, used: int, origin: str, note: str | None
) -> None:
    captured: dict[str, str | bytes] = {"System.map": system_map(BASE)}
    if cacheline is not None:
        captured["layout.json"] = json.dumps({"cacheline": cacheline})
    # Of a known machine the compile-time size is known too.
    data = compare(captured, captured, host={"kernel": {"machine": None}})
    assert (data.line_bytes.used, data.line_bytes.from_) == (used, origin)
    notes = [*data.notes, *(note for kernel in data.kernels for note in kernel.notes)]
    assert (notes == []) if note is None else any(note in text for text in notes)


def test_boots_that_disagree_are_named_and_the_first_is_shown(compare: Compare) -> None:
    two_boots = {
        **maps(BASE),
        "boots/1/layout/System.map": system_map(NEW),
        "boots/2/layout/System.map": system_map(BASE),
    }
    data = compare(maps(BASE), two_boots)
    assert data.comparisons[0].is_unchanged is True
    assert data.kernels[1].notes == (
        "boot 1 of new has a different per-CPU layout than boot 0; boot 0 is shown",
    )


def test_the_first_boot_that_has_a_layout_is_used(compare: Compare) -> None:
    late = {"boots/1/layout/System.map": system_map(NEW), "boots/1/layout/layout.json": LINE_64}
    assert percpu_of(compare(maps(BASE), late)).counts.separated == 2


def test_sides_without_a_layout_are_absent_with_the_reason(compare: Compare) -> None:
    skipped = {
        "collector": "layout",
        "path": "boots/0/layout",
        "status": "skipped",
        "reason": "no /proc/kallsyms",
    }
    with pytest.raises(Absent, match="no System.map, kallsyms or BTF .no /proc/kallsyms"):
        compare({}, maps(NEW), captures=[skipped])
    with pytest.raises(Absent, match="System.map of new: "):
        compare(maps(BASE), {"System.map": "garbage"})


def test_a_missing_side_does_not_rename_the_others(compare: Compare) -> None:
    data = compare(maps(BASE), {}, maps(NEW))
    assert [entry.side for entry in data.missing] == ["new"]
    assert [kernel.side for kernel in data.kernels] == ["base", "new2"]
    (found,) = data.comparisons
    assert found.side == "new2"
    assert found.alarms[0].row == "new2/percpu/root_cpuacct_cpuusage+sd_llc_id"
    assert findings_of(data)[0].side == "new2"


def test_thousands_of_changes_keep_the_counts_and_bound_the_lists(compare: Compare) -> None:
    names = [f"v{number}" for number in range(480)]
    base = {name: 8 * place for place, name in enumerate(names)}
    new = {name: 8 * place for place, name in enumerate(sorted(names, key=lambda n: n[::-1]))}
    data = compare(maps(base), maps(new))
    unit = percpu_of(data)
    assert unit.counts.separated > 1000
    assert len(unit.separated) == len(unit.joined) == len(unit.entries) == MOST_LISTED
    assert unit.counts.unknown_heat > MOST_LISTED == len(unit.unknown_heat)
    assert findings_of(data) == []


def test_a_finding_says_what_why_and_how_well_it_is_known(compare: Compare) -> None:
    found = findings_of(compare(maps(BASE), maps(NEW)))
    assert 0 < len(found) <= MOST_FINDINGS
    first = found[0]
    assert first.claim.startswith("root_cpuacct_cpuusage and sd_llc_id shared a 64-byte line")
    assert first.claim.endswith("; cause: sd_cluster (inserted, at most 8 bytes)")
    assert first.evidence == ("layout#percpu/root_cpuacct_cpuusage+sd_llc_id",)
    assert first.attribution.startswith("published measurement: ")
    assert first.attribution.endswith("correlated, causation not shown")
    assert (first.replication, first.n, first.value) == ("1 build per side", (1, 1), None)


def test_moves_without_heat_raise_no_finding(compare: Compare) -> None:
    base = {"one": 0x00, "two": 0x38, "three": 0x40}
    new = {"one": 0x00, "four": 0x38, "two": 0x40, "three": 0x48}
    data = compare(maps(base), maps(new))
    assert (data.comparisons[0].alarms, findings_of(data)) == ((), [])
    assert percpu_of(data).unknown_heat == ("two", "four")


def test_samples_become_the_value_of_a_finding(compare: Compare) -> None:
    (compared,) = compare(maps(BASE), maps(NEW)).comparisons
    alarm = replace(compared.alarms[0], hitm=40, cause=None)
    first = findings_of(make_layout(alarm))[0]
    assert (first.value, first.better) == (40, "lower")
    assert first.claim.endswith("; no single edit explains the change")


@pytest.mark.parametrize("sources", [("System.map",), ("btf",), ("System.map", "btf")])
def test_the_real_kernels_show_the_second_reports_pair(
    compare: Compare, real_kernel: Callable[[str], Path], sources: tuple[str, ...]
) -> None:
    def captured(kernel: str) -> dict[str, str | bytes]:
        return {name: (real_kernel(kernel) / name).read_bytes() for name in sources}

    data = compare(captured("tip"), captured("cluster"))
    first = data.comparisons[0].alarms[0]
    assert first.row == "percpu/root_cpuacct_cpuusage+sd_llc_id"
    assert f"{first.boundary:x}".endswith("240")
    assert first.cause is not None
    assert (first.cause.kind, first.cause.entry) == ("inserted", "sd_cluster")
    (window,) = data.windows
    assert window.inserted == ("sd_cluster", "sd_share_id")


def test_other_options_of_the_same_source_move_no_hot_pair(
    compare: Compare, real_kernel: Callable[[str], Path]
) -> None:
    def captured(kernel: str) -> dict[str, str | bytes]:
        return {name: (real_kernel(kernel) / name).read_bytes() for name in ("System.map", "btf")}

    data = compare(captured("tip"), captured("tip-config"))
    (found,) = data.comparisons
    assert (percpu_of(data).is_unchanged, found.is_unchanged) == (True, False)
    assert (found.alarms, findings_of(data)) == ((), [])
    assert found.counts.unknown_heat > 0
