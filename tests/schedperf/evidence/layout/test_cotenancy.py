# SPDX-License-Identifier: GPL-2.0-or-later
"""Who shares a cache line with whom, before and after."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.layout.cotenancy import UnitChange
from schedperf.evidence.layout.model import Entry, Unit
from schedperf.evidence.layout.record import LayoutEntryChange, Pair, UnitKind
from schedperf.evidence.layout.unit_pairs import compare_units
from schedperf.model.base_new import BaseNew
from schedperf.model.errors import InputError

LINE = 64

Place = tuple[str, int, int | None]


def made(
    *entries: Entry | Place,
    kind: UnitKind = "percpu",
    sources: tuple[str, ...] = ("System.map", "BTF"),
    size: int | None = None,
    alignment: int | None = 4096,
) -> Unit:
    """Make a unit of entries, or of names, offsets and sizes."""
    return Unit(
        name="struct made" if kind == "struct" else kind,
        kind=kind,
        size=size,
        alignment=alignment,
        is_alignment_inferred=False,
        entries=tuple(
            one if isinstance(one, Entry) else Entry(name=one[0], offset=one[1], size=one[2])
            for one in entries
        ),
        groups={},
        sources=sources,
        noise={},
        notes=(),
    )


def changed(difference: UnitChange, name: str) -> LayoutEntryChange:
    (found,) = [entry for entry in difference.lines.entries if entry.name == name]
    return found


def moved(difference: UnitChange) -> list[str]:
    return [entry.name for entry in difference.lines.moved]


def test_a_variable_that_left_its_line_is_moved_and_its_pairs_are_separated() -> None:
    base = made(("a", 0, 8), ("b", 8, 8), ("c", 16, 8), ("d", 64, 8))
    new = made(("a", 0, 8), ("b", 8, 8), ("x", 16, 48), ("c", 64, 8), ("d", 72, 8))
    difference = compare_units(base, new, LINE)
    assert moved(difference) == ["c"]
    assert difference.lines.separated == (("a", "c"), ("b", "c"))
    assert difference.lines.joined == (("c", "d"),)
    assert [entry.name for entry in difference.added] == ["x"]
    assert (difference.removed, difference.lines.mates_changed) == ((), 4)
    gone = changed(difference, "c")
    assert (gone.base_offset, gone.new_offset) == (16, 64)
    assert (gone.lost, gone.gained) == (("a", "b"), ("d",))


def test_a_new_neighbour_on_an_old_line_is_gained_but_is_no_joined_pair() -> None:
    base = made(("a", 0, 8), ("b", 8, 8))
    difference = compare_units(base, made(("a", 0, 8), ("b", 8, 8), ("x", 16, 8)), LINE)
    assert changed(difference, "a").gained == ("x",)
    assert (difference.lines.joined, difference.lines.mates_changed, moved(difference)) == (
        (),
        0,
        [],
    )


def test_lines_that_slide_as_a_whole_are_counted_and_not_listed() -> None:
    base = made(("a", 0, 8), ("b", 8, 8), ("c", 64, 8), ("d", 128, 8))
    new = made(("x", 0, 64), ("a", 64, 8), ("b", 72, 8), ("c", 128, 8), ("d", 192, 8))
    difference = compare_units(base, new, LINE)
    assert (difference.lines.entries, difference.lines.slid_lines) == ((), 3)
    assert difference.causes == ()


def test_an_equal_offset_with_other_mates_is_a_change() -> None:
    difference = compare_units(
        made(("a", 0, 8), ("b", 8, 8)), made(("b", 8, 8), ("a", 64, 8)), LINE
    )
    assert difference.lines.separated == (("a", "b"),)
    assert changed(difference, "b").keeps_offset


def test_the_tail_of_a_large_variable_shares_its_last_line() -> None:
    base = made(("rq", 0, 100), ("next", 104, 8))
    difference = compare_units(base, made(("rq", 0, 64), ("next", 104, 8)), LINE)
    assert difference.lines.separated == (("rq", "next"),)
    (resize,) = difference.resized
    assert (resize.name, resize.base_bytes, resize.new_bytes) == ("rq", 100, 64)


def test_who_keeps_its_mates_by_its_tail_has_not_moved() -> None:
    base = made(("a", 0, 8), ("b", 8, 8))
    difference = compare_units(base, made(("a", 0, 100), ("b", 104, 8)), LINE)
    assert (moved(difference), difference.lines.separated) == ([], ())


def test_a_size_never_reaches_into_the_next_variable() -> None:
    base = made(("liar", 0, 2**32), ("next", 64, 8))
    assert compare_units(base, made(("liar", 0, 64), ("next", 64, 8)), LINE).lines.entries == ()


def test_an_entry_that_straddles_on_one_side_only_is_listed() -> None:
    base = made(("a", 0, 48), ("b", 128, 8))
    difference = compare_units(base, made(("a", 32, 48), ("b", 128, 8)), LINE)
    found = changed(difference, "a")
    assert tuple(found.straddles) == (False, True)


def test_a_large_entry_straddles_only_if_it_has_more_lines_than_it_needs() -> None:
    difference = compare_units(made(("rq", 64, 128)), made(("rq", 96, 128)), LINE)
    found = changed(difference, "rq")
    assert tuple(found.straddles) == (False, True)


def test_straddling_is_unknown_where_a_size_is() -> None:
    base = made(("a", 0, 48), ("b", 50, 8))
    difference = compare_units(base, made(("a", 0, None), ("b", 128, None)), LINE)
    assert changed(difference, "a").straddles.base is None
    assert (difference.unsized, difference.resized) == (("a", "b"), ())


def test_a_size_that_one_side_lacks_is_not_used_on_the_other() -> None:
    base = made(("rq", 0, 100), ("next", 104, 8))
    difference = compare_units(base, made(("rq", 0, None), ("next", 104, None)), LINE)
    assert difference.is_unchanged


def test_different_kinds_of_sources_add_and_remove_nothing() -> None:
    base = made(("a", 0, 8), ("static_in_function", 8, None))
    new = made(("a", 0, 8), ("b", 64, 8), sources=("BTF",))
    difference = compare_units(base, new, LINE)
    assert not difference.is_coverage_equal
    assert (difference.common, difference.added, difference.removed) == (1, (), ())
    assert difference.lines.entries == ()


def test_a_struct_is_seen_whole_by_btf_and_by_debug_information() -> None:
    base = made(("a", 0, 8), kind="struct", sources=("BTF", "BTF"))
    new = made(("a", 0, 8), ("b", 8, 8), kind="struct", sources=("DWARF", "DWARF"))
    difference = compare_units(base, new, LINE)
    assert difference.is_coverage_equal
    assert [entry.name for entry in difference.added] == ["b"]


def test_a_known_rename_is_named_with_its_commit() -> None:
    base = made(("load_balance_mask", 0, 8), ("select_idle_mask", 8, 8), ("x", 16, 8))
    new = made(("load_balance_mask", 0, 8), ("y", 8, 8), ("select_rq_mask", 64, 8))
    for one, other in ((base, new), (new, base)):
        difference = compare_units(one, other, LINE)
        (rename,) = difference.renamed
        assert {rename.base_name, rename.new_name} == {"select_idle_mask", "select_rq_mask"}
        assert rename.commit == "ec4fc801a02d"


def test_a_renamed_variable_is_compared_under_its_base_name() -> None:
    base = made(("a", 0, 8), ("select_idle_mask", 8, 8))
    new = made(("a", 0, 8), ("select_rq_mask", 64, 8))
    difference = compare_units(base, new, LINE)
    assert difference.lines.separated == (("a", "select_idle_mask"),)
    assert (difference.added, difference.removed, difference.common) == ((), (), 2)


def test_a_nested_field_is_renamed_with_its_path() -> None:
    base = made(("cfs.h_nr_running", 0, 4), ("rt.h", 8, 4), kind="struct")
    new = made(("cfs.h_nr_queued", 0, 4), ("rt.h", 8, 4), kind="struct")
    (rename,) = compare_units(base, new, LINE).renamed
    assert (rename.base_name, rename.new_name) == ("cfs.h_nr_running", "cfs.h_nr_queued")
    assert rename.commit == "7b8a702d9438"


def test_a_like_name_in_the_same_place_is_an_inferred_rename() -> None:
    base = made(("a", 0, 8), ("visit_gen", 8, 8), ("b", 16, 8))
    new = made(("a", 0, 8), ("visit_cookie", 8, 8), ("b", 16, 8))
    difference = compare_units(base, new, LINE)
    assert [(one.base_name, one.commit) for one in difference.renamed] == [("visit_gen", None)]


@pytest.mark.parametrize(
    "other",
    [
        ("visit_cookie", 8, 4),
        ("zzz", 8, 8),
        ("visit_cookie", 24, 8),
    ],
    ids=["other size", "other name", "other neighbours"],
)
def test_an_unlike_entry_is_another_entry(other: Place) -> None:
    base = made(("a", 0, 8), ("visit_gen", 8, 8), ("b", 16, 8))
    difference = compare_units(base, made(("a", 0, 8), other, ("b", 16, 8)), LINE)
    assert difference.renamed == ()
    assert [entry.name for entry in difference.added] == [other[0]]
    assert [entry.name for entry in difference.removed] == ["visit_gen"]


def test_entries_of_another_type_are_no_rename() -> None:
    fields = [
        Entry(name=name, offset=0, size=8, type=kind)
        for name, kind in (("visit_gen", "u64"), ("visit_gen2", "void *"))
    ]
    assert compare_units(made(fields[0]), made(fields[1]), LINE).renamed == ()


def test_a_struct_of_fields_renamed_together_is_renamed_field_by_field() -> None:
    base = made(("a", 0, 8), ("avg.load_avg", 8, 8), ("avg.util_avg", 16, 4), ("z", 24, 8))
    new = made(("a", 0, 8), ("pelt.load_avg", 8, 8), ("pelt.util_avg", 16, 4), ("z", 24, 8))
    names = [one.new_name for one in compare_units(base, new, LINE).renamed]
    assert names == ["pelt.load_avg", "pelt.util_avg"]


def test_an_alias_is_the_same_variable() -> None:
    two = Entry(name="x", offset=8, size=None, aliases=("const_x",))
    alone = Entry(name="const_x", offset=8, size=None)
    for one, other in ((two, alone), (alone, two)):
        difference = compare_units(made(("a", 0, 8), one), made(("a", 0, 8), other), LINE)
        assert (difference.common, difference.added, difference.removed) == (2, (), ())


def test_fields_of_a_union_share_their_lines() -> None:
    base = made(("head", 0, 8), ("u.a", 60, 8), ("u.b", 60, 4), kind="struct")
    new = made(("head", 0, 8), ("u.a", 64, 8), ("u.b", 64, 4), kind="struct")
    difference = compare_units(base, new, LINE)
    assert difference.lines.separated == (("head", "u.a"), ("head", "u.b"))
    assert changed(difference, "u.b").lost == ("head",)


def test_a_field_inside_a_larger_one_of_a_union_shares_its_middle_line() -> None:
    base = made(("u.buffer", 0, 256), ("u.word", 72, 8), kind="struct")
    new = made(("u.buffer", 0, 256), ("u.word", 320, 8), kind="struct")
    assert compare_units(base, new, LINE).lines.separated == (("u.buffer", "u.word"),)


def test_a_bit_field_lies_where_its_bits_are() -> None:
    bits = [
        Entry(name="flag", offset=60, size=8, bits=(first, 3)) for first in (60 * 8, 64 * 8 + 5)
    ]
    base, new = (made(("a", 0, 8), bit, kind="struct") for bit in bits)
    difference = compare_units(base, new, LINE)
    assert difference.lines.separated == (("a", "flag"),)
    assert changed(difference, "flag").straddles == BaseNew(base=False, new=False)


def test_unnamed_fields_are_told_apart_by_their_order() -> None:
    base = made(("", 0, 4), ("", 4, 4), ("a", 8, 8), kind="struct")
    assert compare_units(base, base, LINE).common == 3


def test_an_entry_without_bytes_is_on_no_line() -> None:
    base = made(("a", 0, 8), ("empty", 8, 0))
    assert compare_units(base, made(("a", 0, 8), ("empty", 64, 0)), LINE).lines.entries == ()


@pytest.mark.parametrize("line_bytes", [64, 128, 256])
def test_lines_of_other_sizes_separate_at_their_own_boundaries(line_bytes: int) -> None:
    base = made(("a", 0, 8), ("b", line_bytes - 8, 8))
    difference = compare_units(base, made(("a", 0, 8), ("b", line_bytes, 8)), line_bytes)
    assert difference.lines.line_bytes == line_bytes
    assert difference.lines.separated == (("a", "b"),)


def test_adjacent_lines_are_a_second_view() -> None:
    base = made(("a", 0, 8), ("b", 8, 8), ("c", 16, 8))
    difference = compare_units(base, made(("a", 0, 8), ("b", 64, 8), ("c", 128, 8)), LINE)
    assert difference.lines.separated == (("a", "b"), ("a", "c"), ("b", "c"))
    assert difference.line_pairs.line_bytes == 128
    assert difference.line_pairs.separated == (("a", "c"), ("b", "c"))


@pytest.mark.parametrize(
    ("base", "new", "certain"), [(64, 128, True), (8, 64, False), (None, 64, None)]
)
def test_a_unit_that_may_start_inside_a_line_has_uncertain_lines(
    base: int | None, new: int | None, *, certain: bool | None
) -> None:
    difference = compare_units(made(alignment=base), made(alignment=new), LINE)
    assert difference.are_lines_certain is certain


@pytest.mark.parametrize("line_bytes", [0, -64, 48, 8, 8192])
def test_a_line_size_that_no_cache_has_is_refused(line_bytes: int) -> None:
    with pytest.raises(
        InputError, match=f"invalid cache line size {line_bytes} .expected a power of two"
    ):
        compare_units(made(), made(), line_bytes)


def test_an_absurd_number_of_pairs_is_refused() -> None:
    crowd = made(*((f"v{i}", i, 1) for i in range(4000)))
    with pytest.raises(InputError, match="percpu: more than 500000 pairs of entries on one line"):
        compare_units(crowd, crowd, 4096)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("a", -1, 8), "offset -1"),
        (("a", 0, -1), "size -1"),
        (("a", 2**60, 8), f"offset {2**60}"),
    ],
)
def test_bytes_that_no_section_has_are_refused(place: Place, wrong: str) -> None:
    with pytest.raises(InputError, match=f"percpu: a has {wrong} .expected 0 to"):
        compare_units(made(place), made(), LINE)


def test_empty_units_are_equal() -> None:
    difference = compare_units(made(), made(), LINE)
    assert difference.is_unchanged
    assert (difference.entries_base, difference.common) == (0, 0)


KINDS: list[UnitKind] = ["percpu", "struct", "globals"]
sizes = st.sampled_from([1, 2, 4, 8, 16, 40, 64, 100])
layouts = st.permutations([f"v{i}" for i in range(12)]).flatmap(
    lambda names: st.lists(st.tuples(st.integers(0, 40), sizes), min_size=12, max_size=12).map(
        lambda rows: made(
            *(
                (name, sum(gap + size for gap, size in rows[:i]) + rows[i][0], rows[i][1])
                for i, name in enumerate(names)
            )
        )
    )
)
overlaps = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 300), st.none() | st.integers(0, 400)),
    max_size=12,
).flatmap(lambda rows: st.sampled_from(KINDS).map(lambda kind: made(*rows, kind=kind)))


def unordered(pairs: tuple[Pair, ...]) -> set[frozenset[str]]:
    return set(map(frozenset, pairs))


@pytest.mark.property
@given(base=layouts, new=layouts)
def test_swapping_the_sides_mirrors_the_pairs(base: Unit, new: Unit) -> None:
    forth, back = compare_units(base, new, LINE), compare_units(new, base, LINE)
    for one, other in ((forth.lines, back.lines), (forth.line_pairs, back.line_pairs)):
        assert unordered(one.separated) == unordered(other.joined)
        assert unordered(one.joined) == unordered(other.separated)
    mirrored = {(one.name, one.gained, one.lost) for one in back.lines.entries}
    assert {(one.name, one.lost, one.gained) for one in forth.lines.entries} == mirrored


@pytest.mark.property
@given(base=overlaps)
def test_a_layout_does_not_differ_from_itself(base: Unit) -> None:
    difference = compare_units(base, base, LINE)
    assert difference.is_unchanged
    assert (difference.causes, difference.lines.slid_lines) == ((), 0)


@pytest.mark.property
@given(base=layouts, lines=st.integers(1, 100))
def test_sliding_a_whole_section_by_lines_changes_nothing(base: Unit, lines: int) -> None:
    slid = made(*((one.name, one.offset + lines * LINE, one.size) for one in base.entries))
    difference = compare_units(base, slid, LINE)
    assert (difference.lines.entries, difference.causes) == ((), ())
    assert difference.lines.slid_lines > 0


@pytest.mark.property
@given(base=overlaps, new=overlaps)
def test_every_changed_pair_belongs_to_a_cause_and_only_one(base: Unit, new: Unit) -> None:
    if base.kind != new.kind:
        return
    difference = compare_units(base, new, LINE)
    for of_lines, of_causes in (
        (difference.lines.separated, [cause.separated for cause in difference.causes]),
        (difference.lines.joined, [cause.joined for cause in difference.causes]),
    ):
        explained = [frozenset(pair) for pairs in of_causes for pair in pairs]
        assert len(explained) == len(set(explained))
        assert set(explained) == unordered(of_lines)
