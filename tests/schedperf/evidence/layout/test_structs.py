# SPDX-License-Identifier: GPL-2.0-or-later
"""Struct layouts: leaves, holes, groups and alignment."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.layout.compare import analyse_kernels
from schedperf.evidence.layout.model import Unit
from schedperf.evidence.layout.sources import SCHEDULER_STRUCTS, load_kernel
from schedperf.evidence.layout.structs import (
    MOST_FIELDS,
    MOST_NESTED,
    holes,
    padding,
    struct_unit,
)
from schedperf.inputs.kernel.btf import Btf, parse_btf
from schedperf.model.errors import InputError
from tests.shared_data import shared


class Writer:
    """Writes BTF, one type after the other; each call returns the new type's number."""

    def __init__(self, order: str = "<") -> None:
        self.order = order
        self.strings = b"\0"
        self.words: list[int] = []
        self.count = 0

    def text(self, text: str) -> int:
        offset = len(self.strings)
        self.strings += text.encode() + b"\0"
        return offset if text else 0

    def add(self, kind: int, name: str, third: int, *more: int, count: int = 0) -> int:
        self.words += [self.text(name), kind << 24 | count, third, *more]
        self.count += 1
        return self.count

    def integer(self, name: str, size: int) -> int:
        return self.add(1, name, size, 8 * size)

    def struct(
        self, name: str, size: int, *members: tuple[str, int, int], union: bool = False
    ) -> int:
        """Add a struct of (name, type, byte offset)."""
        return self.in_bits(name, size, *((n, t, 8 * at, 0) for n, t, at in members), union=union)

    def in_bits(
        self, name: str, size: int, *members: tuple[str, int, int, int], union: bool = False
    ) -> int:
        """Add a struct of (name, type, bit offset, bits of a bit field or 0)."""
        words = [w for n, t, at, bits in members for w in (self.text(n), t, at | bits << 24)]
        return self.add((5 if union else 4) | 0x80, name, size, *words, count=len(members))

    def array(self, element: int, length: int) -> int:
        return self.add(3, "", 0, element, 1, length)

    def blob(self) -> bytes:
        types = struct.pack(f"{self.order}{len(self.words)}I", *self.words)
        header = (0xEB9F, 1, 0, 24, 0, len(types), len(types), len(self.strings))
        return struct.pack(self.order + "HBBIIIII", *header) + types + self.strings

    def parse(self) -> Btf:
        return parse_btf(self.blob(), "btf")


@pytest.fixture
def writer() -> Writer:
    """Return a writer that has `int` as type 1 and `long unsigned int` as type 2."""
    writer = Writer()
    writer.integer("int", 4)
    writer.integer("long unsigned int", 8)
    return writer


def assert_one_line(message: str) -> None:
    assert message
    assert "\n" not in message


def places(unit: Unit) -> list[tuple[str, int, int | None]]:
    return [(entry.name, entry.offset, entry.size) for entry in unit.entries]


def test_nested_structs_give_paths_and_anonymous_ones_do_not(writer: Writer) -> None:
    inner = writer.struct("sched_avg", 16, ("load_avg", 2, 0), ("util_avg", 2, 8))
    anonymous = writer.struct("", 8, ("a", 1, 0), ("b", 1, 4))
    writer.struct("cfs_rq", 32, ("nr", 1, 0), ("avg", inner, 8), ("", anonymous, 24))
    unit = struct_unit(writer.parse(), "cfs_rq")
    assert unit.name == "struct cfs_rq"
    assert places(unit) == [
        ("nr", 0, 4),
        ("avg.load_avg", 8, 8),
        ("avg.util_avg", 16, 8),
        ("a", 24, 4),
        ("b", 28, 4),
    ]
    assert holes(unit) == ((4, 4),)
    assert padding(unit) == 0


def test_fields_of_unions_overlap(writer: Writer) -> None:
    either = writer.struct("", 8, ("rcu", 2, 0), ("users", 1, 0), union=True)
    writer.struct("rq", 24, ("first", 2, 0), ("u", either, 8), ("last", 1, 16))
    unit = struct_unit(writer.parse(), "struct rq")
    assert places(unit)[1:3] == [("u.rcu", 8, 8), ("u.users", 8, 4)]
    assert (holes(unit), padding(unit)) == ((), 4)


def test_an_array_is_one_entry_also_one_of_structs(writer: Writer) -> None:
    one = writer.struct("list_head", 16, ("next", 2, 0), ("prev", 2, 8))
    writer.struct("rt_rq", 68, ("queue", writer.array(writer.array(one, 2), 2), 0), ("n", 1, 64))
    unit = struct_unit(writer.parse(), "rt_rq")
    assert [(entry.name, entry.size, entry.type) for entry in unit.entries] == [
        ("queue", 64, "struct list_head[2][2]"),
        ("n", 4, "int"),
    ]


