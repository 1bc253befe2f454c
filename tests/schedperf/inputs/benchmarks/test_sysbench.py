# SPDX-License-Identifier: GPL-2.0-or-later
"""sysbench: the real tests, recorded output, old and new versions, and damage."""

import doctest
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement, all_parsers, sysbench

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Text = Callable[[str], str]
Measured = Callable[[str], dict[str, float]]

SHORT = "(expected a positive time, long enough to compute events per second); record again"
HEADER = "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n"
TOTALS = (
    "General statistics:\n    total time:  2.0000s\n    total number of events:  100\n"
    "Threads fairness:\n    events (avg/stddev):  50.0000/1.00\n"
)

# What version 0.4 printed of the processor's test.
VERSION_0_4 = """\
sysbench 0.4.12:  multi-threaded system evaluation benchmark

Test execution summary:
    total time:                          20.0000s
    total number of events:              10000
    total time taken by event execution: 19.9800
    per-request statistics:
         min:                                  1.90ms
         avg:                                  2.00ms
         max:                                  4.04ms
         approx.  95 percentile:               2.21ms

Threads fairness:
    events (avg/stddev):           10000.0000/0.00
"""

# The sources after 1.0.20 have no heading for the totals, and other words.
VERSION_1_1 = """\
sysbench 1.1.0-df89d34 (using bundled LuaJIT 2.1.0-beta3)

Throughput:
    events/s (eps):                      50.0000
    time elapsed:                        2.0000s
    total number of events:              100

Threads fairness:
    events (avg/stddev):                 50.0000/1.00
"""


class Server(Protocol):
    """A database server of the tests."""

    def sysbench(self, test: str, *arguments: str) -> list[str]: ...


@pytest.fixture
def measured(parse_values: Callable[[str, str], dict[str, float]]) -> Measured:
    return partial(parse_values, "sysbench")


def primary(found: Sequence[Measurement | BadLine]) -> list[str]:
    return [
        item.metric.name
        for item in found
        if isinstance(item, Measurement) and item.metric.family == "primary"
    ]


