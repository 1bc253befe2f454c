"""The layout section on bundles: sources, line sizes, boots, limits, and its published schema."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from schedperf.bundle import open_bundle
from schedperf.findings.separated_pairs import separated_pairs
from schedperf.model import Section
from schedperf.sections import Absent, all_sections
from schedperf.sections._layout_windows import MOST_WINDOW_LINES, MOST_WINDOWS
from schedperf.sections.layout import MOST_LISTED, SCHEMA, layout
from schedperf.sides import name_sides

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
    lines.append((0xFFFFFFFF81000000, "T", "_text"))
    return "".join(f"{address:016x} {letter} {name}\n" for address, letter, name in sorted(lines))


Compare = Callable[..., dict[str, Any]]


@pytest.fixture
def compare(tmp_path: Path, make_bundle: Callable[..., Path]) -> Compare:
    """Return the section's data for sides that are given as layout files by name."""

    def run(*sides: dict[str, str | bytes], **chosen: Any) -> dict[str, Any]:
        paths = []
        for number, captured in enumerate(sides):
            members = {
                name if name.startswith("boots/") else f"boots/0/layout/{name}": content
                for name, content in captured.items()
            }
            path = tmp_path / f"{number}.tar"
            paths.append(make_bundle(path, runs=1, files=members, **chosen))
        data = layout(name_sides([open_bundle(path) for path in paths]))
        jsonschema.validate(data, SCHEMA)
        return json.loads(json.dumps(data))  # type: ignore[no-any-return] # JSON is what we made

    return run


def maps(rows: Rows, **more: str | bytes) -> dict[str, str | bytes]:
    return {"System.map": system_map(rows), "layout.json": LINE_64, **more}


def test_the_section_publishes_its_schema() -> None:
    plugin = all_sections()["layout"]
    assert plugin.schema_id == "schedperf/section/layout/1"
    jsonschema.Draft202012Validator.check_schema(plugin.schema)


def test_a_separated_pair_of_scheduler_variables_is_named_first(compare: Compare) -> None:
    (found,) = compare(maps(BASE), maps(NEW))["comparisons"]
    assert found["separated"][0] == {
        "row": "root_cpuacct_cpuusage+sd_llc_id",
        "a": "root_cpuacct_cpuusage",
        "b": "sd_llc_id",
        "a_base_offset": 0x08,
        "b_base_offset": 0x38,
        "a_new_offset": 0x08,
        "b_new_offset": 0x40,
        "scheduler": True,
        "functions": ["cpuacct_charge", "cpus_share_cache"],
    }
    assert [move["name"] for move in found["moved"]] == ["sd_llc_id"]
    assert [one["name"] for one in found["added"]] == ["sd_cluster"]
    assert [(pair["a"], pair["b"]) for pair in found["joined"]] == [("sd_llc_id", "sd_llc")]
    assert (found["counts"]["common"], found["counts"]["lines_base"]) == (4, 2)
    assert (found["sources"], found["notes"]) == (
        {"base": ["System.map"], "new": ["System.map"]},
        [],
    )


def test_the_window_draws_the_boundary_and_marks_what_changed(compare: Compare) -> None:
    (window,) = compare(maps(BASE), maps(NEW))["comparisons"][0]["windows"]

    def rows(side: str) -> list[tuple[int, str, str]]:
        return [
            (entry["address"], entry["name"] or entry["kind"], entry["mark"])
            for entry in window[side]
        ]

    assert rows("base") == [
        (0x08, "root_cpuacct_cpuusage", ""),
        (0x30, "sd_llc_shared", ""),
        (0x38, "sd_llc_id", ""),
        (0x40, "boundary", ""),
        (0x40, "sd_llc", ""),
    ]
    assert rows("new") == [
        (0x08, "root_cpuacct_cpuusage", ""),
        (0x30, "sd_llc_shared", ""),
        (0x38, "sd_cluster", "added"),
        (0x40, "boundary", ""),
        (0x40, "sd_llc_id", "moved"),
        (0x48, "sd_llc", ""),
    ]
    assert window["inserted"] == ["sd_cluster"]


def test_swapped_sides_mark_what_was_removed(compare: Compare) -> None:
    (found,) = compare(maps(NEW), maps(BASE))["comparisons"]
    marks = {entry["name"]: entry["mark"] for entry in found["windows"][0]["base"]}
    assert marks["sd_cluster"] == "removed"
    assert [one["name"] for one in found["removed"]] == ["sd_cluster"]


