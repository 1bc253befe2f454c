# SPDX-License-Identifier: GPL-2.0-or-later
"""schbench: recorded output of three generations, and what must not be read as a result."""

import doctest
import re
import shutil
import subprocess
from collections.abc import Callable
from statistics import fmean

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement, all_parsers, schbench

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Text = Callable[[str], str]

# What one instance prints once a second, and at its end.
WAKEUP = (
    "Wakeup Latencies percentiles (usec) runtime {runtime} (s) ({samples} total samples)\n"
    "\t  50.0th: {p50:<10} (1 samples)\n\t* 99.0th: {p99:<10} (1 samples)\n"
    "\t  min=1, max={max}\n"
)
END = "average rps: 100.00\nsched delay: message 0 (usec) worker 0 (usec)\n"


def wakeup(runtime: int = 1, samples: int = 10, p50: int = 5, p99: int = 9, most: int = 20) -> str:
    return WAKEUP.format(runtime=runtime, samples=samples, p50=p50, p99=p99, max=most)


@pytest.fixture
def measured(parse_text: ParseText) -> Callable[[str], dict[str, list[float]]]:
    """Return all values of each metric of a text without bad lines."""

    def parse(text: str) -> dict[str, list[float]]:
        values: dict[str, list[float]] = {}
        for item in parse_text("schbench", text):
            assert isinstance(item, Measurement), item
            values.setdefault(item.metric.name.removeprefix("schbench "), []).append(item.value)
        return values

    return parse


Measured = Callable[[str], dict[str, list[float]]]


def test_the_sample_in_the_docstring_is_true() -> None:
    found = doctest.testmod(schbench)
    assert found.attempted > 0
    assert found.failed == 0


