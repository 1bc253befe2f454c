# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.runs.values: one observation a run and metric, whatever the workload printed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.benchmarks.hackbench import TIME
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.rows import Source
from schedperf.model.text import LONGEST_SOURCE
from schedperf.runs.values import COLUMNS, RunValues, read_run_values

HEADER = "Running in process mode with 1 groups using 40 file descriptors each (== 40 tasks)\n"

MakeBundle = Callable[..., Path]


@pytest.fixture
def read(make_bundle: MakeBundle, tmp_path: Path) -> Callable[..., RunValues]:
    """Read the runs of one bundle that is made of the given facts."""

    def read(**chosen: Any) -> RunValues:
        bundle = open_bundle(make_bundle(tmp_path / "base.tar", **chosen))
        return read_run_values(name_sides([bundle]))

    return read


Read = Callable[..., RunValues]


def test_columns_and_types_are_the_documented_ones(read: Read) -> None:
    table = read(runs=[{"time_s": 0.612, "point": {"groups": "4"}, "round": 2}]).table
    assert list(table) == COLUMNS
    assert table.records() == [
        {
            "side": "base",
            "workload": "hackbench -l 100 -g {groups}",
            "point": "groups=4",
            "metric": "hackbench time",
            "unit": "s",
            "better": "lower",
            "family": "primary",
            "value": 0.612,
            "resolution": 0.001,
            "is_maximum": False,
            "kind": "clean",
            "boot": 0,
            "run": 0,
            "order": 0,
            "round": None,
            "status": "ok",
            "definition": TIME.definition,
            "class_": "micro",
            "source": Source(member="boots/0/runs/000/stdout", line=3, text="Time: 0.612"),
        }
    ]


def test_warm_up_has_no_row_and_a_failed_run_one_without_a_value(read: Read) -> None:
    found = read(runs=[{"warmup": True}, {"exit_status": 1}, {"time_s": 0.5}])
    columns = ["metric", "value", "order", "status"]
    assert [list(row.values()) for row in found.table.select(columns).records()] == [
        ["", None, 0, "failed"],
        ["hackbench time", 0.5, 1, "ok"],
    ]
    assert [caveat.text for caveat in found.caveats] == [
        "1 of 2 runs of base failed; failed runs are excluded"
    ]


def test_a_program_that_runs_twice_in_one_run_is_one_observation(read: Read) -> None:
    found = read(runs=[{"stdout": f"{HEADER}Time: 0.500\n{HEADER}Time: 0.700\n"}])
    assert list(found.table["value"]) == [pytest.approx(0.6)]


def test_a_run_whose_stderr_reports_a_failure_has_no_value(read: Read) -> None:
    # hackbench exits with 0; its time is on the other stream.
    failed = {"stdout": f"{HEADER}Time: 0.100\n", "stderr": "SENDER: write (error: Broken pipe)\n"}
    rule = {"name": "time", "unit": "s", "better": "lower", "regex": r"Time: (\S+)"}
    found = read(runs=[{"time_s": 0.5}, failed, failed], metric=[rule])
    assert list(found.table["value"]) == [0.5, 0.5]
    [caveat] = found.caveats
    assert caveat.text == (
        "the benchmark did not do its work in 2 runs of base; first: "
        "boots/0/runs/001/stderr:1: hackbench was stopped before all messages were passed; "
        "record again"
    )