def test_bit_fields_say_their_bits_and_the_bytes_they_touch(writer: Writer) -> None:
    writer.in_bits("flags", 8, ("a", 1, 0, 3), ("b", 1, 3, 7), ("", 1, 10, 2), ("c", 1, 32, 1))
    unit = struct_unit(writer.parse(), "flags")
    assert [(entry.name, entry.offset, entry.size, entry.bits) for entry in unit.entries] == [
        ("a", 0, 1, (0, 3)),
        ("b", 0, 2, (3, 7)),
        ("c", 4, 1, (32, 1)),
    ]


def test_the_kernels_own_groups_are_no_fields_but_groups(writer: Writer) -> None:
    mark, empty = writer.array(1, 0), writer.struct("", 0)
    writer.struct(
        "net_device",
        64,
        ("__cacheline_group_begin__read_tx", mark, 0),
        ("flags", 2, 0),
        ("mtu", 1, 8),
        ("__cacheline_group_end__read_tx", mark, 12),
        ("__cacheline_group_pad__read_tx", empty, 32),
        ("stats", 2, 32),
    )
    unit = struct_unit(writer.parse(), "net_device")
    assert unit.groups == {"read_tx": (0, 11)}
    assert [entry.name for entry in unit.entries] == ["flags", "mtu", "stats"]
    assert unit.noise == {"fields without bytes": 1}


def test_a_flexible_array_is_a_field_without_bytes(writer: Writer) -> None:
    writer.struct("sched_domain", 8, ("weight", 1, 0), ("span", writer.array(2, 0), 8))
    assert places(struct_unit(writer.parse(), "sched_domain"))[-1] == ("span", 8, 0)


@pytest.mark.parametrize(
    ("members", "size", "alignment"),
    [
        ((("a", 1, 0), ("b", 2, 8)), 16, 8),  # what the types need explains the hole
        ((("a", 2, 0), ("load_avg", 2, 64)), 128, 64),  # a hole that only an attribute makes
        ((("a", 2, 0), ("load_avg", 2, 256)), 512, 256),  # lines of s390
        ((("a", 2, 0),), 64, 64),  # padding at the end
        ((("a", 1, 0), ("b", 2, 4)), 12, 4),  # packed, or i386
        ((), 0, 1),
    ],
)
def test_alignment_is_what_explains_the_holes(
    writer: Writer, members: tuple[tuple[str, int, int], ...], size: int, alignment: int
) -> None:
    writer.struct("s", size, *members)
    unit = struct_unit(writer.parse(), "s")
    assert (unit.alignment, unit.is_alignment_inferred) == (alignment, True)


def test_of_several_types_of_one_name_the_first_is_shown_and_said(writer: Writer) -> None:
    writer.struct("cache", 4, ("a", 1, 0))
    writer.struct("cache", 8, ("b", 2, 0))
    unit = struct_unit(writer.parse(), "cache")
    assert (unit.size, unit.notes) == (
        4,
        ("2 types are named struct cache (4, 8 bytes); the first is shown",),
    )


def test_unions_and_typedefs_of_structs_can_be_named(writer: Writer) -> None:
    anonymous = writer.struct("", 4, ("counter", 1, 0))
    writer.add(8, "atomic_t", anonymous)
    writer.struct("thread_union", 4, ("task", 1, 0), union=True)
    btf = writer.parse()
    assert struct_unit(btf, "atomic_t").name == "atomic_t"
    assert struct_unit(btf, "thread_union").name == "union thread_union"
    for wrong in ("int", "struct thread_union", "enum x", "no_such_struct"):
        with pytest.raises(InputError, match="^btf: (has no|unknown struct) "):
            struct_unit(btf, wrong)


def test_a_struct_that_contains_itself_is_refused(writer: Writer) -> None:
    writer.struct("rq", 8, ("next", 3, 0))
    with pytest.raises(InputError, match="^btf: struct rq contains itself at 'next'"):
        struct_unit(writer.parse(), "rq")


def test_structs_that_contain_each_other_are_refused(writer: Writer) -> None:
    writer.struct("a", 8, ("b", 4, 0))
    writer.struct("b", 8, ("a", writer.array(3, 1), 0))
    with pytest.raises(InputError, match="is circular"):
        struct_unit(writer.parse(), "a")


def test_endless_nesting_is_refused(writer: Writer) -> None:
    inner = 1
    for number in range(MOST_NESTED + 2):
        inner = writer.struct(f"s{number}", 4, ("x", inner, 0))
    with pytest.raises(InputError, match="nested more than 32 levels"):
        struct_unit(writer.parse(), f"s{MOST_NESTED + 1}")


def test_members_without_entries_are_counted_too(writer: Writer) -> None:
    # 2**28 empty structs in 700 bytes.
    inner = writer.struct("empty", 0)
    for number in range(28):
        inner = writer.struct(f"s{number}", 8, ("a", inner, 0), ("b", inner, 0))
    with pytest.raises(InputError, match="expected at most 20000 in total"):
        struct_unit(writer.parse(), "s27")


