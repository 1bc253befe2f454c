# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters of perf stat and logs of rt-app become runs."""

from pathlib import Path

import pytest

from schedperf.importers import Imported
from schedperf.importers.open import Opener, read_results
from schedperf.model.errors import InputError
from schedperf.runs.side import name_sides
from schedperf.runs.values import read_run_values

FIELDS = """\
# started on Fri Nov 27 11:40:00 2026

0.53,msec,task-clock,533291,100.00,0.111,CPUs utilized
12,,context-switches,533291,100.00,0.000,/sec
<not supported>,,cycles,0,100.00,,
"""
JSON = """\
{"counter-value" : "0.63", "unit" : "msec", "event" : "task-clock", "event-runtime" : 500739}
{"counter-value" : "14.000000", "unit" : "", "event" : "context-switches", "pcnt-running" : 100.0}
"""
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
    ]


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
        "{" * 100_000,
        "[" * 3_000 + "\n",
    ],
)
def test_other_output_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(InputError, match="no counters of perf stat"):
        read("perf-stat", tmp_path)


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
