# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters of perf stat, files of perf sched stats and logs of rt-app become runs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.cli import main
from schedperf.evidence.perf_stat.section import counters
from schedperf.evidence.schedstat.section import load_sides
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.importers import Imported
from schedperf.inputs.importers.open import Opener, read_results
from schedperf.inputs.importers.write import write_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.errors import InputError
from schedperf.runs.values import read_run_values
from tests.schedperf.evidence.schedstat.conftest import (
    Machine,
    write_report,
    write_sched_stats_data,
)

FIELDS = """\
# started on Fri Nov 27 11:40:00 2026

0.53,msec,task-clock,533291,100.00,0.111,CPUs utilized
12,,context-switches,533291,100.00,0.000,/sec
<not supported>,,cycles,0,100.00,,
"""
JSON = "".join(
    json.dumps({"counter-value": value, "unit": unit, "event": event, **times}) + "\n"
    for value, unit, event, times in (
        ("0.63", "msec", "task-clock", {"event-runtime": 500739, "pcnt-running": 100.0}),
        ("14.000000", "", "context-switches", {"event-runtime": 500739, "pcnt-running": 100.0}),
        ("7.000000", "", "page-faults", {}),
    )
)
LOG = """\
# Policy : SCHED_OTHER priority : 0
#idx     perf      run   period           start             end          rel_st      slack
   0     2500       90     4927     73930690848     73930695775             742       4762
"""


def read(kind: str, path: Path) -> Imported:
    return read_results(kind, path)[0]


def test_each_file_of_perf_stat_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "run2").write_text(FIELDS)
    (tmp_path / "run10").write_text(JSON)
    with Opener() as opener:
        bundle = opener.open(Path(f"perf-stat:{tmp_path}"))
        table = read_run_values(name_sides([bundle])).table
        rows = table.rows(["run", "metric", "value", "unit", "better", "family"])
    assert [tuple(row) for row in rows] == [
        (0, "task-clock", 0.53, "msec", "unknown", "informational"),
        (0, "context-switches", 12.0, "count", "unknown", "informational"),
        (1, "task-clock", 0.63, "msec", "unknown", "informational"),
        (1, "context-switches", 14.0, "count", "unknown", "informational"),
        (1, "page-faults", 7.0, "count", "unknown", "informational"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        ",,,,,0.12,stalled cycles per insn",
        ";;;;;0.12;stalled cycles per insn",
        '{"metric-value" : "0.12", "metric-unit" : "stalled cycles per insn"}',
    ],
)
def test_a_line_with_only_a_metric_is_no_damage(tmp_path: Path, line: str) -> None:
    (tmp_path / "run").write_text(f"{FIELDS}{line}\n")
    assert read("perf-stat", tmp_path).notes == ()


REPEATED = """\
0.64,msec,task-clock,1.58%,636113,100.00,0.405,CPUs utilized
30,,page-faults,0.00%,636113,50.00,72.200,K/sec
7,,cpu/event=0x3c,umask=0x0/,636113,100.00,,
20000000,ns,duration_time,11.42%,20000000,100.00,2.181,G/sec
"""


def test_counters_are_compared_per_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old").write_text(FIELDS)
    (tmp_path / "new").write_text(JSON)
    sources = [f"perf-stat:{tmp_path / name}" for name in ("old", "new")]
    assert main(["compare", *sources, "--json", "-"]) == 0
    record = json.loads(capsys.readouterr().out)
    rows = {row["event"]: row for row in record["sections"]["counters"]["data"]["rows"]}
    switches = rows["context-switches"]
    assert (switches["base"], switches["unit"]) == (12.0, "1/run")
    assert switches["new"] == pytest.approx(14.0)
    assert rows["task-clock"]["base"] == pytest.approx(0.53e-3)
    not_counted = {
        one["event"]: one["reason"] for one in record["sections"]["counters"]["data"]["not_counted"]
    }
    assert not_counted == {
        "cycles": "not supported by perf",
        "page-faults": "perf printed no time of counting",
    }
    assert {row["family"] for row in record["rows"]} == {"informational"}


