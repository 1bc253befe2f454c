# SPDX-License-Identifier: GPL-2.0-or-later
"""Orders of declaration that put a hot set on fewer lines, and the layouts that they predict."""

from collections.abc import Callable, Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.layout.advice import MOST_MEMBERS, advise, hot_set_of, plan_order
from schedperf.evidence.layout.heat import heat_table
from schedperf.evidence.layout.model import Entry, Unit
from schedperf.evidence.layout.packing import Block, align_up, fewest_lines, span_lines
from schedperf.evidence.layout.record import LayoutAdvice
from schedperf.model.errors import InputError

MakeUnit = Callable[..., Unit]
Places = list[tuple[str, int, int]]

LINE = 64
PAIR = ("sd_llc_id", "root_cpuacct_cpuusage")


def offsets(unit: Unit, names: Sequence[str]) -> dict[str, int]:
    """Return where all entries are in the layout that is advised."""
    return {entry.name: entry.offset for entry in plan_order(unit, names, LINE).entries}


def reasons(advice: LayoutAdvice) -> dict[str, str]:
    return {one.name: one.reason for one in advice.left_out}


def test_the_set_of_the_seed_comes_back_to_one_line_in_the_real_kernel(
    real_section: Callable[[str, str], Unit],
) -> None:
    section = real_section("cluster", "both")

    hot = hot_set_of(section, PAIR)
    advice = advise(section, hot, LINE)

    assert set(advice.order) == {*PAIR, "sd_llc_shared", "sd_cluster", "sd_share_id"}
    assert (advice.lines_before, advice.lines_after, advice.fewest) == (2, 1, 1)
    where = offsets(section, hot)
    places = {where[name] // LINE for name in advice.order}
    assert len(places) == 1
    assert not advice.is_aligned


def test_the_remedy_of_the_seed_is_found_from_its_own_map(
    typed_layout: Callable[[str], Unit],
) -> None:
    layout = typed_layout("align-first")

    advice = advise(layout, PAIR, LINE)

    assert (advice.lines_before, advice.lines_after) == (2, 1)
    assert advice.is_change


def test_a_member_that_its_own_cpu_writes_may_join_and_that_is_stated(make_unit: MakeUnit) -> None:
    layout = make_unit(
        "percpu", ("root_cpuacct_cpuusage", 0, 8), ("a", 8, 56), ("sd_llc_id", 64, 4)
    )

    advice = advise(layout, PAIR, LINE)

    assert advice.lines_after == 1
    assert advice.joins == (("root_cpuacct_cpuusage", "sd_llc_id"),)


def test_a_member_that_other_cpus_write_never_joins_read_mostly_ones(make_unit: MakeUnit) -> None:
    layout = make_unit(
        "struct rq", ("sd", 0, 8), ("a", 8, 64), ("rd", 72, 8), ("nohz_flags", 80, 4)
    )

    advice = advise(layout, ["sd", "rd", "nohz_flags"], LINE)

    assert set(advice.order) == {"sd", "rd"}
    assert "other CPUs write this member" in reasons(advice)["nohz_flags"]
    where = offsets(layout, ["sd", "rd", "nohz_flags"])
    assert where["sd"] // LINE == where["rd"] // LINE != where["nohz_flags"] // LINE


def test_no_place_is_advised_whose_neighbour_other_cpus_write(make_unit: MakeUnit) -> None:
    # The only gap is on the line of the lock.
    layout = make_unit("struct rq", ("sd", 0, 8), ("__lock", 8, 4), ("a", 16, 112), ("rd", 128, 8))

    advice = advise(layout, ["sd", "rd"], LINE)

    where = offsets(layout, ["sd", "rd"])
    assert where["rd"] // LINE != where["__lock"] // LINE or not advice.is_change


def test_members_inside_a_struct_move_with_it(make_unit: MakeUnit) -> None:
    layout = make_unit(
        "struct rq", ("nr_running", 0, 4), ("cfs.load.weight", 64, 8), ("cfs.x", 72, 192)
    )

    advice = advise(layout, ["nr_running", "cfs.load.weight"], LINE)

    assert "can only move as a whole" in reasons(advice)["cfs.load.weight"]
    assert not advice.is_change


def test_fields_of_a_union_move_together(make_unit: MakeUnit) -> None:
    layout = make_unit("struct rq", ("idle", 0, 8), ("a", 8, 64), ("donor", 72, 8), ("curr", 72, 8))

    where = offsets(layout, ["idle", "curr"])
    assert where["donor"] == where["curr"]
    assert where["idle"] // LINE == where["curr"] // LINE


def test_a_set_on_the_fewest_lines_is_left_alone(make_unit: MakeUnit) -> None:
    layout = make_unit("percpu", ("root_cpuacct_cpuusage", 0, 8), ("sd_llc_id", 8, 4), ("a", 16, 8))

    advice = advise(layout, PAIR, LINE)

    assert not advice.is_change
    assert offsets(layout, PAIR) == {entry.name: entry.offset for entry in layout.entries}


def test_unknown_sizes_are_said_to_be_unknown(make_unit: MakeUnit) -> None:
    layout = make_unit("percpu", ("root_cpuacct_cpuusage", 0, None), ("sd_llc_id", 64, None))

    said = "the sizes of root_cpuacct_cpuusage, sd_llc_id are unknown"
    assert any(note.startswith(said) for note in advise(layout, PAIR, LINE).notes)
    places = (
        ("root_cpuacct_cpuusage", 0, 8),
        ("sd_llc_id", 64, 4),
        ("wake_up_klogd_work", 80, None),
    )
    one = make_unit("percpu", *places)
    notes = advise(one, PAIR, LINE).notes
    assert any(
        note.startswith("the size of wake_up_klogd_work is unknown, so entries are assumed")
        for note in notes
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["no_such"], "unknown name 'no_such'"),
        ([], "the hot set contains 0 names"),
        (["a"] * (MOST_MEMBERS + 1), "the hot set contains 513 names"),
    ],
)
def test_a_set_that_cannot_be_advised_on_is_refused(
    make_unit: MakeUnit, names: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        advise(make_unit("percpu", ("a", 0, 8)), names, LINE)


def test_a_unit_without_alignment_of_a_line_says_so(make_unit: MakeUnit) -> None:
    layout = make_unit("struct sched_domain", ("parent", 0, 8), ("groups", 64, 8))

    assert any("might not be aligned" in note for note in advise(layout, ["parent"], 128).notes)


def test_a_hundred_members_are_bounded_and_fast(make_unit: MakeUnit) -> None:
    layout = make_unit("percpu", *((f"v{at}", 72 * at, 40) for at in range(100)))

    advice = advise(layout, [f"v{at}" for at in range(100)], LINE)

    assert advice.fewest == 63
    assert advice.fewest <= advice.lines_after < advice.lines_before


def test_sixty_thousand_globals_are_answered_from_where_the_members_are(
    make_unit: MakeUnit,
) -> None:
    places = [(f"g{at}", 8 * at, 8) for at in range(60_000)]
    places[30_000] = ("sysctl_sched_base_slice", 240_000, 8)
    places[30_020] = ("sysctl_sched_migration_cost", 240_160, 8)

    advice = advise(
        make_unit("globals", *places),
        ["sysctl_sched_base_slice", "sysctl_sched_migration_cost"],
        LINE,
    )

    assert (advice.lines_before, advice.lines_after) == (2, 1)
    assert advice.moved <= 20


def test_more_entries_on_a_line_than_it_has_bits_are_refused(make_unit: MakeUnit) -> None:
    layout = make_unit("percpu", *((f"v{at}", 0, 1) for at in range(1000)))

    with pytest.raises(InputError, match="1000 entries begin on one .*-byte line"):
        advise(layout, ["v0"], LINE)


def test_a_line_that_no_cache_has_is_refused(make_unit: MakeUnit) -> None:
    with pytest.raises(InputError, match="invalid cache line size 48"):
        advise(make_unit("percpu", ("a", 0, 8)), ["a"], 48)


def test_members_too_far_apart_are_left_where_they_are(make_unit: MakeUnit) -> None:
    layout = make_unit("percpu", *((f"v{at}", 8 * at, 8) for at in range(5000)))

    assert not advise(layout, ["v0", "v4999"], LINE).is_change


sizes = st.sampled_from([1, 2, 4, 8, 12, 16, 24, 40, 64, 72, 200])
blocks = st.lists(st.tuples(sizes, st.sampled_from([1, 2, 4, 8, 64])), min_size=1, max_size=6)


@given(blocks)
def test_no_order_of_a_small_set_takes_fewer_lines(drawn: list[tuple[int, int]]) -> None:
    made = [Block(name=f"b{at}", size=s, alignment=a) for at, (s, a) in enumerate(drawn)]

    packing = fewest_lines(made, LINE)

    assert packing.is_exact
    assert packing.lines == min(lines_taken(order) for order in permutations(made))
    assert packing.lines == lines_taken(packing.order)


def lines_taken(order: tuple[Block, ...]) -> int:
    end, lines = 0, set[int]()
    for block in order:
        start = align_up(end, block.alignment)
        end = start + block.size
        lines.update(span_lines(start, block.size, LINE))
    return len(lines)


KNOWN = {
    name: sorted(n for where, n in heat_table().uses if where == name and "." not in n)
    for name in ("percpu", "struct rq", "struct task_group", "struct root_domain")
}


@st.composite
def layouts(draw: st.DrawFn) -> tuple[str, Places, list[str]]:
    """Draw a unit's name, known and unknown entries at natural alignments, and a hot set."""
    name = draw(st.sampled_from(sorted(KNOWN)))
    known = draw(st.lists(st.sampled_from(KNOWN[name]), unique=True, min_size=1, max_size=10))
    others = [f"unknown{at}" for at in range(draw(st.integers(0, 8)))]
    places, end = [], 0
    for one in draw(st.permutations(known + others)):
        size = draw(st.sampled_from([1, 2, 4, 8, 16, 24, 56, 64, 136]))
        alignment = draw(st.sampled_from([min(size & -size, 8)] * 3 + [LINE]))
        start = align_up(end + draw(st.sampled_from([0, 0, 0, 72])), alignment)
        places.append((one, start, size))
        end = start + size
    hot = draw(st.lists(st.sampled_from(known), unique=True, min_size=1))
    return name, places, hot


@given(layouts())
def test_every_prediction_is_a_layout_that_a_linker_could_make(
    make_unit: MakeUnit, drawn: tuple[str, Places, list[str]]
) -> None:
    name, places, hot = drawn
    layout = make_unit(name, *places)

    predicted = plan_order(layout, hot, LINE).entries

    before = {entry.name: entry for entry in layout.entries}
    assert sorted(before) == sorted(entry.name for entry in predicted)
    end = 0
    for entry in predicted:
        assert entry.size is not None
        natural = min(entry.size & -entry.size, 8)
        assert entry.offset % natural == 0
        assert entry.offset >= end
        end = entry.offset + entry.size
        assert entry.size == before[entry.name].size


@given(layouts())
def test_advice_never_takes_more_lines_nor_lets_other_cpus_write_read_mostly_lines(
    make_unit: MakeUnit, drawn: tuple[str, Places, list[str]]
) -> None:
    name, places, hot = drawn
    layout = make_unit(name, *places)

    advice = advise(layout, hot, LINE)

    assert advice.fewest <= advice.lines_after <= advice.lines_before
    predicted = plan_order(layout, hot, LINE).entries
    assert clashes(layout.name, predicted) <= clashes(layout.name, layout.entries)
    for one, other in advice.joins:
        assert use(layout.name, one) == "own"
        assert use(layout.name, other) == "rarely"
    if not advice.is_change:
        assert predicted == layout.entries


def use(name: str, entry: str) -> str | None:
    found = heat_table().find(name, entry)
    return found.written if found else None


def clashes(name: str, entries: tuple[Entry, ...]) -> set[tuple[str, str]]:
    """Return read-mostly entries that share a line with one that other CPUs write."""
    lines = {one.name: set(span_lines(one.offset, one.size or 1, LINE)) for one in entries}
    return {
        (one, other)
        for one in lines
        for other in lines
        if use(name, one) == "rarely" and use(name, other) == "remote" and lines[one] & lines[other]
    }
