# SPDX-License-Identifier: GPL-2.0-or-later
"""wrk: the real program against a server of this test, recorded output, wrk2, and damage."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Values = Callable[[str], dict[str, float]]
Text = Callable[[str], str]
Run = Callable[..., str]

HEADER = "Running 1s test @ http://127.0.0.1:8080/\n"


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def measured(parse_values: Callable[[str, str], dict[str, float]]) -> Values:
    return partial(parse_values, "wrk")


@pytest.mark.system
def test_the_real_program(address: str, run_program: Run, measured: Values) -> None:
    text = run_program("wrk", "-t1", "-c1", "-d1s", "--latency", address)
    found = measured(text)
    assert f"Requests/sec: {found['requests']:9.2f}" in text
    assert found["error responses"] > 0.0
    percentiles = [found[f"latency p{percent}"] for percent in (50, 75, 90, 99)]
    assert percentiles == sorted(percentiles)
    assert 0.0 < percentiles[0] <= found["latency max"]


def test_a_recorded_text(measured: Values, recorded_text: Text) -> None:
    first, _, _ = recorded_text("wrk.txt").partition("Transfer/sec")
    assert "Requests/sec:" in first
    found = measured(first)
    printed = first.rpartition("Requests/sec:")[2].strip()
    assert found["requests"] == float(printed)


def test_wrk2(parse_text: ParseText) -> None:
    text = HEADER + (
        "    Latency   635.91us    0.89ms  12.92ms   93.69%\n"
        "  Latency Distribution (HdrHistogram - Recorded Latency)\n"
        " 50.000%  562.00us\n 99.990%    2.01s \n100.000%    1.20m \n"
        "Requests/sec:   2000.12\n"
    )
    found = [item for item in parse_text("wrk", text) if isinstance(item, Measurement)]
    assert {item.metric.name: item.value for item in found} == {
        "wrk latency average": pytest.approx(635.91e-6),
        "wrk latency max": pytest.approx(12.92e-3),
        "wrk latency p50": pytest.approx(562e-6),
        "wrk latency p99.99": 2.01,
        "wrk latency p100": 72.0,
        "wrk requests": 2000.12,
    }
    [rate] = [item for item in found if item.metric.name == "wrk requests"]
    assert rate.metric.family == "informational"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("    Latency   x    0.89ms  12.92ms   93.69%\n", "latency average: invalid number 'x'"),
        (
            "  Socket errors: connect 0, read ?, write 0, timeout 2\n",
            "socket errors: invalid number '?'",
        ),
    ],
)
def test_a_damaged_number(lines: str, problem: str, parse_text: ParseText) -> None:
    found = parse_text("wrk", f"{HEADER}{lines}Requests/sec: 1.00\n")
    assert found[0] == BadLine(problem=f"stdout:2: wrk {problem}")


def test_a_report_that_ends_early_has_no_measurement(parse_text: ParseText) -> None:
    assert parse_text("wrk", f"{HEADER}    Latency   1.00us  0.89ms  12.92ms   93.69%\n") == []
