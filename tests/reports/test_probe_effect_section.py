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
    [table] = blocks(clean + instrumented)
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
    [table] = blocks(clean + instrumented)
    assert isinstance(table, Table)
    assert [column.title for column in table.columns][2] == "point"
    assert table.rows[0][2].text == "groups=4"


def test_one_instrumented_run_has_no_interval(blocks: Blocks) -> None:
    clean = [{"time_s": time} for time in TIMES]
    [table] = blocks([*clean, {"time_s": 0.75, "kind": "instrumented"}])
    assert isinstance(table, Table)
    assert table.rows[0][3].text == "-"


def test_without_instrumented_runs_one_line_says_why(blocks: Blocks) -> None:
    [text] = blocks([{"time_s": time} for time in TIMES])
    assert text == Text(text="no metric has both clean and instrumented runs", tone="muted")
