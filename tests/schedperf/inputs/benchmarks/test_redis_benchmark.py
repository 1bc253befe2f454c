# SPDX-License-Identifier: GPL-2.0-or-later
"""redis-benchmark: the real program's forms, recorded output, old versions, and damage."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement, all_parsers
from tests.schedperf.inputs.benchmarks.conftest import started

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Values = Callable[[str], dict[str, float]]
Text = Callable[[str], str]
Run = Callable[..., str]

CSV = (
    '"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms",'
    '"p99_latency_ms","max_latency_ms"\n'
)
LATENCIES = ["average", "p50", "p95", "p99", "max"]


@pytest.fixture
def measured(parse_values: Callable[[str, str], dict[str, float]]) -> Values:
    return partial(parse_values, "redis-benchmark")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[str]:
    # A directory of pytest's has too long a name for a socket.
    socket = f"/tmp/schedperf-redis-{tmp_path.stat().st_ino}"
    server = ("redis-server", "--port", "0", "--unixsocket", socket, "--save", "")
    try:
        with started(*server, ready="eady to accept connections"):
            yield socket
    finally:
        Path(socket).unlink(missing_ok=True)


@pytest.mark.system
def test_the_forms_of_the_real_program(redis: str, run_program: Run, measured: Values) -> None:
    command = ("redis-benchmark", "-s", redis, "-n", "500", "-c", "5", "-t", "set,get")
    for form, latencies in (((), LATENCIES), (("--csv",), LATENCIES), (("-q",), ["p50"])):
        found = measured(run_program(*command, *form))
        assert sorted(found) == sorted(
            f"{test} {name}"
            for test in ("SET", "GET")
            for name in ("requests", *(f"latency {latency}" for latency in latencies))
        )
        assert min(found["SET requests"], found["GET requests"]) > 0.0


def test_three_forms_in_one_text(measured: Values, recorded_text: Text) -> None:
    found = measured(recorded_text("redis-benchmark.txt"))
    assert found["SET requests"] == 5128.21
    assert found["SET latency p95"] == pytest.approx(5.831e-3)
    assert found["GET requests"] == 4504.5
    assert found["LRANGE_100 (first 100 elements) latency max"] == pytest.approx(15.831e-3)


def test_version_5(measured: Values) -> None:
    text = (
        "====== SET ======\n  100000 requests completed in 1.21 seconds\n  50 parallel clients\n\n"
        "99.51% <= 1 milliseconds\n100.00% <= 1 milliseconds\n82850.04 requests per second\n\n"
    )
    assert measured(text) == {"SET requests": 82850.04}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ('"SET","1.5"\n', "stdout:2: 0 latencies (expected 6: avg, min, p50, p95, p99, max); "),
        ('"SET","1.5\n', "stdout:2: invalid row of CSV; record again"),
        ('"SET"\n', "stdout:2: invalid row of CSV; record again"),
    ],
)
def test_a_damaged_row(row: str, problem: str, parse_text: ParseText) -> None:
    *_, found = parse_text("redis-benchmark", CSV + row)
    assert isinstance(found, BadLine)
    assert found.problem.startswith(problem)


def test_a_damaged_table(parse_text: ParseText) -> None:
    text = (
        "====== SET ======\n  throughput summary: 10.00 requests per second\n"
        "          avg       min       p50       p95       p99       max\n        1.306     0.200\n"
    )
    rate, found = parse_text("redis-benchmark", text)
    assert isinstance(rate, Measurement)
    assert isinstance(found, BadLine)
    assert found.problem.startswith("stdout:4: 2 latencies (expected 6: ")


def test_version_5_with_q(measured: Values) -> None:
    text = "SET: 82850.04 requests per second\nMSET (10 keys): 52850.04 requests per second\n"
    assert measured(text) == {"SET requests": 82850.04, "MSET (10 keys) requests": 52850.04}


@pytest.mark.parametrize(
    "text",
    [
        "====== SET ======\n",
        "Requests per second:    12.00 [#/sec]\n",
        "Throughput: 12.00 requests per second\n",
        "12.00 requests per second\n",
    ],
)
def test_other_texts_are_not_claimed(text: str) -> None:
    assert not all_parsers()["redis-benchmark"].claims(text)
