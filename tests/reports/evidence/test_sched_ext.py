# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's sched_ext section: schedulers, versions, and why runs were discarded."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.sched_ext.record import DiscardedRun, SchedExt, SchedulerRow
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.evidence.sched_ext import sched_ext
from schedperf_reports.formats import Options
from schedperf_reports.formats.text import text

ROW = SchedulerRow(
    row="new-0", side="new", scheduler="lavd_1.0.20", runs=8, discarded=2, switch_all=True,
    rejected=0, command="scx_lavd --performance", program="/usr/bin/scx_lavd",
    version="scx_lavd 1.0.20", sha256="ab" * 32,
)  # fmt: skip
FAIR = replace(
    ROW, row="base-0", side="base", scheduler=None, discarded=0, switch_all=None, rejected=None,
    command=None, program=None, version=None, sha256=None,
)  # fmt: skip
LOST = DiscardedRun(
    side="new", run="boots/0/runs/003", kind="clean", scheduler="lavd_1.0.20",
    reason="scx_lavd was ejected (runnable task stall (make[7] failed to run for 30.1s))",
)  # fmt: skip

Make = Callable[..., Comparison]


@pytest.fixture
def make(make_comparison: Make) -> Make:
    """Return a comparison with this section."""

    def of(*rows: SchedulerRow, discarded: tuple[DiscardedRun, ...] = ()) -> Comparison:
        data = SchedExt(rows=rows, discarded=discarded, notes=("new: damaged",))
        return make_comparison(sections={"sched_ext": Section.of(data)})

    return of


def cells(table: Block) -> list[list[str]]:
    assert isinstance(table, Table)
    return [[cell.text for cell in row] for row in table.rows]


def test_schedulers_and_discarded_runs_have_a_table_each(make: Make) -> None:
    schedulers, discarded, *notes = sched_ext(make(FAIR, ROW, discarded=(LOST,)))
    assert cells(schedulers) == [
        ["base", "fair class", "8", "0", "-", "-", "-", "-", "-"],
        [
            "new", "lavd_1.0.20", "8", "2", "all tasks", "0", "scx_lavd --performance",
            "scx_lavd 1.0.20", "abababababab",
        ],
    ]  # fmt: skip
    assert cells(discarded) == [["new", "boots/0/runs/003", "clean", LOST.reason]]
    assert "new: damaged" in str(notes)


def test_without_discarded_runs_there_is_one_table(make: Make) -> None:
    blocks = list(sched_ext(make(FAIR, ROW)))
    assert [type(block) for block in blocks][:1] == [Table]
    assert sum(isinstance(block, Table) for block in blocks) == 1


def test_an_absent_section_says_why(make_comparison: Make) -> None:
    section = Section(schema="x", status="absent", reason="no scheduler", data=None)
    (block,) = sched_ext(make_comparison(sections={"sched_ext": section}))
    assert isinstance(block, Text)
    assert "no scheduler" in block.text


@pytest.mark.parametrize("width", [80, 120])
def test_hostile_names_do_not_reach_the_terminal(make: Make, width: int) -> None:
    hostile = "\x1b]0;x\x07\u202eevil\r\n"
    rows = (FAIR, replace(ROW, scheduler=hostile, command=hostile, version=hostile))
    options: Any = Options(width=width, colour=False, see="", everything=True)
    said = text(make(*rows, discarded=(replace(LOST, reason=hostile),)), options)
    assert "evil" in said
    assert not set(said) & set("\x1b\x07\u202e\r")
    assert max(map(len, said.splitlines())) <= width
