# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf profile``: what it counts, what it compares, and where it writes."""

import json
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.installed_perf import perf_report
from schedperf_generators.perf_data import (
    PerfData,
    write_perf_data,
    write_perf_data_folder,
    write_perf_data_pipe,
)
from schedperf_generators.profiles import USER, profile, profiled_kernel
from schedperf_generators.samples import Sample
from schedperf_generators.truth import Counted

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
KERNEL = profiled_kernel()
Capture = pytest.CaptureFixture[str]
Samples = Mapping[tuple[str, int], int]
WriteData = Callable[..., str]

BASE: Samples = {
    ("update_load_avg", 0): 120,
    ("update_load_avg", 3): 40,
    ("schedule", 1): 60,
    ("nf_conntrack_in", 2): 30,
    (USER, 0): 50,
}
NEW: Samples = {**BASE, ("update_load_avg", 0): 320, ("update_cfs_group", 3): 80}


@pytest.fixture
def symbols(tmp_path: Path) -> str:
    """Write the kallsyms of the kernel that the files are of."""
    path = tmp_path / "kallsyms"
    path.write_text(KERNEL.kallsyms())
    return str(path)


@pytest.fixture
def write_data(tmp_path: Path) -> WriteData:
    """Write a perf.data of some samples: ``write_data("base", BASE, chains=False) -> path``."""

    def write(name: str, samples: Samples, **options: Any) -> str:
        path = tmp_path / f"{name}.data"
        path.write_bytes(write_perf_data(profile(KERNEL, samples, **options)))
        return str(path)

    return write


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    status = main(["profile", *arguments])
    done = capsys.readouterr()
    return status, done.out, done.err


def rows_of(capsys: Capture, *arguments: str) -> list[dict[str, Any]]:
    status, out, err = run(capsys, *arguments, "--json", "-")
    assert (status, err) == (0, "")
    data = json.loads(out)
    assert data["schema"] == "schedperf/profile/1"
    rows: list[dict[str, Any]] = data["rows"]
    return rows


def test_one_file_has_a_row_for_each_function(
    write_data: WriteData, symbols: str, capsys: Capture
) -> None:
    rows = rows_of(capsys, write_data("base", BASE), "--symbols", symbols)
    assert [(row["dso"], row["symbol"], row["samples"]) for row in rows[:3]] == [
        ("[kernel]", "update_load_avg", 160),
        ("[kernel]", "schedule", 60),
        ("libmessages.so.1", "[libmessages.so.1] unresolved", 50),
    ]
    assert sum(row["share"] for row in rows) == pytest.approx(100.0)
    whole = sum(row["period"] for row in rows)
    assert rows[0]["share"] == pytest.approx(100.0 * rows[0]["period"] / whole)


def test_one_file_and_two_have_the_names_of_their_symbols(
    write_data: WriteData, tmp_path: Path, capsys: Capture
) -> None:
    old = tmp_path / "old-kallsyms"
    text = KERNEL.kallsyms().replace("sched_balance_rq", "load_balance.isra.0")
    old.write_text(text.replace("update_load_avg", "update_load_avg.constprop.0"))
    path = write_data("base", {("sched_balance_rq", 0): 50, ("update_load_avg", 1): 40})
    alone = rows_of(capsys, path, "--symbols", str(old), "--sort", "symbol")
    assert [row["symbol"] for row in alone] == [
        "load_balance.isra.0",
        "update_load_avg.constprop.0",
    ]
    both = rows_of(capsys, path, path, "--symbols", str(old), "--sort", "symbol")
    assert {row["symbol"] for row in both} == {row["symbol"] for row in alone}


def test_a_recording_whose_samples_cannot_be_read_says_why(
    write_data: WriteData, capsys: Capture
) -> None:
    path = Path(write_data("cut", BASE))
    first_sample = path.read_bytes().index(struct.pack("<IHH", 9, 1, 0)[:6])
    raw = bytearray(path.read_bytes())
    raw[first_sample + 6 : first_sample + 8] = bytes(2)
    path.write_bytes(raw)
    status, out, err = run(capsys, str(path))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "cut.data: no readable samples: the record at offset" in err
    assert "has an invalid size" in err
    path.write_bytes(write_perf_data(profile(KERNEL, {})))
    _, _, err = run(capsys, str(path))
    assert "cut.data: no samples; record it again" in err


