# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.runs.ops: how many operations a run did, from what it printed."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import Side
from schedperf.model.run import Operations
from schedperf.runs.ops import count_printed
from schedperf.runs.printed import printed_by

MakeBundle = Callable[..., Path]

HACKBENCH = (
    "Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)\n"
    "Each sender will pass 50 messages of 100 bytes\n"
    "Time: 10.140\n"
)
PIPE = (
    "# Running 'sched/pipe' benchmark:\n"
    "# Executed 1000 pipe operations between two processes\n\n"
    "     Total time: 0.033 [sec]\n\n      33.561000 usecs/op\n          29796 ops/sec\n"
)
STRESS_NG = (
    "stress-ng: metrc: [79] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s\n"  # noqa: E501 # real output is this wide
    "stress-ng: metrc: [79]                           (secs)    (secs)    (secs)   (real time) (usr+sys time)\n"  # noqa: E501 # real output is this wide
    "stress-ng: metrc: [79] pipe            1714401      1.00      0.31      1.57   1713294.83      912231.80\n"  # noqa: E501 # real output is this wide
)
STRESS_NG_YAML = "metrics:\n    - stressor: pipe\n      bogo-ops: 1714401\n"
SYSBENCH = (
    "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n\nGeneral statistics:\n"
    "    total time:                          1.0003s\n"
    "    total number of events:              5139\n"
)
PGBENCH = (
    "transaction type: <builtin: TPC-B (sort of)>\n"
    "number of transactions actually processed: 7454\n"
    "tps = 3732.922281 (without initial connection time)\n"
)
MESSAGING = (
    "# Running 'sched/messaging' benchmark:\n# 20 sender and receiver processes per group\n"
    "# 10 groups == 400 processes run\n\n     Total time: 0.271 [sec]\n"
)
DBENCH = (
    "dbench version 4.00 - Copyright Andrew Tridgell 1999-2004\n\n"
    "Throughput 200.000 MB/sec  2 clients  2 procs  max_latency=216.785 ms\n"
)
WILL_IT_SCALE = (
    "testcase:Context switch via pipes\nwarmup\nmin:1 max:1 total:1\nmeasurement\n"
    "min:5 max:5 total:5\naverage:270\n"
)
SCHBENCH = (
    "Wakeup Latencies percentiles (usec) runtime 30 (s) (434591 total samples)\n"
    "\t* 99.0th: 1198       (14226 samples)\n\t  min=1, max=1540\n"
    "average rps: 100.00\n"
)


@pytest.mark.parametrize(
    ("text", "count", "unit"),
    [
        # Two groups of 20 senders that pass 50 messages to each of 20 receivers.
        (HACKBENCH, 2 * 20 * 20 * 50, "message"),
        (2 * HACKBENCH, 2 * 2 * 20 * 20 * 50, "message"),
        (PIPE, 1000, "pipe operation"),
        (STRESS_NG, 1714401, "bogo operation"),
        (STRESS_NG.replace("metrc:", "info: "), 1714401, "bogo operation"),
        (STRESS_NG.replace("stress-ng: metrc: [79] ", ""), 1714401, "bogo operation"),
        (
            STRESS_NG.replace("stress-ng:", "Nov 28 15:28:11 vm stress-ng[79]: stress-ng:"),
            1714401,
            "bogo operation",
        ),
        (STRESS_NG_YAML, 1714401, "bogo operation"),
        (STRESS_NG_YAML + STRESS_NG, 1714401, "bogo operation"),
        (SYSBENCH, 5139, "event"),
        (PGBENCH, 7454, "transaction"),
        (PGBENCH.replace("7454\n", "7454/7454\n"), 7454, "transaction"),
    ],
)
def test_what_a_benchmark_prints_or_implies_is_an_exact_count(
    text: str, count: int, unit: str
) -> None:
    assert count_printed(text) == Operations(count=float(count), unit=unit, exact=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Time: 10.140\n",
        # It died before it was done.
        HACKBENCH.replace("Time: 10.140\n", ""),
        HACKBENCH.replace("2 groups", "99999999999 groups"),
        HACKBENCH.replace("pass 50 ", "pass 0 "),
        HACKBENCH.replace("using 40 ", "using 9999999 ").replace("pass 50 ", "pass 999999999999 "),
        PGBENCH.replace("7454", "9" * 4000),
        # Messages and transactions have no sum.
        HACKBENCH + PGBENCH,
        STRESS_NG + STRESS_NG.replace(" pipe ", " fork "),
        "pipe 1714401 1.00 0.31 1.57 1713294.83 912231.80\n",
        "sysbench 1.0.20 (\n" * 50_000,
        SYSBENCH.replace("sysbench", "otherbench"),
    ],
)
def test_what_is_no_count_is_none(text: str) -> None:
    assert count_printed(text) is None


