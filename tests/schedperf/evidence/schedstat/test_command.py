# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf schedstat``: bundles, snapshots and files of perf, and one line for what is none."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.evidence.schedstat.record import Schedstat
from tests.record_schema import validator_of

Capture = pytest.CaptureFixture[str]
Make = Callable[..., str]


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    status = main(["schedstat", *map(str, arguments)])
    done = capsys.readouterr()
    return status, done.out, done.err


def data_of(capsys: Capture, *arguments: object) -> Any:
    status, out, err = run(capsys, *arguments, "--json", "-")
    assert (status, err) == (0, "")
    section = json.loads(out)
    assert (section["schema"], section["status"]) == (Schedstat.schema_id(), "ok")
    validator_of(Schedstat).validate(section["data"])
    return section["data"]


@pytest.fixture
def folders(tmp_path: Path, make_schedstat: Make) -> Callable[[str, Sequence[int]], Path]:
    """Write a directory of runs, each a directory with before and after."""

    def make(name: str, pulls: Sequence[int]) -> Path:
        for number, count in enumerate(pulls):
            folder = tmp_path / name / f"{number:03d}"
            folder.mkdir(parents=True)
            machine = {cpu: {"sched_count": 50, "newidle lb_gained": count} for cpu in (0, 1)}
            (folder / "before").write_text(make_schedstat(17, {0: {}, 1: {}}, jiffies=1000))
            (folder / "after").write_text(make_schedstat(17, machine, jiffies=1500))
        return tmp_path / name

    return make


