# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of LKP become runs with the numbers of their source, and no direction is guessed."""

import gzip
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from schedperf.inputs.importers import Imported
from schedperf.inputs.importers.open import Opener, read_results
from schedperf.inputs.side import name_sides
from schedperf.model.errors import InputError
from schedperf.runs.values import read_run_values
from tests.shared_data import shared

JOB = """\
---
suite: hackbench
testcase: hackbench
category: benchmark
nr_threads: 50%
hackbench:
  mode: process
  ipc: pipe
commit: {commit}
cpufreq_governor: performance
testbox: node1
start_time: 1735689600
"""


def write_root(folder: Path, runs: list[Mapping[str, object]], commit: str = "a" * 40) -> None:
    for number, stats in enumerate(runs):
        run = folder / str(number)
        run.mkdir(parents=True)
        (run / "job.yaml").write_text(JOB.format(commit=commit))
        (run / "stats.json.gz").write_bytes(gzip.compress(json.dumps(stats).encode()))


def read(path: Path) -> Imported:
    return read_results("lkp", path)[0]


def values_of(path: Path) -> list[tuple[str, str, str, float]]:
    with Opener() as opener:
        table = read_run_values(name_sides([opener.open(Path(f"lkp:{path}"))])).table
        rows = table.rows(["point", "metric", "better", "value"])
        return [(str(a), str(b), str(c), float(str(d))) for a, b, c, d in rows]


def test_values_of_runs_are_those_of_stats_json(tmp_path: Path) -> None:
    write_root(tmp_path, [{"hackbench.throughput": 123456.789012345}, {"hackbench.throughput": 2}])
    point = "ipc=pipe,mode=process,nr_threads=50%"
    assert values_of(tmp_path) == [
        (point, "hackbench.throughput", "unknown", 123456.789012345),
        (point, "hackbench.throughput", "unknown", 2.0),
    ]
    boot = read(tmp_path).boots[1]
    assert boot.runs[0].start == "2025-01-01T00:00:00.000000Z"
    assert boot.host["cpufreq"] == {"governor": "performance"}
    assert boot.host["kernel"] == {"release": "a" * 40}


def test_every_number_of_the_fixture_is_that_of_lkp() -> None:
    root = shared("data/benchmarks/stats_part/result_root")
    expected = [json.loads((root / f"stats_{number}.json").read_text()) for number in range(3)]
    found: list[dict[str, float]] = [{} for _ in expected]
    with Opener() as opener:
        table = read_run_values(name_sides([opener.open(Path(f"lkp:{root}"))])).table
        for boot, metric, value in table.rows(["boot", "metric", "value"]):
            found[int(str(boot))][str(metric)] = float(str(value))
    assert found == expected


def test_holes_of_a_matrix_are_dropped(tmp_path: Path) -> None:
    matrix = {
        "hackbench.throughput": [10.5, 0, 12.5],
        "hackbench.time.system_time": [-1, 3],
        "stats_source": ["0/stats.json", "1/stats.json", "2/stats.json"],
    }
    (tmp_path / "matrix.json").write_text(json.dumps(matrix))
    imported = read(tmp_path)
    assert len(imported.boots) == 3
    assert [value for _, _, _, value in values_of(tmp_path)] == [10.5, 3.0, 12.5]
    assert imported.notes[0].startswith("3 values of matrix.json are 0 or -1")


def test_the_output_of_the_benchmark_is_parsed_too(tmp_path: Path) -> None:
    write_root(tmp_path, [{"hackbench.throughput": 5.0}])
    text = "Running in process mode with 1 groups using 40 file descriptors each (== 40 tasks)\n"
    (tmp_path / "0/hackbench").write_text(f"{text}Time: 0.056\n")
    assert [(metric, better) for _, metric, better, _ in values_of(tmp_path)] == [
        ("hackbench time", "lower"),
        ("hackbench.throughput", "unknown"),
    ]


def test_an_incomplete_run_is_a_failed_one(tmp_path: Path) -> None:
    write_root(tmp_path, [{"hackbench.throughput": 5.0, "last_state.is_incomplete_run": 1}])
    assert read(tmp_path).boots[0].runs[0].failure is not None


def test_results_of_two_commits_are_refused(tmp_path: Path) -> None:
    for commit in ("a" * 40, "b" * 40):
        write_root(tmp_path / commit, [{"x.y": 1.5}], commit)
    with pytest.raises(InputError, match="results of 2 commits"):
        read(tmp_path)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"a.b": "x"}', '{"a.b": [1e400]}', '{"a.b": NaN}', "../../../etc"]
)
def test_damaged_stats_are_no_numbers(tmp_path: Path, content: str) -> None:
    write_root(tmp_path, [{"x.y": 1.5}, {}])
    (tmp_path / "1/stats.json.gz").unlink()
    (tmp_path / "1/stats.json").write_text(content)
    assert [value for _, _, _, value in values_of(tmp_path)] == [1.5]


