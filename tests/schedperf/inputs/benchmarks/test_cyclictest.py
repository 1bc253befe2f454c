# SPDX-License-Identifier: GPL-2.0-or-later
"""cyclictest: the real program in all its forms, recorded output, and damage."""

import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from schedperf.inputs.benchmarks import BadLine, Execution, Latencies, Measurement
from schedperf.inputs.benchmarks.cyclictest import find_failure, read_latencies

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Values = Callable[[str], dict[str, float]]
Text = Callable[[str], str]
Run = Callable[..., str]

QUICK = ("cyclictest", "-q", "-l", "60", "-i", "300", "-d", "0")
TWO_BINS = (
    "# Histogram\n000010 000006\t000004\n000011 000003\t000006\n# Total: 000000009 000000010\n"
    "# Min Latencies: 00010 00010\n# Avg Latencies: 00010 00011\n# Max Latencies: 00099 00011\n"
    "# Histogram Overflows: 00001 00000\n"
)


@pytest.fixture
def measured(parse_values: Callable[[str, str], dict[str, float]]) -> Values:
    return partial(parse_values, "cyclictest")


def numbers(found: list[Measurement | BadLine]) -> dict[str, float]:
    """Return the value of each statistic."""
    return {
        item.metric.name.rpartition(" ")[2]: item.value
        for item in found
        if isinstance(item, Measurement)
    }


@pytest.fixture
def may_be_realtime() -> None:
    """Skip where a real-time priority may not be set: cyclictest tries one at its start."""
    if subprocess.run(["chrt", "--fifo", "1", "true"], capture_output=True).returncode:
        pytest.skip("needs root, or RLIMIT_RTPRIO, to set a real-time priority")


@pytest.mark.system
@pytest.mark.usefixtures("may_be_realtime")
class TestRealProgram:
    @pytest.mark.parametrize("options", [(), ("-t", "2"), ("-N",)])
    def test_of_the_summary_the_maximum_is_read(
        self, options: tuple[str, ...], run_program: Run, measured: Values
    ) -> None:
        found = measured(run_program(*QUICK, *options))
        assert list(found) == ["latency max"]
        # In the unit that was printed it is not below 1 us or above 1000 s.
        assert 1e-6 < found["latency max"] < 1000.0

    def test_without_q_the_last_summary_counts(self, run_program: Run, measured: Values) -> None:
        text = run_program("cyclictest", "-l", "60", "-i", "300")
        assert text.count("T: 0") > 1
        assert list(measured(text)) == ["latency max"]

    @pytest.mark.parametrize("option", ["-h", "-H"])
    def test_percentiles_of_a_histogram_are_between_its_ends(
        self, option: str, run_program: Run, parse_text: ParseText
    ) -> None:
        values = numbers(parse_text("cyclictest", run_program(*QUICK, "-t", "2", option, "5000")))
        # 120 samples do not determine p99.9. On a busy machine the others may be above the bins.
        assert {"max"} <= values.keys() <= {"p50", "p90", "p99", "max"}
        assert list(values.values()) == sorted(values.values())

    def test_json_has_the_numbers_of_the_text(
        self, run_program: Run, parse_text: ParseText, tmp_path: Path
    ) -> None:
        text = run_program(*QUICK, "-h", "5000", "--json=out")
        from_text = numbers(parse_text("cyclictest", text))
        from_json = numbers(parse_text("cyclictest", (tmp_path / "out").read_text()))
        assert from_json == pytest.approx(from_text)
        [latencies] = read_latencies(text.splitlines(), "stdout")
        [same] = read_latencies((tmp_path / "out").read_text().splitlines(), "out")
        assert latencies.counts is not None
        assert latencies.samples == same.samples == sum(latencies.counts.values()) + latencies.above
        assert {value: count for value, count in latencies.counts.items() if count} == same.counts


