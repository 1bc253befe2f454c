# SPDX-License-Identifier: GPL-2.0-or-later
"""Captions and marks of compared rates."""

from msgspec.structs import replace

from schedperf_reports.blocks import Column
from schedperf_reports.rates.cells import Shown, gather_twins
from schedperf_reports.rates.tables import Rates, notes_below, state_changes
from tests.counted_rows import NamedRow, named_row

ROW = named_row(name="TIMER", changed=True, p=0.001, ratio=1.17)


def _state(*rows: NamedRow) -> str:
    return state_changes("sleep 1", map(Shown, rows), lambda row: row.name)


def test_a_caption_names_what_changed_most_first() -> None:
    halved = replace(ROW, name="SCHED", ratio=0.5)
    quiet = replace(ROW, changed=False)
    assert _state(ROW, quiet, halved) == (
        "sleep 1: 2 of 3 rows changed significantly: SCHED -50.0%, TIMER +17.0%"
    )
    assert _state(quiet) == "sleep 1: 0 of 1 row changed significantly"
    assert _state(*[ROW] * 5).endswith("TIMER +17.0%, TIMER +17.0%, TIMER +17.0%, 2 more")


def test_a_caption_states_nothing_of_what_was_not_compared() -> None:
    assert _state(replace(ROW, n_new=0)) == "sleep 1"
    assert _state(replace(ROW, reason="lost")) == "sleep 1"


def test_many_notes_are_counted() -> None:
    texts = [block.text for block in notes_below([str(one) for one in range(7)])]
    assert texts == ["0", "1", "2", "3", "4", "2 more notes"]


def test_a_section_states_which_direction_is_better() -> None:
    rates = Rates[NamedRow](
        first=Column(title="counter"),
        name=lambda row: row.name,
        about=lambda _: "",
        direction="lower is better",
    )
    [change] = [
        column
        for column in rates.table("", gather_twins([named_row()]), limit=None, least=1).columns
        if column.title == "change"
    ]
    assert "lower is better" in change.explains
