# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocks of a comparison of mechanisms: layouts, shares, and quantities without a test."""

from msgspec.structs import replace

from schedperf.compare.mechanism.record import (
    Compared,
    Effect,
    Mechanism,
    MechanismPair,
    MechanismRow,
)
from schedperf_reports.blocks import Headline, Table, Text
from schedperf_reports.graphics.dumbbells import Dumbbells
from schedperf_reports.mechanism.blocks import describe_mechanism

SHARE = Effect(
    unit="%", basis="", base=1.0, new=1.5, change=0.5, ci_low=0.3, ci_high=0.7, q=0.01,
    changed=True, falls=False, n=(5, 5), replication="runs",
)  # fmt: skip
MOVED = replace(
    SHARE, base=None, new=None, change=None, ci_low=None, ci_high=None, q=None, falls=True, n=None
)
ROW = MechanismRow(
    section="profile", name="update_cfs_group", kind="share", outcome="same",
    within=None, production=SHARE, micro=replace(SHARE, change=0.25, ci_low=None, ci_high=None),
)  # fmt: skip
WHOSE = Compared(
    file="p.json", id="0" * 64, side="new", workload="hackbench", point="", verdict="regression",
    result="hackbench time +20.0%", emulated=True,
)  # fmt: skip


def blocks_of(*rows: MechanismRow) -> list[object]:
    pair = MechanismPair(production=WHOSE, rows=rows)
    whole = Mechanism(tool_version="1", micro=WHOSE, pairs=(pair,))
    return list(describe_mechanism(whole, None))


def test_shares_are_percentage_points_on_a_linear_axis() -> None:
    blocks = blocks_of(ROW)
    [drawn] = [block for block in blocks if isinstance(block, Dumbbells)]
    assert not drawn.is_ratio
    axis = drawn.axis
    [line] = drawn.lines
    joint = drawn.joint(axis, line)
    assert joint is not None
    assert joint.left == axis.place(0.25)
    assert [name for name, _ in drawn.bars(axis, line)] == ["production"]
    assert drawn.zero(axis) < joint.left
    [table] = [block for block in blocks if isinstance(block, Table)]
    assert [cell.text for cell in table.rows[0]] == [
        "profile: update_cfs_group", "", "+0.50 pp", "[+0.30, +0.70]", "+0.25 pp", "-",
        "5+5 / 5+5", "same",
    ]  # fmt: skip


def test_layouts_have_no_size() -> None:
    row = replace(ROW, section="layout", name="a and b on one cache line", kind="layout",
                  production=MOVED, micro=replace(MOVED, falls=False),
                  outcome="opposite")  # fmt: skip
    blocks = blocks_of(row)
    assert not [block for block in blocks if isinstance(block, Dumbbells)]
    [table] = [block for block in blocks if isinstance(block, Table)]
    assert [table.rows[0][column].text for column in (2, 4, 6)] == ["separated", "joined", "- / -"]


def test_functions_of_a_changed_class_and_unchanged_rows_are_folded() -> None:
    part = replace(ROW, within="functions of the class PELT and group shares")
    rows = (ROW, part, replace(ROW, outcome="unchanged"), replace(ROW, outcome="unknown"))
    blocks = blocks_of(*rows)
    [headline] = [block for block in blocks if isinstance(block, Headline)]
    assert headline.text.startswith("same in 1 of 1 mechanism that changed in production")
    [table] = [block for block in blocks if isinstance(block, Table)]
    assert table.quiet == (False, True, True, True)
    [note] = [block for block in blocks if isinstance(block, Text)]
    assert note.text.startswith("not tested in p.json (one run per side")


def test_a_dumbbell_with_one_end_has_no_joint() -> None:
    row = replace(ROW, kind="rate", section="account", name="waiting", micro=None,
                  outcome="not measured in micro",
                  production=replace(SHARE, change=1.5, ci_low=1.2, ci_high=900.0))  # fmt: skip
    [drawn] = [block for block in blocks_of(row) if isinstance(block, Dumbbells)]
    assert drawn.is_ratio
    assert drawn.joint(drawn.axis, drawn.lines[0]) is None
    [(_, bar)] = drawn.bars(drawn.axis, drawn.lines[0])
    assert bar.left + bar.width <= 100.0
    assert drawn.shows_change()


def test_files_have_their_directories_only_where_names_are_not_unique() -> None:
    def names_of(*files: str) -> list[str]:
        micro, *others = [replace(WHOSE, file=file) for file in files]
        pairs = tuple(MechanismPair(production=each, rows=(ROW,)) for each in others)
        whole = Mechanism(tool_version="1", micro=micro, pairs=pairs)
        blocks = describe_mechanism(whole, None)
        return [block.word for block in blocks if isinstance(block, Headline)]

    assert names_of("a/micro.json", "b/p.json", "c/q.json") == ["p.json", "q.json"]
    assert names_of("a/micro.json", "b/p.json", "c/p.json") == ["b/p.json", "c/p.json"]


def test_intervals_longer_than_the_axis_are_marked() -> None:
    long = replace(ROW, micro=replace(SHARE, change=0.25, ci_low=-9.0, ci_high=0.4))
    [drawn] = [block for block in blocks_of(long) if isinstance(block, Dumbbells)]
    bars = dict(drawn.bars(drawn.axis, drawn.lines[0]))
    assert (bars["micro"].is_cut_low, bars["micro"].is_cut_high) == (True, False)
    assert drawn.has_cuts
    [short] = [block for block in blocks_of(replace(ROW, production=replace(
        SHARE, ci_low=0.49, ci_high=0.5))) if isinstance(block, Dumbbells)]  # fmt: skip
    assert not short.has_cuts