def test_counters_with_the_time_of_the_run_are_rates(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(REPEATED)
    with Opener() as opener:
        sides = name_sides([opener.open(Path(f"perf-stat:{tmp_path}")) for _ in range(2)])
        data = counters(sides)
    rates = {(row.event, row.unit): row for row in data.rows}
    assert rates["page-faults", "1/s"].base == 1500.0
    assert rates["page-faults", "1/run"].scaled
    assert {one.event for one in data.not_counted} == {"cpu/event=0x3c,umask=0x0/"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "1.000123,0.53,msec,task-clock,1,100.00,,\n",
        "CPU0,12,,context-switches,533291,100.00,,\n",
        "1,,cycles,1,1,,\n2,,cycles,1,1,,\n",
        '{"interval" : 1.0, "counter-value" : "1", "unit" : "", "event" : "cycles"}\n',
        '{"counter-value" : "1e999", "unit" : "", "event" : "cycles"}\n',
        pytest.param("{" * 100_000, id="braces"),
        pytest.param("[" * 3_000 + "\n", id="brackets"),
    ],
)
def test_other_output_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(InputError, match="no counters of perf stat"):
        read("perf-stat", tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "x (no counters)"),
        ("hello\n", "x (no counters; line 1: not a counter; expected a line of perf stat -x, or "),
        (
            f"{FIELDS}hello\n",
            "x:6 (not a counter; expected a line of perf stat -x, or perf stat -j)",
        ),
        ("<not counted>,,cycles,0,100.00,,\n", "x (no counters)"),
        (
            "1.000123,0.53,msec,task-clock,1,100.00,,\n",
            "line 1: a value per interval or CPU; record ",
        ),
        ("CPU0,12,,context-switches,533291,100.00,,\n", "line 1: a value per interval or CPU; "),
        ('{"cpu" : "0", "counter-value" : "1"}\n', "line 1: a value per interval or CPU; record "),
        ("1,,cycles,1,1,,\n2,,cycles,1,1,,\n", "x (2 values of cycles; expected one, without -I "),
        ("{\n", "line 1: invalid JSON"),
        ('{"event" : "cycles"}\n', "line 1: no counter-value, unit and event"),
        (f"1,,a{chr(0x202E)},1,1\n", "line 1: invalid name of an event"),
        ("1,,cycles" + "," * 5000, "line 1: longer than 4000 characters"),
    ],
)
def test_what_perf_stat_did_not_count_has_a_reason(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "run1").write_text(FIELDS)
    (tmp_path / "x").write_text(text)
    [note] = read("perf-stat", tmp_path).notes
    assert note.startswith("not read: x")
    assert why in note


@pytest.fixture
def statistics(tmp_path: Path) -> Path:
    """Write a report and a recording of one kernel, and a file that is neither."""
    folder = tmp_path / "statistics"
    folder.mkdir()
    counts = {cpu: {"sched_count": 400, "idle lb_count": 15531} for cpu in (0, 1)}
    (folder / "run2").write_text(write_report(17, counts, jiffies=500, name="MC"))
    moments: Mapping[int, Machine] = {1000: {0: {}, 1: {}}, 1500: counts}
    (folder / "run10").write_bytes(write_sched_stats_data(17, moments, form="upstream"))
    (folder / "notes").write_text("hello\n")
    return folder


