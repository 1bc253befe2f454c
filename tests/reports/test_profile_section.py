"""The report's hot symbols: what the samples rest on comes first, then a table for each point."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import jsonschema
import pytest

from schedperf.model import Comparison, Section
from schedperf.sections.profile import SCHEMA
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.sections import all_report_sections
from schedperf_reports.sections.profile import profile

ROW: dict[str, Any] = {
    "row": "update_cfs_group",
    "symbol": "update_cfs_group",
    "dso": "[kernel]",
    "scheduler": True,
    "idle": False,
    "base": 8.5,
    "new": 16.25,
    "change_pp": 7.75,
    "ci_low": 7.0,
    "ci_high": 8.5,
    "p": 0.001,
    "q": 0.004,
    "changed": True,
    "base_nodes": {"0": 7.73, "1": 13.15},
    "new_nodes": {"0": 12.68, "1": 20.22},
    "base_range": [7.73, 13.15],
    "new_range": [12.68, 20.22],
}
IDLE: dict[str, Any] = {
    **ROW,
    "row": "default_idle",
    "symbol": "default_idle",
    "scheduler": False,
    "idle": True,
    "ci_low": None,
    "ci_high": None,
    "p": None,
    "q": None,
    "changed": False,
    "base_nodes": {"0": 0.0},
    "new_nodes": {},
    "base_range": [0.0, 0.0],
    "new_range": None,
}
DATA: dict[str, Any] = {
    "comparisons": [
        {
            "side": "new",
            "events": [
                {
                    "event": "cycles",
                    "clock": {"base": "pmu", "new": "pmu"},
                    "blind": {"base": False, "new": False},
                    "blind_reason": {"base": "NMI", "new": "NMI"},
                    "points": [
                        {
                            "workload": "hackbench -g {groups}",
                            "point": "groups=4",
                            "runs": {"base": 5, "new": 6},
                            "samples": {"base": 1000, "new": 2000},
                            "lost": {"base": 0, "new": 0},
                            "idle": {"base": 12.34, "new": 0.5},
                            "rows": [ROW, IDLE],
                            "symbols": 7,
                        }
                    ],
                }
            ],
            "notes": ["base: the copy is partial"],
        }
    ],
    "missing": [],
}

Describe = Callable[[dict[str, Any]], list[Block]]


@pytest.fixture
def describe(make_comparison: Callable[..., Comparison]) -> Describe:
    """Return the blocks for the section's data, which must follow its schema."""

    def run(data: dict[str, Any]) -> list[Block]:
        jsonschema.validate(data, SCHEMA)
        section = Section(schema="", status="ok", reason=None, data=data)
        return list(profile(make_comparison(sections={"profile": section})))

    return run


def changed(**event: Any) -> dict[str, Any]:
    data = deepcopy(DATA)
    data["comparisons"][0]["events"][0].update(event)
    return data


