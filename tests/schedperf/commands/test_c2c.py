# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf c2c``: what it prints of bundles, recordings and reports, and what it refuses."""

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.evidence.c2c.perf_text import parse_c2c_text
from schedperf_generators.memory import MemoryRun, scheduler_run
from schedperf_generators.numa import Numa
from schedperf_generators.perf_data import write_perf_data

Capture = pytest.CaptureFixture[str]
NUMA = Numa(cpus=16, nodes=2)


def percpu_json(run: MemoryRun) -> str:
    units = {str(cpu): hex(base) for cpu, base in run.numa.unit_bases().items()}
    return json.dumps({"method": "kcore", "units": units, "stable": True})


@pytest.fixture(scope="module")
def contents() -> Mapping[str, bytes]:
    """Return the contents of base.data, new.data, arm.data and what names them, by file name."""
    runs = {
        "base": scheduler_run("base", numa=NUMA),
        "new": scheduler_run("new", numa=NUMA),
        "arm": scheduler_run("new", numa=NUMA, vendor="arm"),
    }
    return {
        **{f"{name}.data": write_perf_data(run.perf_data()) for name, run in runs.items()},
        "System.map": runs["base"].kernel.system_map().encode(),
        "kallsyms": runs["base"].kernel.kallsyms().encode(),
        "percpu.json": percpu_json(runs["base"]).encode(),
        "percpu.txt": NUMA.percpu_lines().encode(),
    }


@pytest.fixture
def recorded(contents: Mapping[str, bytes], tmp_path: Path) -> Path:
    """Return a directory with these files."""
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    status = main(["c2c", *map(str, arguments)])
    done = capsys.readouterr()
    return status, done.out, done.err


def data_of(capsys: Capture, *arguments: object) -> Any:
    status, out, _ = run(capsys, *arguments, "--json", "-")
    assert status == 0
    return json.loads(out)


def test_without_units_and_layout_that_is_said(recorded: Path, capsys: Capture) -> None:
    _, out, _ = run(capsys, recorded / "base.data", "--symbols", recorded / "kallsyms")
    words = " ".join(out.split())
    assert "variables are not named without a kernel layout; give one with --layout" in words
    assert (
        "copies of per-CPU lines are not merged (no per-CPU offsets are given; give them with "
        "--units)" in words
    )


def test_sizes_of_units_alone_fold_too(recorded: Path, capsys: Capture) -> None:
    data = data_of(capsys, recorded / "base.data", "--units", recorded / "percpu.txt")
    (side,) = data["sides"]
    assert any(line["copies"] == 16 for line in side["lines"])
    assert any("alignment only" in note for note in side["notes"])


def test_json_has_all_lines_in_the_order_asked_for(recorded: Path, capsys: Capture) -> None:
    orders: dict[str, Callable[[Any], int]] = {
        "tot": lambda line: line["remote"] + line["local"],
        "rmt": lambda line: line["remote"],
        "lcl": lambda line: line["local"],
        "records": lambda line: line["records"],
    }
    for sort, order in orders.items():
        data = data_of(capsys, recorded / "base.data", "--sort", sort)
        assert (data["schema"], data["sort"]) == ("schedperf/c2c/1", sort)
        values = [order(line) for line in data["sides"][0]["lines"]]
        assert values == sorted(values, reverse=True)
        assert len(values) == data["sides"][0]["totals"]["total_shared_cache_lines"]


def test_two_sides_are_sorted_as_asked(recorded: Path, capsys: Capture) -> None:
    paths = (recorded / "base.data", recorded / "new.data")
    for sort, measure in (("rmt", "remote"), ("lcl", "local")):
        lines = data_of(capsys, *paths, "--sort", sort)["comparison"]["lines"]
        samples = [sum(filter(None, line[measure]["samples"].values())) for line in lines]
        assert samples == sorted(samples, reverse=True)
    compared = data_of(capsys, *paths, "--sort", "records")["comparison"]
    assert len(compared["lines"]) == compared["seen"]


def test_of_a_variable_whose_fields_are_unknown_bytes_are_told_apart(
    recorded: Path, capsys: Capture
) -> None:
    data = data_of(capsys, recorded / "base.data", "--layout", recorded / "System.map")
    sharing = {line["name"]: line["sharing"] for line in data["sides"][0]["lines"]}
    assert (sharing["nohz"], sharing["jiffies_64"]) == ("false", "true")


