# SPDX-License-Identifier: GPL-2.0-or-later
"""dbench and tbench: the real programs, recorded output, old versions, and damage."""

import doctest
import fcntl
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement, dbench

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Text = Callable[[str], str]
Compare = Callable[[Sequence[str]], dict[str, Any]]

HEADER = "dbench version 4.00 - Copyright Andrew Tridgell 1999-2004\n"
RESULT = "Throughput 207.726 MB/sec  2 clients  2 procs  max_latency=216.785 ms\n"

TBENCH_PORT = 7003


def primary(found: Sequence[Measurement | BadLine]) -> list[float]:
    return [
        item.value
        for item in found
        if isinstance(item, Measurement) and item.metric.name == "dbench throughput"
    ]


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: apt-get install dbench")


@pytest.fixture
def tbench_server() -> Iterator[None]:
    """Run tbench's server until the test is over."""
    need("tbench_srv")
    program = shutil.which("tbench_srv") or ""
    # Its port is fixed: who runs these tests on this machine as well has to wait.
    with Path(program).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield from _serve(program)


def _serve(program: str) -> Iterator[None]:
    with subprocess.Popen([program], stdout=subprocess.DEVNULL) as process:
        try:
            for _ in range(1000):
                with socket.socket() as client:
                    if client.connect_ex(("127.0.0.1", TBENCH_PORT)) == 0:
                        break
                time.sleep(0.1)
            else:
                pytest.fail("tbench_srv takes no connection")
            yield
        finally:
            process.kill()


def check_comparison(comparison: dict[str, Any], program: str) -> None:
    rows = {row["metric"]: row for row in comparison["rows"]}
    row = rows[f"{program} throughput"]
    assert (row["family"], row["unit"], row["better"]) == ("primary", "B/s", "higher")
    assert (row["n_base"], row["n_new"]) == (2, 2)
    assert row["base"] > 1e6
    latency = rows[f"{program} latency max"]
    assert (latency["family"], latency["unit"], latency["better"]) == ("secondary", "s", "lower")
    assert latency["base"] > 0.0


def test_the_sample_in_the_docstring_is_true() -> None:
    found = doctest.testmod(dbench)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.slow
class TestRealPrograms:
    def test_dbench_recorded_twice_is_compared(self, compare_two_recordings: Compare) -> None:
        need("dbench")
        check_comparison(compare_two_recordings(["dbench", "-t", "2", "2"]), "dbench")

    @pytest.mark.usefixtures("tbench_server")
    @pytest.mark.parametrize(
        "command",
        [("tbench", "-t", "2", "2", "127.0.0.1"), ("sh", "-c", "exec tbench -t 2 2 127.0.0.1")],
    )
    def test_tbench_recorded_twice_is_compared(
        self, command: tuple[str, ...], compare_two_recordings: Compare
    ) -> None:
        check_comparison(compare_two_recordings([*command]), "tbench")

    def test_a_run_without_a_second_of_measurement_has_no_result(
        self, parse_text: ParseText, tmp_path: pytest.TempPathFactory
    ) -> None:
        need("dbench")
        done = subprocess.run(
            ["dbench", "-t", "1", "1"],
            cwd=str(tmp_path),
            capture_output=True,
            text=True,
            check=True,
        )
        [problem] = [
            item.problem for item in parse_text("dbench", done.stdout) if isinstance(item, BadLine)
        ]
        assert problem.endswith(", because the run was too short; use a larger -t")


