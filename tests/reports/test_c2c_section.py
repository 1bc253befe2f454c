"""The report's bouncing cache lines: lines, who touches which bytes, and what was not seen."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import jsonschema
import pytest

from schedperf.model import Comparison, Section
from schedperf.sections._c2c_schema import SCHEMA
from schedperf_reports.blocks import Block, Table, Text, is_note
from schedperf_reports.formats import Options
from schedperf_reports.formats.text import text as draw_text
from schedperf_reports.graphics.cache_lines import CacheLines
from schedperf_reports.sections import all_report_sections
from schedperf_reports.sections.c2c import c2c

CHANGE: dict[str, Any] = {
    "samples": {"base": 93, "new": 12},
    "base": 3.1,
    "base_low": 2.5,
    "base_high": 3.8,
    "new": 0.4,
    "new_low": 0.2,
    "new_high": 0.7,
    "ratio": 0.129,
    "ratio_low": 0.067,
    "ratio_high": 0.23,
    "difference": -2.7,
    "difference_low": -3.4,
    "difference_high": -2.0,
    "p": 1e-9,
    "q": 2e-9,
    "least_ratio": 1.45,
    "changed": True,
}
NOTHING: dict[str, Any] = {
    **dict.fromkeys(CHANGE),
    "samples": {"base": 0, "new": 0},
    "changed": False,
}
ACCESS: dict[str, Any] = {
    "offset": 0,
    "name": "task_group.load_avg",
    "grade": "A",
    "reads": 93,
    "writes": 40,
    "local": 0,
    "remote": 93,
    "readers": "0-3,8",
    "writers": "1",
    "nodes": [
        {"node": 0, "reads": 90, "writes": 40, "local": 0, "remote": 90},
        {"node": 1, "reads": 3, "writes": 0, "local": 0, "remote": 3},
    ],
    "symbols": [
        {"symbol": "update_cfs_group", "samples": 90},
        {"symbol": "update_load_avg", "samples": 43},
    ],
}
SEEN: dict[str, Any] = {
    "key": "task_group+0x100",
    "copies": 1,
    "stores": 40,
    "records": 226,
    "loads": 186,
    "double_counted": 93,
    "sharing": "true",
    "false_share": 0.0,
    "accesses": [ACCESS, {**ACCESS, "offset": 8, "name": None, "writes": 0, "writers": ""}],
}
LINE: dict[str, Any] = {
    "row": "task_group.load_avg",
    "name": "task_group.load_avg",
    "names": ["task_group.load_avg"],
    "unmatched": None,
    "remote": CHANGE,
    "local": NOTHING,
    "base": SEEN,
    "new": {**SEEN, "sharing": "false", "key": "task_group+0x140"},
}
POINT: dict[str, Any] = {
    "workload": "hackbench -g {groups}",
    "point": "groups=4",
    "runs": {"base": 3, "new": 4},
    "observable": {"base": "hitm", "new": "hitm"},
    "events": {"base": ["cpu/mem-loads/P"], "new": ["cpu/mem-loads/P"]},
    "period": {"base": 1000, "new": 1000},
    "store_period": {"base": 1000, "new": 1000},
    "ldlat": {"base": 30, "new": 30},
    "line_bytes": {"base": 64, "new": 64},
    "samples": {"base": 1000, "new": 2000},
    "reason": None,
    "unit": "message",
    "per": 1000,
    "model": "negative binomial",
    "phi": 0.04,
    "replication": "runs",
    "least_ratio": 1.45,
    "totals": {"remote": CHANGE, "local": NOTHING, "stores": NOTHING},
    "lines": [LINE],
    "seen": 5,
    "seen_unmatched": {"base": 0, "new": 0},
    "notes": ["base: who wrote a line cannot be seen", "new: who wrote a line cannot be seen"],
}
DATA: dict[str, Any] = {
    "comparisons": [{"side": "new", "points": [POINT], "notes": []}],
    "missing": [],
}

Describe = Callable[[dict[str, Any]], Any]
ToBlocks = Callable[[Iterable[Block]], Any]
Cells = Callable[[Table], list[list[str]]]


@pytest.fixture
def report(make_comparison: Callable[..., Comparison]) -> Callable[..., Comparison]:
    """Return a comparison that has the section's data, which must follow its schema."""

    def make(data: dict[str, Any], **changes: Any) -> Comparison:
        jsonschema.validate(data, SCHEMA)
        section = Section(schema="", status="ok", reason=None, data=data)
        return make_comparison(sections={"c2c": section}, **changes)

    return make


