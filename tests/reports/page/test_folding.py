# SPDX-License-Identifier: GPL-2.0-or-later
"""Which sections and tables are folded, decided without a browser."""

import pytest

from schedperf_reports.blocks import Block, Cell, Column, Graphic, Item, Items, Table, Text
from schedperf_reports.graphics.panels import Panel, Panels
from schedperf_reports.page.folding import count_rows, has_change, is_folded_table, is_unchanged
from schedperf_reports.words.states import State


class Dial(Graphic, frozen=True, kw_only=True):
    """A drawing that folding has never heard of."""

    is_red: bool

    def shows_change(self) -> bool:
        return self.is_red


def table(*tones: str, **options: object) -> Table:
    rows = tuple((Cell(text="nr_switches", tone=tone),) for tone in tones)  # type: ignore[arg-type]
    return Table(caption="counters", columns=(Column(title="row"),), rows=rows, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("block", "changed"),
    [
        (Text(text="+21.8%", tone="strong"), False),
        (table("plain", "muted"), False),
        (table("plain", "strong"), True),
        (table("good"), True),
        (table("bad"), True),
        (Dial(caption="", is_red=False), False),
        (Dial(caption="", is_red=True), True),
    ],
)
def test_a_block_shows_a_change(block: Block, changed: bool) -> None:  # noqa: FBT001
    assert has_change((Text(text=""), block)) is changed


def test_the_count_of_changes_decides_and_drawings_may_object() -> None:
    red, grey = Dial(caption="", is_red=True), Dial(caption="", is_red=False)
    none, unknown = State(changed=0, total=3), State(changed=None, total=3)
    # A row in bold is no change, where the section counts.
    assert is_unchanged((table("strong"), grey), none)
    assert not is_unchanged((table("plain"), red), none)
    assert not is_unchanged((), State(changed=1, total=3))
    for state in (None, unknown):
        assert is_unchanged((table("plain"), grey), state)
        assert not is_unchanged((table("strong"),), state)


def test_a_table_is_folded_if_it_could_show_changes_and_has_none() -> None:
    assert is_folded_table(table("plain", limit=0))
    assert not is_folded_table(table("plain"))
    assert is_folded_table(table("plain", quiet=(True,)))
    assert not is_folded_table(table("bad", quiet=(True,)))


def test_what_is_folded_is_counted_through_panels() -> None:
    panel = Panel(caption="node 0", blocks=(table("plain", "plain"),))
    items = Items(items=(Item(text="not counted: LLC-loads"),))
    assert count_rows((Panels(caption="", panels=(panel,)), items)) == "2 rows, 1 item"
    assert count_rows((Text(text="nothing recorded"),)) == ""
