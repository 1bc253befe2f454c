"""Cache lines of the per-CPU section, and who shares them before and after."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.captures.btf import BtfSection, BtfVariable, parse_percpu_section
from schedperf.captures.system_map import PercpuSymbol, PercpuSymbols, parse_percpu_symbols
from schedperf.errors import InputError
from schedperf.percpu import (
    LayoutDiff,
    PercpuMap,
    Variable,
    diff_layouts,
    lines_of,
    map_from_btf,
    map_from_symbols,
    plain_name,
    rank_pairs,
    scheduler_variables,
    tenants_by_line,
)

LINE = 64


def made(
    *places: tuple[str, int, int | None], sources: tuple[str, ...] = ("System.map",)
) -> PercpuMap:
    """Make a map from names, offsets and sizes."""
    return PercpuMap(
        size=1 << 16,
        variables=tuple(
            Variable(offset=offset, size=size, letter="d", name=name, aliases=())
            for name, offset, size in places
        ),
        sources=sources,
        allocation_counters=0,
        notes=(),
    )


def symbols(*places: tuple[str, int]) -> PercpuSymbols:
    return PercpuSymbols(
        size=4096,
        symbols=tuple(
            PercpuSymbol(offset=offset, letter="d", name=name) for name, offset in places
        ),
    )


def btf(*places: tuple[str, int, int]) -> BtfSection:
    return BtfSection(
        size=4096,
        variables=tuple(
            BtfVariable(offset=offset, size=size, name=name, linkage="global")
            for name, offset, size in places
        ),
    )


def moved(diff: LayoutDiff) -> list[str]:
    return [move.name for move in diff.moved]


def test_sizes_come_from_btf_and_stay_unknown_without_it() -> None:
    table = symbols(("a", 0), ("b", 8))
    joined = map_from_symbols(table, btf(("a", 0, 4)), "System.map")
    assert [variable.size for variable in joined.variables] == [4, None]
    assert joined.sources == ("System.map", "BTF")
    alone = map_from_symbols(table, None, "kallsyms")
    assert [variable.size for variable in alone.variables] == [None, None]
    assert alone.sources == ("kallsyms",)


def test_btf_of_another_build_gives_no_sizes_and_is_named() -> None:
    joined = map_from_symbols(
        symbols(("a", 0), ("b", 8)), btf(("a", 16, 4), ("b", 8, 4)), "kallsyms"
    )
    assert [variable.size for variable in joined.variables] == [None, None]
    assert joined.notes == ("BTF and kallsyms are of different builds, so sizes are unknown",)


def test_btf_alone_tells_the_letter_by_linkage() -> None:
    (variable,) = map_from_btf(btf(("sd_llc_id", 0x38, 4))).variables
    assert (variable.letter, variable.offset, variable.size) == ("D", 0x38, 4)


def test_second_names_of_one_address_are_aliases() -> None:
    table = symbols(
        ("const_current_task", 8), ("current_task", 8), ("__ref_stack", 16), ("guard", 16)
    )
    found = map_from_symbols(table, None, "System.map").variables
    assert [(variable.name, variable.aliases) for variable in found] == [
        ("current_task", ("const_current_task",)),
        ("guard", ("__ref_stack",)),
    ]


def test_the_name_that_btf_has_is_the_definition() -> None:
    joined = map_from_symbols(symbols(("a", 8), ("b", 8)), btf(("b", 8, 4)), "System.map")
    assert [variable.name for variable in joined.variables] == ["b"]


def test_an_alias_on_one_side_is_neither_added_nor_removed() -> None:
    one = map_from_symbols(symbols(("const_x", 8), ("x", 8)), None, "System.map")
    other = map_from_symbols(symbols(("x", 8), ("const_x", 64)), None, "System.map")
    assert diff_layouts(one, other, LINE).added == ()


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("warned.12", "warned"),
        ("state.llvm.1234567", "state"),
        ("state.lto_priv.0", "state"),
        ("find_link._alloc_tag_cntr.3", "find_link._alloc_tag_cntr"),
        ("sd_llc_id", "sd_llc_id"),
        (".12", ".12"),
    ],
)
def test_what_the_compiler_appends_is_cut_off(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_equal_static_names_are_told_apart_by_their_order() -> None:
    table = symbols(("work.7", 0), ("work.3", 8), ("work", 16))
    names = [variable.name for variable in map_from_symbols(table, None, "System.map").variables]
    assert names == ["work", "work#2", "work#3"]


def test_allocation_counters_are_left_out_and_counted() -> None:
    table = symbols(("a", 0), ("f._alloc_tag_cntr", 16), ("f._alloc_tag_cntr.2", 32))
    found = map_from_symbols(table, None, "System.map")
    assert (len(found.variables), found.allocation_counters) == (1, 2)


def test_a_variable_has_the_lines_that_it_covers() -> None:
    percpu = made(("big", 0, 200), ("small", 200, 8), ("unknown", 250, None))
    assert lines_of(percpu, LINE) == {"big": (0, 3), "small": (3, 3), "unknown": (3, 3)}
    assert lines_of(percpu, LINE, {"small"})["big"] == (0, 0)


def test_a_size_never_reaches_into_the_next_variable() -> None:
    percpu = made(("liar", 0, 2**32), ("next", 64, 8))
    assert lines_of(percpu, LINE)["liar"] == (0, 0)
    assert tenants_by_line(lines_of(percpu, LINE)) == {0: ["liar"], 1: ["next"]}


def test_a_variable_that_left_its_line_is_moved_and_its_pairs_are_separated() -> None:
    base = made(("a", 0, 8), ("b", 8, 8), ("c", 16, 8), ("d", 64, 8))
    new = made(("a", 0, 8), ("b", 8, 8), ("x", 16, 48), ("c", 64, 8), ("d", 72, 8))
    diff = diff_layouts(base, new, LINE)
    assert moved(diff) == ["c"]
    assert (diff.moved[0].lost, diff.moved[0].gained) == (("a", "b"), ("d",))
    assert diff.separated == (("a", "c"), ("b", "c"))
    assert diff.joined == (("c", "d"),)
    assert (diff.added, diff.removed, diff.mates_changed) == (("x",), (), 4)


def test_lines_that_slide_as_a_whole_move_nobody() -> None:
    base = made(("a", 0, 8), ("b", 8, 8), ("c", 64, 8), ("d", 128, 8))
    new = made(("x", 0, 64), ("a", 64, 8), ("b", 72, 8), ("c", 128, 8), ("d", 192, 8))
    diff = diff_layouts(base, new, LINE)
    assert (diff.moved, diff.separated, diff.joined) == ((), (), ())
    assert diff.slid_lines == 3


def test_an_offset_that_changes_inside_its_line_changes_no_mates() -> None:
    diff = diff_layouts(made(("a", 0, 8), ("b", 8, 8)), made(("b", 0, 8), ("a", 40, 8)), LINE)
    assert (diff.moved, diff.separated, diff.slid_lines) == ((), (), 0)


def test_an_equal_offset_with_other_mates_is_a_change() -> None:
    diff = diff_layouts(made(("a", 0, 8), ("b", 8, 8)), made(("b", 8, 8), ("a", 64, 8)), LINE)
    assert diff.separated == (("a", "b"),)


def test_the_tail_of_a_large_variable_shares_its_last_line() -> None:
    base = made(("rq", 0, 100), ("next", 104, 8))
    assert diff_layouts(base, made(("rq", 0, 64), ("next", 104, 8)), LINE).separated == (
        ("rq", "next"),
    )


def test_who_keeps_its_mates_by_its_tail_has_not_moved() -> None:
    base = made(("a", 0, 8), ("b", 8, 8))
    diff = diff_layouts(base, made(("a", 0, 100), ("b", 104, 8)), LINE)
    assert (diff.moved, diff.separated, diff.mates_changed) == ((), (), 0)


def test_a_size_that_one_side_lacks_is_not_used_on_the_other() -> None:
    base = made(("rq", 0, 100), ("next", 104, 8))
    assert diff_layouts(base, made(("rq", 0, None), ("next", 104, None)), LINE).separated == ()


def test_different_kinds_of_sources_add_and_remove_nothing() -> None:
    base = made(("a", 0, 8), ("static_in_function", 8, None))
    new = made(("a", 0, 8), ("b", 64, 8), sources=("BTF",))
    diff = diff_layouts(base, new, LINE)
    assert (diff.common, diff.added, diff.removed) == (1, (), ())


def test_an_absurd_number_of_pairs_is_refused() -> None:
    crowd = made(*((f"v{i}", i, 1) for i in range(2000)))
    with pytest.raises(InputError, match="1999000 pairs of variables on common lines"):
        diff_layouts(crowd, crowd, 4096)


def test_pairs_of_hot_scheduler_variables_come_first() -> None:
    ranked = rank_pairs(
        [("a", "b"), ("a", "sd_llc"), ("sd_numa", "sd_llc"), ("root_cpuacct_cpuusage", "sd_llc_id")]
    )
    assert ranked == [
        ("root_cpuacct_cpuusage", "sd_llc_id"),
        ("sd_numa", "sd_llc"),
        ("a", "sd_llc"),
        ("a", "b"),
    ]


def test_the_scheduler_table_names_a_function_for_each_variable() -> None:
    table = scheduler_variables()
    assert table["root_cpuacct_cpuusage"].functions == ("cpuacct_charge",)
    assert all(use.functions for use in table.values())


layouts = st.permutations([f"v{i}" for i in range(12)]).flatmap(
    lambda names: st.lists(st.integers(1, 40), min_size=12, max_size=12).map(
        lambda gaps: made(*((n, sum(gaps[: i + 1]), gaps[0]) for i, n in enumerate(names)))
    )
)


@pytest.mark.property
@given(base=layouts, new=layouts)
def test_swapping_the_sides_mirrors_the_pairs(base: PercpuMap, new: PercpuMap) -> None:
    forth, back = diff_layouts(base, new, LINE), diff_layouts(new, base, LINE)
    assert set(map(frozenset, forth.separated)) == set(map(frozenset, back.joined))
    assert set(map(frozenset, forth.joined)) == set(map(frozenset, back.separated))
    assert forth.mates_changed == back.mates_changed


@pytest.mark.property
@given(base=layouts)
def test_a_layout_does_not_differ_from_itself(base: PercpuMap) -> None:
    diff = diff_layouts(base, base, LINE)
    assert (diff.moved, diff.separated, diff.joined, diff.slid_lines) == ((), (), (), 0)


@pytest.mark.property
@given(base=layouts, new=layouts)
def test_where_sizes_are_unknown_every_changed_pair_has_a_moved_variable(
    base: PercpuMap, new: PercpuMap
) -> None:
    unsized = made(*((one.name, one.offset, None) for one in new.variables))
    diff = diff_layouts(base, unsized, LINE)
    names = set(moved(diff))
    assert all(names & set(pair) for pair in (*diff.separated, *diff.joined))


def real_map(folder: Path) -> PercpuMap:
    return map_from_symbols(
        parse_percpu_symbols((folder / "System.map").read_bytes(), "System.map"),
        parse_percpu_section((folder / "btf").read_bytes(), "btf"),
        "System.map",
    )


def test_the_real_kernels_separate_what_the_second_report_found(
    real_kernel: Callable[[str], Path],
) -> None:
    diff = diff_layouts(real_map(real_kernel("tip")), real_map(real_kernel("cluster")), LINE)
    assert moved(diff) == ["sd_llc_id", "sd_llc_size"]
    assert diff.added == ("sd_cluster", "sd_share_id")
    assert rank_pairs(diff.separated)[0] == ("root_cpuacct_cpuusage", "sd_llc_id")
    assert ("sd_llc_id", "sd_llc") in diff.joined
    # The fourteen: sugov_cpu's tail and six small variables, each with sd_llc_id and sd_llc_size.
    assert (len(diff.separated), len(diff.joined), diff.slid_lines) == (14, 4, 0)


def test_another_configuration_that_moves_nothing_is_equal(
    real_kernel: Callable[[str], Path],
) -> None:
    diff = diff_layouts(real_map(real_kernel("tip")), real_map(real_kernel("tip-config")), LINE)
    assert (diff.common, diff.moved, diff.separated, diff.joined) == (357, (), (), ())
    assert (diff.added, diff.removed) == ((), ())