def test_the_interval_stays_in_a_narrow_terminal_and_what_is_cut_is_named(capsys: Capture) -> None:
    paths = [str(EXAMPLES / f"deep-cgroup/{side}.tar.xz") for side in ("base", "new")]
    _, out, _ = run(capsys, *paths, "--limit", "3", "--sort", "comm,dso,symbol")
    assert "95% CI" in out
    assert "more, see --limit or --json" in out
    assert "columns not shown at this width: " in out
    assert all(len(line) <= 78 for line in out.splitlines())


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("cpu", {(0,): 170, (1,): 60, (2,): 30, (3,): 40}),
        ("node", {(0,): 230, (1,): 70}),
        ("comm", {("hackbench",): 300}),
        ("event", {("cycles",): 300}),
        ("dso", {("[kernel]",): 220, ("[nf_conntrack]",): 30, ("libmessages.so.1",): 50}),
        ("node,symbol", {(0, "update_load_avg"): 120, (1, "update_load_avg"): 40}),
    ],
)
def test_any_keys_make_a_row(
    sort: str,
    expected: Mapping[tuple[Any, ...], int],
    write_data: WriteData,
    symbols: str,
    capsys: Capture,
) -> None:
    rows = rows_of(capsys, write_data("base", BASE), "--symbols", symbols, "--sort", sort)
    found = {tuple(row[key] for key in sort.split(",")): row["samples"] for row in rows}
    assert sum(found.values()) == 300
    assert expected.items() <= found.items()
    if "," not in sort:
        assert found == expected


@pytest.mark.parametrize("form", ["pipe", "folder", "zstd", "big endian"])
def test_each_form_of_perf_data_has_the_same_rows(
    form: str, write_data: WriteData, symbols: str, tmp_path: Path, capsys: Capture
) -> None:
    expected = rows_of(capsys, write_data("plain", BASE), "--symbols", symbols)
    path = tmp_path / "other.data"
    data = profile(KERNEL, BASE, order=">" if form == "big endian" else "<")
    if form == "folder":
        write_perf_data_folder(data, path)
    elif form == "pipe":
        path.write_bytes(write_perf_data_pipe(data))
    elif form == "zstd":
        path.write_bytes(write_perf_data(replace(data, compressed=81)))
    else:
        path.write_bytes(write_perf_data(data))
    assert rows_of(capsys, str(path), "--symbols", symbols) == expected


def test_filters_leave_the_shares_of_the_whole(write_data: WriteData, capsys: Capture) -> None:
    path = write_data("base", BASE)
    whole = {row["cpu"]: row for row in rows_of(capsys, path, "--sort", "cpu")}
    chosen = rows_of(capsys, path, "--sort", "cpu", "--cpu", "1,3")
    assert {row["cpu"]: row for row in chosen} == {cpu: whole[cpu] for cpu in (1, 3)}
    of_node = rows_of(capsys, path, "--sort", "cpu", "--node", "1")
    assert {row["cpu"] for row in of_node} == {2, 3}
    assert rows_of(capsys, path, "--sort", "comm", "--comm", "hackbench")[0]["samples"] == 300
    status, _, err = run(capsys, path, "--comm", "nobody")
    assert (status, err.count("\n")) == (2, 1)
    assert "no samples match --comm, --cpu and --node; leave these options out to show" in err


