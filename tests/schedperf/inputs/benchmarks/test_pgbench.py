# SPDX-License-Identifier: GPL-2.0-or-later
"""pgbench: a real server, recorded output, old versions, and damage."""

import doctest
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement, all_parsers, pgbench

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Text = Callable[[str], str]

HEADER = "transaction type: <builtin: select only>\nscaling factor: 1\n"
TPS = "tps = 100.500000 (without initial connection time)\n"

# What version 13 printed; 9.5 wrote a colon for the equals sign.
VERSION_13 = """\
starting vacuum...end.
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 1
number of transactions actually processed: 1000/1000
latency average = 15.844 ms
latency stddev = 2.715 ms
tps = 618.764555 (including connections establishing)
tps = 622.977698 (excluding connections establishing)
"""


class Server(Protocol):
    """A database server of the tests."""

    def pgbench(self, *arguments: str) -> list[str]: ...


@pytest.fixture
def measured(parse_text: ParseText) -> Callable[[str], dict[str, tuple[object, str]]]:
    """Return value and family of each metric of a text without bad lines."""

    def parse(text: str) -> dict[str, tuple[object, str]]:
        values: dict[str, tuple[object, str]] = {}
        for item in parse_text("pgbench", text):
            assert isinstance(item, Measurement), item
            assert item.metric.name not in values
            name = item.metric.name.removeprefix("pgbench ")
            values[name] = (item.value, item.metric.family)
        return values

    return parse


Measured = Callable[[str], dict[str, tuple[object, str]]]


def test_the_sample_in_the_docstring_is_true() -> None:
    found = doctest.testmod(pgbench)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.slow
def test_a_server_recorded_twice_is_compared(
    server: Server, compare_two_recordings: Callable[[Sequence[str]], dict[str, Any]]
) -> None:
    subprocess.run(server.pgbench("-i", "-q", "-s", "1"), capture_output=True, check=True)
    comparison = compare_two_recordings(server.pgbench("-c", "2", "-T", "2", "-P", "1"))
    rows = {row["metric"]: row for row in comparison["rows"]}
    row = rows["pgbench transactions"]
    assert (row["family"], row["unit"], row["better"]) == ("primary", "1/s", "higher")
    assert (row["n_base"], row["n_new"]) == (2, 2)
    assert row["base"] > 1.0
    # Two clients are never idle, so this is Little's law.
    latency = rows["pgbench latency average"]
    assert latency["base"] * row["base"] == pytest.approx(2.0, rel=0.2)


class TestRecordings:
    def test_progress_is_no_result(self, measured: Measured, recorded_text: Text) -> None:
        text = recorded_text("pgbench.txt")
        assert "\nprogress: 1.0 s" in text
        assert measured(text) == {
            "failed transactions": (0.0, "informational"),
            "latency average": (pytest.approx(0.566e-3), "secondary"),
            "latency stddev": (pytest.approx(1.134e-3), "informational"),
            "connection time": (pytest.approx(37.376e-3), "informational"),
            "transactions": (3522.131011, "primary"),
        }

    def test_each_script_has_a_name(self, measured: Measured, recorded_text: Text) -> None:
        found = measured(recorded_text("pgbench-scripts.txt"))
        assert found["transactions"] == (6579.323703, "primary")
        for name, rate, latency_s in (
            ("script 1 (TPC-B (sort of))", 1624.759773, 0.607e-3),
            ("script 2 (select.sql)", 4954.563929, 0.198e-3),
        ):
            assert found[f"{name} transactions"] == (rate, "informational")
            assert found[f"{name} latency average"] == (pytest.approx(latency_s), "secondary")
        assert [name for name, (_, family) in found.items() if family == "primary"] == [
            "transactions"
        ]

    def test_under_a_set_rate_the_latency_decides(
        self, measured: Measured, recorded_text: Text
    ) -> None:
        assert measured(recorded_text("pgbench-rate.txt")) == {
            "failed transactions": (0.0, "informational"),
            "late transactions": (5.0, "informational"),
            "latency average": (pytest.approx(5.355e-3), "primary"),
            "latency stddev": (pytest.approx(14.76e-3), "informational"),
            "schedule lag": (pytest.approx(2.845e-3), "informational"),
            "connection time": (pytest.approx(45.178e-3), "informational"),
            "transactions": (35.444528, "informational"),
        }

    def test_reconnecting_is_another_rate(self, measured: Measured, recorded_text: Text) -> None:
        found = measured(recorded_text("pgbench-reconnect.txt"))
        assert found["transactions with reconnections"] == (134.633227, "primary")
        assert found["connection time"] == (pytest.approx(5.785e-3), "informational")
        assert "transactions" not in found


class TestTexts:
    @pytest.mark.parametrize("equals", [" = ", ": "])
    def test_old_versions_print_two_rates(self, equals: str, measured: Measured) -> None:
        text = VERSION_13.replace("average = ", f"average{equals}")
        assert measured(text) == {
            "latency average": (pytest.approx(15.844e-3), "secondary"),
            "latency stddev": (pytest.approx(2.715e-3), "informational"),
            "transactions with connections": (618.764555, "secondary"),
            "transactions": (622.977698, "primary"),
        }

    def test_each_pgbench_is_a_measurement(self, parse_text: ParseText) -> None:
        found = parse_text("pgbench", HEADER + TPS + HEADER + TPS.replace("100", "200"))
        assert [item.value for item in found if isinstance(item, Measurement)] == [100.5, 200.5]

    def test_the_next_pgbench_has_no_script_of_the_last(self, parse_text: ParseText) -> None:
        script = "SQL script 1: a.sql\n - latency average = 1.000 ms\n"
        found = parse_text(
            "pgbench", HEADER + TPS + script + HEADER + "latency average = 2 ms\n" + TPS
        )
        names = [item.metric.name for item in found if isinstance(item, Measurement)]
        assert names == [
            "pgbench transactions",
            "pgbench script 1 (a.sql) latency average",
            "pgbench latency average",
            "pgbench transactions",
        ]

    def test_the_folder_of_a_script_and_an_endless_name_are_left_out(
        self, parse_text: ParseText
    ) -> None:
        text = HEADER + TPS + f"SQL script 1: /home/me/{'x' * 9999}\n - latency average = 1.0 ms\n"
        _, found = parse_text("pgbench", text)
        assert isinstance(found, Measurement)
        assert found.metric.name == f"pgbench script 1 ({'x' * 39}…) latency average"

    @pytest.mark.parametrize("text", [HEADER, HEADER + "latency average = 1.000 ms\n"])
    def test_output_that_ends_early_has_no_measurement(
        self, text: str, parse_text: ParseText
    ) -> None:
        assert parse_text("pgbench", text) == []

    @pytest.mark.parametrize("printed", ["nan", "inf", "x", "1e999", "1_0", "9" * 100])
    def test_a_bad_number_is_a_value_that_says_where(
        self, printed: str, parse_text: ParseText
    ) -> None:
        [found] = parse_text("pgbench", HEADER + TPS.replace("100.500000", printed))
        assert isinstance(found, BadLine)
        assert found.problem.startswith("stdout:3: pgbench transactions: invalid number '")

    @pytest.mark.parametrize(
        "text", ["", TPS, "progress: 1.0 s, 3686.9 tps, lat 0.539 ms stddev 0.143, 0 failed\n"]
    )
    def test_other_texts_are_not_claimed(self, text: str) -> None:
        assert not all_parsers()["pgbench"].claims(text)
