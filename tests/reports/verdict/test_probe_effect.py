# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe effect as a report section."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf_reports.blocks import Block, Items, Table
from schedperf_reports.verdict.probe_effect import probe_effect

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
        return list(probe_effect(compare_bundles([open_bundle(path) for path in paths])))

    return blocks


def test_the_change_stands_with_its_interval_and_runs(blocks: Blocks) -> None:
    clean = [{"time_s": time} for time in TIMES]
    instrumented = [{"time_s": 1.25 * time, "kind": "instrumented"} for time in TIMES]
    table, _ = blocks(clean + instrumented)
    assert isinstance(table, Table)
    [[side, metric, change, interval, runs]] = table.rows
    assert (side.text, metric.text, change.text) == ("base", "hackbench time", "+25.0%")
    assert interval.text.startswith("[+23.")
    assert runs.text == "5 and 5 runs"
    assert len(table.columns) == len(table.rows[0])


def test_the_sides_are_compared_in_both_kinds_of_runs(
    make_bundle: Callable[..., Path], tmp_path: Path
) -> None:
    clean, probed = (0.600, 0.612, 0.605, 0.609, 0.598), (0.70, 0.85, 0.91, 0.77)
    paths = [
        make_bundle(
            tmp_path / f"{name}.tar",
            runs=[
                *({"time_s": by * time} for time in clean),
                *({"time_s": time, "kind": "instrumented"} for time in probed),
            ],
        )
        for name, by in (("base", 1.0), ("new", 1.3))
    ]
    found = compare_bundles([open_bundle(path) for path in paths])
    [row] = found.rows
    doubts, table, *_ = probe_effect(replace(found, rows=(replace(row, verdict="regression"),)))
    assert isinstance(doubts, Items)
    [doubt] = doubts.items
    assert doubt.text.startswith(
        "the instrumented runs do not reproduce the change but show +0.0% [-"
    )
    assert doubt.evidence == ()
    assert isinstance(table, Table)
    assert table.caption.startswith("new vs base: clean +30.0%, instrumented +0.0% [-")
    [cells] = table.rows
    side, metric, change, probed_change, interval, n = (cell.text for cell in cells)
    assert (side, metric, change) == ("new", "hackbench time", "+30.0%")
    assert (probed_change, n) == ("+0.0%", "5+5 and 4+4 runs")
    assert f"but show +0.0% {interval}, so" in doubt.text


def test_each_kind_of_runs_has_its_own_unit(
    make_bundle: Callable[..., Path], tmp_path: Path
) -> None:
    instrumented = [
        {"time_s": 0.7, "kind": "instrumented"},
        {"time_s": 0.8, "kind": "instrumented"},
    ]
    sides = [
        [
            *(
                {"time_s": by * time, "round": number, "order": 2 * number + place}
                for number, time in enumerate(TIMES)
            ),
            *instrumented,
        ]
        for place, by in enumerate((1.0, 1.01))
    ]
    paths = [make_bundle(tmp_path / f"{place}.tar", runs=runs) for place, runs in enumerate(sides)]
    table, *_ = probe_effect(compare_bundles([open_bundle(path) for path in paths]))
    assert isinstance(table, Table)
    assert table.rows[0][-1].text == "5 pairs and 2+2 runs"


def test_captions_say_what_the_largest_is(blocks: Blocks) -> None:
    clean = [{"time_s": time} for time in TIMES]
    probed = [{"time_s": 1.25 * time, "kind": "instrumented"} for time in TIMES]
    average, each = blocks(clean + probed)
    assert isinstance(average, Table)
    assert isinstance(each, Table)
    interval = average.rows[0][3].text
    assert f": largest change +25.0% {interval}, " in average.caption
    assert each.caption.endswith(": largest change +26.5%, hackbench time of base 0/006")


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
        ["base", "0/006", "hackbench time +50.0%", "perf_profile"],
        ["base", "0/007", "hackbench time -16.7%", "bpf_pelt"],
        ["base", "0/005", "hackbench time +1.7%", "perf_stat"],
        ["base", "1/008", "hackbench time (no clean run in this boot)", "not recorded"],
    ]
    assert table.limit == 3