def test_two_files_have_differences_and_no_interval(
    write_data: WriteData, symbols: str, capsys: Capture
) -> None:
    arguments = (write_data("base", BASE), write_data("new", NEW), "--symbols", symbols)
    first = rows_of(capsys, *arguments)[0]
    assert first["symbol"] == "update_cfs_group"
    assert first["change"] == pytest.approx(first["new"]["share"] - first["base"]["share"])
    assert (first["interval"], first["q"], first["changed"]) == (None, None, False)
    _, out, _ = run(capsys, *arguments)
    assert "no CI with n = 1 + 1; record several runs" in " ".join(out.split())
    assert all(len(line) <= 78 for line in out.splitlines())


def test_several_events_are_counted_apart(tmp_path: Path, capsys: Capture) -> None:
    asked = PLAIN | SampleType.IDENTIFIER
    events = (
        Event(name="cycles", sample_type=asked, ids=(1,)),
        Event(name="instructions", config=1, sample_type=asked, ids=(2,)),
    )
    samples = [Sample(ip=4096, event=number, id=0, period=10) for number in (0, 0, 0, 1)]
    path = tmp_path / "two.data"
    path.write_bytes(write_perf_data(PerfData(events=events, records=samples)))
    rows = rows_of(capsys, str(path), "--sort", "cpu")
    assert [(row["event"], row["samples"], row["share"]) for row in rows] == [
        ("cycles", 3, 100.0),
        ("instructions", 1, 100.0),
    ]
    chosen = rows_of(capsys, str(path), "--sort", "cpu", "--event", "instructions")
    assert [(row["samples"], "event" in row) for row in chosen] == [(1, False)]
    status, _, err = run(capsys, str(path), "--event", "page-faults")
    assert status == 2
    assert "no samples of 'page-faults' (expected one of cycles, instructions" in err


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_rows_equal_those_of_perf_report(
    write_data: WriteData, symbols: str, capsys: Capture
) -> None:
    path = write_data("base", BASE)
    reported = perf_report(Path(path), "--kallsyms", symbols, keys="cpu,dso,symbol")
    expected = {
        (row.cpu, row.symbol): counted
        for row, counted in reported.items()
        if row.dso == "[kernel.kallsyms]"
    }
    rows = rows_of(capsys, path, "--symbols", symbols, "--sort", "cpu,symbol,dso")
    found = {
        (row["cpu"], row["symbol"]): Counted(row["samples"], row["period"])
        for row in rows
        if row["dso"] == "[kernel]"
    }
    assert len(expected) == 3
    assert found == expected


def test_folded_stacks_go_to_stdout_alone(
    write_data: WriteData, symbols: str, capsys: Capture
) -> None:
    status, out, err = run(
        capsys, write_data("base", BASE), "--symbols", symbols, "--export", "folded"
    )
    assert status == 0
    [note] = err.splitlines()
    assert note.endswith("stay unresolved (only the first such file is reported)")
    lines = dict(line.rsplit(" ", 1) for line in out.splitlines())
    callers = "do_syscall_64;ksys_read;pipe_read;schedule;__schedule"
    user = "[hackbench] unresolved;[libmessages.so.1] unresolved"
    assert f"{user};{callers};update_load_avg" in lines
    rows = rows_of(capsys, write_data("base", BASE), "--symbols", symbols)
    assert sum(map(int, lines.values())) == sum(row["period"] for row in rows)


def test_files_are_written_beside_the_text(
    write_data: WriteData, symbols: str, tmp_path: Path, capsys: Capture
) -> None:
    page, folded, record = (tmp_path / name for name in ("f.html", "f.folded", "f.json"))
    status, out, _ = run(
        capsys,
        *(write_data("base", BASE), write_data("new", NEW), "--symbols", symbols),
        *("--flamegraph", str(page), "--json", str(record)),
        *("--export", "folded", "-o", str(folded)),
    )
    assert status == 0
    assert out.startswith("Profile\n")
    assert "update_cfs_group" in page.read_text()
    assert "<title>profile: new.data vs base.data - schedperf</title>" in page.read_text()
    assert json.loads(record.read_text())["tool_version"]
    assert all(len(line.split(" ")[-2:]) == 2 for line in folded.read_text().splitlines())


