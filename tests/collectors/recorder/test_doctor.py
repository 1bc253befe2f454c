# SPDX-License-Identifier: GPL-2.0-or-later
"""``doctor``: every collector is tried, and what cannot run says why and what mends it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.plugin import all_collectors
from schedperf_collectors.recorder.doctor import Examined, Paper, format_text
from schedperf_collectors.recorder.isolate import Result

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("machine")]

KEYS = {
    "name", "summary", "scope", "intrusive", "default", "options", "needs", "package", "cost",
    "status", "reason", "remedy", "hint", "seconds", "bytes",
}  # fmt: skip
# They need hardware that samples memory accesses, and slow down what they watch.
MEMORY = {"perf_c2c", "perf_mem"}


@pytest.fixture
def doctored(recorder_with: Callable[[str], Any]) -> Any:
    return recorder_with(
        '''
@collector(scope="run", cost="one file", intrusive=True, default=False, options=("a", "b"))
def fine(capture):
    """Write a file."""
    (capture.folder / "file").write_text("12345")
    yield
    return "no words " * 60


@collector(scope="boot", cost="much", needs=("no-such-tool",), package="no-such-package")
def tooled(capture):
    """Use a tool."""


@collector(scope="run", cost="a crash")
def crashing(capture):
    """Crash."""
    os.abort()
    yield
'''
    )


def test_every_collector_is_tried(doctored: Any) -> None:
    done = doctored("doctor", "--json")
    assert done.returncode == 0
    record = json.loads(done.stdout)
    assert record["schema"] == "schedperf/doctor/1"
    rows = {row["name"]: row for row in record["collectors"]}
    assert set(rows) == {"crashing", "fine", "host", "tooled", "workload"}
    assert all(set(row) == KEYS for row in rows.values())
    assert (rows["fine"]["status"], rows["fine"]["bytes"]) == ("ok", 5)
    assert (rows["fine"]["intrusive"], rows["fine"]["default"]) == (True, False)
    assert rows["fine"]["options"] == ["a", "b"]
    assert rows["fine"]["remedy"] is None
    assert rows["fine"]["hint"] == ("no words " * 60).strip()
    assert rows["workload"]["status"] == "ok"
    assert rows["tooled"]["reason"] == "no-such-tool is not on PATH"
    assert rows["tooled"]["remedy"] == "run `apt-get install no-such-package`"
    assert rows["tooled"]["seconds"] is None
    assert rows["crashing"]["reason"].startswith("the collector crashed: killed by SIGABRT")


def test_failures_in_a_full_temporary_folder_say_what_mends_them(
    doctored: Any, small_disk: Path
) -> None:
    doctored.environment["TMPDIR"] = str(small_disk)
    (small_disk / "filler").write_bytes(bytes(5_600_000))
    record = json.loads(doctored("doctor", "--json").stdout)
    [row] = [row for row in record["collectors"] if row["name"] == "crashing"]
    assert row["reason"] == f"{small_disk}: no space left on device"
    assert row["remedy"] == "set TMPDIR to a larger file system"


def test_text_has_one_line_per_collector(doctored: Any) -> None:
    done = doctored("doctor")
    assert done.returncode == 0
    first, *lines, last = done.stdout.splitlines()
    assert first.startswith("3 of 5 collectors work on this machine (kernel ")
    assert last == "reasons, fixes, requirements and cost: schedperf doctor -v"
    words = {line.split()[0]: line for line in lines}
    assert list(words) == ["crashing", "fine", "host", "tooled", "workload"]
    assert words["tooled"] == (
        "tooled          skipped no-such-tool is not on PATH; fix: run `apt-get install "
        "no-such-package`"
    )
    assert words["crashing"].split()[1] == "failed"
    assert words["workload"] == (
        "workload        ok      Run the command and record its output, exit status, wall time, "
        "resource usage and cgroup"
    )
    # Output that a program reads is complete.
    assert words["fine"].endswith("limited: " + ("no words " * 60).strip())


def test_lines_are_wrapped_at_the_width_of_the_terminal_and_commands_are_whole(
    doctored: Any,
) -> None:
    doctored.environment["COLUMNS"] = "66"
    lines = doctored("doctor").stdout.splitlines()[1:-1]
    assert max(map(len, lines)) <= 66
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [
        "crashing", "fine", "host", "tooled", "workload"
    ]  # fmt: skip
    at = next(i for i, line in enumerate(lines) if line.startswith("tooled "))
    assert lines[at : at + 2] == [
        "tooled          skipped no-such-tool is not on PATH; fix: run",
        "                        `apt-get install no-such-package`",
    ]
    joined = " ".join(" ".join(lines).split())
    assert "limited: " + ("no words " * 60).strip() in joined


def test_details_say_the_same_as_json(doctored: Any) -> None:
    doctored.environment["COLUMNS"] = "70"
    text = doctored("doctor", "-v").stdout
    assert max(map(len, text.splitlines()[1:])) <= 70
    joined = " ".join(text.split())
    assert "tooled skipped Use a tool. why: no-such-tool is not on PATH fix: run `apt-get" in joined
    assert "cost: one file; instrumented runs only; only with --with; this test: " in joined
    assert "options: a, b needs: no programs" in joined
    assert "limited: " + ("no words " * 60).strip() in joined
    assert "doctor -v" not in text


def test_only_a_terminal_gets_colours() -> None:
    result = Result("ok", seconds=0.1)
    [host] = [one for one in all_collectors().values() if one.name == "host"]
    examined = [Examined(host, result, 5)]
    plain = format_text(examined, Paper(80), verbose=False)
    coloured = format_text(examined, Paper(80, coloured=True), verbose=False)
    assert "\x1b[32mok\x1b[0m" in coloured
    assert coloured.replace("\x1b[32m", "").replace("\x1b[0m", "") == plain


def test_the_real_collectors_are_all_there(recorder: Any) -> None:
    record = json.loads(recorder("doctor", "--json").stdout)
    assert [row["name"] for row in record["collectors"]] == list(all_collectors())
    statuses = {row["name"]: row["status"] for row in record["collectors"]}
    assert statuses["host"] == statuses["workload"] == "ok"
    assert "failed" not in statuses.values()
    for row in record["collectors"]:
        assert bool(row["reason"]) == (row["status"] == "skipped")
        assert "\n" not in (row["reason"] or "")
    memory = {row["name"]: row for row in record["collectors"] if row["name"] in MEMORY}
    assert set(memory) == MEMORY
    assert all(row["intrusive"] and not row["default"] for row in memory.values())
    assert recorder.temporary_files() == []


def test_a_slip_is_one_clear_line(recorder: Any) -> None:
    done = recorder("doctor", "--set", "nobody.x=1")
    assert done.returncode == 2
    # Warnings tell what killed recordings left on this machine.
    lines = [line for line in done.stderr.splitlines() if "warning: a killed recording" not in line]
    assert len(lines) == 1
    assert lines[0].startswith("schedperf: error: --set: unknown collector 'nobody'")
