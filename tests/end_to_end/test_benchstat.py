# SPDX-License-Identifier: GPL-2.0-or-later
"""The real benchstat prints the same of our export as of its own input: medians, changes, p."""

import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

RunCli = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


class Benchmark(NamedTuple):
    """A benchmark with its value on each side, and the CV of its runs."""

    name: str
    unit: str
    better: str
    base: float
    new: float
    cv: float


# benchstat converts ns and MB.
BENCHMARKS = (
    Benchmark("Pipe/groups=4", "ns/op", "lower", 1726.0, 1702.0, 0.02),
    Benchmark("Pipe/groups=16", "ns/op", "lower", 30690.0, 33120.0, 0.03),
    Benchmark("Send/threads=8", "MB/s", "higher", 812.0, 702.5, 0.01),
    Benchmark("Send/threads=64", "MB/s", "higher", 640.0, 640.0, 0.0),
    Benchmark("Sleep", "sec", "lower", 0.0123, 0.0124, 0.05),
    Benchmark("Wake", "p99-ns", "lower", 8700.0, 9350.0, 0.02),
)
RUNS = 10


@pytest.fixture(scope="module")
def benchstat() -> Path:
    folder = Path(sys.prefix) / "benchstat"
    if not (folder / "benchstat").exists() and shutil.which("go") is None:
        pytest.skip("needs benchstat, which Go builds: apt-get install golang-go")
    built = subprocess.run(
        [ROOT / "scripts" / "benchstat", folder], capture_output=True, text=True, timeout=300
    )
    if built.returncode:
        pytest.skip(f"benchstat cannot be built: {built.stderr.strip().splitlines()[-1:]}")
    return folder / "benchstat"


def run(benchstat: Path, *arguments: object) -> list[list[str]]:
    done = subprocess.run(
        [benchstat, "-format", "csv", *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return list(csv.reader(io.StringIO(done.stdout)))


def write_inputs(folder: Path) -> tuple[list[Path], list[Path]]:
    """Write the same runs as benchstat's own input and as tables, for both sides."""
    random = Random(14313)  # noqa: S311 # numbers, no secret
    own, tables = [], []
    for side in ("base", "new"):
        lines = ["goos: linux"]
        rows = ["workload,point,metric,unit,better,value"]
        for benchmark in BENCHMARKS:
            workload, _, point = benchmark.name.partition("/")
            mean: float = getattr(benchmark, side)
            for _ in range(RUNS):
                # Few digits, so that some values are equal, as with real programs.
                value = f"{mean * random.gauss(1.0, benchmark.cv):.4g}"
                lines.append(f"Benchmark{benchmark.name} 1000 {value} {benchmark.unit}")
                rows.append(f"{workload},{point},m,{benchmark.unit},{benchmark.better},{value}")
        own.append(folder / f"{side}.txt")
        own[-1].write_text("\n".join(lines) + "\n")
        tables.append(folder / f"{side}.csv")
        tables[-1].write_text("\n".join(rows) + "\n")
    return own, tables


def results_of(rows: list[list[str]]) -> dict[str, list[str]]:
    """Return the cells of each benchmark, and of the geometric means by the unit's table."""
    results: dict[str, list[str]] = {}
    unit = ""
    for row in rows:
        if len(row) > 1 and not row[0] and row[1] and row[2:3] == ["CI"]:
            unit = row[1].removeprefix("m-")
        elif len(row) > 2 and row[0]:
            results[f"{unit} {row[0]}"] = row[1:]
    return results


@pytest.mark.parametrize("from_own", [False, True], ids=["tables", "imported"])
def test_benchstat_prints_the_same_of_the_export_as_of_its_own_input(
    benchstat: Path, run_cli: RunCli, tmp_path: Path, *, from_own: bool
) -> None:
    own, tables = write_inputs(tmp_path)
    inputs = [f"benchfmt:{path}" for path in own] if from_own else tables
    exported = run_cli("compare", *inputs, "--format", "benchfmt")
    (tmp_path / "export.txt").write_text(exported.stdout)
    expected = results_of(run(benchstat, *own))
    printed = results_of(run(benchstat, "-col", "side", tmp_path / "export.txt"))
    # Each of the four units has a table with a geometric mean.
    assert len(expected) == len(BENCHMARKS) + 4
    assert set(printed) == set(expected)
    assert {cells[4] for cells in expected.values()} > {"~"}, "no change and changes are tested"
    for name, cells in expected.items():
        medians = [float(cells[0]), float(cells[2])]
        assert [float(printed[name][0]), float(printed[name][2])] == pytest.approx(medians, 1e-12)
        assert printed[name][1::2] == cells[1::2], name
        assert printed[name][4:] == cells[4:], name


def test_benchstat_reads_what_hostile_names_become(
    benchstat: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    names = ("a b\tc", "../x", "Unit y better=lower", "日本 語", "1/2", "z" * 900)
    lines = ["workload,point,metric,unit,better,value"]
    for name in names:
        lines += [f'"{name}",,"{name}",ns/op,lower,{value}' for value in (1.0, 2.0, 3.5)]
    (tmp_path / "base.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    files = [tmp_path / name for name in ("base.csv", "new.csv")]
    exported = run_cli("compare", *files, "--format", "benchfmt")
    assert exported.returncode == 0, exported.stderr
    (tmp_path / "export.txt").write_text(exported.stdout)
    printed = results_of(run(benchstat, "-col", "side", tmp_path / "export.txt"))
    medians = [cells[0] for name, cells in printed.items() if not name.endswith(" geomean")]
    assert medians == ["2e-09"] * len(names)
