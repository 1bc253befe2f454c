# SPDX-License-Identifier: GPL-2.0-or-later
"""Who shares lines in the published layouts and in real kernels, and which edits explain it."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from schedperf.evidence.layout.model import Entry, Unit
from schedperf.evidence.layout.structs import struct_unit
from schedperf.evidence.layout.unit_pairs import compare_units
from schedperf.inputs.kernel.btf import parse_btf
from tests.shared_data import shared

LINE = 64

TIP_LINE = ("root_cpuacct_cpuusage", "cpufreq_update_util_data", "sd_asym_cpucapacity")


@pytest.mark.parametrize(
    ("layout", "mates"),
    [
        ("tip", {*TIP_LINE, "sd_asym_packing", "sd_numa", "sd_llc_shared", "sd_llc_size"}),
        ("patch-1", {"sd_share_id", "sd_llc_size", "sd_llc"}),
        (
            "moved-declaration",
            {*TIP_LINE, "sd_asym_packing", "sd_numa", "sd_llc_shared", "sd_llc_size"},
        ),
        (
            "align-first",
            {
                *("sd_asym_cpucapacity", "sd_asym_packing", "sd_numa", "sd_cluster"),
                *("sd_llc_shared", "sd_share_id", "sd_llc_size", "sd_llc"),
            },
        ),
        (
            "custom-layout",
            {*TIP_LINE, "sd_share_id", "sd_llc_shared", "sd_cluster", "sd_asym_packing"},
        ),
    ],
)
def test_the_published_layouts_have_the_line_mates_that_their_maps_show(
    typed_layout: Callable[[str], Unit], layout: str, mates: set[str]
) -> None:
    # Against an empty line, every mate is a gained one.
    published = typed_layout(layout)
    alone = replace(published, entries=(Entry(name="sd_llc_id", offset=0, size=None),))
    difference = compare_units(alone, published, LINE)
    (found,) = [entry for entry in difference.lines.entries if entry.name == "sd_llc_id"]
    assert set(found.gained) == mates


def test_the_moved_declaration_changes_nothing_but_who_joins_sd_llc(
    typed_layout: Callable[[str], Unit],
) -> None:
    difference = compare_units(typed_layout("tip"), typed_layout("moved-declaration"), LINE)
    assert [entry.name for entry in difference.added] == ["sd_share_id", "sd_cluster"]
    assert (difference.lines.separated, difference.lines.joined, difference.causes) == ((), (), ())
    (found,) = difference.lines.entries
    assert (found.name, found.gained) == ("sd_llc", ("sd_share_id", "sd_cluster"))


def test_the_custom_layout_keeps_the_pair_that_mattered(
    typed_layout: Callable[[str], Unit],
) -> None:
    difference = compare_units(typed_layout("tip"), typed_layout("custom-layout"), LINE)
    assert ("root_cpuacct_cpuusage", "sd_llc_id") not in difference.lines.separated
    assert ("sd_llc_shared", "sd_numa") not in difference.lines.joined


@pytest.mark.parametrize("source", ["System.map", "BTF", "both"])
def test_the_real_kernels_separate_what_the_second_report_found(
    real_section: Callable[[str, str], Unit], source: str
) -> None:
    difference = compare_units(real_section("tip", source), real_section("cluster", source), LINE)
    assert [entry.name for entry in difference.lines.moved] == ["sd_llc_id", "sd_llc_size"]
    assert [entry.name for entry in difference.added] == ["sd_cluster", "sd_share_id"]
    assert ("root_cpuacct_cpuusage", "sd_llc_id") in difference.lines.separated
    assert ("sd_llc_id", "sd_llc") in difference.lines.joined
    # sugov_cpu's tail is on the line too, which only BTF knows.
    without_sizes = source == "System.map"
    assert len(difference.lines.separated) == (12 if without_sizes else 14)
    assert (difference.lines.slid_lines, len(difference.lines.joined)) == (0, 4)


@pytest.mark.parametrize("source", ["System.map", "BTF", "both"])
def test_another_configuration_that_moves_nothing_is_equal(
    real_section: Callable[[str, str], Unit], source: str
) -> None:
    difference = compare_units(
        real_section("tip", source), real_section("tip-config", source), LINE
    )
    assert difference.is_unchanged
    assert difference.common == difference.entries_base > 300


def test_task_groups_load_avg_has_other_mates_at_its_old_offset() -> None:
    names = ("sched-types-6.14-x86", "vmlinux-6.18.44-x86_64-vm")
    files = [shared(f"data/btf/{name}.btf") for name in names]
    base, new = (
        struct_unit(parse_btf(file.read_bytes(), file.name), "task_group") for file in files
    )
    difference = compare_units(base, new, LINE)
    (found,) = [entry for entry in difference.lines.entries if entry.name == "load_avg.counter"]
    assert (found.base_offset, found.keeps_offset) == (256, True)
    assert {"rcu.next", "list.next", "parent", "siblings.next"} <= set(found.lost)
    assert {"rt_se", "rt_rq", "rt_bandwidth.rt_period"} <= set(found.gained)
    (cause,) = [one for one in difference.causes if ("load_avg.counter", "parent") in one.separated]
    assert (cause.kind, cause.entry, cause.is_sufficient) == ("inserted", "rt_se", True)


def test_the_published_first_patch_is_explained_by_what_it_inserted(
    typed_layout: Callable[[str], Unit],
) -> None:
    difference = compare_units(typed_layout("tip"), typed_layout("patch-1"), LINE)
    first, second = difference.causes
    assert (first.kind, first.entry, first.is_sufficient) == ("inserted", "sd_cluster", True)
    assert ("root_cpuacct_cpuusage", "sd_llc_id") in first.separated
    # sd_llc_size comes back only if both insertions are undone.
    assert (second.entry, second.together_with) == ("sd_share_id", ("sd_cluster",))
    assert {name for _, name in second.separated} == {"sd_llc_size"}
    assert not second.is_sufficient


def test_the_published_aligned_layout_is_explained_by_its_alignment(
    typed_layout: Callable[[str], Unit],
) -> None:
    difference = compare_units(typed_layout("patch-1"), typed_layout("align-first"), LINE)
    cause = difference.causes[0]
    assert (cause.kind, cause.entry, cause.is_sufficient) == (
        "realigned",
        "sd_asym_cpucapacity",
        True,
    )
    assert set(cause.separated) == set(difference.lines.separated)
    assert set(cause.joined) == set(difference.lines.joined)
    assert cause.edits[0].new_bytes == 64


@pytest.mark.parametrize("source", ["System.map", "BTF", "both"])
def test_the_real_kernels_differ_by_what_the_patch_inserted(
    real_section: Callable[[str, str], Unit], source: str
) -> None:
    difference = compare_units(real_section("tip", source), real_section("cluster", source), LINE)
    (cause,) = difference.causes
    assert (cause.kind, cause.entry, cause.is_sufficient) == ("inserted", "sd_cluster", True)
    assert cause.edits[0].entries == ("sd_cluster", "sd_share_id")
    assert cause.edits[0].is_at_most is (source == "System.map")
    assert set(cause.separated) == set(difference.lines.separated)
    assert set(cause.joined) == set(difference.lines.joined)
    assert ("root_cpuacct_cpuusage", "sd_llc_id") in cause.by_entry_alone
    assert cause.shift is not None
    assert (cause.shift.first, cause.shift.last) == ("sd_llc_id", "sd_llc")
    assert (cause.shift.smallest, cause.shift.largest) == (12, 16)


def test_kernels_of_two_architectures_are_explained_in_the_end(
    real_section: Callable[[str, str], Unit],
) -> None:
    difference = compare_units(
        real_section("tip", "both"), real_section("arm64-pseudo-nmi", "both"), LINE
    )
    explained = [pair for cause in difference.causes for pair in cause.separated]
    assert sorted(explained) == sorted(difference.lines.separated)
    assert "reordered" in {cause.kind for cause in difference.causes}
