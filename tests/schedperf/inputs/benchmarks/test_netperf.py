# SPDX-License-Identifier: GPL-2.0-or-later
"""netperf: the real program, recorded output in all its forms, sums of clients, and damage."""

import doctest
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import sqrt
from typing import Any

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement, netperf

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Text = Callable[[str], str]
Values = Callable[[str], dict[str, float]]

FROM = " TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 127.0.0.1 () port 0 AF_INET : demo\n"
STREAM = (
    f"MIGRATED TCP STREAM{FROM}"
    "Recv   Send    Send                          \n"
    "Socket Socket  Message  Elapsed              \n"
    "Size   Size    Size     Time     Throughput  \n"
    "bytes  bytes   bytes    secs.    10^6bits/sec  \n"
    "\n"
    "131072  16384  16384    1.00     8000.00   \n"
)
RR = (
    f"MIGRATED TCP REQUEST/RESPONSE{FROM}"
    "Local /Remote\n"
    "Socket Size   Request  Resp.   Elapsed  Trans.\n"
    "Send   Recv   Size     Size    Time     Rate         \n"
    "bytes  Bytes  bytes    bytes   secs.    per sec   \n"
    "\n"
    "16384  131072 1        1       1.00     18827.26   \n"
    "16384  131072\n"
)
UDP = (
    f"MIGRATED UDP STREAM{FROM}"
    "Socket  Message  Elapsed      Messages                \n"
    "Size    Size     Time         Okay Errors   Throughput\n"
    "bytes   bytes    secs            #      #   10^6bits/sec\n"
    "\n"
    "212992   65507   1.00        76600      0    40000.00\n"
    "212992           1.00        74380           16000.00\n"
    "\n"
)
NOT_CONNECTED = (
    "establish_control could not establish the control connection from 0.0.0.0 port 0 address "
    "family AF_UNSPEC to 127.0.0.1 port 13 address family AF_INET\n"
)


@pytest.fixture
def values(parse_values: Callable[[str, str], dict[str, float]]) -> Values:
    return partial(parse_values, "netperf")


def problems(found: Sequence[Measurement | BadLine]) -> list[str]:
    return [item.problem for item in found if isinstance(item, BadLine)]