def test_different_observables_stand_alone(recorded: Path, capsys: Capture) -> None:
    _, out, _ = run(capsys, recorded / "base.data", recorded / "arm.data")
    words = " ".join(out.split())
    assert "rates not compared: kinds of contended loads differ between runs (hitm in base" in words
    assert words.count(": reads and writes of each byte range") > 2
    assert "not comparable with HITM" in words


def report_of(recorded: Path, name: str) -> Path:
    """Return what the installed perf prints of a recording, as a file beside it."""
    if shutil.which("perf") is None:
        pytest.skip("perf not installed; apt-get install linux-perf")
    done = subprocess.run(
        ["perf", "c2c", "report", "-i", str(recorded / f"{name}.data"), "--stdio", "--show-all"],
        capture_output=True,
        text=True,
        check=True,
    )
    path = recorded / f"{name}.txt"
    path.write_text(done.stdout)
    return path


def lines_of(data: Any) -> dict[str, Any]:
    return {line["key"]: line for line in data["sides"][0]["lines"]}


@pytest.mark.parametrize("name", ["base", "new", "arm"])
def test_records_and_loads_of_lines_are_those_that_perf_prints(
    name: str, recorded: Path, capsys: Capture
) -> None:
    theirs = parse_c2c_text(report_of(recorded, name).read_text(), "perf").lines
    printed = {f"{line.address:#x}": line.counts for line in theirs}
    ours = lines_of(data_of(capsys, recorded / f"{name}.data"))
    assert len(ours) > 3
    assert {
        key: (line["records"], line["loads"], line["stores"]) for key, line in ours.items()
    } == {
        key: (printed[key]["records"], printed[key]["loads"], printed[key]["store"]) for key in ours
    }
    text = lines_of(data_of(capsys, recorded / f"{name}.txt"))
    assert {key: text[key]["records"] for key in ours} == {
        key: line["records"] for key, line in ours.items()
    }
    hottest = next(iter(ours.values()))
    twice = hottest["remote"] if name != "arm" else 0
    assert hottest["double_counted"] == twice
    known = sum(access["reads"] + access["writes"] for access in hottest["accesses"])
    assert hottest["records"] == known + twice


def test_what_a_text_does_not_say_is_null(recorded: Path, capsys: Capture) -> None:
    line = next(iter(lines_of(data_of(capsys, report_of(recorded, "base"))).values()))
    assert (line["copies"], line["double_counted"], line["sharing"]) == (None, None, None)
    (access,) = line["accesses"]
    assert (access["readers"], access["writers"], access["nodes"]) == (None, None, None)
    assert access["reads"] == line["loads"] == 6600


def test_two_texts_have_one_true_reason_and_no_zeros(recorded: Path, capsys: Capture) -> None:
    paths = [report_of(recorded, name) for name in ("base", "new")]
    _, out, _ = run(capsys, *paths)
    words = " ".join(out.split())
    assert words.count("does not contain the sampling period") == 1
    assert "period is not fixed" not in words
    assert "0xffff88814a2c8500 2600+1400 - not compared" in words
    assert "0xffff88814a2c8500#2 - 390+210 not compared" in words
    lines = data_of(capsys, *paths)["comparison"]["lines"]
    assert all(None in line["remote"]["samples"].values() for line in lines)


def test_a_text_without_its_table_is_not_none_seen(recorded: Path, capsys: Capture) -> None:
    path = report_of(recorded, "base")
    text = path.read_text()
    path.write_text(text[: text.index("Shared Data Cache Line Table")].rsplit("\n", 2)[0])
    _, out, _ = run(capsys, path)
    words = " ".join(out.split())
    assert "4424 HITMs in the totals, but the input contains no complete table" in words
    assert "no contended line sampled" not in out
    _, both, _ = run(capsys, path, path)
    assert "no contended line" not in both
    assert "no table of cache lines; print the report without --stats" in " ".join(both.split())


def test_two_texts_without_numbers_of_contended_loads_are_not_none_seen(
    recorded: Path, capsys: Capture
) -> None:
    path = report_of(recorded, "base")
    title, following = "Global Shared Cache Line Event Information", "c2c details"
    rows = path.read_text().splitlines(keepends=True)
    first, last = (
        next(number for number, row in enumerate(rows) if row.strip() == each)
        for each in (title, following)
    )
    path.write_text("".join(rows[first - 1 : last - 1]))
    _, out, _ = run(capsys, path, path)
    words = " ".join(out.split())
    assert "the input does not contain the number of contended loads" in words
    assert "no contended lines" not in words


