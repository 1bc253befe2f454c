# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of ``schedperf profile``: whose a note is, what a share is of, and costs with units."""

from typing import Any

from msgspec.structs import replace

from schedperf.evidence.profile.document import (
    ComparedRow,
    ProfileDocument,
    ProfileLosses,
    ProfileSide,
    ProfileSight,
    SampleCost,
    SampleCounts,
    SampledEvent,
    SampleRow,
    SideName,
)
from schedperf.model.perf_event import parse_event
from schedperf_reports.blocks import Table, Text
from schedperf_reports.evidence.profile.samples import describe_samples

COST = SampleCost(
    base=1820.0, new=8290.0, change=6470.0, interval=(3600.0, 9350.0), q=0.02, changed=True
)
ROW = ComparedRow(
    symbol="update_load_avg",
    base=SampleCounts(samples=4, period=400, share=0.11),
    new=SampleCounts(samples=9, period=900, share=0.4),
    change=0.29,
    interval=(0.13, 0.44),
    q=0.023,
    changed=True,
    cost=COST,
)
SIGHT = ProfileSight(
    side=None,
    clock="pmu",
    unit="cycles",
    nmi=True,
    blind=False,
    reason="it uses NMIs",
    precise=0,
    emulated=False,
    remedy=None,
    caveats=(),
)


def side(name: SideName | None, *notes: str) -> ProfileSide:
    return ProfileSide(
        side=name,
        label="6.18",
        path="6.18.tar",
        point="",
        runs=5,
        lost=ProfileLosses(records=0, samples=0, throttled=0, unknown_ids=0),
        loss=None,
        notes=notes,
    )


def described(
    *rows: ComparedRow, sides: tuple[ProfileSide, ...], **changed: Any
) -> ProfileDocument:
    names: tuple[SideName, SideName] = ("base", "new")
    numbers = dict.fromkeys(names[: len(sides)], 5)
    event = SampledEvent(
        event="cycles",
        perf_event=dict.fromkeys(names[: len(sides)], parse_event("cycles:P")),
        independent="runs",
        n=numbers,
        samples=numbers,
        period=numbers,
        sight=(SIGHT,),
    )
    document = ProfileDocument(
        tool_version="1",
        sort=("symbol",),
        operation="message",
        took_turns=True,
        cautions=(),
        sides=sides,
        events=(event,),
        rows=rows,
    )
    return replace(document, **changed)


def texts(data: ProfileDocument) -> list[str]:
    return [block.text for block in describe_samples(data, 10) if isinstance(block, Text)]


def table(data: ProfileDocument) -> Table:
    [found] = [block for block in describe_samples(data, 10) if isinstance(block, Table)]
    return found


def test_a_note_says_whose_it_is_and_one_of_both_sides_is_said_once() -> None:
    sides = side("base", "no symbols", "one part is lost"), side("new", "no symbols")
    assert texts(described(ROW, sides=sides))[-2:] == [
        "base and new: no symbols",
        "base: one part is lost",
    ]
    alone = SampleRow(symbol="f", samples=1, period=9, share=1.0)
    data = described(sides=(side(None, "no symbols"),), rows=(alone,))
    assert texts(data)[-1] == "no symbols"


def test_a_cost_has_its_unit_its_sign_its_interval_and_its_mark() -> None:
    quiet = replace(COST, change=-5.0, interval=None, changed=False)
    rows = ROW, replace(ROW, symbol="f", cost=quiet), replace(ROW, symbol="g", cost=None)
    found = table(described(*rows, sides=(side("base"), side("new"))))
    assert found.columns[-1].title == "k cycles per message [95% CI]"
    assert [cells[-1].text for cells in found.rows] == ["* +6.47 [+3.6, +9.35]", "-0.005", "-"]
    assert [cells[-1].sort for cells in found.rows] == [6470.0, -5.0, None]


def test_without_operations_there_is_no_column_of_costs() -> None:
    data = described(replace(ROW, cost=None), sides=(side("base"), side("new")), operation=None)
    assert table(data).columns[-1].title == "q"


def test_shares_are_of_the_periods_and_not_of_the_samples() -> None:
    found = table(described(ROW, sides=(side("base"), side("new"))))
    assert "% of the event's count (samples weighted by their period)" in found.caption