def test_stacks_need_call_chains(write_data: WriteData, capsys: Capture, tmp_path: Path) -> None:
    page = tmp_path / "f.html"
    path = write_data("flat", BASE, chains=False)
    status, _, err = run(capsys, path, "--flamegraph", str(page))
    assert (status, err.count("\n")) == (2, 1)
    assert "no call chains; record with perf record -g" in err
    assert not page.exists()


def test_bundles_have_intervals_and_say_what_the_event_cannot_see(capsys: Capture) -> None:
    paths = [str(EXAMPLES / f"deep-cgroup/{side}.tar.xz") for side in ("base", "new")]
    status, out, _ = run(capsys, *paths, "--limit", "3")
    said = " ".join(out.split())
    assert status == 0
    assert "base: base, 5 runs of hackbench" in said
    assert "cannot sample code that runs with interrupts off (most of the scheduler)" in said
    rows = rows_of(capsys, *paths, "--sort", "symbol")
    assert all(row["interval"] is not None for row in rows)
    assert rows[0]["cost"]["interval"] is not None


def test_a_point_that_no_bundle_has_is_one_line(capsys: Capture) -> None:
    path = str(EXAMPLES / "deep-cgroup/base.tar.xz")
    status, _, err = run(capsys, path, "--point", "groups=999")
    assert (status, err.count("\n")) == (2, 1)
    assert "no profile with parameters 'groups=999'" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sort", "dso,colour"], "unknown key 'colour' (expected one or more of event,cpu"),
        (["--sort", ","], "--sort: empty list"),
        (["--cpu", "many"], "--cpu: invalid list 'many' (expected numbers and ranges, e.g. 0-3,8)"),
        (["--node", ""], "--node: invalid list '' (expected numbers and ranges"),
        (["--json", "-", "--export", "folded"], "formats requested (expected one of"),
        (["--limit", "0"], "--limit"),
        (["--point", "groups=4"], "perf.data does not record parameters; leave --point out"),
        (["--symbols", "/nonexistent"], "/nonexistent: cannot be read: no such file or directory"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(
    options: list[str], message: str, write_data: WriteData, capsys: Capture
) -> None:
    status, out, err = run(capsys, write_data("base", BASE), *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize("content", [b"", b"PERFILE2", b"PERFILE2" + b"\xff" * 300, b"text\n" * 99])
def test_what_is_no_recording_is_one_line(content: bytes, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.data"
    path.write_bytes(content)
    status, out, err = run(capsys, str(path))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "bad.data" in err


def test_none_and_three_sources_are_one_line(write_data: WriteData, capsys: Capture) -> None:
    path = write_data("base", BASE)
    for paths in ([], [path, path, path]):
        status, _, err = run(capsys, *paths)
        assert (status, err.count("\n")) == (2, 1)
        assert "or two to compare" in err
    status, _, err = run(capsys, str(Path(path).with_name("nothing.data")))
    assert (status, err.count("\n")) == (2, 1)


def test_an_input_is_never_overwritten(write_data: WriteData, capsys: Capture) -> None:
    path = write_data("base", BASE)
    before = Path(path).read_bytes()
    status, _, err = run(capsys, path, "--export", "folded", "-o", path)
    assert status == 2
    assert "also an input; write to another file" in err
    assert Path(path).read_bytes() == before


def test_one_symbol_table_does_not_name_two_kernels(
    symbols: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = profiled_kernel()
    kernels = {"base": kernel, "new": replace(kernel, build_id=b"\x02" * 20)}
    paths = [tmp_path / f"{name}.data" for name in kernels]
    for path, each in zip(paths, kernels.values(), strict=True):
        path.write_bytes(write_perf_data(profile(each, {("schedule", 0): 40})))
    assert main(["profile", *map(str, paths), "--symbols", symbols]) == 2
    error = capsys.readouterr().err
    assert "--symbols: one file cannot describe both kernels" in error
    assert ("02" * 20) in error
    assert main(["profile", str(paths[0]), str(paths[0]), "--symbols", symbols]) == 0
