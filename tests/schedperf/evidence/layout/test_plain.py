"""Causes in words, and the ids of alarms."""

from dataclasses import replace

import pytest

from schedperf.evidence.layout._plain import describe_cause, rows_of_alarms
from schedperf.evidence.layout.changes import Cause, CauseKind, Edit
from schedperf.evidence.layout.ranking import Alarm


def cause(*edits: Edit) -> Cause:
    return Cause(
        edits=edits,
        separated=(),
        joined=(),
        shift=None,
        is_sufficient=True,
        together_with=(),
        alternatives=(),
        by_entry_alone=(),
    )


def edit(
    kind: CauseKind,
    base: int | None,
    new: int | None,
    *others: str,
    is_at_most: bool = False,
) -> Edit:
    return Edit(
        kind=kind,
        entry="x",
        entries=("x", *others),
        base_bytes=base,
        new_bytes=new,
        is_at_most=is_at_most,
    )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (cause(edit("inserted", None, 8)), "x (inserted, 8 bytes)"),
        (cause(edit("inserted", None, None)), "x (inserted)"),
        (
            cause(edit("inserted", None, 12, "y", is_at_most=True)),
            "x (inserted with y, at most 12 bytes in all)",
        ),
        (cause(edit("removed", 24, None, "y", "z")), "x (removed with 2 more, 24 bytes in all)"),
        (cause(edit("resized", 8, 16)), "x (resized from 8 to 16 bytes)"),
        (cause(edit("realigned", 8, 64)), "x (alignment changed from 8 to 64 bytes)"),
        (cause(edit("reordered", 8, 8)), "x (declared elsewhere)"),
        (
            cause(edit("unexplained", 0, 12)),
            "x (nothing that the sources show; the gap in front of it went from 0 to 12 bytes)",
        ),
        (
            cause(edit("removed", 4, None), edit("resized", 1, 2)),
            "x (removed, 4 bytes) and 1 more edit",
        ),
        (cause(), "not known: the differences are too many to be told apart"),
    ],
)
def test_a_cause_says_what_was_edited_and_by_how_much(found: Cause, words: str) -> None:
    assert describe_cause(found) == words


def test_ids_of_alarms_differ_and_those_of_pairs_name_the_pair() -> None:
    pair = Alarm(
        rule="separated",
        grade="inferred",
        unit="percpu",
        line_bytes=64,
        pairs=(("a", "b"), ("a", "c")),
        entries=("a", "b", "c"),
        boundary=64,
        functions=(),
        paths=(),
        claim="",
        cause=None,
        causes=(),
        effect=None,
        reference="",
        hitm=None,
        limits=(),
    )
    spread = replace(pair, rule="spread")
    assert rows_of_alarms("new2/", [pair, spread, spread]) == [
        "new2/percpu/a+b",
        "new2/percpu/spread/a+b",
        "new2/percpu/spread/a+b#2",
    ]