def run(folder: Path, *arguments: str) -> str:
    """Run the real program, and return all that it printed."""
    try:
        done = subprocess.run(
            ["sysbench", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )
    except FileNotFoundError:
        pytest.skip("sysbench is not installed")
    return done.stdout


def test_the_sample_in_the_docstring_is_true() -> None:
    found = doctest.testmod(sysbench)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.system
class TestRealProgram:
    @pytest.mark.parametrize(
        ("arguments", "result"),
        [
            (["cpu", "--time=1"], "cpu events"),
            (["threads", "--time=0", "--events=200"], "events"),
            (["mutex", "--threads=3", "--mutex-loops=1000"], "mutex time"),
            (["memory", "--time=1"], "memory throughput"),
            (["memory", "--time=1", "--memory-oper=none"], "memory operations"),
        ],
    )
    def test_each_test_has_one_result(
        self, arguments: list[str], result: str, tmp_path: Path, parse_text: ParseText
    ) -> None:
        found = parse_text("sysbench", run(tmp_path, *arguments, "run"))
        assert primary(found) == [f"sysbench {result}"]
        assert all(isinstance(item, Measurement) and item.value >= 0.0 for item in found)

    def test_progress_and_a_limit_of_events_do_not_change_what_is_read(
        self, tmp_path: Path, measured: Measured
    ) -> None:
        text = run(tmp_path, "cpu", "--events=300", "--report-interval=1", "--percentile=99", "run")
        assert list(measured(text)) == [
            "cpu events",
            "cpu latency average",
            "cpu latency p99",
            "cpu latency max",
        ]

    def test_without_a_percentile_there_is_none(self, tmp_path: Path, measured: Measured) -> None:
        found = measured(run(tmp_path, "cpu", "--time=1", "--percentile=0", "run"))
        assert list(found) == ["cpu events", "cpu latency average", "cpu latency max"]

    @pytest.mark.slow
    def test_a_database_recorded_twice_is_compared(
        self,
        server: Server,
        tmp_path: Path,
        compare_two_recordings: Callable[[Sequence[str]], dict[str, Any]],
    ) -> None:
        for test in ("oltp_read_only", "oltp_read_write"):
            # Both use the same table.
            _, *arguments = server.sysbench(test)
            run(tmp_path, *arguments, "cleanup")
            run(tmp_path, *arguments, "prepare")
            comparison = compare_two_recordings([*server.sysbench(test, "--time=1"), "run"])
            rows = {row["metric"]: row for row in comparison["rows"]}
            row = rows["sysbench OLTP transactions"]
            assert (row["family"], row["unit"], row["better"]) == ("primary", "1/s", "higher")
            assert (row["n_base"], row["n_new"]) == (2, 2)
            assert row["base"] > 1.0
            assert row["new"] > 1.0
            assert 0.0 < rows["sysbench OLTP latency p95"]["base"] < 2.0
            for side in ("base", "new"):
                (tmp_path / f"{side}.tar").unlink()


class TestRecordings:
    def test_transactions_of_a_database(self, measured: Measured, recorded_text: Text) -> None:
        text = recorded_text("sysbench-oltp.txt")
        assert "[ 1s ] thds:" in text
        assert measured(text) == {
            "OLTP transactions": 1643.96,
            "OLTP latency average": pytest.approx(1.21e-3),
            "OLTP latency p95": pytest.approx(1.67e-3),
            "OLTP latency max": pytest.approx(296.1e-3),
            "OLTP queries": 26303.31,
            "OLTP ignored errors": 0.0,
            "OLTP reconnects": 0.0,
        }

    def test_under_a_set_rate_the_latency_decides(
        self, parse_text: ParseText, recorded_text: Text
    ) -> None:
        found = parse_text("sysbench", recorded_text("sysbench-rate.txt"))
        assert primary(found) == ["sysbench OLTP latency average"]

    def test_the_report_after_a_checkpoint_is_no_result(
        self, parse_text: ParseText, recorded_text: Text
    ) -> None:
        assert parse_text("sysbench", recorded_text("sysbench-checkpoints.txt")) == [
            BadLine(
                problem="stdout:13: sysbench resets its counts at each checkpoint report; "
                "record without --report-checkpoints"
            )
        ]

    def test_preparing_files_is_no_result(self, measured: Measured, recorded_text: Text) -> None:
        text = recorded_text("sysbench-fileio.txt")
        assert "4194304 bytes written in" in text
        found = measured(text)
        assert found["fileio throughput"] == pytest.approx(
            16384 * (found["fileio reads"] + found["fileio writes"]), rel=1e-4
        )

    def test_one_event_each_is_a_time(self, measured: Measured, recorded_text: Text) -> None:
        assert measured(recorded_text("sysbench-mutex.txt"))["mutex time"] == 0.1555


class TestTexts:
    def test_events_by_time_are_a_rate(self, parse_text: ParseText) -> None:
        [found] = parse_text("sysbench", HEADER + TOTALS)
        assert isinstance(found, Measurement)
        assert (found.metric.name, found.metric.better) == ("sysbench events", "higher")
        assert found.value == 50.0
        # Only the digits of the time round it.
        assert found.resolution == pytest.approx(50.0 * 1e-4 / 2.0)

    def test_the_resolution_of_a_percentile_is_the_step_of_the_histogram(
        self, parse_text: ParseText
    ) -> None:
        latencies = "  avg:  100.00\n  95th percentile:  100.00\n  99th percentile:  0.10\n"
        found = [
            item.resolution
            for item in parse_text("sysbench", HEADER + TOTALS + latencies)
            if isinstance(item, Measurement)
        ]
        # 1024 steps from 0.001 ms to 100 s are 1.8 % each.
        assert found[1:] == pytest.approx([1e-5, 1.8169e-3, 1e-5], rel=1e-3)

    def test_version_0_4(self, parse_text: ParseText) -> None:
        found = parse_text("sysbench", VERSION_0_4)
        assert primary(found) == ["sysbench events"]
        values = [(item.value, item.resolution) for item in found if isinstance(item, Measurement)]
        assert values == [
            pytest.approx(pair)
            for pair in [(500.0, 2.5e-3), (2e-3, 1e-5), (2.21e-3, 1e-5), (4.04e-3, 1e-5)]
        ]

    def test_a_report_without_its_end_is_of_an_unknown_test(self, parse_text: ParseText) -> None:
        [found] = parse_text("sysbench", HEADER + TOTALS.partition("Threads")[0])
        assert found == BadLine(
            problem="stdout:3: sysbench: the report ends early (expected `Threads fairness` at its "
            "end); record the whole output"
        )

    def test_transactions_of_version_0_4(self, measured: Measured) -> None:
        text = VERSION_0_4 + "    transactions:        10000  (668.49 per sec.)\n"
        assert measured(text)["OLTP transactions"] == 668.49

    def test_memory_of_version_0_4(self, measured: Measured) -> None:
        text = VERSION_0_4 + "1024.00 MB transferred (2047.50 MB/sec)\n"
        assert measured(text)["memory throughput"] == 2047.5 * 2**20

    def test_version_1_1(self, measured: Measured) -> None:
        assert measured(VERSION_1_1) == {"events": 50.0}

    def test_what_follows_the_report_is_another_programs(self, measured: Measured) -> None:
        end = "    execution time (avg/stddev):   2.0000/0.00\n"
        assert measured(HEADER + TOTALS + end + "avg: 5.00\ntotal time: 9.0s\n") == {"events": 50.0}

    def test_each_sysbench_is_a_measurement(self, parse_text: ParseText) -> None:
        faster = TOTALS.replace("100", "300")
        found = parse_text("sysbench", HEADER + TOTALS + HEADER + faster)
        assert [item.value for item in found if isinstance(item, Measurement)] == [50.0, 150.0]

    @pytest.mark.parametrize(
        "text",
        [
            HEADER,
            HEADER + "FATAL: unable to connect to PostgreSQL server, aborting...\n",
            HEADER + "Creating table 'sbtest1'...\n",
            HEADER + "General statistics:\n    total number of events:  100\n",
            HEADER + "General statistics:\n    total time:  2.0000s\n",
        ],
    )
    def test_output_that_ends_early_has_no_measurement(
        self, text: str, parse_text: ParseText
    ) -> None:
        assert parse_text("sysbench", text) == []

    @pytest.mark.parametrize(
        ("printed", "damaged", "problem"),
        [
            ("2.0000s", "xs", "stdout:3: sysbench events: invalid number 'x'"),
            ("2.0000s", "nans", "stdout:3: sysbench events: invalid number 'nan'"),
            ("2.0000s", "0.0000s", f"stdout:3: invalid total time '0.0000s' {SHORT}"),
            ("2.0000s", "-1.0s", f"stdout:3: invalid total time '-1.0s' {SHORT}"),
            ("2.0000s", "1e-300s", f"stdout:3: invalid total time '1e-300s' {SHORT}"),
            ("100", "1e999", "stdout:4: sysbench events: invalid number '1e999'"),
        ],
    )
    def test_damaged_totals_are_a_bad_line(
        self, printed: str, damaged: str, problem: str, parse_text: ParseText
    ) -> None:
        text = HEADER + TOTALS.replace(f" {printed}", f" {damaged}")
        assert parse_text("sysbench", text) == [BadLine(problem=problem)]

    def test_a_damaged_latency_costs_only_itself(self, parse_text: ParseText) -> None:
        text = HEADER + TOTALS + "  avg:  ?\n  95th percentile:  nan\n  max:  3.00\n"
        found = parse_text("sysbench", text)
        assert [type(item) for item in found] == [Measurement, BadLine, BadLine, Measurement]

    def test_damaged_transfers_are_a_bad_line(self, parse_text: ParseText) -> None:
        text = HEADER + TOTALS + "  read, MiB/s:  x\n  written, MiB/s:  1.00\n"
        [found] = parse_text("sysbench", text)
        assert found == BadLine(problem="stdout:7: sysbench fileio throughput: invalid number 'x'")

    def test_a_rate_that_is_cut_off_is_no_number_of_transactions(
        self, parse_text: ParseText
    ) -> None:
        [found] = parse_text("sysbench", HEADER + TOTALS + "  transactions:  1025   (444")
        assert isinstance(found, BadLine)

    @pytest.mark.parametrize("text", ["", TOTALS, "sysbench: command not found\n", "sysbench 1.0"])
    def test_other_texts_are_not_claimed(self, text: str) -> None:
        assert not all_parsers()["sysbench"].claims(text)


class TestSamples:
    """Others' data: five tests one after the other, on a machine and in containers."""

    @pytest.mark.parametrize("name", ["native", "devbox", "docker", "podman", "apptainer", "proot"])
    def test_five_tests_in_one_text(
        self, name: str, parse_text: ParseText, sample_text: Text
    ) -> None:
        text = sample_text(f"benchmarks/sysbench/{name}.txt")
        results = ["cpu events", "fileio throughput", "memory throughput", "mutex time", "events"]
        # The one whose disk was full has no result of it.
        if "No space left on device" in text:
            results.remove("fileio throughput")
        found = primary(parse_text("sysbench", text))
        assert found == [f"sysbench {result}" for result in results]

    def test_a_hundred_and_fifty_runs(self, parse_text: ParseText, sample_text: Text) -> None:
        text = sample_text("aa/sysb_cpu.txt")
        assert len(primary(parse_text("sysbench", text))) == text.count("### run")
