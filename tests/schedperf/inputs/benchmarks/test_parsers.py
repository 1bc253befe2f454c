# SPDX-License-Identifier: GPL-2.0-or-later
"""Benchmark parsers: the real programs' text, and the smallest inputs, bad ones included."""

import os
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement, all_parsers

HACKBENCH = "Running in process mode with 1 groups using 40 file descriptors each (== 40 tasks)\n"
MESSAGING = "# Running 'sched/messaging' benchmark:\n"
PIPE = "# Running 'sched/pipe' benchmark:\n"
STRESS_NG = (
    "stress-ng: info:  [7] stressor       bogo ops real time  usr time  sys time"
    "   bogo ops/s     bogo ops/s\n"
    "stress-ng: info:  [7]                           (secs)    (secs)    (secs)"
    "   (real time) (usr+sys time)\n"
)
ROW = "stress-ng: info:  [7] pipe   1000      2.00      0.31      1.57    500.00      531.91\n"


def parse_all(text: str) -> dict[str, list[Measurement | BadLine]]:
    """Return what each parser that claims the text finds in it."""
    return {
        parser.name: list(parser.read(text.splitlines(), "stdout"))
        for parser in all_parsers().values()
        if parser.claims(text)
    }


def values(text: str) -> dict[str, float]:
    found = [item for items in parse_all(text).values() for item in items]
    assert not [item for item in found if isinstance(item, BadLine)]
    return {item.metric.name: item.value for item in found if isinstance(item, Measurement)}


def run(command: Sequence[str]) -> str:
    """Run the real program, and return all that it printed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    return done.stdout


@pytest.mark.system
class TestRealPrograms:
    def test_hackbench(self) -> None:
        text = run(["hackbench", "-l", "20", "-g", "1"])
        [name, value] = next(iter(values(text).items()))
        assert name == "hackbench time"
        assert f"Time: {value:.3f}" in text

    def test_hackbench_with_threads(self) -> None:
        assert list(values(run(["hackbench", "-T", "-l", "20", "-g", "1"]))) == ["hackbench time"]

    def test_perf_bench_messaging(self) -> None:
        found = values(run(["perf", "bench", "sched", "messaging", "-l", "20", "-g", "1"]))
        assert list(found) == ["sched/messaging time"]

    def test_perf_bench_pipe(self) -> None:
        found = values(run(["perf", "bench", "sched", "pipe", "-l", "2000"]))
        assert list(found) == ["sched/pipe time per operation", "sched/pipe operations"]
        seconds, rate = found.values()
        assert seconds * rate == pytest.approx(1.0, rel=0.01)

    @pytest.mark.parametrize("option", ["--metrics", "--metrics-brief"])
    def test_stress_ng(self, option: str) -> None:
        stressors = ["--pipe", "1", "--switch", "1"]
        found = values(run(["stress-ng", *stressors, "--timeout", "1", option]))
        for stressor in ("pipe", "switch"):
            assert found[f"stress-ng {stressor} bogo ops per real time"] > 0.0
        assert len(found) == 6


class TestTexts:
    def test_perf_bench_all_prints_both_parts_in_another_form(self) -> None:
        text = (
            "# Running sched/messaging benchmark...\n     Total time: 0.762 [sec]\n\n"
            "# Running sched/pipe benchmark...\n     Total time: 5.317 [sec]\n\n"
            "       5.317539 usecs/op\n         188056 ops/sec\n"
        )
        assert values(text) == {
            "sched/messaging time": 0.762,
            "sched/pipe time per operation": pytest.approx(5.317539e-6),
            "sched/pipe operations": 188056.0,
        }

    def test_each_parser_reads_its_own_part(self) -> None:
        text = f"{HACKBENCH}Time: 0.5\n{MESSAGING}     Total time: 0.25 [sec]\n{STRESS_NG}{ROW}"
        assert values(text) == {
            "hackbench time": 0.5,
            "sched/messaging time": 0.25,
            "stress-ng pipe real time": 2.0,
            "stress-ng pipe bogo ops per real time": 500.0,
            "stress-ng pipe bogo ops per CPU time": 531.91,
        }

    def test_repeated_programs_give_one_measurement_each(self) -> None:
        found = parse_all(f"{HACKBENCH}Time: 0.5\n{HACKBENCH}Time: 0.7\n")["hackbench"]
        assert [item.value for item in found if isinstance(item, Measurement)] == [0.5, 0.7]

    @pytest.mark.parametrize(
        "text",
        ["", "Time: 0.5\n", "Total time: 0.5 [sec]\n", "0.040\n", "stress-ng: info: [1] hello\n"],
    )
    def test_what_no_program_prints_is_claimed_by_none(self, text: str) -> None:
        assert parse_all(text) == {}

    @pytest.mark.parametrize("text", [HACKBENCH, MESSAGING, PIPE, STRESS_NG])
    def test_output_that_ends_early_has_no_measurement(self, text: str) -> None:
        assert list(parse_all(text).values()) == [[]]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            (f"{HACKBENCH}Time: x\n", "stdout:2: hackbench time: invalid number 'x'"),
            (f"{HACKBENCH}Time: nan\n", "stdout:2: hackbench time: invalid number 'nan'"),
            (f"{HACKBENCH}Time: 1_0\n", "stdout:2: hackbench time: invalid number '1_0'"),
            (f"{HACKBENCH}Time: 1e999\n", "stdout:2: hackbench time: invalid number '1e999'"),
            (f"{HACKBENCH}Time:\n", "stdout:2: hackbench time: invalid number ''"),
            (
                f"{MESSAGING}  Total time: \x1b[31m [sec]\n",
                "stdout:2: sched/messaging time: invalid number '\\x1b[31m'",
            ),
            (f"{PIPE}  - ops/sec\n", "stdout:2: sched/pipe operations: invalid number '-'"),
        ],
    )
    def test_a_bad_number_is_a_value_that_says_where(self, text: str, problem: str) -> None:
        [[found]] = parse_all(text).values()
        assert found == BadLine(problem=problem)

    @pytest.mark.parametrize(
        "metric",
        [
            "pipe    235.53 MB per sec pipe write rate (mean of 2)",
            "pipe      9.88 nanoseconds per call (average per stressor)",
            "pipe      1.25 infinitesimal steps of a unit that begins like inf",
            "pipe     65.08 % compression ratio (geometric mean of 1 instances)",
            "switch: (pipe) 6042.75 nanosecs per context switch (based on parent run time)",
            "for a 10.01 s run time: 1 2 3 4 5 6",
        ],
    )
    def test_miscellaneous_metrics_in_the_table_of_old_versions_are_no_rows(
        self, metric: str
    ) -> None:
        line = f"stress-ng: info:  [7] {metric}\n"
        assert parse_all(STRESS_NG + ROW + line) == parse_all(STRESS_NG + ROW)

    def test_the_whole_output_of_an_old_stress_ng_has_rows_of_its_table_only(self) -> None:
        # As 0.13 to 0.14 print --metrics: CPU used and memory are further columns, and the
        # miscellaneous metrics of a stressor are beside its row, some under its name.
        text = """\