def test_the_matrix_of_a_run_is_not_one_of_runs(tmp_path: Path) -> None:
    write_root(tmp_path, [{}])
    (tmp_path / "0/matrix.json").write_text('{"mpstat.cpu.all.usr%": [1.5, 2.5]}')
    with pytest.raises(InputError, match="not a result root of LKP"):
        read(tmp_path)


def test_what_is_no_result_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="not a result root of LKP"):
        read(tmp_path)


def test_better_gives_a_verdict(
    tmp_path: Path, run_cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    for name, factor in (("old", 1.0), ("new", 1.2)):
        runs = [{"hackbench.time": factor * (10 + number * 7 % 10 / 100)} for number in range(10)]
        write_root(tmp_path / name, [*runs])
    paths = (f"lkp:{tmp_path}/old", f"lkp:{tmp_path}/new")
    open_ended = run_cli("compare", *paths, "--json", "-")
    [row] = json.loads(open_ended.stdout)["rows"]
    assert (row["better"], row["family"], row["verdict"]) == (
        "unknown",
        "informational",
        "inconclusive",
    )
    assert "better direction is unknown; add --better" in row["reason"]
    decided = run_cli("compare", *paths, "--better", "hackbench.time=lower")
    assert decided.returncode == 1, decided.stderr
    assert decided.stdout.startswith("regression: hackbench.time at ")


@pytest.mark.parametrize("stated", ["old", "new"])
def test_a_direction_of_one_side_holds_on_both(
    tmp_path: Path, run_cli: Callable[..., subprocess.CompletedProcess[str]], stated: str
) -> None:
    paths: list[str] = []
    for name, factor in (("old", 1.0), ("new", 1.2)):
        runs = [{"hackbench.time": factor * (10 + number * 7 % 10 / 100)} for number in range(10)]
        write_root(tmp_path / name, [*runs])
        bundle = tmp_path / f"{name}.tar"
        better = ["--better", "hackbench.time=lower"] if name == stated else []
        assert run_cli("import", "lkp", tmp_path / name, "-o", bundle, *better).returncode == 0
        paths.append(str(bundle))
    decided = run_cli("compare", *paths)
    assert decided.returncode == 1, decided.stderr
    assert decided.stdout.startswith("regression: hackbench.time at ")


def test_a_direction_must_be_lower_or_higher(
    run_cli: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run_cli("compare", "a.tar", "b.tar", "--better", "x=up")
    assert done.returncode == 2
    assert done.stderr == (
        "schedperf: error: --better: invalid direction 'x=up' (expected NAME=lower or NAME=higher, "
        "e.g. hackbench.time=lower); see `schedperf compare --help`\n"
    )


def test_one_number_that_is_none_does_not_cost_the_others(tmp_path: Path) -> None:
    write_root(tmp_path, [{}])
    (tmp_path / "0/stats.json.gz").unlink()
    (tmp_path / "0/stats.json").write_text(
        f'{{"x.y": 1.5, "x.a": {2**64}, "x.b": NaN, "x.c": 1e999, "x.d": -{"9" * 5000}}}'
    )
    assert [value for _, _, _, value in values_of(tmp_path)] == [1.5]
    assert read(tmp_path).notes == ("0/stats.json: left out 4 numbers that are NaN or too large",)


def test_the_reason_of_a_damaged_file_is_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "stats.json").write_text("{")
    with pytest.raises(InputError, match="not a result root of LKP .*stats.json: invalid JSON"):
        read(tmp_path)


def test_texts_of_a_matrix_are_no_holes(tmp_path: Path) -> None:
    (tmp_path / "matrix.json").write_text('{"a.b": [1.5, 2.5, 0], "a.message": ["x", "y", "z"]}')
    assert read(tmp_path).notes[0].startswith("1 values of matrix.json are 0 or -1")


@pytest.mark.parametrize("start", [0, 1, 100, 1_735_689_600])
def test_series_are_cut_and_single_values_are_kept(tmp_path: Path, start: int) -> None:
    run = tmp_path / "0"
    run.mkdir()
    limits = "stats_part_begin: 2\nstats_part_end: 4\n"
    (run / "job.yaml").write_text(JOB.format(commit="a" * 40) + limits)
    (run / "hackbench.json").write_text('{"hackbench.throughput": [500.0], "hackbench.n": 7}')
    times = [start + second for second in range(5)]
    series = {"mpstat.time": times, "mpstat.usr": [1, 2, 3, 4, 50]}
    (run / "mpstat.json").write_text(json.dumps(series))
    (run / "time.json").write_text('{"time.time": [1, 9], "time.x": [4.0, 6.0]}')
    found = {metric: value for _, metric, _, value in values_of(tmp_path)}
    # LKP counts from the first time if that is larger than 2.
    mean = 2.5 if start == 1 else 3.5
    assert found == {
        "hackbench.throughput": 500.0, "hackbench.n": 7.0, "mpstat.usr": mean, "time.x": 5.0,
    }  # fmt: skip