@pytest.fixture
def describe(report: Callable[..., Comparison], to_blocks: ToBlocks) -> Describe:
    return lambda data: to_blocks(c2c(report(data)))


def with_point(**point: Any) -> dict[str, Any]:
    data = deepcopy(DATA)
    data["comparisons"][0]["points"][0].update(deepcopy(point))
    return data


def test_it_follows_the_layout() -> None:
    names = [section.name for section in all_report_sections()]
    assert names[names.index("c2c") - 1] == "layout"


def test_what_the_samples_rest_on_comes_first(describe: Describe) -> None:
    assert describe(DATA).texts()[0] == (
        "hackbench -g {groups} at groups=4: n = 3 + 4 runs, 1000 + 2000 samples; loads sampled: "
        "1 of 1000, of 30 cycles and more; HITM: a load found the line modified in the cache of "
        "another CPU (Intel)"
    )


def test_a_line_has_its_rates_ratio_interval_and_what_could_have_been_seen(
    describe: Describe, cells: Cells
) -> None:
    totals, lines, _ = describe(DATA).tables()
    numbers = ["3.1", "0.4", "0.129", "0.067..0.23", "2e-09", "1.45", "93+12"]
    assert cells(totals)[0] == ["remote HITM", *numbers]
    assert cells(lines) == [
        ["task_group.load_avg", "remote", *numbers, "true -> false", "1",
         "task_group+0x100 -> task_group+0x140"],
    ]  # fmt: skip
    assert lines.anchors == ("task_group.load_avg",)
    assert "HITM per 1000 messages" in lines.caption
    assert lines.caption.endswith("; 4 lines less contended left out")


def test_a_line_of_both_kinds_has_two_rows_and_one_anchor(describe: Describe, cells: Cells) -> None:
    _, lines, *_ = describe(with_point(lines=[{**LINE, "local": CHANGE}])).tables()
    assert [row[:2] for row in cells(lines)] == [["task_group.load_avg", "remote"], ["", "local"]]
    assert lines.anchors == ("task_group.load_avg", "")


def test_who_touches_which_bytes_is_shown_for_both_sides(describe: Describe, cells: Cells) -> None:
    *_, table = describe(DATA).tables()
    rows = cells(table)
    assert rows[0][0] == "base, task_group+0x100"
    assert rows[1] == [
        "0", "task_group.load_avg [A]", "93", "40", "93+0", "update_cfs_group, update_load_avg",
    ]  # fmt: skip
    assert rows[3][1] == "name not known"
    assert rows[5][0] == "new, task_group+0x140"
    assert "0 % false sharing in base" in table.caption


def test_the_drawing_has_who_reads_and_writes_which_bytes_of_both_sides(
    describe: Describe,
) -> None:
    (drawing,) = [block for block in describe(DATA) if isinstance(block, CacheLines)]
    assert drawing.caption == (
        "who reads and writes which bytes. task_group.load_avg: 0.129 times base's remote HITM"
    )
    (group,) = drawing.groups
    assert [row.place for row in group.rows] == ["0x100", "0x140"]
    assert group.rows[0].note == "true sharing; remote 3.1 HITM per 1000 messages"
    assert group.rows[1].note == (
        "false sharing; remote 0.4 HITM per 1000 messages, 0.129 times base's (95 % CI 0.067..0.23)"
    )
    first, second = group.rows[0].occupants
    assert (first.name, first.start, first.size) == ("task_group.load_avg", 0, 8)
    assert (first.reads, first.writes, first.heat) == (93, 40, 0.5)
    assert second.name == "byte 8"
    # All 93 samples of the line are a rate of 3.1, and each stretch of bytes has 93 of them here.
    assert first.facts[:4] == (
        "grade A, from byte 0 of the line",
        "samples: 93 reads, 40 writes, 93 remote + 0 local HITM",
        "3.1 HITM per 1000 messages",
        "by update_cfs_group, update_load_avg",
    )