stress-ng: info:  [812] setting to a 10 second run per stressor
stress-ng: info:  [812] dispatching hogs: 1 switch, 1 vdso, 1 pipe
stress-ng: info:  [812] stressor       bogo ops real time  usr time  sys time   bogo ops/s     \
bogo ops/s CPU used per       RSS Max
stress-ng: info:  [812]                           (secs)    (secs)    (secs)   (real time) \
(usr+sys time) instance (%)          (KB)
stress-ng: info:  [812] switch           2510240     10.00      0.52      8.31    251023.11      \
284285.39        88.30          1536
stress-ng: info:  [812] vdso           101214720     10.00      9.98      0.01  10121470.97    \
10131603.60        99.90          1408
stress-ng: info:  [812] pipe            12000768     10.01      1.10     14.20   1198878.92      \
784363.92       152.85          1664
stress-ng: info:  [812] switch      3981.58 nanosecs per context switch (average per stressor)
stress-ng: info:  [812] vdso           9.88 nanoseconds per call (average per stressor)
stress-ng: info:  [812] pipe         585.97 MB per sec pipe write rate (average per stressor)
stress-ng: info:  [812] vdso: 24.70 nanoseconds per call (excluding 0.55 nanoseconds test overhead)
stress-ng: info:  [812] for a 10.02s run time:
stress-ng: info:  [812]      20.04s available CPU time
stress-ng: info:  [812]      11.60s user time   ( 57.88%)
stress-ng: info:  [812] load average: 1.52 1.20 0.98
stress-ng: info:  [812] successful run completed in 10.02s
"""
        assert values(text) == {
            "stress-ng switch real time": 10.0,
            "stress-ng switch bogo ops per real time": 251023.11,
            "stress-ng switch bogo ops per CPU time": 284285.39,
            "stress-ng vdso real time": 10.0,
            "stress-ng vdso bogo ops per real time": 10121470.97,
            "stress-ng vdso bogo ops per CPU time": 10131603.60,
            "stress-ng pipe real time": 10.01,
            "stress-ng pipe bogo ops per real time": 1198878.92,
            "stress-ng pipe bogo ops per CPU time": 784363.92,
        }

    def test_a_bad_column_of_stress_ng_costs_only_itself(self) -> None:
        found = parse_all(STRESS_NG + ROW.replace("500.00", "inf"))["stress-ng"]
        assert [type(item) for item in found] == [Measurement, BadLine, Measurement]

    def test_an_endless_number_is_cut_in_the_message(self) -> None:
        [[found]] = parse_all(f"{HACKBENCH}Time: {'9' * 100_000}\n").values()
        assert isinstance(found, BadLine)
        assert len(found.problem) < 200

    def test_the_step_of_the_printed_number_is_known(self) -> None:
        found = [item for items in parse_all(f"{PIPE} 5.31 usecs/op\n").values() for item in items]
        [item] = [item for item in found if isinstance(item, Measurement)]
        assert item.resolution == pytest.approx(1e-8)
