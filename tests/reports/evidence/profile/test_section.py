# SPDX-License-Identifier: GPL-2.0-or-later
"""The sentences of the report's hot symbols: what the samples rest on comes first."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.profile.record import Level, Profile
from schedperf.model.base_new import BaseNew
from schedperf.model.comparison import Comparison
from schedperf.model.sections import MissingSide, Section
from schedperf_reports.blocks import Block, Item, Items, Table, Text
from schedperf_reports.evidence.profile.section import profile
from tests.schedperf.evidence.profile.records import (
    make_explained,
    make_point,
    make_profile,
    profile_section,
    with_event,
    with_point,
)

Describe = Callable[[Profile], Any]


@pytest.mark.parametrize(
    ("explained", "said"),
    [
        (
            {},
            (
                "3 symbols (update_cfs_group, update_load_avg, reweight_entity: 1.2 us per "
                "message) account for 71% of the change in CPU time per message (95% CI [60%, "
                "83%])"
            ),
        ),
        (
            {"symbols": ("update_cfs_group",), "names": ("update_cfs_group",)},
            (
                "1 symbol (update_cfs_group: 1.2 us per message) accounts for 71% of the change "
                "in CPU time per message (95% CI [60%, 83%])"
            ),
        ),
        (
            {"part": None, "ci_low": None, "ci_high": None, "reason": "too few"},
            (
                "3 symbols changed in cost (CPU time per message), but the share of the total "
                "change is unknown (too few): update_cfs_group, update_load_avg, "
                "reweight_entity: 1.2 us per message"
            ),
        ),
    ],
)
def test_what_is_explained_is_a_sentence(
    describe: Describe, explained: dict[str, Any], said: str
) -> None:
    assert said in describe(with_point(explained=make_explained(**explained))).texts()


def test_what_both_sides_note_is_said_once(describe: Describe) -> None:
    data = make_profile(notes=("base: the copy is partial", "new: the copy is partial"))
    assert describe(data).texts()[-1] == "base and new: the copy is partial"


def test_denominators_and_notes_are_stated(describe: Describe) -> None:
    blocks = describe(make_profile())
    denominators, nodes, note = [block for block in blocks if isinstance(block, Text)][-3:]
    assert "idle included, as in perf report --no-children" in denominators.text
    assert "in % of the event's count on that node, idle excluded" in nodes.text
    assert (denominators.tone, note.tone) == ("muted", "muted")
    assert note.text == "base: the copy is partial"


def sight_of(blocks: Any) -> Item:
    first = blocks[0]
    assert isinstance(first, Items)
    (item,) = first.items
    return item


def basis_of(blocks: Any) -> Table:
    found: Table = next(one for one in blocks.tables() if one.anchors[:1] == ("samples",))
    return found


def test_a_blind_event_is_one_short_warning_that_links_to_the_whole_of_it(
    describe: Describe, cells: Callable[[Table], list[list[str]]]
) -> None:
    reason = "cpu-clock is driven by an hrtimer"
    blocks = describe(
        with_event(
            event="cpu-clock",
            blind=BaseNew(base=True, new=True),
            blind_reason=BaseNew(base=reason, new=reason),
            remedy="record on a machine with a PMU",
        )
    )
    item = sight_of(blocks)
    assert item.tone == "warning"
    assert item.text == (
        "recorded with cpu-clock, which cannot sample most of the scheduler, so hot functions may "
        "be missing from the list below"
    )
    assert item.evidence == ("profile#samples",)
    sees = "cannot sample code that runs with interrupts off (most of the scheduler)"
    assert cells(basis_of(blocks)) == [
        ["cpu-clock", "base and new", f"{sees}: {reason}"],
        ["cpu-clock", "instead", "record on a machine with a PMU"],
    ]


@pytest.mark.parametrize(
    ("blind", "start", "sides"),
    [
        (
            BaseNew(base=False, new=True),
            "new was recorded with cycles, which cannot sample most of",
            ["base", "new"],
        ),
        (
            BaseNew(base=None, new=False),
            "base was recorded with cycles, which may not sample",
            ["base", "new"],
        ),
        (
            BaseNew(base=None, new=None),
            "recorded with cycles, which may not sample",
            ["base and new"],
        ),
    ],
)
def test_a_side_that_is_or_may_be_blind_is_named_in_a_warning(
    describe: Describe,
    blind: BaseNew[bool | None],
    start: str,
    sides: list[str],
) -> None:
    blocks = describe(with_event(blind=blind))
    assert sight_of(blocks).tone == "warning"
    assert sight_of(blocks).text.startswith(start)
    assert [row[1].text for row in basis_of(blocks).rows] == sides


def test_an_event_without_the_kernel_is_a_warning_that_says_so(describe: Describe) -> None:
    levels: BaseNew[tuple[Level, ...]] = BaseNew(base=("kernel", "hv"), new=("kernel", "hv"))
    blocks = describe(with_event(event="cycles:u", excluded=levels))
    assert sight_of(blocks).tone == "warning"
    assert sight_of(blocks).text.startswith(
        "recorded with cycles:u, which does not count the kernel"
    )


def test_an_event_that_sees_everything_is_no_warning(
    describe: Describe, cells: Callable[[Table], list[list[str]]]
) -> None:
    blocks = describe(make_profile())
    item = sight_of(blocks)
    assert item.tone == "plain"
    assert (
        item.text == "recorded with cycles, which also samples code that runs with interrupts off"
    )
    assert cells(basis_of(blocks)) == [
        ["cycles", "base and new", "also samples code that runs with interrupts off: NMI"]
    ]


def test_losses_are_a_warning_and_caveats_stand_with_the_event(describe: Describe) -> None:
    point = make_point(losses=BaseNew(base=None, new="1 records were lost"))
    data = with_event(points=(point,), caveats=("an emulator counted",))
    blocks = describe(data)
    assert Text(text="new: 1 records were lost", tone="warning") in blocks
    assert [cell.text for cell in basis_of(blocks).rows[1]] == [
        "cycles",
        "caveat",
        "an emulator counted",
    ]


def test_a_caution_of_several_points_is_said_once(describe: Describe) -> None:
    point = make_point(cautions=("recorded one after the other",))
    data = with_event(points=(point, point))
    assert describe(data).texts().count("recorded one after the other") == 1


def test_why_there_is_no_flame_graph_is_said(
    make_comparison: Callable[..., Comparison],
    to_blocks: Callable[[Iterable[Block]], Any],
) -> None:
    sections = {
        "profile": profile_section(),
        "flames": Section(schema="", status="absent", reason="new: no call chains", data=None),
    }
    blocks = to_blocks(profile(make_comparison(sections=sections)))
    assert "no flame graph: new: no call chains" in blocks.texts()


def test_missing_sides_are_named_and_so_are_several(
    describe: Describe,
    make_comparison: Callable[..., Comparison],
    make_side: Callable[..., Any],
    to_blocks: Callable[[Iterable[Block]], Any],
) -> None:
    missing = MissingSide(side="new2", reason="new2: perf is not installed")
    data = replace(make_profile(), missing=(missing,))
    assert describe(data).texts()[-1] == "new2: perf is not installed"
    section = Section.of(data)
    sides = tuple(make_side(name) for name in ("base", "new", "new2"))
    blocks = to_blocks(profile(make_comparison(sections={"profile": section}, sides=sides)))
    assert blocks.texts()[0] == "new vs base"
