# SPDX-License-Identifier: GPL-2.0-or-later
"""cyclictest: the real program in all its forms, recorded output, and damage."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from schedperf.benchmarks import BadLine, Measurement

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


@pytest.mark.system
class TestRealProgram:
    @pytest.mark.parametrize("options", [(), ("-t", "2"), ("-N",)])
    def test_the_summary_has_average_and_maximum(
        self, options: tuple[str, ...], run_program: Run, measured: Values
    ) -> None:
        found = measured(run_program(*QUICK, *options))
        assert list(found) == ["latency average", "latency max"]
        # In the unit that was printed neither is below 1 us or above 1000 s.
        assert 1e-6 < found["latency average"] <= found["latency max"] < 1000.0

    def test_without_q_the_last_summary_counts(self, run_program: Run, measured: Values) -> None:
        text = run_program("cyclictest", "-l", "60", "-i", "300")
        assert text.count("T: 0") > 1
        assert list(measured(text)) == ["latency average", "latency max"]

    @pytest.mark.parametrize("option", ["-h", "-H"])
    def test_percentiles_of_a_histogram_are_between_its_ends(
        self, option: str, run_program: Run, parse_text: ParseText
    ) -> None:
        values = numbers(parse_text("cyclictest", run_program(*QUICK, "-t", "2", option, "5000")))
        # 120 samples do not determine p99.9. On a busy machine the others may be above the bins.
        assert {"average", "max"} <= values.keys() <= {"average", "p50", "p90", "p99", "max"}
        in_order = [value for name, value in values.items() if name != "average"]
        assert in_order == sorted(in_order)

    def test_json_has_the_numbers_of_the_text(
        self, run_program: Run, parse_text: ParseText, tmp_path: Path
    ) -> None:
        text = run_program(*QUICK, "-h", "5000", "--json=out")
        from_text = numbers(parse_text("cyclictest", text))
        from_json = numbers(parse_text("cyclictest", (tmp_path / "out").read_text()))
        average = from_text.pop("average")
        assert from_json.pop("average") == pytest.approx(average, abs=1e-6)
        assert from_json == pytest.approx(from_text)


class TestRecordings:
    def test_the_largest_maximum_counts(self, measured: Values, recorded_text: Text) -> None:
        assert measured(recorded_text("cyclictest.txt")) == {
            "latency average": pytest.approx(23e-6),
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
        assert len(found) == 6


class TestTexts:
    def test_threads_are_weighted_by_their_samples(self, measured: Values) -> None:
        assert measured(TWO_BINS) == {
            "latency average": pytest.approx(10.5e-6),
            "latency p50": pytest.approx(10e-6),
            "latency p90": pytest.approx(11e-6),
            "latency max": pytest.approx(99e-6),
        }

    def test_each_run_is_a_measurement(self, parse_text: ParseText) -> None:
        line = "T: 0 (  9) P: 0 I:1000 C:    {0} Min:      2 Act:    5 Avg:    5 Max:       {1}\n"
        found = parse_text("cyclictest", line.format(10, 7) + line.format(9, 8))
        values = [item.value for item in found if isinstance(item, Measurement)]
        assert values == pytest.approx([5e-6, 7e-6, 5e-6, 8e-6])

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