def test_texts_without_offsets_are_compared(recorded: Path, capsys: Capture) -> None:
    whole = report_of(recorded, "base")
    text = whole.read_text()
    table = text.index("=" * 20, text.index("Shared Data Cache Line Table") + 150)
    without_offsets, only_lines = recorded / "without_offsets.txt", recorded / "only_lines.txt"
    without_offsets.write_text(text[:table])
    only_lines.write_text(text[text.rindex("\n=", 0, text.index("Shared Data")) - 49 : table])
    for paths in (
        (without_offsets, without_offsets),
        (only_lines, only_lines),
        (whole, only_lines),
        (only_lines, whole),
    ):
        status, out, err = run(capsys, *paths)
        words = " ".join(out.split())
        assert (status, err) == (0, "")
        assert "damaged text: the text ends before the table of offsets" in words
        assert "0xffff88814a2c8500" in words
        assert ("reads and writes of each byte range" in words) == (whole in paths)
    _, out, _ = run(capsys, only_lines, only_lines)
    assert "latency unknown" in " ".join(out.split())


def test_what_a_text_that_ends_early_lacks_is_no_zero(recorded: Path, capsys: Capture) -> None:
    rows = report_of(recorded, "arm").read_text().splitlines(keepends=True)
    path = recorded / "half.txt"
    numbers = {
        words: number
        for number, row in enumerate(rows)
        for words in ("Load Remote HITM", "Events")
        if words in row
    }
    path.write_text("".join(rows[: numbers["Load Remote HITM"] + 1]))
    _, out, _ = run(capsys, path)
    words = " ".join(out.split())
    assert "not known: the input does not contain the number of HITMs" in words
    assert "- remote HITMs, - local HITMs" in words
    path.write_text("".join(rows[: numbers["Events"]]))
    _, out, _ = run(capsys, path)
    words = " ".join(out.split())
    assert "peer snoops in the totals, but the input contains no complete table" in words
    assert " 0 remote HITMs" not in words
    _, out, _ = run(capsys, path, path)
    assert "remote peer snoop" in out


def test_a_total_that_may_lack_a_part_is_at_least(recorded: Path, capsys: Capture) -> None:
    path = report_of(recorded, "base")
    text = path.read_text()
    path.write_text(text[: text.index("  Load Remote HITM")])
    _, out, _ = run(capsys, path)
    assert "lines unknown: at least 1424 HITMs in the totals" in " ".join(out.split())


def test_a_line_is_compared_with_all_contended_loads(recorded: Path, capsys: Capture) -> None:
    path = report_of(recorded, "base")
    rows = path.read_text().splitlines(keepends=True)
    # perf prints a line in its table and again above its offsets.
    path.write_text("".join(row for row in rows if "0xffff88814a2c8500" not in row))
    _, out, _ = run(capsys, path)
    assert "6.8% of all HITMs are on 0xffffffff84606000" in " ".join(out.split())


def test_the_text_of_perf_is_read_and_its_limits_are_said(recorded: Path, capsys: Capture) -> None:
    report = report_of(recorded, "base")
    data = data_of(capsys, report)
    assert data["sides"][0]["lines"][0]["remote"] == 2600
    _, out, _ = run(capsys, report)
    assert "does not list reading and writing CPUs" in " ".join(out.split())


def make_side(make_bundle: Callable[..., Path], path: Path, side: str) -> Path:
    runs = []
    for seed in range(3):
        made = scheduler_run("base" if side == "base" else "new", numa=NUMA, seed=seed)
        files = {
            "perf_c2c/perf.data": write_perf_data(made.perf_data()),
            "perf_c2c/percpu.json": percpu_json(made),
        }
        runs.append({"kind": "instrumented", "files": files})
    kernel = scheduler_run("base", numa=NUMA).kernel
    files = {
        "boots/0/layout/System.map": kernel.system_map(),
        "boots/0/layout/kallsyms": kernel.kallsyms(),
    }
    return make_bundle(path, runs=runs, files=files, label=side)


def test_bundles_are_compared_by_operation(
    tmp_path: Path, make_bundle: Callable[..., Path], capsys: Capture
) -> None:
    base = make_side(make_bundle, tmp_path / "base.tar", "base")
    new = make_side(make_bundle, tmp_path / "new.tar", "new")
    data = data_of(capsys, base, new)
    assert [side["runs"] for side in data["sides"]] == [3, 3]
    rows = {line["row"]: line for line in data["comparison"]["lines"]}
    queue = rows["runqueues"]
    assert data["comparison"]["reason"] is None
    assert queue["remote"]["ratio"] == pytest.approx(2.0, abs=0.3)
    assert queue["remote"]["changed"]
    status, out, _ = run(capsys, base, new)
    assert status == 0
    words = " ".join(out.split())
    assert "smallest detectable ratio (80% power) for the line with the most samples is " in words
    assert "runqueues" in words
    assert all(len(line) <= 78 for line in out.splitlines())