class TestRecordings:
    def test_only_the_last_block_of_each_section_counts(
        self, measured: Measured, recorded_text: Text
    ) -> None:
        text = recorded_text("schbench.txt")
        assert text.count("Wakeup Latencies") > 1
        last = text[text.rindex("Wakeup Latencies") :]
        found = measured(text)
        assert found == measured(last)
        [p99] = re.findall(r"\* 99\.0th: (\d+)", last)[:1]
        assert found["wakeup latency p99"] == [pytest.approx(int(p99) * 1e-6)]
        assert [len(values) for values in found.values()] == [1] * 13

    def test_the_sample_before_the_first_request_is_no_rate(
        self, measured: Measured, recorded_text: Text
    ) -> None:
        text = recorded_text("schbench.txt")
        assert re.search(r"20\.0th: 0 ", text[text.rindex("RPS percentiles") :])
        found = measured(text)
        assert "rps p20" not in found
        assert found["rps p90"][0] > 0.0

    def test_pipe_mode_has_no_requests(self, measured: Measured, recorded_text: Text) -> None:
        found = measured(recorded_text("schbench-pipe.txt"))
        assert list(found) == [
            *(f"wakeup latency p{percent}" for percent in ("20", "50", "90", "99", "99.9")),
            "wakeup latency max",
            "transfers",
        ]

    @pytest.mark.parametrize("name", ["schbench-2021.txt", "schbench-2016.txt"])
    def test_the_old_single_section_has_names_of_its_own(
        self, name: str, measured: Measured, recorded_text: Text
    ) -> None:
        text = recorded_text(name)
        found = measured(text)
        assert list(found) == [
            *(f"latency p{percent}" for percent in (50, 75, 90, 95, 99, 99.5, 99.9)),
            "latency max",
        ]
        *_, p99 = re.findall(r"\* ?99\.0+th: (\d+)", text)
        assert found["latency p99"] == [pytest.approx(int(p99) * 1e-6)]

    def test_zeroed_statistics_are_those_of_intervals(
        self, measured: Measured, recorded_text: Text
    ) -> None:
        found = measured(recorded_text("schbench-zeroed.txt"))
        # The third block covers what is left after the last whole second.
        assert found["wakeup latency p99 per interval"] == pytest.approx([16e-6])
        assert found["request latency p99 per interval"] == pytest.approx([61704e-6])
        assert found["requests"] == [99.5]
        assert not any(name.endswith(("p99", "max")) for name in found)

    def test_equal_numbers_of_rates_are_a_reset(
        self, measured: Measured, recorded_text: Text
    ) -> None:
        lines = recorded_text("schbench-zeroed.txt").splitlines()
        # Intervals of -z with as many samples as those before, or more.
        text = "\n".join(line.replace("(2 total samples)", "(1 total samples)") for line in lines)
        assert measured(text)["wakeup latency p99 per interval"] == pytest.approx([16e-6])

    def test_two_at_once_that_end_one_by_one_are_two_measurements(
        self, measured: Measured, recorded_text: Text
    ) -> None:
        found = measured(recorded_text("schbench-two-at-once.txt"))
        assert found["wakeup latency p99"] == pytest.approx([7224e-6, 7752e-6])
        assert found["requests"] == [66.0, 66.0]

    @pytest.mark.parametrize("name", ["schbench.txt", "schbench-pipe.txt"])
    def test_output_that_ends_early_is_no_result(
        self, name: str, parse_text: ParseText, recorded_text: Text
    ) -> None:
        lines = recorded_text(name).splitlines()
        [end] = [
            number
            for number, line in enumerate(lines)
            if line.startswith(("average rps", "avg worker"))
        ]
        for length in range(1, end):
            [found] = parse_text("schbench", "\n".join(lines[:length]))
            assert isinstance(found, BadLine)
            assert "schbench ended before the run time set with -r" in found.problem

    @pytest.mark.system
    def test_the_real_program(self, measured: Measured) -> None:
        if shutil.which("schbench") is None:
            pytest.skip("schbench is not installed; no distribution packages it")
        done = subprocess.run(
            ["schbench", "-m", "1", "-t", "1", "-r", "1", "-i", "1"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert len(measured(done.stderr)["wakeup latency p99"]) == 1


class TestTexts:
    def test_one_percentile_decides(self, parse_text: ParseText, recorded_text: Text) -> None:
        found = parse_text("schbench", recorded_text("schbench.txt"))
        names = {
            item.metric.name
            for item in found
            if isinstance(item, Measurement) and item.metric.family == "primary"
        }
        assert names == {"schbench wakeup latency p99"}

    @pytest.mark.parametrize(
        "marked", ["\t* 99.0th: 8 (1 samples)", "  * 99.0th:\t8", "*99.0th: 8"]
    )
    def test_the_mark_of_the_99th_and_the_kind_of_space_do_not_matter(
        self, marked: str, measured: Measured
    ) -> None:
        header = wakeup().splitlines()[0]
        found = measured(f"{header}\n{marked}\nmin=1, max=9\n{END}")
        assert found["wakeup latency p99"] == [pytest.approx(8e-6)]

    @pytest.mark.parametrize(
        ("value", "step_us"),
        [(3, 1), (511, 1), (513, 2), (1022, 2), (1026, 4), (11376, 32), (67_000_000, 131_072)],
    )
    def test_the_resolution_of_a_percentile_is_its_bucket(
        self, value: int, step_us: int, parse_text: ParseText
    ) -> None:
        p50, p99, most, _ = parse_text("schbench", wakeup(p99=value, most=value) + END)
        assert isinstance(p50, Measurement)
        assert isinstance(p99, Measurement)
        assert isinstance(most, Measurement)
        assert p50.resolution == pytest.approx(1e-6)
        assert p99.resolution == pytest.approx(step_us * 1e-6)
        assert most.resolution == pytest.approx(1e-6)

    def test_instances_one_after_the_other_are_a_measurement_each(self, measured: Measured) -> None:
        found = measured(wakeup(p99=9) + END + wakeup(p99=90) + END)
        assert found["wakeup latency p99"] == pytest.approx([9e-6, 90e-6])

    def test_old_instances_are_told_apart_by_the_runtime(self, measured: Measured) -> None:
        first = wakeup(runtime=10) + wakeup(runtime=20, samples=20, p99=8)
        second = wakeup(runtime=10, samples=5) + wakeup(runtime=20, p99=80)
        found = measured((first + second).replace("Wakeup Latencies", "Latency"))
        assert found["latency p99"] == pytest.approx([8e-6, 80e-6])

    def test_what_was_counted_before_the_warm_up_ended_does_not_matter(
        self, measured: Measured
    ) -> None:
        text = wakeup(samples=900, p99=99) + "warmup done, zeroing stats\n" + wakeup(p99=9) + END
        assert measured(text)["wakeup latency p99"] == [pytest.approx(9e-6)]

    def test_mixed_lines_are_no_result(self, parse_text: ParseText) -> None:
        first, second = wakeup().splitlines(), wakeup(p99=90).splitlines()
        mixtures = [
            [*first[:2], *second, *first[2:]],
            [*first, *second[1:]],
            [*first, *second],
            [*second[1:], second[0], *first],
        ]
        for lines in mixtures:
            found = parse_text("schbench", "\n".join([*lines, END]))
            assert len(found) == 1
            assert isinstance(found[0], BadLine)
            assert "concurrent schbench instances are mixed" in found[0].problem

    def test_a_remainder_of_another_instance_is_no_result(self, parse_text: ParseText) -> None:
        rest = wakeup().replace("Wakeup", "Request")
        *_, found = parse_text("schbench", wakeup() + END + rest + END)
        assert isinstance(found, BadLine)

    def test_a_section_without_samples_is_no_result(self, parse_text: ParseText) -> None:
        found, rate = parse_text("schbench", wakeup(samples=0) + END)
        assert found == BadLine(problem="stdout:5: wakeup latency has no samples; use a larger -r")
        assert isinstance(rate, Measurement)

    @pytest.mark.parametrize("printed", ["x", "", "nan", "-", "9" * 100])
    def test_a_bad_number_costs_only_itself(self, printed: str, parse_text: ParseText) -> None:
        text = wakeup().replace("99.0th: 9 ", f"99.0th: {printed} ") + END
        found = parse_text("schbench", text)
        assert [type(item) for item in found] == [Measurement, BadLine, Measurement, Measurement]
        assert isinstance(found[1], BadLine)
        assert found[1].problem.startswith("stdout:3: schbench wakeup latency p99: invalid number")

    @pytest.mark.parametrize("text", ["", "average rps: 1\n", "Latency percentiles\n", END])
    def test_other_texts_are_not_claimed(self, text: str) -> None:
        assert not all_parsers()["schbench"].claims(text)


class TestSamples:
    """Others' data. LKP averages every block, although each holds those before it; we do not."""

    def golden(self, text: str) -> dict[str, float]:
        return {
            key: float(value) for key, value in re.findall(r"^(\S+): ([\d.]+)$", text, re.MULTILINE)
        }

    def test_three_iterations(self, measured: Measured, sample_text: Text) -> None:
        found = measured(sample_text("benchmarks/schbench/01"))
        golden = self.golden(sample_text("benchmarks/schbench/01.yaml"))
        assert found["request latency p99"] == pytest.approx([11376e-6, 11472e-6, 11440e-6])
        for kind in ("wakeup", "request"):
            for percent in ("50", "90", "99", "99.9"):
                ours = found[f"{kind} latency p{percent}"]
                # What LKP calls "end" is the last block.
                most = golden[f"{kind}_end_latency_{percent}%_us_max"]
                assert max(ours) == pytest.approx(most * 1e-6)
        # Four blocks of each iteration are in LKP's mean, and three of them are repetitions.
        theirs = golden["request_latency_99%_us"] * 1e-6
        assert fmean(found["request latency p99"]) == pytest.approx(11429.33e-6, rel=1e-6)
        assert theirs == pytest.approx(11437.33e-6)

    def test_two_instances(self, measured: Measured, sample_text: Text) -> None:
        found = measured(sample_text("benchmarks/schbench/schbench-multi-instance"))
        golden = self.golden(sample_text("benchmarks/schbench/schbench-multi-instance.yaml"))
        for kind in ("wakeup", "request"):
            for statistic in ("p50", "p90", "p99", "p99.9", "max"):
                ours = found[f"{kind} latency {statistic}"]
                key = f"{statistic.removeprefix('p')}%" if statistic != "max" else "max"
                for instance, value in enumerate(ours, start=1):
                    assert value == pytest.approx(
                        golden[f"{kind}_latency_{key}_us.instance{instance}"] * 1e-6
                    )
                # With one block an instance, both means are the same.
                assert fmean(ours) == pytest.approx(golden[f"{kind}_latency_{key}_us"] * 1e-6)

    def test_thirty_runs(self, measured: Measured, sample_text: Text) -> None:
        text = sample_text("aa/schbench.txt")
        found = measured(text)
        assert {len(values) for name, values in found.items() if name != "rps p20"} == {
            text.count("average rps")
        }