def test_a_section_at_another_address_is_the_same_layout(compare: Compare) -> None:
    relative = {"System.map": system_map(BASE, 0xFFFFFFFF83447000), "layout.json": LINE_64}
    (found,) = compare(maps(BASE), relative)["comparisons"]
    assert (found["separated"], found["windows"], found["counts"]["moved"]) == ([], [], 0)


def test_variables_between_two_drawn_lines_are_a_gap(compare: Compare) -> None:
    base = {"a": 0, "b": 8, "c": 64, "d": 128, "e": 192}
    new = {"a": 0, "c": 64, "d": 128, "b": 256, "e": 320}
    window = compare(maps(base), maps(new))["comparisons"][0]["windows"][0]
    assert [(entry["kind"], entry["name"]) for entry in window["new"]] == [
        ("variable", "a"),
        ("gap", "2 more"),
        ("boundary", ""),
        ("variable", "b"),
    ]


def test_btf_gives_sizes_to_the_names_of_system_map(
    compare: Compare, make_btf: Callable[..., bytes]
) -> None:
    btf = make_btf([(name, offset, 8, 0) for name, offset in BASE.items()])
    (found,) = compare(maps(BASE, btf=btf), maps(BASE, btf=btf))["comparisons"]
    assert found["sources"]["base"] == ["System.map", "BTF"]


def test_kallsyms_without_data_symbols_leaves_btf(
    compare: Compare, make_btf: Callable[..., bytes]
) -> None:
    captured: dict[str, str | bytes] = {
        "kallsyms": "ffffffff81000000 T _text\n",
        "btf": make_btf([(name, offset, 8, 1) for name, offset in BASE.items()]),
        "layout.json": LINE_64,
    }
    (found,) = compare(captured, captured)["comparisons"]
    assert found["sources"]["new"] == ["BTF"]
    assert any("kallsyms of new: no per-CPU symbols" in note for note in found["notes"])


def test_btf_against_a_symbol_table_compares_the_common_names_and_says_so(
    compare: Compare, make_btf: Callable[..., bytes]
) -> None:
    btf = make_btf(
        [("sd_llc_id", 0x40, 4, 1), ("root_cpuacct_cpuusage", 0x08, 8, 0), ("z", 0x80, 8, 0)]
    )
    (found,) = compare(maps(BASE), {"btf": btf, "layout.json": LINE_64})["comparisons"]
    assert found["counts"]["separated"] == 1
    assert (found["added"], found["removed"]) == ([], [])
    (note,) = found["notes"]
    assert note.startswith("base's names come from System.map and new's from BTF, so only the 2")


@pytest.mark.parametrize(
    ("cacheline", "used", "note"),
    [
        (None, 64, "no capture says how long a cache line is; 64 bytes are assumed"),
        ({"compile_time_bytes": None, "hardware_bytes": 128}, 128, None),
        ({"compile_time_bytes": 64, "hardware_bytes": 128}, 64, "hardware has 128 on base"),
        ({"compile_time_bytes": 48}, 64, "compile_time_bytes is 48; it must be a power of two"),
        ({"compile_time_bytes": 1 << 40}, 64, "it must be a power of two from 16 to 4096"),
        ({"compile_time_bytes": "64"}, 64, 'is "64"; it must be an integer'),
    ],
)
def test_the_line_size_comes_from_the_capture_or_is_assumed_aloud(
    compare: Compare, cacheline: dict[str, object] | None, used: int, note: str | None
) -> None:
    captured: dict[str, str | bytes] = {"System.map": system_map(BASE)}
    if cacheline is not None:
        captured["layout.json"] = json.dumps({"cacheline": cacheline})
    (found,) = compare(captured, captured)["comparisons"]
    assert found["line_bytes"]["used"] == used
    assert (found["notes"] == []) if note is None else any(note in text for text in found["notes"])


def test_a_source_that_another_one_replaces_asks_for_no_remedy(
    compare: Compare, make_btf: Callable[..., bytes]
) -> None:
    btf = make_btf([("sd_llc_id", 0x40, 4, 1), ("root_cpuacct_cpuusage", 0x08, 8, 0)])
    side = {"kallsyms": "0000000000000000 T _text\n", "btf": btf, "layout.json": LINE_64}
    (found,) = compare(side, side)["comparisons"]
    assert found["sources"]["base"] == ["BTF"]
    assert [note for note in found["notes"] if note.startswith("kallsyms of base: ")]
    assert not [note for note in found["notes"] if "; use" in note]