def test_a_wide_terminal_has_room_for_what_is_counted(
    folders: Callable[[str, Sequence[int]], Path],
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base, new = folders("base", (900, 910, 890, 905)), folders("new", (81, 82, 80, 83))
    arguments = (base, new, "--hz", "250")
    narrow = " ".join(run(capsys, *arguments)[1].split())
    monkeypatch.setenv("COLUMNS", "100")
    status, wide, err = run(capsys, *arguments)
    assert (status, err) == (0, "")
    row = "newidle lb_gained second 901 81.5 * -91.0% [-91.2%, -90.7%] 4+4 runs"
    assert f"{row} tasks pulled" in " ".join(wide.split())
    assert f"{row} tasks pulled" not in narrow


def test_two_snapshots_are_one_interval(
    folders: Callable[[str, Sequence[int]], Path], capsys: Capture
) -> None:
    folder = folders("base", (900,)) / "000"
    pair = f"{folder / 'before'},{folder / 'after'}"
    for source in (pair, folder, folder.parent):
        data = data_of(capsys, source)
        row = next(row for row in data["rows"] if row["field"] == "lb_gained")
        assert (row["base"], row["unit"], row["total_base"]) == (3.6, "1/tick", 1800.0)
    _, out, _ = run(capsys, pair, pair)
    assert "one run per side: significance unknown" in out
    assert data_of(capsys, pair, "--cpu", "1")["rows"][0]["total_base"] == 50.0


def test_text_and_recordings_of_perf_are_compared_across_versions(
    tmp_path: Path,
    make_report: Make,
    make_sched_stats_data: Callable[..., bytes],
    capsys: Capture,
) -> None:
    old, new = tmp_path / "old.report", tmp_path / "new.data"
    counts = {cpu: {"idle lb_count": 15531, "busy lb_count": 3} for cpu in (0, 1)}
    old.write_text(make_report(15, counts, jiffies=500))
    after = {cpu: {"idle lb_count": 17399, "busy lb_count": 10} for cpu in (0, 1)}
    moments = {1000: {0: {}, 1: {}}, 1500: after}
    new.write_bytes(make_sched_stats_data(17, moments))
    _, out, _ = run(capsys, old, new, "--sort", "name")
    text = " ".join(out.split())
    assert "idle lb_count 62.1 69.6 +12.0%" in text
    assert "not compared: lb_imbalance of base: up to schedstat" in text


def test_bundles_are_read_and_written_as_json(
    tmp_path: Path,
    make_bundle: Callable[..., Path],
    stat_runs: Callable[..., list[dict[str, Any]]],
    capsys: Capture,
) -> None:
    base = make_bundle(tmp_path / "base.tar", runs=stat_runs((9000, 9100, 8900)))
    new = make_bundle(tmp_path / "new.tar", label="new", runs=stat_runs((810, 820, 800)))
    target = tmp_path / "all.json"
    status, out, _ = run(capsys, base, new, "--json", target)
    assert status == 0
    assert "newidle pulls at MC -91% per message" in " ".join(out.split())
    assert json.loads(target.read_text())["data"]["readings"][0]["rule"]
    status, _, err = run(capsys, base, "--point", "groups=9")
    assert (status, "no counts with parameters 'groups=9'" in err) == (2, True)
    folder = tmp_path / "mixed"
    folder.mkdir()
    files = stat_runs((5,))[0]["files"]
    for name in ("before", "after"):
        (folder / name).write_text(files[f"schedstat/{name}"])
    rows = data_of(capsys, base, folder, "--hz", "250")["rows"]
    assert {row["workload"] for row in rows} == {""}


def test_a_page_holds_the_tables_and_the_sources(
    folders: Callable[[str, Sequence[int]], Path], tmp_path: Path, capsys: Capture
) -> None:
    base, new = folders("<base>", (900, 910, 890)), folders("new", (81, 82, 80))
    page = tmp_path / "all.html"
    status, out, err = run(capsys, base, new, "--hz", "250", "--html", page)
    assert (status, err) == (0, "")
    text = page.read_text()
    assert "scheduler statistics: new vs &lt;base&gt;" in text
    for part in ("newidle pulls at MC -91%", 'id="schedstat-new-', "lb_gained"):
        assert part in text
    assert "newidle pulls" in out
    status, out, _ = run(capsys, base, "--html", "-")
    assert (status, out.startswith("<!DOCTYPE html>")) == (0, True)


def test_an_output_that_cannot_be_written_is_one_line(
    folders: Callable[[str, Sequence[int]], Path], tmp_path: Path, capsys: Capture
) -> None:
    folder = folders("base", (900,)) / "000"
    pair = f"{folder / 'before'},{folder / 'after'}"
    for arguments, problem in (
        (["--html", "-", "--json", "-"], "stdout: 2 formats requested"),
        (["--html", folder / "before"], "also an input; write to another file"),
        (["--html", tmp_path / "nowhere/x.html"], "cannot be written"),
    ):
        status, _, err = run(capsys, pair, *arguments)
        assert (status, err.count("\n")) == (2, 1)
        assert problem in err
    assert (folder / "before").read_text().startswith("version 17")


NUL = "\0"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            "version 17\ntimestamp 3\n",
            "a single snapshot of counts since boot (expected two snapshots)",
        ),
        ("", "empty file (expected a bundle, a directory with the files before and after"),
        ("Columns description\n", "no CPU counters; pass the complete output of `perf sched stats"),
        ("PERFILE2", "invalid size of 8 bytes"),
        ("PERFILE2" + "\0" * 200, "event attributes of 0 bytes are too small"),
        # The size of the header and that of its attributes; perf writes the rest when it ends.
        (f"PERFILE2h{7 * NUL}P{200 * NUL}", "truncated (perf did not exit properly)"),
        ("hello\n", "error: "),
    ],
)
def test_a_file_that_is_none_is_one_line(
    content: str, problem: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "source"
    path.write_text(content)
    status, out, err = run(capsys, path)
    assert (status, out) == (2, "")
    assert problem in err
    assert err.count("\n") == 1


def test_wrong_arguments_are_one_line(
    tmp_path: Path, make_schedstat: Make, capsys: Capture
) -> None:
    for name, jiffies in (("before", 1000), ("after", 1500)):
        text = make_schedstat(17, {0: {}, 1: {}}, jiffies=jiffies)
        (tmp_path / name).write_text(text)
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments, problem in (
        ([], "0 inputs given (expected one bundle, file or directory, or two to compare"),
        ([tmp_path, "--cpu", "3-1"], "--cpu: invalid list '3-1' (expected CPUs and ranges"),
        ([tmp_path, "--cpu", "x"], "invalid list 'x' (expected CPUs and ranges"),
        ([empty], "no runs in this directory"),
        ([tmp_path / "nowhere"], "no such file"),
        ([tmp_path / "a,b"], "no such file"),
        ([tmp_path], "all counts are 0; set kernel.sched_schedstats to 1"),
        ([f"{tmp_path / 'after'},{tmp_path / 'after'}"], "both snapshots have the same timestamp"),
        (
            [tmp_path, "--cpu", "7"],
            "--cpu: the input has no data for these CPUs; choose other CPUs",
        ),
        (["/dev/null"], "not a regular file"),
    ):
        status, _, err = run(capsys, *arguments)
        assert (status, err.count("\n")) == (2, 1)
        assert problem.lower() in err.lower()