def test_a_name_that_stands_elsewhere_on_the_line_has_moved(describe: Describe) -> None:
    new = {**SEEN, "accesses": [{**ACCESS, "offset": 24}]}
    blocks = describe(with_point(lines=[{**LINE, "new": new}]))
    (drawing,) = [block for block in blocks if isinstance(block, CacheLines)]
    words = [[one.word for one in row.occupants] for row in drawing.groups[0].rows]
    assert words == [["", ""], ["moved"]]


def test_a_line_of_one_side_is_drawn_with_why_the_other_is_empty(describe: Describe) -> None:
    counted = {"base": 1, "new": 0}
    blocks = describe(with_point(lines=[unmatched("base", 1)], seen_unmatched=counted))
    (drawing,) = [block for block in blocks if isinstance(block, CacheLines)]
    assert drawing.groups[0].rows[0].note == "true sharing"
    assert drawing.groups[0].rows[1].occupants == ()
    assert drawing.groups[0].rows[1].note == "an address means nothing in another boot"
    assert "none of these lines HITM changed beyond chance" in drawing.caption


def test_who_and_on_which_nodes_stands_below_the_bytes(describe: Describe) -> None:
    *_, table = describe(DATA).tables()
    note = table.rows[2]
    assert is_note(note)
    assert note[0].text.strip() == (
        "read by CPUs 0-3,8, written by CPUs 1; node 0: 90 reads, 40 writes, 90+0 HITM; "
        "node 1: 3 reads, 3+0 HITM"
    )
    assert "written by" not in table.rows[4][0].text


def test_what_a_source_does_not_say_is_a_dash_and_no_row(describe: Describe, cells: Cells) -> None:
    unsaid = {**ACCESS, "reads": None, "readers": None, "writers": None, "nodes": None}
    seen = {**SEEN, "copies": None, "double_counted": None, "accesses": [unsaid]}
    _, lines, table = describe(with_point(lines=[{**LINE, "base": seen, "new": seen}])).tables()
    assert cells(lines)[0][-2] == "-"
    assert len(table.rows) == 4
    assert cells(table)[1][2] == "-"


def unmatched(side: str, number: int) -> dict[str, Any]:
    """Return a line that one side alone has and that cannot be found again on the other."""
    other = "new" if side == "base" else "base"
    change = {**NOTHING, "samples": {side: 7, other: None}}
    return {
        **LINE,
        "row": f"0xffff88800000{number:02x}00",
        "name": None,
        "unmatched": "an address means nothing in another boot",
        "remote": change,
        "local": change,
        other: None,
    }


def test_a_line_that_is_compared_with_nothing_is_no_zero(describe: Describe, cells: Cells) -> None:
    both = [unmatched("base", 1), unmatched("new", 2)]
    counted = {"base": 1, "new": 1}
    _, table, *_ = describe(with_point(lines=both, seen_unmatched=counted)).tables()
    assert cells(table) == [
        ["0xffff888000000100", "7+7", "-", "nothing", "true", "1"],
        ["0xffff888000000200", "-", "7+7", "nothing", "false", "1"],
    ]
    assert "cannot be found again on the other side (an address means nothing" in table.caption
    assert table.anchors == ("0xffff888000000100", "0xffff888000000200")


def test_unmatched_lines_of_both_sides_are_cut_alike(describe: Describe, cells: Cells) -> None:
    lines = [unmatched("base", number) for number in range(20)]
    lines += [unmatched("new", 32 + number) for number in range(20)]
    counted = {"base": 20, "new": 20}
    _, table, *_ = describe(with_point(lines=lines, seen_unmatched=counted)).tables()
    shown = [row[1] == "-" for row in cells(table)[: table.limit]]
    assert shown.count(True) == shown.count(False) == 5


def test_an_equal_split_of_both_sides_is_said_once_and_an_atomic_by_its_own_name(
    describe: Describe, cells: Cells
) -> None:
    split = {**SEEN, "false_share": 0.25, "accesses": [{**ACCESS, "name": "nohz.nr_cpus.counter"}]}
    lines = [{**LINE, "base": split, "new": split}]
    *_, table = describe(with_point(lines=lines)).tables()
    assert "(25 % false sharing in base and new)" in table.caption
    assert cells(table)[1][1] == "nohz.nr_cpus [A]"


def test_a_line_that_one_side_alone_has_is_shown_for_that_side(
    describe: Describe, cells: Cells
) -> None:
    gone = {**LINE, "new": None, "name": None, "row": "0xffff888000000100"}
    _, lines, table = describe(with_point(lines=[gone])).tables()
    assert cells(lines)[0][0] == "0xffff888000000100"
    assert [row[0] for row in cells(table) if row[0].startswith(("base", "new"))] == [
        "base, task_group+0x100"
    ]