def test_elapsed_time_is_that_of_clean_runs_on_two_sides_or_more(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    runs: dict[str, list[dict[str, Any]]] = {
        "base": [{"stdout": "fine", "wall_s": 2.0}],
        "new": [
            {"stdout": "fine", "wall_s": 3.0},
            {"stdout": "fine", "wall_s": 9.0, "kind": "instrumented"},
        ],
        "failed": [{"exit_status": 1}],
    }
    bundles = [open_bundle(make_bundle(tmp_path / name, runs=runs[name])) for name in runs]
    table = read_run_values(name_sides(bundles)).table
    assert list(table["metric"]) == ["elapsed time (wall)", "elapsed time (wall)", ""]
    assert list(table["value"])[:2] == [2.0, 3.0]


def test_the_source_of_a_mean_is_the_last_of_its_lines(read: Read) -> None:
    [source] = read(runs=[{"stdout": f"{HEADER}Time: 0.500\n{HEADER}Time: 0.700\n"}]).table[
        "source"
    ]
    assert source == Source(member="boots/0/runs/000/stdout", line=4, text="Time: 0.700")


def test_of_maxima_of_one_run_the_largest_counts(read: Read) -> None:
    header = "dbench version 4.00 - Copyright Andrew Tridgell 1999-2004\n"
    result = "Throughput 100 MB/sec  4 clients  4 procs  max_latency={ms} ms\n"
    printed = "".join(header + result.format(ms=ms) for ms in (7, 3))
    table = read(runs=[{"stdout": printed}]).table
    index = table["metric"].tolist().index("dbench latency max")
    assert table["is_maximum"][index]
    assert table["value"][index] == pytest.approx(0.007)
    assert table["source"][index].line == 2


def test_a_source_names_its_stream_and_cuts_a_long_line(read: Read) -> None:
    rule = {"name": "rate", "unit": "1/s", "better": "higher", "regex": r"began\nrate (\d+)"}
    printed = f"began\nrate 9 {'x' * 1000}\nended"
    table = read(runs=[{"stdout": "", "stderr": printed}], metric=[rule]).table
    [source] = table["source"]
    assert (source.member, source.line) == ("boots/0/runs/000/stderr", 2)
    assert source.text == printed.splitlines()[1][: LONGEST_SOURCE - 1] + "…"
    assert table["definition"].tolist() == [
        r"The last number in the output that matches --metric began\nrate (\d+)."
    ]


def test_a_run_that_failed_has_no_source(read: Read) -> None:
    table = read(runs=[{"exit_status": 1}]).table
    assert table["source"].tolist() == [None]


def test_points_stand_in_the_order_of_the_manifest_not_of_the_recording(read: Read) -> None:
    order = ["16", "1", "4", "1", "16", "4"]
    found = read(
        runs=[{"point": {"groups": groups}} for groups in order],
        manifest={"points": ["groups=1", "groups=4", "groups=16"]},
    )
    assert list(dict.fromkeys(found.table["point"])) == ["groups=1", "groups=4", "groups=16"]


def test_output_on_stderr_counts_too(read: Read) -> None:
    found = read(runs=[{"stdout": "", "stderr": f"{HEADER}Time: 0.500\n"}])
    assert list(found.table["value"]) == [0.5]


def test_a_rule_reads_stdout_before_stderr(read: Read) -> None:
    rule = {"name": "rate", "unit": "1/s", "better": "higher", "regex": r"rate (\d+)"}
    found = read(runs=[{"stdout": "rate 7", "stderr": "rate 9"}], metric=[rule])
    assert list(found.table["value"]) == [7.0]


def test_a_rule_takes_the_place_of_a_parsers_metric(read: Read) -> None:
    rule = {"name": "hackbench time", "unit": "ms", "better": "lower", "regex": r"Time: (\S+)"}
    found = read(runs=[{"time_s": 0.5}], metric=[rule])
    assert list(found.table["value"]) == [pytest.approx(0.0005)]


def test_what_cannot_be_read_is_counted_with_the_first_examples(read: Read) -> None:
    found = read(runs=[{"time_s": 0.5}, {"stdout": f"{HEADER}Time: soon\n"}, {"stdout": "?"}])
    assert [caveat.text for caveat in found.caveats] == [
        (
            "1 line of base could not be parsed; first: "
            "boots/0/runs/001/stdout:2: hackbench time: invalid number 'soon'"
        ),
        (
            "2 runs of base printed no number that a benchmark parser or a --metric rule reads; "
            "first: boots/0/runs/001, boots/0/runs/002"
        ),
    ]


def test_a_run_of_more_metrics_than_any_benchmark_has_is_no_result(read: Read) -> None:
    table = "stress-ng: info:  [1] stressor  bogo ops real time  usr time  sys time\n" + "".join(
        f"stress-ng: info:  [1] s{number} 1 1.0 1.0 1.0 1.0 1.0\n" for number in range(700)
    )
    found = read(runs=[{"stdout": table}])
    assert len(found.table) == 0
    assert "2100 metrics (expected at most 2000)" in found.caveats[0].text


def test_bytes_that_are_no_text_do_no_harm(read: Read) -> None:
    noise = bytes(range(256)) * 100
    found = read(runs=[{"stdout": noise + f"\n{HEADER}Time: 0.500\n".encode()}])
    assert list(found.table["value"]) == [0.5]


def test_a_bundle_without_runs_gives_an_empty_table(read: Read) -> None:
    found = read(runs=0)
    assert len(found.table) == 0
    assert list(found.table) == COLUMNS