@pytest.fixture
def of_run(tmp_path: Path, make_bundle: MakeBundle) -> Callable[..., Operations | None]:
    """Return what a run did that printed this; it took two seconds."""

    def find(text: str, **chosen: Any) -> Operations | None:
        path = make_bundle(tmp_path / "a.tar", runs=[{"stdout": text, "wall_s": 2.0, **chosen}])
        side = Side(name="base", bundle=open_bundle(path))
        return printed_by(side, side.bundle.runs[0]).ops

    return find


def test_a_rate_counts_for_as_long_as_the_run_took(
    of_run: Callable[..., Operations | None],
) -> None:
    assert of_run(DBENCH) == Operations(count=400.0, unit="MB", exact=False)
    assert of_run(WILL_IT_SCALE) == Operations(count=540.0, unit="operation", exact=False)
    assert of_run(WILL_IT_SCALE, wall_s=None) is None


def test_a_rate_of_each_thread_is_no_count(of_run: Callable[..., Operations | None]) -> None:
    text = (
        "# Running 'futex/hash' benchmark:\n"
        "Averaged 778240 operations/sec (+- 1.84%), total secs = 1\n"
    )
    assert of_run(text) is None


def test_where_a_latency_decides_the_rate_beside_it_counts(
    of_run: Callable[..., Operations | None],
) -> None:
    assert of_run(SCHBENCH) == Operations(count=200.0, unit="operation", exact=False)


def test_the_time_of_a_fixed_amount_of_work_is_one_run(
    of_run: Callable[..., Operations | None],
) -> None:
    assert of_run(MESSAGING) == Operations(count=1.0, unit="run", exact=True)
    assert of_run(2 * MESSAGING) == Operations(count=2.0, unit="run", exact=True)


def test_counts_are_found_on_standard_error_too(of_run: Callable[..., Operations | None]) -> None:
    found = of_run("", stderr=STRESS_NG)
    assert found == Operations(count=1714401.0, unit="bogo operation", exact=True)


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("build time", "s", Operations(count=1.0, unit="run", exact=True)),
        ("rate", "1/s", Operations(count=8.0, unit="operation", exact=False)),
        ("wakeup latency", "s", None),
        ("time per request", "s", None),
        ("score", "points", None),
    ],
)
def test_a_rule_of_the_user_s_counts_by_its_unit_and_name(
    name: str, unit: str, expected: Operations | None, of_run: Callable[..., Operations | None]
) -> None:
    better = "higher" if unit != "s" else "lower"
    rule = {"name": name, "unit": unit, "better": better, "regex": r"result (\S+)"}
    assert of_run("result 4\n", metric=[rule]) == expected


@pytest.mark.parametrize(
    ("rate", "is_known"),
    [("1e-300", False), ("5e-324", False), ("4.9e-7", False), ("5e-7", True), ("1e300", False)],
)
def test_a_rate_that_no_benchmark_has_is_no_amount_of_work(
    rate: str, is_known: object, of_run: Callable[..., Operations | None]
) -> None:
    # In the two seconds of the run 5e-7 a second is the least that counts.
    rule = {"name": "rate", "unit": "1/s", "better": "higher", "regex": r"result (\S+)"}
    found = of_run(f"result {rate}\n", metric=[rule])
    assert (found is not None) is is_known
    if found is not None:
        assert math.isfinite(1e300 / found.count)


def test_two_results_are_no_one_amount_of_work(of_run: Callable[..., Operations | None]) -> None:
    assert of_run(DBENCH + WILL_IT_SCALE) is None


def test_a_run_that_printed_nothing_did_what_nobody_knows(
    of_run: Callable[..., Operations | None],
) -> None:
    assert of_run("hello\n") is None


def test_expressions_of_a_hostile_bundle_take_no_more_time_for_many_runs(
    tmp_path: Path, make_bundle: MakeBundle
) -> None:
    rule = {"name": "rate", "unit": "1/s", "better": "higher", "regex": r"(a|aa)+$(\S+)"}
    runs = [{"stdout": "a" * 5_000 + "b"}] * 30
    bundle = open_bundle(make_bundle(tmp_path / "a.tar", runs=runs, metric=[rule]))
    side = Side(name="base", bundle=bundle)
    begin = time.process_time()
    assert {printed_by(side, run).ops for run in bundle.runs} == {None}
    # One expression may take a second, and all of a bundle five; 30 runs would take 30 s.
    assert time.process_time() - begin < 15.0
