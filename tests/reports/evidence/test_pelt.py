# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's PELT updates: calls, places, durations and shares, bars, what was not seen."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.pelt.record import (
    CrossCheck,
    Pelt,
    PeltBinsRow,
    PeltHistogram,
    PeltProbe,
    PeltRow,
    PeltSide,
    TriedMechanism,
    UnseenFunction,
)
from schedperf.model.comparison import Comparison
from schedperf.model.run import Captured, RunKey
from schedperf.model.sections import MissingSide, Section
from schedperf.stats.counted.distributions import compare_bins
from schedperf_reports.blocks import Drawing, Items, Table, Text, is_note
from schedperf_reports.evidence.pelt import MOST_DRAWN, pelt
from schedperf_reports.formats import Options, all_formats
from schedperf_reports.graphics.mirror import Mirror

Json = dict[str, Any]
Describe = Callable[..., Any]
Cells = Callable[[Table], list[list[str]]]

KEY = RunKey(side="base", workload="hackbench", point="", boot=0, run=0)
_ROW = PeltRow(
    row="new-0", side="new", workload="hackbench", point="groups=4", basis="share",
    function="update_cfs_group", what="calls", per="wakeup", node=None, context="", status="ok",
    reason=None, unit="1/wakeup", n_base=5, n_new=5, base=1.1, new=3.19, ratio=2.9, ci_low=2.7,
    ci_high=3.1, p=1e-6, q=1e-5, changed=True, replication="runs", values_base=(), values_new=(),
    remarks=(), total_base=1100.0, total_new=3190.0, read_base=None, read_new=None,
    resolution_base=None, resolution_new=None,
)  # fmt: skip
_PROBE = PeltProbe(
    mechanism="fentry/fexit", on="f", empty_ns=30.0, empty_ci=(28.0, 32.0), pair_ns=90.0,
    pair_ci=None, reads_ns=40.0, reads_ci=(0.0, 50.0),
)  # fmt: skip
_SIDE = PeltSide(
    side="base", runs=5, seconds=10.0, sampling=(1,), emulated=False,
    mechanisms={"update_cfs_group": ("fentry/fexit",), "update_load_avg": ("breakpoint",)},
    markers={"enqueue": ("enqueue_task_fair",)}, missing={}, probe=_PROBE,
)  # fmt: skip


def pelt_row(**changes: Any) -> PeltRow:
    """Return the calls of a function per wakeup, which are more on new."""
    return replace(_ROW, **changes)


def pelt_side(**changes: Any) -> PeltSide:
    """Return a side whose two functions were seen in two ways."""
    return replace(_SIDE, **changes)


ROW = pelt_row()
SECOND = {"per": "second", "basis": "time"}
INVALID: Json = {"status": "invalid", "reason": "base: fentry/fexit, new: breakpoint",
                 "changed": None}  # fmt: skip
MEAN = pelt_row(
    row="new-1", what="mean", per="", unit="s", base=160e-9, new=360e-9,
    ratio=2.25, read_base=200e-9, read_new=400e-9,
)  # fmt: skip
MEDIAN = pelt_row(
    row="new-2", what="p50", per="", unit="s", base=210e-9, new=1e-6,
    resolution_base=50e-9, resolution_new=1e-6,
)  # fmt: skip
SHARE = pelt_row(row="new-3", what="share", per="", unit="", base=0.16, new=0.1)

EMULATED = Text(text="emulated", tone="warning")


def histogram(side: str, linear: list[int], *, function: str = "update_cfs_group") -> PeltHistogram:
    return PeltHistogram(
        side=side,
        workload="hackbench",
        point="groups=4",
        function=function,
        runs=5,
        log2_ns=(*[0] * 7, sum(linear), *[0] * 24),
        linear_ns=(*linear, *[0] * (64 - len(linear))),
        linear_step_ns=50,
    )


def binned(base: list[int], new: list[int], *, function: str = "update_cfs_group") -> PeltBinsRow:
    """Return the bins of two sides with two runs each, that do not vary."""
    width = max(len(base), len(new)) + 1
    before, after = (
        [Captured(key=KEY, content=counts + [0] * (width - len(counts)))] * 2
        for counts in (base, new)
    )
    edges = [place * 50e-9 for place in range(width)]
    return PeltBinsRow(
        side="new",
        workload="hackbench",
        point="groups=4",
        function=function,
        **compare_bins(before, after, edges).as_fields(),
    )


def drawings(blocks: Any) -> list[Drawing]:
    plain = (block.plain() for block in blocks if isinstance(block, Mirror))
    return [one for some in plain for one in some if isinstance(one, Drawing)]


@pytest.fixture
def comparison(make_comparison: Callable[..., Comparison]) -> Callable[..., Comparison]:
    """Make a record whose section has these rows, and data that can be replaced."""

    def make(*rows: PeltRow, **data: Any) -> Comparison:
        values: Json = {
            "sides": (_SIDE, pelt_side(side="new")),
            "rows": rows,
            "unseen": (),
            "histograms": (),
            "bins": (),
            "cpus": (),
            "cross_checks": (),
            "missing": (),
            "notes": (),
        }
        record = Pelt(**values | data)
        section = Section.of(record)
        return make_comparison(sections={"pelt": section})

    return make


