# SPDX-License-Identifier: GPL-2.0-or-later
"""``doctor``: every collector is tried, and what cannot run says why and what mends it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schedperf_collectors.plugin import all_collectors

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("machine")]

KEYS = {
    "name", "summary", "scope", "intrusive", "default", "needs", "package", "cost", "status",
    "reason", "remedy", "hint", "seconds", "bytes",
}  # fmt: skip
# They need hardware that samples memory accesses, and slow down what they watch.
MEMORY = {"perf_c2c", "perf_mem"}


@pytest.fixture
def doctored(recorder_with: Callable[[str], Any]) -> Any:
    return recorder_with(
        '''
@collector(scope="run", cost="one file", intrusive=True, default=False)
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
    assert rows["fine"]["remedy"] is None
    assert rows["fine"]["hint"] == ("no words " * 60).strip()
    assert rows["workload"]["status"] == "ok"
    assert rows["tooled"]["reason"] == "no-such-tool not found on PATH"
    assert rows["tooled"]["remedy"] == "apt-get install no-such-package"
    assert rows["tooled"]["seconds"] is None
    assert rows["crashing"]["reason"].startswith("crashed: killed by SIGABRT")


def test_text_says_the_same(doctored: Any) -> None:
    done = doctored("doctor")
    assert done.returncode == 0
    assert "tooled         skipped: Use a tool." in done.stdout
    assert "why: no-such-tool not found on PATH" in done.stdout
    assert "fix: apt-get install no-such-package" in done.stdout
    assert "cost: one file; intrusive" in done.stdout
    paragraph = done.stdout.partition("fine  ")[2].partition("needs")[0]
    assert "limited: no words" in paragraph
    # Its first line, what it sees less in three, and the margin of what follows.
    assert len(paragraph.splitlines()) == 5
    assert "…" in paragraph


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
    assert done.stderr.startswith("schedperf: error: --set: unknown collector 'nobody'")