def nested_unions(writer: Writer, structs: Sequence[str], depth: int, start: int = 8) -> bytes:
    """Return BTF whose structs have 13**depth fields each, all on the same 8 bytes."""
    inner = 1
    for number in range(depth):
        members = [(f"m{index}", inner, 0) for index in range(13)]
        inner = writer.struct(f"u{number}", 8, *members, union=True)
    for name in structs:
        writer.struct(name, 256, ("first", 2, 0), ("x", inner, start))
    return writer.blob()


def test_the_structs_of_a_kernel_share_their_limit(writer: Writer, tmp_path: Path) -> None:
    # 27 structs of 13**3 = 2197 fields in 3 kB.
    (tmp_path / "btf").write_bytes(nested_unions(writer, SCHEDULER_STRUCTS, 3))

    kernel = load_kernel(tmp_path / "btf")

    assert 1 < sum(len(unit.entries) for unit in kernel.units.values()) <= MOST_FIELDS
    assert "expected at most 20000 in total" in kernel.unknown["struct task_struct"]


def test_structs_that_are_too_large_are_the_reason_of_an_empty_kernel(
    writer: Writer, tmp_path: Path
) -> None:
    (tmp_path / "btf").write_bytes(nested_unions(writer, SCHEDULER_STRUCTS, 5))
    with pytest.raises(
        InputError, match="too many struct fields, at struct rq .expected at most 20000 in total"
    ):
        load_kernel(tmp_path / "btf")


def test_the_structs_of_two_kernels_share_their_pairs(tmp_path: Path) -> None:
    kernels = []
    for start in (8, 56):
        path = tmp_path / f"{start}.btf"
        writer = Writer()
        writer.integer("int", 4)
        writer.integer("long unsigned int", 8)
        path.write_bytes(nested_unions(writer, SCHEDULER_STRUCTS, 2, start))
        kernels.append(load_kernel(path))
    with pytest.raises(InputError, match="more than 200000 pairs of entries on one line"):
        analyse_kernels(kernels)


def test_more_fields_than_a_struct_can_have_are_refused_at_once(writer: Writer) -> None:
    inner = writer.struct("s0", 0, ("f", writer.array(1, 0), 0), ("g", writer.array(1, 0), 0))
    for number in range(1, 24):
        inner = writer.struct(f"s{number}", 0, ("a", inner, 0), ("b", inner, 0))
    with pytest.raises(InputError, match="expected at most 20000 in total"):
        struct_unit(writer.parse(), "s23")


def test_a_field_outside_of_its_struct_is_refused(writer: Writer) -> None:
    writer.struct("rq", 8, ("far", 2, 4))
    with pytest.raises(
        InputError, match="struct rq contains a field that ends at bit 96 .expected at most 64"
    ):
        struct_unit(writer.parse(), "rq")


@pytest.mark.property
@given(data=st.data())
def test_damaged_types_are_refused_or_stay_inside(data: st.DataObject) -> None:
    writer = Writer(data.draw(st.sampled_from("<>")))
    number, long = writer.integer("int", 4), writer.integer("long unsigned int", 8)
    inner = writer.struct("in", 16, ("a", number, 0), ("b", writer.add(2, "", 4), 8))
    writer.add(8, "t", inner)
    writer.struct("rq", 64, ("x", 5, 0), ("y", writer.array(long, 4), 16), ("z", 1, 48))
    damaged = bytearray(writer.blob())
    for bit in data.draw(st.lists(st.integers(0, len(damaged) * 8 - 1), min_size=1, max_size=6)):
        damaged[bit // 8] ^= 1 << bit % 8
    try:
        unit = struct_unit(parse_btf(bytes(damaged), "btf"), "rq")
    except InputError as error:
        assert_one_line(str(error))
        return
    assert unit.size is not None
    assert all(entry.offset + (entry.size or 0) <= unit.size for entry in unit.entries)


def test_a_hand_checked_struct_of_x86_is_read(real_btf: Callable[[str], Btf]) -> None:
    unit = struct_unit(real_btf("sched-types-6.14-x86.btf"), "task_group")
    found = {entry.name: entry.offset for entry in unit.entries}
    assert (unit.size, unit.alignment) == (384, 64)
    assert (found["shares"], found["load_avg.counter"], found["rcu.next"]) == (232, 256, 264)
    assert (240, 16) in holes(unit)
    assert padding(unit) == 48


@pytest.fixture
def real_btf() -> Callable[[str], Btf]:
    """Return the BTF of a sample; skip where it is absent."""

    def read(name: str) -> Btf:
        return parse_btf(shared(f"data/btf/{name}").read_bytes(), name)

    return read