@pytest.fixture
def describe(comparison: Callable[..., Comparison], to_blocks: Callable[..., Any]) -> Describe:
    """Return the blocks for a section's data."""
    return lambda *rows, **data: to_blocks(pelt(comparison(*rows, **data)))


def test_both_sides_say_how_they_saw_and_what_the_probe_costs(describe: Describe) -> None:
    assert describe(ROW).texts()[1] == (
        "base and new: 5 runs; fentry/fexit on update_cfs_group; breakpoint on update_load_avg; "
        "probe overhead per call: 30 ns [28, 32] (empty probe), 90 ns (timing probe); the "
        "measured time includes 40 ns [0, 50] of overhead (in brackets: range that covers the "
        "95% CIs of all runs)"
    )
    sampled = pelt_side(sampling=(64,), probe=None, missing={"fork": "inlined"})
    assert describe(ROW, sides=[sampled]).texts()[1].endswith(
        "; 1 in 64 calls timed; contexts not recorded: fork (inlined)"
    )  # fmt: skip
    unmarked = replace(sampled, markers={})
    assert describe(ROW, sides=[unmarked]).texts()[1].endswith("; contexts not recorded")


def test_calls_open_to_their_chance_and_their_rate_a_second(
    describe: Describe, cells: Cells
) -> None:
    second = pelt_row(row="new-9", **SECOND, unit="1/s", base=1.0, new=None)
    (table,) = describe(ROW, second).tables()
    assert table.anchors == ("new-0",)
    assert table.rows[0][0].tone == "strong"
    [[chance, twins]] = table.details
    assert isinstance(chance, Text)
    assert chance.text == (
        "q = 1e-05 (p = 1e-06; q is corrected over all call rows with shares, means and rates "
        "per run or wakeup)"
    )
    assert isinstance(twins, Table)
    assert cells(twins) == [["second", "1", "-", "* +190.0%", "[+170.0%, +210.0%]", "5+5 runs"]]
    assert twins.anchors == ("new-9",)


def test_nodes_and_contexts_are_a_table_of_the_best_divisor(
    describe: Describe, cells: Cells
) -> None:
    parts = [
        pelt_row(node=1, changed=False),
        pelt_row(context="enqueue"),
        pelt_row(node=1, **SECOND),
    ]
    table = describe(ROW, *parts).tables()[1]
    assert "calls per wakeup by node and by context" in table.caption
    assert [row[1] for row in cells(table)] == ["enqueue", "node 1"]


def test_what_a_call_takes_is_shown_as_read_too(describe: Describe, cells: Cells) -> None:
    table = describe(ROW, MEAN, MEDIAN, SHARE).tables()[1]
    assert cells(table) == [
        ["update_cfs_group", "mean", "160 ns", "360 ns", "* +125.0%", "[+170.0%, +210.0%]",
         "200 ns, 400 ns", "-"],
        ["update_cfs_group", "median", "0.21 us", "1 us", "* +190.0%", "[+170.0%, +210.0%]", "-",
         "1 us"],
    ]  # fmt: skip


def test_shares_of_cpu_time_have_the_least_and_the_largest_node(
    describe: Describe, cells: Cells
) -> None:
    nodes = [
        replace(SHARE, node=0, base=0.1268, new=0.0773),
        replace(SHARE, node=1, base=0.2022, new=0.00015),
    ]
    (row,) = cells(describe(ROW, MEAN, SHARE, *nodes).tables()[2])
    assert row[1:3] == ["16.00%", "10.00%"]
    assert row[5:7] == ["12.68 - 20.22%", "0.015 - 7.73%"]
    (alone,) = cells(describe(ROW, MEAN, SHARE).tables()[2])
    assert len(alone) == len(row) - 2


def test_an_invalid_row_says_why_below_itself_and_remarks_stand_once(describe: Describe) -> None:
    invalid = pelt_row(**INVALID, ratio=None, ci_low=None, ci_high=None, remarks=("odd",))
    (table,) = describe(invalid, replace(invalid, per="second", basis="time")).tables()
    notes = [row[0].text for row in table.rows if is_note(row)]
    assert notes == [
        "update_cfs_group: invalid, not compared: base: fentry/fexit, new: breakpoint",
        "odd",
    ]
    assert len(table.anchors) == len(table.rows)


def test_what_is_said_of_all_durations_stands_once_below_their_tables(describe: Describe) -> None:
    own = ("emulated", "as read")
    blocks = describe(
        ROW,
        replace(MEAN, remarks=own),
        replace(MEDIAN, remarks=("odd", "emulated")),
        replace(SHARE, remarks=own),
    )
    tables = [block for block in blocks if isinstance(block, Table)]
    notes = [[row[0].text for row in table.rows if is_note(row)] for table in tables]
    assert notes == [[], ["as read", "odd"], ["as read"]]
    (below,) = [place for place, block in enumerate(blocks) if block == EMULATED]
    assert blocks.index(tables[-1]) == below - 1