def test_a_bundle_without_memory_samples_says_why(
    tmp_path: Path, make_bundle: Callable[..., Path], capsys: Capture
) -> None:
    skipped = {"collector": "perf_c2c", "path": "", "status": "skipped", "reason": "no PEBS here"}
    bundle = make_bundle(tmp_path / "base.tar", runs=1, captures=[skipped])
    status, out, err = run(capsys, bundle)
    assert (status, out) == (2, "")
    assert "no PEBS here" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "0 inputs given (expected one bundle, perf.data or report, or two to compare"),
        (
            ["a", "b", "c"],
            "3 inputs given (expected one bundle, perf.data or report, or two to compare",
        ),
        (
            ["base.data", "--sort", "peer"],
            (
                "--sort peer: the samples of base.data record HITM, not peer snoops (expected rmt, "
                "lcl or tot); "
                "choose another order"
            ),
        ),
        (
            ["base.data", "--cacheline", "48"],
            "invalid cache line size 48 (expected a power of two from 16 to 256)",
        ),
        (
            ["base.data", "--point", "groups=4"],
            "--point: requires a bundle, but the input is perf.data",
        ),
        (["base.data", "--units", "missing.json"], "missing.json: cannot be read"),
        (["base.data", "--units", "kallsyms"], "no valid per-CPU unit sizes"),
        (["base.data", "--layout", "base.data"], "base.data"),
        (
            ["percpu.json"],
            (
                "percpu.json: unknown format (expected a bundle, perf.data with memory "
                "samples, or the complete output of `perf c2c report --stdio`)"
            ),
        ),
        (["missing.data"], "missing.data"),
    ],
)
def test_a_wrong_request_is_one_line(
    arguments: list[str], message: str, recorded: Path, capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(recorded)
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_an_input_is_not_overwritten(recorded: Path, capsys: Capture) -> None:
    path = recorded / "base.data"
    before = path.read_bytes()
    status, _, err = run(capsys, path, "--json", path)
    assert (status, path.read_bytes() == before) == (2, True)
    assert "also an input; write to another file" in err


OTHER_KERNEL = b"\x02" * 20


def of_another_kernel(recorded: Path) -> Path:
    """Write what a kernel of another build recorded, and return its path."""
    run = scheduler_run("new", numa=NUMA)
    kernel = replace(run.kernel, build_id=OTHER_KERNEL)
    path = recorded / "other.data"
    path.write_bytes(write_perf_data(replace(run, kernel=kernel).perf_data()))
    return path


@pytest.mark.parametrize(
    ("option", "name"),
    [("--symbols", "kallsyms"), ("--layout", "System.map"), ("--units", "percpu.json")],
)
def test_one_file_does_not_describe_two_kernels(
    recorded: Path, capsys: Capture, option: str, name: str
) -> None:
    given = (option, recorded / name)
    status, _, error = run(capsys, recorded / "base.data", of_another_kernel(recorded), *given)
    assert status == 2
    assert f"{option}: one file cannot describe both kernels" in error
    assert OTHER_KERNEL.hex() in error
    assert run(capsys, recorded / "base.data", recorded / "new.data", *given)[0] == 0


def test_a_layout_of_another_kernel_names_nothing(
    recorded: Path, capsys: Capture, make_bundle: Callable[..., Path]
) -> None:
    of_base = scheduler_run("base", numa=NUMA).kernel
    paths = {
        build_id: make_bundle(
            recorded / f"{build_id}.tar",
            host={"kernel": {"build_id": build_id}},
            files={"boots/0/layout/System.map": of_base.system_map()},
        )
        for build_id in (of_base.build_id.hex(), OTHER_KERNEL.hex())
    }
    same, other = paths.values()
    assert run(capsys, recorded / "base.data", "--layout", same)[0] == 0
    status, _, error = run(capsys, recorded / "base.data", "--layout", other)
    assert status == 2
    assert f"--layout: the build id of the recorded kernel is {of_base.build_id.hex()}" in error
    assert "give the layout of the recorded kernel" in error
