# SPDX-License-Identifier: GPL-2.0-or-later
"""Stacks of blocked and runnable time as trees of the flame graph."""

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.blocking.capture import parse_blocking
from schedperf.evidence.blocking.flames_section import (
    BLOCKED,
    RUNNABLE,
    blocked_flames,
    collect_pauses,
)
from schedperf.evidence.blocking.record import BlockedTrees
from schedperf.evidence.profile.flame_record import FlameTree
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from tests.stack_documents import Json, blocking_document, side_of

STEPS = (0, 2, -1, 1, -2)
MakeBundle = Callable[..., Path]


def runs(pipe_us: int) -> list[Json]:
    return [blocking_document(pipe_us, step) for step in STEPS]


def stacks_of(event: str, documents: Sequence[Json]) -> dict[str, float]:
    stacks = collect_pauses([side_of("base", documents, parse_blocking)], event)
    names = [stacks.places[frame].symbol for frame in stacks.frames]
    bounds = stacks.starts.tolist()
    keys = [" < ".join(names[a:b]) for a, b in itertools.pairwise(bounds)]
    return {
        keys[stack]: weight
        for stack, weight in zip(stacks.stack.tolist(), stacks.weight.tolist(), strict=True)
    }


def test_a_stack_begins_with_the_program_and_ends_in_the_kernel() -> None:
    pipe = (
        "main < read_all < read < entry_SYSCALL_64_after_hwframe < do_syscall_64 < vfs_read < "
        "anon_pipe_read"
    )
    assert stacks_of(BLOCKED, [blocking_document(110)])[pipe] == 60 * 100_000
    assert stacks_of(RUNNABLE, [blocking_document(110)])[pipe] == 60 * 10_000


def test_a_function_without_a_symbol_is_named_by_its_file() -> None:
    keys = stacks_of(BLOCKED, [blocking_document(110)])
    assert any(key.startswith("[postgres] unresolved < asm_exc_page_fault") for key in keys)


def test_a_pause_without_a_stack_is_unresolved() -> None:
    document = blocking_document(110)
    for row in document["rows"]:
        row.update(kernel=None, user=None)
    assert list(stacks_of(BLOCKED, [document])) == ["[unknown] unresolved"]


@pytest.fixture
def compare(tmp_path: Path, make_bundle: MakeBundle) -> Callable[..., BlockedTrees]:
    def build(*of_sides: Sequence[Json]) -> BlockedTrees:
        paths = [
            make_bundle(
                tmp_path / f"{number}.tar",
                runs=[
                    {"kind": "instrumented", "files": {"bpf_blocking/blocking.json": document}}
                    for document in map(json.dumps, documents)
                ],
            )
            for number, documents in enumerate(of_sides)
        ]
        return blocked_flames(name_sides([open_bundle(path) for path in paths]))

    return build


def changed(tree: FlameTree) -> set[str]:
    return {tree.names[tree.name[frame]].symbol for frame in tree.measures[0].changed}


def test_the_stack_that_blocks_longer_is_coloured_and_no_other(
    compare: Callable[..., BlockedTrees],
) -> None:
    (side,) = compare(runs(110), runs(310)).comparisons
    blocked, runnable = side.events
    assert (blocked.event, runnable.event) == (BLOCKED, RUNNABLE)
    assert {"main", "read_all", "vfs_read", "anon_pipe_read"} <= changed(blocked)
    assert not {"futex_do_wait", "io_schedule", "[postgres] unresolved"} & changed(blocked)
    assert changed(runnable) == set()
    assert [measure.measure for measure in blocked.measures] == ["operation", "share"]
    root = blocked.measures[0].inclusive
    # 60 pipes of 100 us or 300, 30 futexes of 40 and 4 faults of 290, in 160,000 messages.
    assert root.base[0] == pytest.approx((60 * 100 + 30 * 40 + 4 * 290) * 1000 / 160_000, rel=0.03)
    assert root.new[0] == pytest.approx((60 * 300 + 30 * 40 + 4 * 290) * 1000 / 160_000, rel=0.03)


def test_equal_sides_are_not_coloured(compare: Callable[..., BlockedTrees]) -> None:
    (side,) = compare(runs(110), runs(110)).comparisons
    assert [changed(tree) for tree in side.events] == [set(), set()]


def test_sides_without_blocked_times_have_no_graph(compare: Callable[..., BlockedTrees]) -> None:
    empty = [{**blocking_document(9), "rows": []}] * 2
    with pytest.raises(Absent, match="no blocked times of the same workload"):
        compare(empty, empty)
    with pytest.raises(Absent, match="bpf_blocking"):
        compare([], runs(110))
