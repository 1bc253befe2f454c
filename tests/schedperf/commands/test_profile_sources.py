# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf profile``: which files and points it takes, and how two sides become comparable."""

import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard

from schedperf.cli import main
from schedperf.evidence.profile.attribution import ALL_TASKS
from schedperf.evidence.profile.independent import ONE_AFTER_THE_OTHER
from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.perf_data import PerfData, write_perf_data, write_perf_data_folder
from schedperf_generators.profiles import USER, profile, profiled_kernel
from schedperf_generators.samples import Sample

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
KERNEL = profiled_kernel()
SAMPLES = {("update_load_avg", 0): 120, ("schedule", 1): 60, (USER, 0): 50}
Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    status = main(["profile", *arguments])
    done = capsys.readouterr()
    return status, " ".join(done.out.split()), done.err


def data_of(capsys: Capture, *arguments: str) -> Any:
    assert main(["profile", *arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def example(name: str, *sides: str) -> list[str]:
    return [str(EXAMPLES / name / f"{side}.tar.xz") for side in sides or ("base", "new")]


@pytest.fixture
def perf_data() -> bytes:
    return write_perf_data(profile(KERNEL, SAMPLES))


@pytest.mark.parametrize(
    ("compression", "compress"),
    [
        ("gzip", gzip.compress),
        ("xz", lzma.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("zlib", zlib.compress),
    ],
)
def test_packed_perf_data_is_to_be_decompressed_first(
    compression: str,
    compress: Callable[[bytes], bytes],
    perf_data: bytes,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    path = tmp_path / "perf.data.packed"
    path.write_bytes(compress(perf_data))
    status, _, err = run(capsys, str(path))
    assert (status, err.count("\n")) == (2, 1)
    assert (
        f"unknown content, compressed with {compression} (expected a bundle or perf.data); "
        "decompress it first" in err
    )


def test_what_is_neither_says_what_to_give(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("text\n" * 99)
    status, _, err = run(capsys, str(path))
    assert (status, err.count("\n")) == (2, 1)
    assert (
        "unknown file type (expected a bundle or perf.data); give a file written by schedperf "
        "record or perf record"
    ) in err


def test_one_part_of_a_folder_names_the_folder(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "threads"
    write_perf_data_folder(profile(KERNEL, SAMPLES), folder)
    part = next(path for path in sorted(folder.iterdir()) if path.name.startswith("data."))
    status, _, err = run(capsys, str(part))
    assert (status, err.count("\n")) == (2, 1)
    assert f"part of a recording of perf record --threads; pass the directory {folder}" in err


def test_a_name_for_no_export_is_a_usage_error(tmp_path: Path, capsys: Capture) -> None:
    path = str(tmp_path / "out")
    status, _, err = run(capsys, *example("deep-cgroup", "base"), "-o", path)
    assert (status, err.count("\n")) == (2, 1)
    assert "-o: only valid with --export; add --export" in err


def test_a_workload_is_a_point_and_the_error_lists_what_can_be_typed(capsys: Capture) -> None:
    (path,) = example("cluster-percpu", "base")
    _, out, _ = run(capsys, path)
    assert "select another one with --point ('perf bench sched pipe -l 5000')" in out
    chosen = data_of(capsys, path, "--point", "perf bench sched pipe -l 5000")
    assert chosen["sides"][0]["point"] == "perf bench sched pipe -l 5000"
    status, _, err = run(capsys, path, "--point", "nothing")
    assert (status, err.count("\n")) == (2, 1)
    assert "'hackbench -l 100 -g 2', 'perf bench sched pipe -l 5000'" in err


@pytest.mark.parametrize(
    "name", ["groups=8", "hackbench -l 100 -g {groups}", "hackbench -l 100 -g {groups} at groups=8"]
)
def test_a_point_has_the_names_that_are_printed(name: str, profiled: Any, capsys: Capture) -> None:
    runs = profiled.runs(10, point={"groups": "8"})
    path = profiled.make_bundle(profiled.folder / "one.tar", runs=runs)
    assert data_of(capsys, str(path), "--point", name)["sides"][0]["point"].endswith("groups=8")


def test_bundles_without_a_common_point_say_what_each_has(capsys: Capture) -> None:
    paths = (*example("deep-cgroup", "base"), *example("deep-cgroup-arm64", "base"))
    status, _, err = run(capsys, *paths)
    assert (status, err.count("\n")) == (2, 1)
    assert "base.tar.xz has 'hackbench -p -l 4000 -g 2'; " in err
    assert "base.tar.xz has 'hackbench -p -l 50 -g 2'" in err


def test_q_is_that_of_the_comparison_of_whole_bundles(capsys: Capture) -> None:
    paths = example("deep-cgroup-arm64")
    rows = {(row["symbol"], row["dso"]): row for row in data_of(capsys, *paths)["rows"]}
    main(["compare", *paths, "--json", "-"])
    sections = json.loads(capsys.readouterr().out)["sections"]
    (point,) = sections["profile"]["data"]["comparisons"][0]["events"][0]["points"]
    assert sum(row["changed"] for row in point["rows"]) > 1
    for row in point["rows"]:
        mine = rows[row["symbol"], row["dso"]]
        q = row["share"]["q"]
        assert mine["q"] == (None if q is None else pytest.approx(q, rel=1e-9))
        assert mine["changed"] == row["changed"]
    assert not data_of(capsys, *paths)["cautions"]
    assert (
        "q is corrected for the number of rows in this table; `schedperf compare` "
        "corrects for the number of functions in all samples"
    ) in data_of(capsys, *paths, "--sort", "dso")["cautions"][0]


@pytest.mark.parametrize("sort", ["symbol,dso", "symbol", "dso", "comm,symbol"])
def test_code_that_hides_time_of_a_blind_event_is_not_tested(sort: str, capsys: Capture) -> None:
    rows = data_of(capsys, *example("deep-cgroup"), "--sort", sort)["rows"]
    by_symbol = {row.get("symbol", row.get("dso")): row for row in rows}
    # Time with interrupts off is attributed to other kernel code, so its sum is right.
    is_summed = sort == "dso"
    kernel = "[kernel]" if is_summed else "_raw_spin_unlock_irqrestore"
    assert (by_symbol[kernel]["q"] is None) != is_summed
    assert any(row["q"] is not None for row in rows)


def test_sides_that_took_no_turns_are_marked(profiled: Any, capsys: Capture) -> None:
    paths = one_after_the_other(profiled, [10, 20, 30], [110, 120, 130])
    data = data_of(capsys, *paths)
    assert (data["took_turns"], data["cautions"]) == (False, [ONE_AFTER_THE_OTHER, ALL_TASKS])
    _, out, _ = run(capsys, *paths)
    assert out.index(ONE_AFTER_THE_OTHER) < out.index("change, pp")
    assert "* significant (drift not excluded)" in out


def one_after_the_other(profiled: Any, *sides: Sequence[int]) -> list[str]:
    return [
        str(
            profiled.make_bundle(
                profiled.folder / f"{number}.tar",
                runs=[
                    {**run, "session": str(number), "start": f"2026-11-21T0{number}:00:0{place}.0Z"}
                    for place, run in enumerate(profiled.runs(*side))
                ],
                files={"boots/0/layout/kallsyms": profiled.kallsyms()},
            )
        )
        for number, side in enumerate(sides)
    ]


def test_a_side_without_kernel_symbols_makes_the_kernel_one_row(
    profiled: Any, capsys: Capture
) -> None:
    base, _ = one_after_the_other(profiled, [10, 20, 30], [10, 20, 30])
    new = str(profiled.make_bundle(profiled.folder / "n.tar", runs=profiled.runs(10, 20, 30)))
    data = data_of(capsys, base, new)
    assert any(text.startswith("only base has kernel symbols") for text in data["cautions"])
    (row,) = data["rows"]
    assert (row["symbol"], row["change"]) == ("[kernel] as a whole", 0.0)


def test_stacks_of_several_commands_begin_with_the_command(capsys: Capture) -> None:
    assert main(["profile", *example("deep-cgroup", "base"), "--export", "folded"]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands = {line.rpartition(" ")[0].partition(";")[0] for line in lines}
    assert {"hackbench", "swapper", "rcu_preempt"} <= commands
    assert not any("/" in command for command in commands)


def test_each_event_has_a_table_with_its_own_limit(tmp_path: Path, capsys: Capture) -> None:
    asked = PLAIN | SampleType.IDENTIFIER
    events = (
        Event(name="cycles", sample_type=asked, ids=(1,)),
        Event(name="page-faults", type=1, config=2, sample_type=asked, ids=(2,)),
    )
    samples = [
        Sample(ip=4096, event=number, id=0, period=10, cpu=cpu)
        for number in (0, 1)
        for cpu in (0, 1)
    ]
    path = tmp_path / "two.data"
    path.write_bytes(write_perf_data(PerfData(events=events, records=samples)))
    _, out, _ = run(capsys, str(path), "--sort", "cpu", "--limit", "1")
    assert "cycles: 2 samples" in out
    assert "page-faults: 2 samples" in out
    assert out.count("1 more, see") == 2
    faults = out[out.index("recorded with page-faults") :]
    assert "interrupts" not in faults.partition("page-faults: 2 samples")[0]
