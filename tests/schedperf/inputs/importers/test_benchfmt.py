# SPDX-License-Identifier: GPL-2.0-or-later
"""Results in the Go benchmark format become runs with every number and the stated directions."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.importers import Imported
from schedperf.inputs.importers.open import Opener, read_results
from schedperf.inputs.side import name_sides
from schedperf.model.errors import InputError
from schedperf.runs.values import read_run_values
from schedperf_reports.formats import Options, find_format

TEXT = """\
goos: linux
goarch: amd64
cpu: AMD EPYC 7313P 16-Core Processor
pkg: example.com/encode
Unit hits/op better=higher
BenchmarkEncode/format=json/small-8   \t   50\t  34201.5 ns/op\t 12 B/op 3 hits/op 2.5 odd/op
BenchmarkEncode/format=json/small-8   \t   50\t  33201 ns/op\t 13 B/op 4 hits/op 2.75 odd/op
BenchmarkPipe 1000 12.25 MB/s
PASS
ok  \texample.com/encode\t1.234s
"""


def read(path: Path) -> Imported:
    return read_results("benchfmt", path)[0]


def rows_of(path: Path) -> list[tuple[object, ...]]:
    with Opener() as opener:
        table = read_run_values(name_sides([opener.open(Path(f"benchfmt:{path}"))])).table
        columns = ["workload", "point", "metric", "value", "unit", "better", "family"]
        return [tuple(row) for row in table.rows(columns)]


def test_every_value_of_a_line_is_a_metric(tmp_path: Path) -> None:
    file = tmp_path / "old.txt"
    file.write_text(TEXT)
    where = ("Encode/small", "format=json,gomaxprocs=8,pkg=example.com_encode")
    assert rows_of(file)[:4] == [
        (*where, "sec/op", 3.42015e-05, "s", "lower", "primary"),
        (*where, "B/op", 12.0, "B", "lower", "primary"),
        (*where, "hits/op", 3.0, "hits/op", "higher", "primary"),
        (*where, "odd/op", 2.5, "odd/op", "unknown", "informational"),
    ]
    assert rows_of(file)[-1] == (
        "Pipe",
        "pkg=example.com_encode",
        "B/s",
        12.25e6,
        "B/s",
        "higher",
        "primary",
    )
    imported = read(file)
    assert (imported.label, imported.notes) == ("old", ())
    assert imported.boots[0].host == {
        "cpu": {"model": "AMD EPYC 7313P 16-Core Processor"},
        "kernel": {"machine": "x86_64"},
    }


def test_a_key_of_the_configuration_is_a_parameter_on_every_side(tmp_path: Path) -> None:
    encode = "goos: linux\ncommit: {}\nmy-version: {}\npkg: a/encode\nBenchmarkX 1 2 ns/op\n"
    (tmp_path / "old").write_text(encode.format(1, 1))
    (tmp_path / "new").write_text(encode.format(2, 2) + "pkg: a/hash\nBenchmarkX 1 2 ns/op\n")
    points = [
        [dict(run.point) for run in read(tmp_path / name).boots[0].runs] for name in ("old", "new")
    ]
    assert points == [[{"pkg": "a_encode"}], [{"pkg": "a_encode"}, {"pkg": "a_hash"}]]
    assert read(tmp_path / "new").notes == ()
    assert read(tmp_path).notes == (
        "results with several values of commit, my-version are runs of the same point",
    )


def test_long_or_many_keys_of_the_configuration_are_cut(tmp_path: Path) -> None:
    keys = "".join(f"k{number:02}: {'x' * 300}{number}\n" for number in range(12))
    (tmp_path / "a").write_text(f"{keys}k00:\nBenchmarkX/k01=own 1 2 ns/op\n")
    imported = read(tmp_path / "a")
    point = imported.boots[0].runs[0].point
    assert (point["k01"], sorted(point)) == ("own", [f"k{number:02}" for number in range(1, 11)])
    assert len(set(point.values())) == 10
    assert max(map(len, point.values())) == 40
    assert imported.notes == ("at most 10 keys of the configuration are parameters, not k11",)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("BenchmarkX 1 2", "1 fields after the count (expected pairs of value and unit"),
        ("BenchmarkX 1 x ns/op", "invalid value 'x' (expected a number, e.g. 12.5)"),
        ("BenchmarkX 1 nan ns/op", "invalid value 'nan'"),
        ("BenchmarkX 1 1e999 ns/op", "invalid value '1e999'"),
        ("BenchmarkX 1 2 ns/op 3 ns/op", "2 values of sec/op (expected one)"),
        ("BenchmarkX 1 2 ns/op 3 sec/op", "2 values of sec/op (expected one)"),
        ("BenchmarkX 99999999999999999999 2 ns/op", "invalid result (expected a count"),
        ("BenchmarkX 1 2 " + "u" * 1000, f"invalid unit '{'u' * 40}...' (expected at most 40 "),
        ("BenchmarkX 1 2 a\u202eb", "invalid unit 'a\\u202eb' (expected at most 40 printable"),
        ("BenchmarkX 1 2 a\0", "invalid unit 'a\\x00'"),
    ],
)
def test_an_invalid_line_is_left_out_and_named(tmp_path: Path, line: str, why: str) -> None:
    (tmp_path / "a").write_text(f"BenchmarkY 1 2 ns/op\n{line}\nBenchmarkZ 1 2 ns/op\n")
    imported = read(tmp_path / "a")
    assert [run.workload for run in imported.boots[0].runs] == ["Y", "Z"]
    [note] = imported.notes
    assert note.startswith(f"left out 1 line: a:2: {why}")


@pytest.mark.parametrize(
    ("name", "what"), [("X\u202e", "benchmark 'X\\u202e'"), ("X\x1b[31m", "benchmark 'X\\x1b[31m'")]
)
def test_a_run_with_an_invalid_name_is_left_out_and_named(
    tmp_path: Path,
    name: str,
    what: str,
    run_cli: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    (tmp_path / "a").write_text(f"BenchmarkY 1 2 ns/op\nBenchmark{name} 1 2 ns/op\n")
    done = run_cli("import", "benchfmt", tmp_path / "a", "-o", tmp_path / "a.tar")
    assert done.stderr == (
        f"{tmp_path}/a: left out 1 run: a:2: invalid name of {what} (expected at most 500 "
        f"printable characters)\n{tmp_path}/a.tar: 1 run in 1 boot\n"
    )
    (tmp_path / "b").write_text(f"Benchmark{name} 1 2 ns/op\n")
    with pytest.raises(InputError, match=r"b: no results; left out 1 run: b:1: invalid name"):
        rows_of(tmp_path / "b")


@pytest.mark.parametrize(
    ("unit", "metric", "value", "base"),
    [
        ("ns/op", "sec/op", 2.5e-9, "s"),
        ("x-ns/op", "x-sec/op", 2.5e-9, "s"),
        ("p99-ns", "p99-sec", 2.5e-9, "s"),
        ("ns/GC", "sec/GC", 2.5e-9, "s/GC"),
        ("x-MB/s", "x-B/s", 2.5e6, "B/s"),
        ("MB", "B", 2.5e6, "B"),
        ("MB*MB/s", "B*B/s", 2.5e12, "B*B/s"),
        ("MB/MB", "B/MB", 2.5e6, "B/MB"),
        ("peak-B/op", "peak-B/op", 2.5, "B"),
        ("op/ns", "op/ns", 2.5, "op/ns"),
        ("x-allocs/op", "x-allocs/op", 2.5, "x-allocs/op"),
        ("transactions", "transactions", 2.5, "transactions"),
    ],
)
def test_units_with_a_prefix_are_converted_as_benchstat_does(
    tmp_path: Path, unit: str, metric: str, value: float, base: str
) -> None:
    (tmp_path / "a").write_text(f"Unit {unit} better=higher\nBenchmarkX 1 2.5 {unit}\n")
    assert [row[2:6] for row in rows_of(tmp_path / "a")] == [(metric, value, base, "higher")]


@pytest.mark.parametrize("text", ["x\n", "BenchmarkX\n", "Unit x better=lower\n", "\0\n"])
def test_a_file_without_results_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(InputError, match="no results in the Go benchmark format"):
        read(tmp_path / "a")


def test_an_order_that_is_not_recorded_is_not_invented(tmp_path: Path) -> None:
    for name, factor in (("old", 1.0), ("new", 1.5)):
        lines = [f"BenchmarkX 1 {factor * (100 + number % 3)} ns/op" for number in range(8)]
        (tmp_path / name).write_text("\n".join(lines))
    with Opener() as opener:
        paths = [Path(f"benchfmt:{tmp_path}/{name}") for name in ("old", "new")]
        comparison = compare_bundles([opener.open(path) for path in paths])
    [row] = comparison.rows
    assert (row.verdict, row.values_base[0].order) == ("regression", None)
    assert "blocks" not in {each.code for each in comparison.caveats}
    text = find_format("text").render(comparison, Options(width=80, colour=False, everything=True))
    assert "order of the runs not recorded" in text


def test_an_unknown_metric_of_better_is_a_warning(
    tmp_path: Path, run_cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "old").write_text("BenchmarkX 1 2 ns/op 3 hits/op\n")
    (tmp_path / "new").write_text("BenchmarkX 1 2 ns/op 4 misses/op\n")
    paths = [f"benchfmt:{tmp_path}/{name}" for name in ("old", "new")]
    chosen = ["--better", "hit/op=higher", "--better", "misses/op=lower"]
    done = run_cli("compare", *paths, *chosen)
    assert done.stderr == (
        "schedperf: warning: --better hit/op names an unknown metric (expected one of 3 metrics, "
        "e.g. hits/op, misses/op, sec/op)\n"
    )
    output = tmp_path / "new.tar"
    done = run_cli("import", "benchfmt", tmp_path / "new", "-o", output, *chosen)
    assert done.stderr.splitlines()[0] == (
        "schedperf: warning: --better hit/op names an unknown metric (expected one of 2 metrics, "
        "e.g. misses/op, sec/op)"
    )