class TestRecordings:
    def test_the_largest_maximum_counts(self, measured: Values, recorded_text: Text) -> None:
        assert measured(recorded_text("cyclictest.txt")) == {
            "latency max": pytest.approx(278e-6),
        }

    def test_percentiles_of_json(self, measured: Values, recorded_text: Text) -> None:
        text = recorded_text("cyclictest-json.txt")
        assert measured(text)["latency p99"] == pytest.approx(70e-6)

    def test_a_percentile_above_the_histogram_is_unknown(
        self, parse_text: ParseText, recorded_text: Text
    ) -> None:
        found = parse_text("cyclictest", recorded_text("cyclictest-histogram.txt"))
        assert [item for item in found if isinstance(item, BadLine)] == [
            BadLine(
                problem="stdout:123: cyclictest latency p99.9 lies above the histogram, which "
                "lacks 13 samples; record a histogram with more bins"
            )
        ]
        assert len(found) == 5


class TestTexts:
    def test_percentiles_are_those_of_all_threads(self, measured: Values) -> None:
        assert measured(TWO_BINS) == {
            "latency p50": pytest.approx(10e-6),
            "latency p90": pytest.approx(11e-6),
            "latency max": pytest.approx(99e-6),
        }

    def test_samples_above_the_bins_are_latencies(self) -> None:
        [latencies] = read_latencies(TWO_BINS.splitlines(), "stdout")
        assert latencies == Latencies(
            name="cyclictest latency",
            samples=20,
            maximum_s=99 * 1e-6,
            unit_s=1e-6,
            counts={10: 10, 11: 9},
            width=1,
            above=1,
        )

    def test_each_run_is_a_measurement(self, parse_text: ParseText) -> None:
        line = "T: 0 (  9) P: 0 I:1000 C:    {0} Min:      2 Act:    5 Avg:    5 Max:       {1}\n"
        found = parse_text("cyclictest", line.format(10, 7) + line.format(9, 8))
        values = [item.value for item in found if isinstance(item, Measurement)]
        assert values == pytest.approx([7e-6, 8e-6])

    @pytest.mark.parametrize(
        ("kind", "command"),
        [
            ("", "cyclictest -q -l 20000 -t 1"),
            ("-histogram", "cyclictest -q -l 100000 -h 200"),
            # The JSON has the command.
            ("-json", ""),
        ],
    )
    def test_an_early_end_before_a_whole_run_is_a_failure(
        self, kind: str, command: str, recorded_text: Text
    ) -> None:
        early = recorded_text(f"failed/cyclictest{kind}-sigint.txt")
        whole = recorded_text(f"cyclictest{kind}.txt")
        # As many cycles as the other command asks for.
        whole = re.sub(r"(C: *|Total: 0*)\d+", r"\g<1>100000", whole)
        found = find_failure(early + whole, Execution(command=tuple(command.split())))
        assert found is not None
        assert 0 < found.line_number <= early.count("\n")
        assert "ended after" in found.problem

    @pytest.mark.parametrize(
        ("printed", "damaged", "problem"),
        [
            ("000003\t000006", "000003\t000007", "the counts of the histogram add up to 20, but"),
            ("# Histogram Overflows: 00001 00000\n", "", "the histogram ends early"),
            ("# Max Latencies: 00099 00011\n", "", "the histogram is damaged"),
            ("# Total: 000000009 000000010", "# Total: 000000009", "the histogram is damaged"),
        ],
    )
    def test_a_damaged_histogram_has_no_measurement(
        self, printed: str, damaged: str, problem: str, parse_text: ParseText
    ) -> None:
        [found] = parse_text("cyclictest", TWO_BINS.replace(printed, damaged))
        assert isinstance(found, BadLine)
        assert found.problem.startswith(f"stdout:1: cyclictest: {problem}")

    def test_no_sample_is_a_bad_line(self, parse_text: ParseText) -> None:
        text = "T: 0 (    0) P: 0 I:1000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0\n"
        [found] = parse_text("cyclictest", text)
        assert found == BadLine(
            problem="stdout:1: cyclictest: no timer expired; run cyclictest for longer"
        )

    def test_json_that_ends_early_is_a_bad_line(
        self, parse_text: ParseText, recorded_text: Text
    ) -> None:
        [found] = parse_text("cyclictest", recorded_text("cyclictest-json.txt")[:-10])
        assert found == BadLine(problem="stdout:1: invalid JSON: ends early; record again")
