# SPDX-License-Identifier: GPL-2.0-or-later
"""The edits that explain changed pairs, against a linker of our own that knows the truth."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.layout import causes as causes_module
from schedperf.evidence.layout.cotenancy import UnitChange
from schedperf.evidence.layout.model import Entry, Unit
from schedperf.evidence.layout.record import LayoutCause, UnitKind
from schedperf.evidence.layout.unit_pairs import compare_units

LINE = 64

# Name, bytes, alignment.
Row = tuple[str, int, int]


def unit(
    entries: Iterable[Entry],
    size: int | None = None,
    sources: tuple[str, ...] = ("System.map", "BTF"),
    kind: UnitKind = "percpu",
    noise: int = 0,
) -> Unit:
    return Unit(
        name="struct made" if kind == "struct" else kind,
        kind=kind,
        size=size,
        alignment=4096,
        is_alignment_inferred=False,
        entries=tuple(entries),
        groups={},
        sources=sources,
        noise={"allocation counters": noise} if noise else {},
        notes=(),
    )


def link(
    rows: Iterable[Row], *, is_sized: bool = True, sources: tuple[str, ...] | None = None
) -> Unit:
    """Place variables as a linker does: each at the next multiple of its alignment."""
    cursor = 0
    entries = []
    for name, size, alignment in rows:
        cursor = -(-cursor // alignment) * alignment
        entries.append(Entry(name=name, offset=cursor, size=size if is_sized else None))
        cursor += size
    return unit(
        entries,
        size=cursor,
        sources=sources or (("System.map", "BTF") if is_sized else ("System.map",)),
    )


def words(names: str) -> list[Row]:
    """Return rows of eight bytes each."""
    return [(name, 8, 8) for name in names]


def only(difference: UnitChange) -> LayoutCause:
    (cause,) = difference.causes
    return cause


def explains_everything(cause: LayoutCause, difference: UnitChange) -> bool:
    return (set(cause.separated), set(cause.joined)) == (
        set(difference.lines.separated),
        set(difference.lines.joined),
    )


@pytest.mark.parametrize("is_sized", [True, False])
def test_an_insertion_is_the_one_cause_of_all_that_it_pushed(*, is_sized: bool) -> None:
    base = words("abcdefghijklmnop")
    new = [*base[:3], ("x", 8, 8), *base[3:]]
    difference = compare_units(link(base, is_sized=is_sized), link(new, is_sized=is_sized), LINE)
    cause = only(difference)
    assert (cause.kind, cause.entry, cause.is_sufficient) == ("inserted", "x", True)
    assert explains_everything(cause, difference)
    assert cause.edits[0].new_bytes == 8
    assert cause.edits[0].is_at_most is not is_sized
    assert cause.shift is not None
    assert (cause.shift.first, cause.shift.last, cause.shift.entries) == ("d", "p", 13)
    assert (cause.shift.smallest, cause.shift.largest, cause.shift.slide) == (8, 8, 0)


def test_a_removal_is_the_same_the_other_way_round() -> None:
    base = words("abcdefghijklmnop")
    difference = compare_units(link(base), link([*base[:3], *base[4:]]), LINE)
    cause = only(difference)
    assert (cause.kind, cause.entry, cause.is_sufficient) == ("removed", "d", True)
    assert (cause.edits[0].base_bytes, cause.edits[0].new_bytes) == (8, None)
    assert cause.shift is not None
    assert cause.shift.smallest == -8


def test_a_resized_entry_is_a_cause() -> None:
    base = words("abcdefghijklmnop")
    difference = compare_units(link(base), link([*base[:3], ("d", 16, 8), *base[4:]]), LINE)
    cause = only(difference)
    assert (cause.kind, cause.entry, cause.is_sufficient) == ("resized", "d", True)
    assert (cause.edits[0].base_bytes, cause.edits[0].new_bytes) == (8, 16)


def test_another_alignment_is_a_cause() -> None:
    base = words("abcdefghijklmnop")
    difference = compare_units(link(base), link([*base[:3], ("d", 8, 64), *base[4:]]), LINE)
    cause = only(difference)
    assert (cause.kind, cause.entry, cause.is_sufficient) == ("realigned", "d", True)
    assert (cause.edits[0].base_bytes, cause.edits[0].new_bytes) == (8, 64)


def test_a_variable_declared_elsewhere_is_a_cause() -> None:
    base = words("abcdefghijklmnop")
    difference = compare_units(link(base), link([*base[:1], *base[2:], base[1]]), LINE)
    cause = only(difference)
    assert (cause.kind, cause.entry, cause.is_sufficient) == ("reordered", "b", True)
    assert explains_everything(cause, difference)


def test_an_object_file_linked_elsewhere_is_one_cause() -> None:
    base = words("abcdefghijklmnop")
    difference = compare_units(link(base), link([*base[3:], *base[:3]]), LINE)
    cause = only(difference)
    assert (cause.kind, cause.edits[0].entries) == ("reordered", ("a", "b", "c"))


def test_a_wholly_other_order_is_one_cause() -> None:
    base = words("abcdefghijklmnopqrstuvwxyz")
    difference = compare_units(link(base), link([*base[1::2], *base[::2]][::-1]), LINE)
    cause = only(difference)
    assert (cause.kind, cause.is_sufficient) == ("reordered", True)
    assert len(cause.edits[0].entries) > 10


def test_padding_absorbs_a_shift_and_what_follows_has_no_cause() -> None:
    base = [*words("abcdefg"), ("aligned", 64, 64), *words("hij")]
    new = [*words("abc"), ("x", 4, 4), *words("defg"), ("aligned", 64, 64), *words("hij")]
    difference = compare_units(link(base), link(new), LINE)
    assert (difference.lines.separated, difference.causes) == ((), ())


def test_shifts_need_not_be_constant() -> None:
    base = [*words("abcdef"), ("int", 4, 4), ("ptr", 8, 8), ("wide", 16, 16), *words("pqrstuv")]
    difference = compare_units(link(base), link([*base[:6], ("x", 8, 8), *base[6:]]), LINE)
    cause = only(difference)
    assert (cause.entry, cause.is_sufficient) == ("x", True)
    assert explains_everything(cause, difference)
    assert cause.shift is not None
    assert cause.shift.smallest < cause.shift.largest


def test_what_slides_by_whole_lines_behind_a_cause_is_said_and_not_listed() -> None:
    base = [*words("abcdefgh"), ("section", 64, 64), *words("ijklmnopqrstuvw")]
    difference = compare_units(link(base), link([("x", 8, 8), *base]), LINE)
    cause = only(difference)
    assert cause.shift is not None
    assert (cause.shift.last, cause.shift.slide) == ("section", 64)


def test_neighbouring_insertions_are_one_cause_named_for_the_one_that_matters() -> None:
    base = [*words("abcdefg"), ("id", 4, 4), ("size", 4, 4), *words("hijklmnop")]
    new = [*base[:7], ("tiny", 1, 1), ("big", 8, 8), *base[7:]]
    difference = compare_units(link(base), link(new), LINE)
    cause = only(difference)
    assert (cause.entry, cause.edits[0].entries) == ("big", ("big", "tiny"))
    assert cause.is_sufficient
    assert ("a", "id") in cause.by_entry_alone


def test_insertions_far_apart_are_causes_of_their_own() -> None:
    base = [*words("abcdefgh"), ("wall", 64, 64), *words("ijklmnop")]
    new = [*words("abcd"), ("x", 8, 8), *words("efgh")]
    new += [("wall", 64, 64), *words("ijk"), ("y", 8, 8), *words("lmnop")]
    difference = compare_units(link(base), link(new), LINE)
    assert {cause.entry for cause in difference.causes} == {"x", "y"}
    assert all(cause.is_sufficient for cause in difference.causes)


def test_a_pair_that_needs_two_edits_undone_says_so() -> None:
    # Each insertion alone already pushes "last" over the boundary.
    base = [("a", 8, 8), ("b", 40, 8), ("last", 8, 8), ("wall", 64, 64)]
    new = [base[0], ("x", 16, 8), base[1], ("y", 16, 8), *base[2:]]
    difference = compare_units(link(base), link(new), LINE)
    cause = only(difference)
    assert {edit.entry for edit in cause.edits} == {"x", "y"}
    assert cause.is_sufficient
    assert cause.separated == (("a", "last"), ("b", "last"))


def test_an_edit_that_would_do_as_well_is_named() -> None:
    base = [*words("abcdef"), ("last", 8, 8), ("wall", 64, 64)]
    new = [("x", 8, 8), *words("abc"), ("y", 8, 8), *words("def"), *base[6:]]
    difference = compare_units(link(base), link(new), LINE)
    cause = difference.causes[0]
    assert cause.is_sufficient
    assert {cause.entry, *cause.alternatives} >= {"x", "y"}


def test_what_only_helps_after_another_edit_is_undone_says_with_which() -> None:
    base = [*words("abcdef"), ("id", 4, 4), ("size", 4, 4), *words("hijklmno")]
    new = [*base[:2], ("big", 16, 8), *base[2:6], ("int", 4, 4), *base[6:]]
    difference = compare_units(link(base), link(new), LINE)
    dependent = [cause for cause in difference.causes if cause.together_with]
    assert all(not cause.is_sufficient for cause in dependent)
    assert {name for cause in dependent for name in cause.together_with} <= {"big", "int"}
    explained = {pair for cause in difference.causes for pair in cause.separated}
    assert explained == set(difference.lines.separated)


def test_without_sizes_padding_that_nothing_explains_is_unexplained() -> None:
    base = words("abcdefghijkl")
    new = [*base[:3], ("d", 24, 8), *base[4:]]
    cause = only(compare_units(link(base, is_sized=False), link(new, is_sized=False), LINE))
    assert (cause.kind, cause.entry) == ("unexplained", "e")
    assert (cause.edits[0].base_bytes, cause.edits[0].new_bytes) == (0, 16)
    assert cause.edits[0].is_at_most


@pytest.mark.parametrize(
    ("sources", "kind"), [(("System.map", "BTF"), "realigned"), (("BTF", "BTF"), "unexplained")]
)
def test_only_sources_that_show_everything_tell_an_alignment_from_a_hidden_variable(
    sources: tuple[str, ...], kind: str
) -> None:
    base = words("abcdefghijkl")
    new = [*base[:3], ("d", 8, 64), *base[4:]]
    cause = only(compare_units(link(base, sources=sources), link(new, sources=sources), LINE))
    assert cause.kind == kind


def test_bytes_left_out_as_noise_are_no_alignment() -> None:
    base = words("abcdefghijkl")
    hidden = [*base[:4], ("noise", 32, 8), *base[4:]]
    shown = [entry for entry in link(hidden).entries if entry.name != "noise"]
    cause = only(compare_units(link(base), unit(shown, noise=1), LINE))
    assert (cause.kind, cause.entry, cause.is_sufficient) == ("unexplained", "e", True)


def test_a_union_that_grew_is_a_cause() -> None:
    def fields(bytes_of_b: int) -> Unit:
        after = 8 + max(8, bytes_of_b)
        return unit(
            [
                Entry(name="head", offset=0, size=8),
                Entry(name="u.a", offset=8, size=8),
                Entry(name="u.b", offset=8, size=bytes_of_b),
                *(Entry(name=f"t{i}", offset=after + 8 * i, size=8) for i in range(10)),
            ],
            kind="struct",
            sources=("BTF", "BTF"),
        )

    difference = compare_units(fields(8), fields(24), LINE)
    cause = only(difference)
    assert (cause.kind, set(cause.edits[0].entries)) == ("resized", {"u.a", "u.b"})
    assert explains_everything(cause, difference)


def test_too_many_differences_are_unexplained_and_not_endless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(causes_module, "MOST_STEPS", 100)
    base = words("abcdefghijklmnopqrstuvwxyz")
    difference = compare_units(link(base), link([("x", 8, 8), *base]), LINE)
    cause = only(difference)
    assert (cause.kind, cause.entry, cause.edits, cause.is_sufficient) == (
        "unexplained",
        None,
        (),
        False,
    )
    assert explains_everything(cause, difference)


# The alignments that compilers and sections ask for, with sizes that types of them have.
TYPES = [(1, 1), (2, 2), (4, 4), (8, 8), (8, 8), (16, 8), (24, 8), (40, 32), (64, 64), (192, 64)]
sections = st.lists(st.sampled_from(TYPES), min_size=6, max_size=60).map(
    lambda types: [(f"v{i}", size, alignment) for i, (size, alignment) in enumerate(types)]
)


def placed(rows: Sequence[Row], at: int, row: Row) -> list[Row]:
    at %= len(rows) + 1
    return [*rows[:at], row, *rows[at:]]


@pytest.mark.property
@given(
    rows=sections,
    at=st.integers(0, 60),
    planted=st.sampled_from(TYPES),
    is_sized=st.booleans(),
    line_bytes=st.sampled_from([64, 128, 256]),
)
def test_a_planted_insertion_is_found_as_the_only_cause(
    rows: list[Row], at: int, planted: tuple[int, int], *, is_sized: bool, line_bytes: int
) -> None:
    new = placed(rows, at, ("planted", *planted))
    sides = link(rows, is_sized=is_sized), link(new, is_sized=is_sized)
    forth, back = (compare_units(*pair, line_bytes) for pair in (sides, sides[::-1]))
    for difference, kind in ((forth, "inserted"), (back, "removed")):
        for cause in difference.causes:
            assert explains_everything(cause, difference)
            assert (cause.kind, cause.entry, cause.is_sufficient) == (kind, "planted", True)
    assert bool(forth.causes) == bool(forth.lines.separated or forth.lines.joined)


@pytest.mark.property
@given(rows=sections, at=st.integers(0, 60), size=st.sampled_from([1, 2, 4, 8, 16, 24, 64, 128]))
def test_a_planted_growth_is_found_as_the_only_cause(rows: list[Row], at: int, size: int) -> None:
    at %= len(rows)
    name, _, alignment = rows[at]
    new = [*rows[:at], (name, size, alignment), *rows[at + 1 :]]
    difference = compare_units(link(rows), link(new), LINE)
    for cause in difference.causes:
        assert (cause.kind, cause.entry, cause.is_sufficient) == ("resized", name, True)
        assert explains_everything(cause, difference)


@pytest.mark.property
@given(rows=sections, at=st.integers(0, 60), to=st.integers(0, 60), count=st.integers(1, 5))
def test_a_planted_move_is_found_as_a_single_reorder(
    rows: list[Row], at: int, to: int, count: int
) -> None:
    at %= len(rows)
    block, rest = rows[at : at + count], [*rows[:at], *rows[at + count :]]
    to %= len(rest) + 1
    difference = compare_units(link(rows), link([*rest[:to], *block, *rest[to:]]), LINE)
    for cause in difference.causes:
        assert (cause.kind, cause.is_sufficient) == ("reordered", True)
        assert explains_everything(cause, difference)


@pytest.mark.property
@given(
    rows=sections, spots=st.lists(st.tuples(st.integers(0, 60), st.sampled_from(TYPES)), max_size=4)
)
def test_what_is_said_to_be_sufficient_is(
    rows: list[Row], spots: list[tuple[int, tuple[int, int]]]
) -> None:
    """The linker itself confirms each prediction: new without the insertion has the pairs."""
    new = rows
    for number, (at, planted) in enumerate(spots):
        new = placed(new, at, (f"planted{number}", *planted))
    difference = compare_units(link(rows), link(new), LINE)
    for cause in difference.causes:
        if not cause.is_sufficient or {edit.kind for edit in cause.edits} != {"inserted"}:
            continue
        undone = {name for edit in cause.edits for name in edit.entries}
        without = link([row for row in new if row[0] not in undone])
        left = compare_units(link(rows), without, LINE).lines
        if has_observed_alignments(rows, new):
            assert not set(cause.separated) & set(left.separated)
            assert not set(cause.joined) & set(left.joined)


def has_observed_alignments(base: Sequence[Row], new: Sequence[Row]) -> bool:
    """Whether padding shows every alignment that its type does not have by itself."""
    return all(alignment <= 8 for _, _, alignment in (*base, *new))