class TestRecordings:
    @pytest.mark.parametrize("name", ["dbench.txt", "tbench.txt"])
    def test_only_the_final_line_is_the_result(
        self, name: str, parse_text: ParseText, recorded_text: Text
    ) -> None:
        text = recorded_text(name)
        assert text.count(" MB/sec  execute ") == 2
        final = text.splitlines()[-1].split()
        throughput, latency = parse_text("dbench", text)
        assert isinstance(throughput, Measurement)
        assert throughput.metric == dbench.THROUGHPUT
        assert throughput.value == pytest.approx(1e6 * float(final[1]))
        assert throughput.line == text.splitlines()[-1]
        assert isinstance(latency, Measurement)
        assert latency.metric == dbench.LATENCY
        assert latency.value == pytest.approx(1e-3 * float(final[-2].split("=")[1]))

    @pytest.mark.parametrize("name", ["01", "02"])
    def test_others_read_the_same_numbers(
        self, name: str, parse_text: ParseText, sample_text: Text
    ) -> None:
        expected = dict(
            line.split(": ") for line in sample_text(f"benchmarks/tbench/{name}.yaml").splitlines()
        )
        found = parse_text("dbench", sample_text(f"benchmarks/tbench/{name}"))
        values = primary(found)
        mean = sum(values) / len(values)
        assert mean == pytest.approx(1e6 * float(expected["throughput_MB/s"]), rel=1e-6)
        latencies = [
            item.value
            for item in found
            if isinstance(item, Measurement) and item.metric == dbench.LATENCY
        ]
        # The expectation has one or two decimals.
        assert 1e3 * sum(latencies) / len(latencies) == pytest.approx(
            float(expected["max_latency"]), abs=0.01
        )


class TestTexts:
    def test_versions_before_4_print_no_latency(self, parse_text: ParseText) -> None:
        text = HEADER.replace("4.00", "3.04") + "Throughput 215.6 MB/sec 4 procs\n"
        [item] = parse_text("dbench", text)
        assert isinstance(item, Measurement)
        assert item.value == pytest.approx(215.6e6)

    @pytest.mark.parametrize(
        "options", [" (sync open)", " (sync dirs)", " (sync open) (sync dirs)"]
    )
    def test_synchronous_writes_are_named_in_the_result(
        self, options: str, parse_text: ParseText
    ) -> None:
        text = HEADER + RESULT.replace("MB/sec", f"MB/sec{options}")
        assert primary(parse_text("dbench", text)) == [pytest.approx(207.726e6)]

    @pytest.mark.parametrize(
        ("printed", "step"),
        [("20853", 1e5), ("23775.4", 1e5), ("3789.19", 1e4), ("1.5e+06", 1e7), ("0.5", 1.0)],
    )
    def test_six_digits_are_printed_without_zeros_at_the_end(
        self, printed: str, step: float, parse_text: ParseText
    ) -> None:
        throughput, _ = parse_text("dbench", HEADER + RESULT.replace("207.726", printed))
        assert isinstance(throughput, Measurement)
        assert throughput.resolution == pytest.approx(step)

    def test_each_result_is_a_measurement(self, parse_text: ParseText) -> None:
        text = HEADER + RESULT + HEADER + RESULT.replace("207", "307")
        assert primary(parse_text("dbench", text)) == [
            pytest.approx(207.726e6),
            pytest.approx(307.726e6),
        ]

    @pytest.mark.parametrize("end", range(len("Throughput 2 MB/sec"), len(RESULT) - 2))
    def test_a_line_that_ends_early_gives_the_whole_number_or_none(
        self, end: int, parse_text: ParseText
    ) -> None:
        found = parse_text("dbench", HEADER + RESULT[:end])
        assert primary(found) == [pytest.approx(207.726e6)] * RESULT[:end].rstrip().endswith(
            " procs"
        )
        assert all(isinstance(item, Measurement) or ":2:" in item.problem for item in found)

    @pytest.mark.parametrize(
        ("damage", "problem"),
        [
            (("207.726", "nan"), "stdout:2: dbench throughput: invalid number 'nan'"),
            (("207.726", "-1"), "stdout:2: dbench throughput is -1, because the run was too short"),
            (("216.785", "x"), "stdout:2: dbench latency max: invalid number 'x'"),
            (("clients", "clones"), "stdout:2: incomplete dbench throughput"),
        ],
    )
    def test_damage_is_a_value_that_says_where(
        self, damage: tuple[str, str], problem: str, parse_text: ParseText
    ) -> None:
        found = parse_text("dbench", HEADER + RESULT.replace(*damage))
        [bad] = [item for item in found if isinstance(item, BadLine)]
        assert bad.problem.startswith(problem)