def test_an_open_end_of_an_interval_is_no_number(describe: Describe, cells: Cells) -> None:
    change = {**CHANGE, "ratio": None, "ratio_high": None}
    totals = describe(with_point(totals={**POINT["totals"], "remote": change})).tables()[0]
    assert cells(totals)[0][3:5] == ["-", "0.067..-"]


def test_nothing_seen_is_not_could_not_see(
    describe: Describe, make_comparison: Callable[..., Comparison], to_blocks: ToBlocks
) -> None:
    none = dict.fromkeys(POINT["totals"], NOTHING)
    nothing = describe(with_point(lines=[], totals=none)).texts()
    assert "nothing seen: none of 3000 memory samples hit a line that another CPU had" in nothing
    without_table = describe(with_point(lines=[])).texts()
    assert "there is no table of lines, so which ones these are cannot be seen" in without_table
    absent = Section(schema="", status="absent", reason="base: no PEBS here", data=None)
    blocks = to_blocks(c2c(make_comparison(sections={"c2c": absent})))
    assert blocks.texts() == ["could not be seen: base: no PEBS here"]
    assert to_blocks(c2c(make_comparison(sections={}))).texts() == ["not analysed"]


def test_why_rates_are_not_compared_is_a_warning(describe: Describe, cells: Cells) -> None:
    found = describe(
        with_point(reason="periods differ", unit=None, model=None, phi=None, least_ratio=None)
    )
    (warning,) = [block for block in found if isinstance(block, Text) and block.tone == "warning"]
    assert warning.text == "no rates are compared: periods differ"
    totals, lines, _ = found.tables()
    assert cells(totals)[0] == ["remote HITM", "93", "12"]
    assert cells(lines)[0][:4] == ["task_group.load_avg", "remote", "93", "12"]
    assert "HITM samples" in lines.caption


def test_too_few_samples_to_see_a_change_are_said(describe: Describe) -> None:
    found = describe(with_point(least_ratio=None)).texts()
    assert "too little was sampled to say which change could have been seen" in found


def test_what_could_have_been_seen_and_how_counts_scatter_is_said(describe: Describe) -> None:
    said = describe(DATA).texts()
    assert (
        "rates are accesses per 1000 messages, sampled or not; negative binomial counts of runs, "
        "a rate varies by 20 % from one to the next; the smallest change that could have been "
        "seen (power 80 %), on the line known best: times 1.45"
    ) in said
    assert "base and new: who wrote a line cannot be seen" in said
    steady = describe(with_point(phi=0.0, model="Poisson")).texts()
    assert any("Poisson counts of runs; the smallest" in text for text in steady)


@pytest.mark.parametrize(
    ("observable", "words"), [("ibs", "not Intel's HITM"), ("peer", "it is no HITM")]
)
def test_each_observable_is_called_what_it_is(
    describe: Describe, observable: str, words: str
) -> None:
    both = {"base": observable, "new": observable}
    blocks = describe(with_point(observable=both, ldlat={"base": None, "new": 30}))
    assert words in blocks.texts()[0]
    assert "all in base and of 30 cycles and more in new" in blocks.texts()[0]


def test_a_missing_side_and_a_side_without_common_points_are_said(describe: Describe) -> None:
    data = {
        "comparisons": [{"side": "new", "points": [], "notes": ["sampled on base only"]}],
        "missing": [{"side": "new2", "reason": "new2: no PEBS"}],
    }
    assert describe(data).texts() == [
        "no point was sampled on both sides",
        "sampled on base only",
        "could not be seen: new2: no PEBS",
    ]


def test_a_run_is_an_operation_by_itself(describe: Describe) -> None:
    totals = describe(with_point(unit="run", per=1)).tables()[0]
    assert totals.caption == "all addresses together, per run"


def test_a_terminal_of_80_columns_holds_it(report: Callable[..., Comparison]) -> None:
    text = draw_text(report(DATA), Options(width=80, colour=False, everything=True))
    part = text[text.index("Bouncing cache lines") :]
    assert "task_group.load_avg" in part
    assert max(map(len, part.splitlines())) <= 80
