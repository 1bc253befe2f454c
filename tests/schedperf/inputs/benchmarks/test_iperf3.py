# SPDX-License-Identifier: GPL-2.0-or-later
"""iperf3: the real client and server, recorded output, and damage."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement
from tests.schedperf.inputs.benchmarks.conftest import free_port, started

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Values = Callable[[str], dict[str, float]]
Text = Callable[[str], str]
Run = Callable[..., str]
Client = Callable[..., str]

UDP = ["UDP receive throughput", "UDP jitter", "UDP lost datagrams"]


@pytest.fixture
def measured(parse_values: Callable[[str, str], dict[str, float]]) -> Values:
    return partial(parse_values, "iperf3")


# A server of its own for each test: after a client, it is busy for a while.
@pytest.fixture
def port() -> Iterator[str]:
    number = str(free_port())
    with started("iperf3", "-s", "-p", number, "--forceflush", ready="Server listening"):
        yield number


@pytest.fixture
def client(port: str, run_program: Run) -> Client:
    return partial(run_program, "iperf3", "-c", "127.0.0.1", "-p", port, "-n", "30M")


@pytest.mark.system
class TestRealProgram:
    @pytest.mark.parametrize("form", [(), ("-J",), ("-V", "-f", "M"), ("--get-server-output",)])
    @pytest.mark.parametrize("options", [("-P", "2"), ("-R",)])
    def test_a_stream(
        self, form: tuple[str, ...], options: tuple[str, ...], client: Client, measured: Values
    ) -> None:
        found = measured(client(*options, *form))
        assert list(found) == ["retransmits", "throughput"]
        # On the slowest machine that carries 30 MB at all.
        assert found["throughput"] > 1e3

    @pytest.mark.parametrize("form", [(), ("-J",)])
    def test_datagrams(self, form: tuple[str, ...], client: Client, measured: Values) -> None:
        found = measured(client("-u", "-b", "1G", *form))
        assert list(found) == UDP
        assert 0.0 <= found["UDP lost datagrams"] <= 100.0


class TestRecordings:
    def test_the_sum_of_the_streams_that_the_receivers_counted(
        self, measured: Values, recorded_text: Text
    ) -> None:
        assert measured(recorded_text("iperf3-bidir.txt")) == {
            "retransmits": 22.0,
            "throughput": pytest.approx(1.22e9 / 8),
            "reverse retransmits": 9.0,
            "reverse throughput": pytest.approx(1.83e9 / 8),
        }

    def test_datagrams(self, measured: Values, recorded_text: Text) -> None:
        found = measured(recorded_text("iperf3-udp.txt"))
        assert list(found) == UDP
        assert found["UDP receive throughput"] == pytest.approx(20.4e6 / 8)

    def test_json(self, measured: Values, recorded_text: Text) -> None:
        text = recorded_text("iperf3-json.txt")
        [line] = [
            line
            for line in text.partition('"sum_received"')[2].splitlines()
            if "bits_per_second" in line
        ][:1]
        found = measured(text)["throughput"]
        assert found == pytest.approx(float(line.partition(":")[2].strip(" \t,")) / 8)


class TestTexts:
    def test_events_of_a_json_stream(self, measured: Values) -> None:
        text = (
            '{"event":"start","data":{"version":"iperf 3.17","test_start":{"protocol":"UDP"}}}\n'
            '{"event":"interval","data":{"sum":{"bits_per_second":1}}}\n'
            '{"event":"end","data":{"sum_received":{"bits_per_second":800,"jitter_ms":2,'
            '"lost_percent":1.5}}}\n'
        )
        assert measured(text) == {
            "UDP receive throughput": 100.0,
            "UDP jitter": pytest.approx(2e-3),
            "UDP lost datagrams": 1.5,
        }

    @pytest.mark.parametrize("percent", ["179.6", "-0.5"])
    @pytest.mark.parametrize(
        ("text", "line"),
        [
            (
                """\
{"event":"start","data":{"version":"iperf 3.17","test_start":{"protocol":"UDP"}}}
{"event":"end","data":{"sum_received":{"bits_per_second":800,"lost_percent":@}}}
""",
                2,
            ),
            (
                """\
{"start": {
"version": "iperf 3.1.3", "test_start": {"protocol": "UDP"}},
"end": {"sum": {"bits_per_second": 800,
"lost_percent": @}}}
""",
                4,
            ),
        ],
        ids=["stream", "3.1"],
    )
    def test_a_percentage_that_cannot_be_is_a_bad_line(
        self, text: str, line: int, percent: str, parse_text: ParseText
    ) -> None:
        found = parse_text("iperf3", text.replace("@", percent))
        assert [item for item in found if isinstance(item, BadLine)] == [
            BadLine(
                problem=f"stdout:{line}: iperf3: {percent}% of the datagrams lost (expected 0% to "
                "100%); record again"
            )
        ]

    def test_streams_without_their_sum_are_a_bad_line(
        self, parse_text: ParseText, recorded_text: Text
    ) -> None:
        text = recorded_text("iperf3-udp.txt")
        cut = "".join(
            line for line in text.splitlines(keepends=True) if not line.startswith("[SUM]")
        )
        [found] = parse_text("iperf3", cut)
        assert isinstance(found, BadLine)
        assert found.problem.endswith(": iperf3: no sum of the streams; record the whole output")

    def test_a_client_that_could_not_connect_has_no_measurement(
        self, parse_text: ParseText
    ) -> None:
        text = (
            '{\n\t"start":\t{\n\t\t"version":\t"iperf 3.12"\n\t},\n\t"end":\t{\n\t},\n'
            '\t"error":\t"unable to connect to server: Connection refused"\n}\n'
        )
        assert parse_text("iperf3", text) == []
