# SPDX-License-Identifier: GPL-2.0-or-later
"""Causes in words, and the ids of alarms."""

import pytest
from msgspec.structs import replace

from schedperf.evidence.layout.causes import describe_edits
from schedperf.evidence.layout.ranking import with_rows
from schedperf.evidence.layout.record import CauseKind, LayoutEdit
from tests.schedperf.evidence.layout.records import make_alarm


def edit(
    kind: CauseKind,
    base: int | None,
    new: int | None,
    *others: str,
    is_at_most: bool = False,
) -> LayoutEdit:
    return LayoutEdit(
        kind=kind,
        entry="x",
        entries=("x", *others),
        base_bytes=base,
        new_bytes=new,
        is_at_most=is_at_most,
    )


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ((edit("inserted", None, 8),), "x (inserted, 8 bytes)"),
        ((edit("inserted", None, None),), "x (inserted)"),
        (
            (edit("inserted", None, 12, "y", is_at_most=True),),
            "x (inserted with y, at most 12 bytes in all)",
        ),
        (
            (edit("removed", 24, None, "y", "z"),),
            "x (removed with 2 other entries, 24 bytes in all)",
        ),
        ((edit("resized", 8, 16),), "x (resized from 8 to 16 bytes)"),
        ((edit("realigned", 8, 64),), "x (alignment changed from 8 to 64 bytes)"),
        ((edit("reordered", 8, 8),), "x (declared elsewhere)"),
        (
            (edit("unexplained", 0, 12),),
            "x (unexplained; the padding before this entry changed from 0 to 12 bytes)",
        ),
        (
            (edit("removed", 4, None), edit("resized", 1, 2)),
            "x (removed, 4 bytes) and 1 more edit",
        ),
        ((), "unknown, because the layouts have too many differences"),
    ],
)
def test_a_cause_says_what_was_edited_and_by_how_much(
    edits: tuple[LayoutEdit, ...], words: str
) -> None:
    assert describe_edits(edits) == words


def test_ids_of_alarms_differ_and_those_of_pairs_name_the_pair() -> None:
    pair = make_alarm("a", "b", "c", pairs=(("a", "b"), ("a", "c")))
    spread = replace(pair, rule="spread")
    assert [alarm.row for alarm in with_rows([pair, spread, spread], "new2/")] == [
        "new2/percpu/a+b",
        "new2/percpu/spread/a+b",
        "new2/percpu/spread/a+b#2",
    ]