def texts(blocks: list[Block]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


def tables(blocks: list[Block]) -> list[Table]:
    return [block for block in blocks if isinstance(block, Table)]


def cells(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_a_table_shows_shares_change_and_ranges_over_nodes(describe: Describe) -> None:
    table = tables(describe(DATA))[0]
    assert cells(table) == [
        [
            "update_cfs_group",
            "8.50",
            "16.25",
            "+7.75",
            "+7.00..+8.50",
            "7.73 % - 13.15 %",
            "12.68 % - 20.22 %",
            "[kernel]",
        ],
        ["default_idle (idle)", "8.50", "16.25", "+7.75", "-", "0.00 %", "-", "[kernel]"],
    ]
    assert table.anchors == ("update_cfs_group", "default_idle")
    assert table.caption == (
        "hackbench -g {groups} at groups=4: cycles, n = 5 + 6 runs, 1000 + 2000 samples, "
        "idle 12.3 % in base and 0.5 % in new; 5 colder symbols are left out"
    )


def test_what_changed_is_shown_over_nodes_in_a_narrow_table_too(describe: Describe) -> None:
    _, nodes = tables(describe(DATA))
    assert nodes.caption.startswith("1 scheduler function changed beyond chance")
    assert cells(nodes) == [["update_cfs_group", "7.73 % - 13.15 %", "12.68 % - 20.22 %", "0.004"]]


def test_without_a_change_or_with_one_node_there_is_no_second_table(describe: Describe) -> None:
    data = changed()
    rows = data["comparisons"][0]["events"][0]["points"][0]["rows"]
    rows[0]["new_nodes"], rows[0]["new_range"] = {"0": 12.0}, [12.0, 12.0]
    assert len(tables(describe(data))) == 1
    rows[0]["changed"] = False
    assert len(tables(describe(data))) == 1


def test_one_node_has_no_ranges(describe: Describe) -> None:
    data = changed()
    for row in data["comparisons"][0]["events"][0]["points"][0]["rows"]:
        for side in ("base", "new"):
            row[f"{side}_nodes"], row[f"{side}_range"] = {"0": 12.0}, [12.0, 12.0]
    blocks = describe(data)
    [table] = tables(blocks)
    assert [column.title for column in table.columns][-3:] == [
        "change, pp",
        "95 % CI",
        "object",
    ]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert not any(text.startswith("by node: ") for text in texts(blocks))


def test_what_both_sides_note_is_said_once(describe: Describe) -> None:
    data = changed()
    data["comparisons"][0]["notes"] = ["base: the copy is partial", "new: the copy is partial"]
    assert texts(describe(data))[-1] == "base and new: the copy is partial"


def test_denominators_and_notes_are_stated(describe: Describe) -> None:
    blocks = describe(DATA)
    denominators, nodes, note = [block for block in blocks if isinstance(block, Text)][-3:]
    assert "idle included, as in perf report --no-children" in denominators.text
    assert "that node's own samples without idle" in nodes.text
    assert (denominators.tone, note.tone) == ("muted", "muted")
    assert note.text == "base: the copy is partial"


def test_a_blind_event_is_a_warning_in_front_of_everything(describe: Describe) -> None:
    reason = "cpu-clock is driven by an hrtimer"
    data = changed(
        event="cpu-clock",
        blind={"base": True, "new": True},
        blind_reason={"base": reason, "new": reason},
    )
    first = describe(data)[0]
    assert isinstance(first, Text)
    assert first.tone == "warning"
    assert first.text.startswith("recorded with cpu-clock, blind to most of the scheduler: ")
    assert f": {reason}; that update_cfs_group, " in first.text
    assert first.text.endswith("are missing below proves nothing")


@pytest.mark.parametrize(
    ("blind", "start"),
    [
        ({"base": False, "new": True}, "new was recorded with cycles, blind to most of"),
        ({"base": None, "new": False}, "base was recorded with cycles, and whether that sees"),
        ({"base": None, "new": None}, "recorded with cycles, and whether that sees"),
    ],
)
def test_a_side_that_is_or_may_be_blind_is_named_in_a_warning(
    describe: Describe, blind: dict[str, bool | None], start: str
) -> None:
    first = describe(changed(blind=blind))[0]
    assert isinstance(first, Text)
    assert first.tone == "warning"
    assert first.text.startswith(start)


def test_an_event_that_sees_everything_is_no_warning(describe: Describe) -> None:
    first = describe(DATA)[0]
    assert isinstance(first, Text)
    assert first.tone == "plain"
    assert (
        first.text == "recorded with cycles, which sees code that runs with interrupts off too: NMI"
    )


def test_lost_records_are_a_warning(describe: Describe) -> None:
    data = changed()
    data["comparisons"][0]["events"][0]["points"][0]["lost"]["new"] = 1
    assert "lost while recording: 0 records in base and 1 record in new" in texts(describe(data))


def test_missing_sides_are_named_and_so_are_several(
    describe: Describe,
    make_comparison: Callable[..., Comparison],
    make_side: Callable[..., Any],
) -> None:
    data = {**DATA, "missing": [{"side": "new2", "reason": "new2: perf is not installed"}]}
    assert texts(describe(data))[-1] == "new2: perf is not installed"
    section = Section(schema="", status="ok", reason=None, data=data)
    sides = tuple(make_side(name) for name in ("base", "new", "new2"))
    blocks = list(profile(make_comparison(sections={"profile": section}, sides=sides)))
    assert texts(blocks)[0] == "new against base"


@pytest.mark.parametrize(
    ("section", "text"),
    [
        (None, "not analysed"),
        (
            Section(schema="", status="absent", reason="no perf", data=None),
            "no perf",
        ),
    ],
)
def test_an_absent_section_is_one_line_that_says_why(
    make_comparison: Callable[..., Comparison], section: Section | None, text: str
) -> None:
    sections = {} if section is None else {"profile": section}
    assert list(profile(make_comparison(sections=sections))) == [Text(text=text, tone="muted")]


def test_it_is_registered_as_hot_symbols() -> None:
    found = next(section for section in all_report_sections() if section.name == "profile")
    assert (found.title, found.order) == ("Hot symbols", 50)