@pytest.fixture
def server() -> Iterator[list[str]]:
    """Run netperf's server, and give the options that reach it."""
    for program in ("netperf", "netserver"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; Debian has it in non-free")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = ["netserver", "-D", "-4", "-L", "127.0.0.1", "-p", port]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            for _ in range(1000):
                with socket.socket() as client:
                    if client.connect_ex(("127.0.0.1", int(port))) == 0:
                        break
                time.sleep(0.1)
            else:
                pytest.fail("netserver takes no connection")
            yield ["-4", "-H", "127.0.0.1", "-p", port]
        finally:
            process.kill()


def test_the_sample_in_the_docstring_is_true() -> None:
    found = doctest.testmod(netperf)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.system
class TestRealProgram:
    def test_two_clients_recorded_twice_are_compared(
        self,
        server: list[str],
        compare_two_recordings: Callable[[Sequence[str]], dict[str, Any]],
    ) -> None:
        client = f"netperf {' '.join(server)} -l 1 -t TCP_RR"
        comparison = compare_two_recordings(["sh", "-c", f"{client} & {client}; wait"])
        [row] = comparison["rows"]
        assert row["metric"] == "netperf TCP_RR transactions"
        assert (row["family"], row["unit"], row["better"]) == ("primary", "1/s", "higher")
        assert (row["n_base"], row["n_new"]) == (2, 2)
        assert row["base"] > 10.0

    @pytest.mark.parametrize("test", ["TCP_STREAM", "TCP_MAERTS", "TCP_CRR", "UDP_RR"])
    def test_each_test_has_its_name(self, test: str, server: list[str], values: Values) -> None:
        command = ["netperf", *server, "-l", "1", "-t", test]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        [(name, value)] = values(done.stdout).items()
        assert name.startswith(f"{test} t")
        assert value > 0.0


class TestRecordings:
    def test_clients_at_once_are_added_and_what_was_received_counts(
        self, parse_text: ParseText, recorded_text: Text
    ) -> None:
        text = recorded_text("netperf-udp-stream-3-clients.txt")
        rows = [line.split() for line in text.splitlines() if line.startswith("212992")]
        sent = sum(float(row[5]) for row in rows[0::2])
        received = sum(float(row[3]) for row in rows[1::2])
        assert len(rows) == 6
        first, second = parse_text("netperf", text)
        assert isinstance(first, Measurement)
        assert isinstance(second, Measurement)
        assert first.metric.name == "netperf UDP_STREAM receive throughput"
        assert (first.metric.unit, first.metric.family) == ("B/s", "primary")
        assert first.value == pytest.approx(received * 1e6 / 8)
        assert first.resolution == pytest.approx(0.1 * 1e6 / 8 * sqrt(3))
        assert second.metric.name == "netperf UDP_STREAM send throughput"
        assert second.metric.family == "informational"
        assert second.value == pytest.approx(sent * 1e6 / 8)

    def test_interim_results_are_progress(self, values: Values, recorded_text: Text) -> None:
        text = recorded_text("netperf-tcp-rr-interim.txt")
        assert text.count("Interim result:") == 4
        assert values(text) == {"TCP_RR transactions": pytest.approx(25486.62 + 16376.03)}

    def test_iterations_are_sums_of_their_own(
        self, parse_text: ParseText, recorded_text: Text
    ) -> None:
        text = recorded_text("netperf-udp-rr-iterations.txt")
        rates = [
            float(line.split()[5])
            for line in text.splitlines()
            if line.startswith("212992") and len(line.split()) == 6
        ]
        found = parse_text("netperf", text)
        assert [item.value for item in found if isinstance(item, Measurement)] == [
            pytest.approx(rates[0] + rates[1]),
            pytest.approx(rates[2] + rates[3]),
        ]

    def test_columns_and_units_are_what_the_header_says(
        self, values: Values, recorded_text: Text
    ) -> None:
        assert values(recorded_text("netperf-forms.txt")) == {
            "TCP_STREAM throughput": pytest.approx(7453.12e6 / 8),
            "TCP_MAERTS throughput": pytest.approx(1.78 * 2**30),
            "TCP_RR transactions": 7535.30,
            "UDP_RR throughput": pytest.approx(128.89e3 / 8),
            # The second client printed no header.
            "UDP_STREAM receive throughput": pytest.approx((356.69 + 1259.09) * 2**20),
            "UDP_STREAM send throughput": pytest.approx((2957.78 + 5116.76) * 2**20),
        }

    def test_omni_output_is_read_in_its_three_forms(
        self, values: Values, recorded_text: Text
    ) -> None:
        assert values(recorded_text("netperf-omni.txt")) == {
            "OMNI_SEND throughput": pytest.approx(13370.93e6 / 8),
            "OMNI_RR transactions": 36072.65,
            "OMNI_RR latency average": pytest.approx(27.67e-6),
            "OMNI_RR latency p99": pytest.approx(30e-6),
            "TCP_CRR transactions": 9147.44,
            "TCP_CRR latency average": pytest.approx(109.27e-6),
            "TCP_CRR latency p50": pytest.approx(59e-6),
            "TCP_CRR latency p90": pytest.approx(80e-6),
            "TCP_CRR latency p99": pytest.approx(2320e-6),
            "TCP_CRR latency max": pytest.approx(10970e-6),
            "UDP_STREAM receive throughput": pytest.approx(10063.54e6 / 8),
            "UDP_STREAM send throughput": pytest.approx(37504.70e6 / 8),
        }

    def test_an_interval_that_was_not_reached_is_informational(
        self, parse_text: ParseText, recorded_text: Text
    ) -> None:
        interval, rate = parse_text("netperf", recorded_text("netperf-confidence.txt"))
        assert isinstance(interval, Measurement)
        assert interval.metric.name == "netperf TCP_STREAM confidence interval"
        assert (interval.value, interval.metric.unit) == (58.889, "%")
        assert interval.metric.family == "informational"
        assert isinstance(rate, Measurement)
        assert rate.value == pytest.approx(4839.60e6 / 8)

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("netperf", {"SCTP_STREAM_MANY throughput": "Throughput_total_Mbps"}),
            (
                "netperf-recv",
                {
                    "UDP_STREAM receive throughput": "ThroughputRecv_total_Mbps",
                    "UDP_STREAM send throughput": "Throughput_total_Mbps",
                },
            ),
        ],
    )
    def test_others_read_the_same_numbers(
        self, name: str, expected: dict[str, str], values: Values, sample_text: Text
    ) -> None:
        printed = dict(
            line.split(": ") for line in sample_text(f"benchmarks/netperf/{name}.yaml").splitlines()
        )
        assert values(sample_text(f"benchmarks/netperf/{name}")) == {
            metric: pytest.approx(float(printed[key]) * 1e6 / 8, rel=1e-12)
            for metric, key in expected.items()
        }