def test_boots_that_disagree_are_named_and_the_first_is_shown(compare: Compare) -> None:
    two_boots = {
        **maps(BASE),
        "boots/1/layout/System.map": system_map(NEW),
        "boots/2/layout/System.map": system_map(BASE),
    }
    (found,) = compare(maps(BASE), two_boots)["comparisons"]
    assert found["counts"]["separated"] == 0
    assert found["notes"] == [
        "boot 1 of new has another per-CPU layout than boot 0, which is shown"
    ]


def test_the_first_boot_that_has_a_layout_is_used(compare: Compare) -> None:
    late = {"boots/1/layout/System.map": system_map(NEW), "boots/1/layout/layout.json": LINE_64}
    (found,) = compare(maps(BASE), late)["comparisons"]
    assert found["counts"]["separated"] == 2


def test_sides_without_a_layout_are_absent_with_the_reason(compare: Compare) -> None:
    skipped = {
        "collector": "layout",
        "path": "boots/0/layout",
        "status": "skipped",
        "reason": "no /proc/kallsyms",
    }
    with pytest.raises(Absent, match="no System.map, kallsyms or BTF in base: no /proc/kallsyms"):
        compare({}, maps(NEW), captures=[skipped])
    with pytest.raises(Absent, match="System.map of new: no per-CPU symbols"):
        compare(maps(BASE), {"System.map": "garbage"})
    data = compare(maps(BASE), {}, maps(NEW))
    assert [entry["side"] for entry in data["missing"]] == ["new"]
    assert data["comparisons"][0]["side"] == "new2"
    assert data["comparisons"][0]["separated"][0]["row"] == "new2/root_cpuacct_cpuusage+sd_llc_id"


def test_thousands_of_changes_keep_the_counts_and_bound_the_lists(compare: Compare) -> None:
    names = [f"v{number}" for number in range(480)]
    base = {name: 8 * place for place, name in enumerate(names)}
    new = {name: 8 * place for place, name in enumerate(sorted(names, key=lambda n: n[::-1]))}
    (found,) = compare(maps(base), maps(new))["comparisons"]
    assert found["counts"]["separated"] > 1000
    assert len(found["separated"]) == len(found["joined"]) == len(found["moved"]) == MOST_LISTED
    assert 0 < len(found["windows"]) <= MOST_WINDOWS
    for window in found["windows"]:
        boundaries = [entry for entry in window["new"] if entry["kind"] == "boundary"]
        assert len(boundaries) < MOST_WINDOW_LINES


def test_a_finding_names_each_separated_pair_of_scheduler_variables(compare: Compare) -> None:
    data = compare(maps(BASE), maps(NEW))
    section = Section(schema="schedperf/section/layout/1", status="ok", reason=None, data=data)
    found = list(separated_pairs({"layout": section}))
    assert found[0].claim == (
        "root_cpuacct_cpuusage and sd_llc_id were on one 64-byte line in base "
        "and are separated by a cacheline boundary in new"
    )
    assert [one.evidence for one in found] == [
        ("layout#root_cpuacct_cpuusage+sd_llc_id",),
        ("layout#sd_llc_shared+sd_llc_id",),
    ]
    assert (found[0].replication, found[0].n) == ("1 build a side", (1, 1))


def test_the_real_kernels_show_the_second_reports_pair(
    compare: Compare, real_kernel: Callable[[str], Path]
) -> None:
    def captured(kernel: str) -> dict[str, str | bytes]:
        folder = real_kernel(kernel)
        return {name: (folder / name).read_bytes() for name in ("System.map", "btf")}

    (found,) = compare(captured("tip"), captured("cluster"))["comparisons"]
    assert found["separated"][0]["row"] == "root_cpuacct_cpuusage+sd_llc_id"
    (window,) = found["windows"]
    assert window["inserted"] == ["sd_cluster", "sd_share_id"]
    (same,) = compare(captured("tip"), captured("tip-config"))["comparisons"]
    assert (same["counts"]["moved"], same["windows"]) == (0, [])