def schedstat(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert main(["schedstat", *map(str, arguments), "--json", "-"]) == 0
    # Files do not record their workload.
    rows = json.loads(capsys.readouterr().out)["data"]["rows"]
    return [{**row, "workload": "", "point": ""} for row in rows]


@pytest.mark.parametrize("options", [(), ("--hz", "250")])
def test_statistics_are_those_of_the_files(
    statistics: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    bundle = statistics.parent / "a.tar"
    assert main(["import", "perf-sched-stats", str(statistics), "-o", str(bundle)]) == 0
    assert "not read, because they are not perf sched stats: notes" in capsys.readouterr().err
    rows = schedstat(capsys, bundle, *options)
    assert rows == schedstat(capsys, statistics, *options)
    assert len(rows[0]["values_base"]) == 2


def test_statistics_are_compared(statistics: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = f"perf-sched-stats:{statistics}"
    assert main(["compare", source, source, "--json", "-"]) == 0
    record = json.loads(capsys.readouterr().out)
    section = record["sections"]["schedstat"]
    totals = {row["field"]: row["total_new"] for row in section["data"]["rows"] if row["level"]}
    assert totals["lb_count"] == 31062.0
    assert record["overall"]["verdict"] == "inconclusive"
    assert record["overall"]["reason_short"] == "imported files have no benchmark results"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no scheduler statistics"),
        (b"hello\n", "no scheduler statistics"),
        (b"Columns description\n", "no CPU counters"),
        (b"PERFILE2", "a: .*(expected at least 16|bytes)"),
        pytest.param(b"PERFILE2" + b"\xff" * 200, "a: ", id="ones"),
    ],
)
def test_damaged_statistics_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read("perf-sched-stats", tmp_path)


def test_a_truncated_recording_is_a_note(statistics: Path) -> None:
    recording = (statistics / "run10").read_bytes()
    (statistics / "run11").write_bytes(recording[:-40])
    imported = read("perf-sched-stats", statistics)
    assert len(imported.boots[0].runs) == 2
    assert "run11: truncated" in imported.notes[0]


@pytest.mark.parametrize("content", [b"", b"hello\n", b"PERFILE2", b"\xff" * 9_000])
def test_a_damaged_capture_is_one_note(statistics: Path, content: bytes) -> None:
    imported, tree = read_results("perf-sched-stats", statistics)
    boot = imported.boots[0]
    run = replace(boot.runs[0], captures={"schedstat/perf_sched_stats": content})
    damaged = replace(imported, boots=(replace(boot, runs=(run, *boot.runs)),))
    path = write_bundle(damaged, tree, "perf-sched-stats", statistics / "a.tar", force=False)
    side = load_sides(name_sides([open_bundle(path)]))[0]
    assert len(side.runs) == 2
    assert [note.partition(" ")[0] for note in side.notes] == ["base:"]
    assert "boots/0/runs/000/schedstat/perf_sched_stats: " in side.notes[0]


def test_captures_are_written_below_their_run_only(statistics: Path) -> None:
    imported, tree = read_results("perf-sched-stats", statistics)
    run = replace(imported.boots[0].runs[0], captures={"../host.json": b""})
    boot = replace(imported.boots[0], runs=(run,))
    with pytest.raises(InputError, match=r"invalid name of a capture '\.\./host\.json'"):
        write_bundle(replace(imported, boots=(boot,)), tree, "x", statistics / "a.tar", force=False)


def test_recordings_of_several_kernels_are_refused(tmp_path: Path) -> None:
    for number, release in enumerate((b"6.12.0", b"6.13.0")):
        moments: Mapping[int, Machine] = {time: {0: {}} for time in (1000, 1500)}
        content = write_sched_stats_data(17, moments, features=1 << 4)
        text = len(release).to_bytes(4, "little") + release
        section = (len(content) + 16).to_bytes(8, "little") + len(text).to_bytes(8, "little")
        (tmp_path / f"run{number}").write_bytes(content + section + text)
    with pytest.raises(InputError, match=r"recordings of 2 kernels \(6.12.0, 6.13.0; expected"):
        read("perf-sched-stats", tmp_path)


def test_logs_in_one_directory_are_one_run(tmp_path: Path) -> None:
    for run in ("run2", "run10"):
        (tmp_path / run).mkdir()
        for thread in (0, 1):
            (tmp_path / run / f"rt-app-thread-{thread}.log").write_text(LOG)
    runs = read("rt-app", tmp_path).boots[0].runs
    assert len(runs) == 2
    text = runs[0].text.decode()
    assert text.startswith("==> rt-app-thread-0.log <==\n# Policy")
    assert text.count("==> ") == 2


def test_a_directory_without_logs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("hello\n")
    with pytest.raises(InputError, match="no logs of rt-app"):
        read("rt-app", tmp_path)
