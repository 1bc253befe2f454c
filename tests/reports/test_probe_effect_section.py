"""The probe effect as a report section."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.bundle import open_bundle
from schedperf.compare import compare
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.sections.probe_effect import probe_effect

TIMES = (0.600, 0.612, 0.605, 0.609, 0.598)

Blocks = Callable[[list[dict[str, Any]]], list[Block]]


@pytest.fixture
def blocks(make_bundle: Callable[..., Path], tmp_path: Path) -> Blocks:
    """Describe a comparison of two bundles, the first of which has the given runs."""

    def blocks(runs: list[dict[str, Any]]) -> list[Block]:
        paths = [
            make_bundle(tmp_path / "base.tar", runs=runs),
            make_bundle(tmp_path / "new.tar", runs=5),
        ]
        return list(probe_effect(compare([open_bundle(path) for path in paths])))

    return blocks


def test_the_change_stands_with_its_interval_and_runs(blocks: Blocks) -> None:
    clean = [{"time_s": time} for time in TIMES]
    instrumented = [{"time_s": 1.25 * time, "kind": "instrumented"} for time in TIMES]
    table, _ = blocks(clean + instrumented)
    assert isinstance(table, Table)
    [[side, metric, change, interval, runs]] = table.rows
    assert (side.text, metric.text, change.text) == ("base", "hackbench time", "+25.0 %")
    assert interval.text.startswith("+23")
    assert runs.text == "5 + 5"
    assert len(table.columns) == len(table.rows[0])


def test_points_have_a_column_where_there_are_points(blocks: Blocks) -> None:
    four = {"point": {"groups": "4"}}
    clean = [{"time_s": time, **four} for time in TIMES]
    instrumented = [{"time_s": time, "kind": "instrumented", **four} for time in TIMES]
    table, _ = blocks(clean + instrumented)
    assert isinstance(table, Table)
    assert [column.title for column in table.columns][2] == "point"
    assert table.rows[0][2].text == "groups=4"


def test_one_instrumented_run_has_no_interval(blocks: Blocks) -> None:
    clean = [{"time_s": time} for time in TIMES]
    table, _ = blocks([*clean, {"time_s": 0.75, "kind": "instrumented"}])
    assert isinstance(table, Table)
    assert table.rows[0][3].text == "-"


def test_each_instrumented_run_is_a_line_with_its_collectors_the_worst_first(
    blocks: Blocks,
) -> None:
    clean = [{"time_s": 0.6} for _ in TIMES]
    probed = [
        {"time_s": time, "kind": "instrumented", "files": {f"{collector}/data": "x"}}
        for time, collector in ((0.61, "perf_stat"), (0.9, "perf_profile"), (0.5, "bpf_pelt"))
    ]
    _, table = blocks([*clean, *probed, {"time_s": 0.6, "boot": 1, "kind": "instrumented"}])
    assert isinstance(table, Table)
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["base", "0/006", "hackbench time +50.0 %", "perf_profile"],
        ["base", "0/007", "hackbench time -16.7 %", "bpf_pelt"],
        ["base", "0/005", "hackbench time +1.7 %", "perf_stat"],
        ["base", "1/008", "hackbench time (no clean run in this boot)", "no collector is known"],
    ]
    assert table.limit == 3


def test_without_instrumented_runs_one_line_says_why(blocks: Blocks) -> None:
    [text] = blocks([{"time_s": time} for time in TIMES])
    assert text == Text(text="no metric has both clean and instrumented runs", tone="muted")