def test_bars_of_both_sides_have_equal_bins_and_fit_into_a_column(describe: Describe) -> None:
    (drawing,) = drawings(describe(ROW, MEAN, bins=[binned([0, 0, 10, 30], [0, 0, 0, 0, 20])]))
    assert drawing.titles == ("base: 80 calls", "new: 40 calls")
    base, new = ([line.text.split() for line in lines] for lines in drawing.columns)
    assert base == [
        ["100", "ns", "####", "25.0%"],
        ["150", "ns", "#" * 13, "75.0%"],
        ["200", "ns", "0.0%"],
    ]
    assert new[2] == ["200", "ns", "#" * 17, "100.0%"]
    assert max(len(line.text) for lines in drawing.columns for line in lines) <= 37


def test_a_mirror_says_what_it_shows_and_that_the_probe_is_part_of_it(describe: Describe) -> None:
    found = binned([0, 0, 10, 30], [0, 0, 10, 30])
    [mirror] = [one for one in describe(MEAN, bins=[found]) if isinstance(one, Mirror)]
    assert mirror.caption == (
        "update_cfs_group: no bin changed significantly (2+2 runs); includes probe overhead"
    )
    assert mirror.totals == ("80 calls", "80 calls")


def test_many_bins_are_joined_in_text(describe: Describe) -> None:
    (drawing,) = drawings(describe(MEAN, bins=[binned([1] * 20, [1] * 20)]))
    assert len(drawing.columns[0]) == 10


def test_the_page_has_each_bin_as_a_table(describe: Describe, cells: Cells) -> None:
    pair = [histogram("base", [0, 0, 10, 30]), histogram("new", [0, 0, 20])]
    found = binned([0, 0, 10, 30], [0, 0, 20])
    table = describe(ROW, MEAN, histograms=pair, bins=[found]).tables()[-1]
    assert table.limit == 0
    assert cells(table) == [
        ["100 ns", "150 ns", "10", "25.0%", "20", "100.0%"],
        ["150 ns", "200 ns", "30", "75.0%", "0", "0.0%"],
        ["128 ns", "256 ns", "40", "100.0%", "20", "100.0%"],
    ]


def test_few_functions_are_drawn_in_text_and_all_on_the_page(describe: Describe) -> None:
    names = [f"f{number}" for number in range(MOST_DRAWN + 2)]
    pairs = [histogram(side, [5], function=name) for name in names for side in ("base", "new")]
    found = [binned([5], [5], function=name) for name in names]
    rows = (replace(MEAN, function=name) for name in names)
    blocks = describe(*rows, histograms=pairs, bins=found)
    assert sum(isinstance(block, Mirror) for block in blocks) == len(names)
    assert len(drawings(blocks)) == MOST_DRAWN
    assert sum(table.limit == 0 for table in blocks.tables()) == len(names)


def test_what_nothing_could_see_is_said_once_with_every_reason(describe: Describe) -> None:
    tried = (TriedMechanism(mechanism="fentry/fexit", reason="no BTF"),)
    unseen = [
        UnseenFunction(side=side, function="update_load_avg", runs=5, tried=tried)
        for side in ("base", "new")
    ]
    (items,) = [one for one in describe(ROW, unseen=unseen) if isinstance(one, Items)]
    assert [item.text for item in items.items] == [
        "update_load_avg not measured on base and new: fentry/fexit: no BTF"
    ]


def test_second_counts_notes_and_missing_sides_are_said(describe: Describe) -> None:
    check = CrossCheck(side="base", function="f", runs=5, calls=100, breakpoint=90, agrees=True)
    texts = describe(
        ROW,
        cross_checks=[
            check,
            replace(check, side="new", agrees=False),
        ],
        notes=[f"{side}: note {number}" for number in range(7) for side in ("base", "new")],
        missing=[MissingSide(side="new2", reason="no run of new2 was recorded with bpf_pelt")],
    ).texts()
    assert "f in base: the probe counted 100 calls, a breakpoint 90" in texts
    assert (
        "f in new: the probe counted 100 calls, a breakpoint 90; "
        "one of the two missed calls" in texts
    )
    assert "no run of new2 was recorded with bpf_pelt" in texts
    assert "base and new: note 0" in texts
    assert "3 more notes" in texts


@pytest.mark.parametrize("name", ["html", "text", "json"])
def test_every_format_draws_it(name: str, comparison: Callable[..., Comparison]) -> None:
    pair = [histogram("base", [0, 9]), histogram("new", [0, 0, 9])]
    found = binned([0, 9], [0, 0, 9])
    made = comparison(ROW, MEAN, MEDIAN, SHARE, histograms=pair, bins=[found])
    text = all_formats()[name].render(made, Options(width=78, colour=False, everything=True))
    assert "update_cfs_group" in text


def test_changes_are_counted_among_what_may_be_compared(describe: Describe) -> None:
    invalid = pelt_row(**INVALID, p=None)
    told = describe(ROW, replace(invalid, function="f")).texts()
    assert told[0].startswith("1 of 1 row changed significantly; ")
    told = describe(invalid).texts()
    assert not any("significant:" in text for text in told)
    assert told[-1].startswith("calls on all CPUs; means over runs are geometric")