class TestTexts:
    @pytest.mark.parametrize(
        ("title", "name"),
        [
            (f"TCP STREAM{FROM}", "TCP_STREAM"),
            ("TCP STREAM TEST to localhost\n", "TCP_STREAM"),
            ("TCP IPV6 STREAM TEST from ::0 (::) port 0 AF_INET6 to ::1\n", "TCP_STREAM"),
            (f"TCP SENDFILE{FROM}", "TCP_SENDFILE"),
            (f"SCTP 1-TO-MANY STREAM{FROM}", "SCTP_STREAM_MANY"),
            (f"SCTP STREAM{FROM}", "SCTP_STREAM"),
            ("STREAM STREAM TEST\n", "STREAM_STREAM"),
        ],
    )
    def test_streams_of_all_protocols_have_one_table(
        self, title: str, name: str, values: Values
    ) -> None:
        text = title + STREAM.partition("\n")[2]
        assert values(text) == {f"{name} throughput": pytest.approx(1e9)}

    @pytest.mark.parametrize(
        ("title", "name"),
        [
            (f"UDP REQUEST/RESPONSE{FROM}", "UDP_RR"),
            (f"TCP Connect/Request/Response{FROM}", "TCP_CRR"),
            (f"TCP Connect/Close{FROM}", "TCP_CC"),
            (f"SCTP 1-TO-MANY REQUEST/RESPONSE{FROM}", "SCTP_RR_MANY"),
            ("DG REQUEST/RESPONSE TEST\n", "DG_RR"),
        ],
    )
    def test_requests_of_all_protocols_have_one_table(
        self, title: str, name: str, values: Values
    ) -> None:
        text = title + RR.partition("\n")[2]
        assert values(text) == {f"{name} transactions": 18827.26}

    @pytest.mark.parametrize(
        ("title", "name"),
        [("UDP UNIDIRECTIONAL SEND TEST to localhost\n", "UDP_STREAM"),
         ("DG UNIDIRECTIONAL SEND TEST\n", "DG_STREAM")],
    )  # fmt: skip
    def test_old_titles_of_datagrams_are_known(self, title: str, name: str, values: Values) -> None:
        assert values(title + UDP.partition("\n")[2]) == {
            f"{name} receive throughput": pytest.approx(2e9),
            f"{name} send throughput": pytest.approx(5e9),
        }

    def test_each_test_has_a_sum(self, values: Values) -> None:
        assert values(STREAM + RR + STREAM + RR + STREAM) == {
            "TCP_STREAM throughput": pytest.approx(3e9),
            "TCP_RR transactions": pytest.approx(2 * 18827.26),
        }

    def test_titles_of_clients_at_once_may_stand_before_their_tables(self, values: Values) -> None:
        title, _, table = STREAM.partition("\n")
        interim = "Interim result: 1.00 10^6bits/s over 0.500 seconds ending at 1795237593.947\n"
        text = f"{title}\n{title}\n{interim}{interim}{table}{interim}{table}"
        assert values(text) == {"TCP_STREAM throughput": pytest.approx(2e9)}

    @pytest.mark.parametrize("lost", ["131072", "Throughput", "10^6bits"])
    def test_a_sum_without_one_of_its_clients_is_none(
        self, lost: str, parse_text: ParseText
    ) -> None:
        found = parse_text("netperf", STREAM + STREAM.replace(lost, "\ufffd") + RR)
        assert [item.metric.name for item in found if isinstance(item, Measurement)] == [
            "netperf TCP_RR transactions"
        ]
        assert problems(found)[-1] == (
            "stdout: 1 of 2 clients of netperf TCP_STREAM printed a valid result, so the sum "
            "over all clients would be too low; record again"
        )

    def test_a_sum_without_a_client_that_reached_nobody_is_none(
        self, parse_text: ParseText
    ) -> None:
        found = parse_text("netperf", STREAM + NOT_CONNECTED)
        assert found == [
            BadLine(
                problem="stdout: 1 netperf client(s) could not connect to netserver, so the sum "
                "over all clients would be too low; record again"
            )
        ]

    def test_what_was_sent_is_never_taken_for_what_was_received(
        self, parse_text: ParseText
    ) -> None:
        [item] = parse_text("netperf", "".join(UDP.splitlines(keepends=True)[:-2]))
        assert isinstance(item, BadLine)
        assert "0 of 1 clients of netperf UDP_STREAM" in item.problem

    def test_a_rate_without_a_unit_is_refused(self, parse_text: ParseText) -> None:
        found = parse_text("netperf", f"OMNI Send{FROM}THROUGHPUT=1.5\n")
        assert problems(found)[0] == (
            "stdout:2: netperf OMNI_SEND printed no throughput with a known unit; "
            "add THROUGHPUT,THROUGHPUT_UNITS to -o or -k"
        )

    @pytest.mark.parametrize("unit", ["Usec/s", "", "10^6bits\x1b", "furlongs/s"])
    def test_an_unknown_unit_is_refused(self, unit: str, parse_text: ParseText) -> None:
        text = f"OMNI Send{FROM}THROUGHPUT=1.5\nTHROUGHPUT_UNITS={unit}\n"
        assert "no throughput with a known unit" in problems(parse_text("netperf", text))[0]

    def test_names_and_values_of_clients_without_titles_are_told_apart(
        self, values: Values
    ) -> None:
        pairs = "THROUGHPUT=1.5\nTHROUGHPUT_UNITS=Trans/s\n"
        assert values(f"OMNI Send|Recv{FROM}{pairs}{pairs}{pairs}") == {
            "OMNI_RR transactions": pytest.approx(4.5)
        }

    def test_a_bare_number_has_no_unit_and_is_not_read(self, parse_text: ParseText) -> None:
        found = parse_text("netperf", f"MIGRATED TCP STREAM{FROM}24930.90 \n")
        assert "0 of 1 clients" in problems(found)[0]

    def test_a_bad_number_says_where(self, parse_text: ParseText) -> None:
        found = parse_text("netperf", STREAM.replace("8000.00", "inf"))
        assert problems(found)[0] == (
            "stdout:7: netperf TCP_STREAM throughput: invalid number 'inf'"
        )

    def test_sums_stay_in_the_range_of_a_number(self, parse_text: ParseText) -> None:
        found = parse_text("netperf", STREAM.replace("8000.00", "1e144") * 100)
        assert problems(found) == [
            (
                "stdout: netperf TCP_STREAM throughput is too large (expected at most 1e+150); "
                "record again"
            )
        ]
