# SPDX-License-Identifier: GPL-2.0-or-later
"""will-it-scale: recorded output of its programs and of its script, and damage."""

import doctest
from collections.abc import Callable

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement, all_parsers, will_it_scale

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Text = Callable[[str], str]

TABLE = "tasks,processes,processes_idle,threads,threads_idle,linear\n0,0,100,0,100,0\n"
PROGRAM = "testcase:sched_yield\nwarmup\nmin:1 max:2 total:3\nmeasurement\n"


@pytest.fixture
def values(parse_text: ParseText) -> Callable[[str], dict[str, float]]:
    """Return the value of each metric of a text without bad lines."""

    def parse(text: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for item in parse_text("will-it-scale", text):
            assert isinstance(item, Measurement), item
            assert (item.metric.unit, item.metric.better) == ("1/s", "higher")
            assert (item.metric.family, item.resolution) == ("primary", 1.0)
            assert item.metric.name not in found
            found[item.metric.name.removeprefix("will-it-scale ")] = item.value
        return found

    return parse


Values = Callable[[str], dict[str, float]]


def test_the_samples_in_the_docstring_are_true() -> None:
    found = doctest.testmod(will_it_scale)
    assert found.attempted > 0
    assert found.failed == 0


class TestRecordings:
    def test_seconds_of_warmup_are_no_result(self, values: Values, recorded_text: Text) -> None:
        text = recorded_text("will-it-scale-threads.txt")
        assert "\nmin:301296 max:380052 total:681348\n" in text
        # The program divides whole numbers.
        assert values(text) == {"Context switch via pipes": (756484 + 742094) // 2}

    def test_each_number_of_tasks_is_a_metric(self, values: Values, recorded_text: Text) -> None:
        assert values(recorded_text("will-it-scale-runtest.txt")) == {
            "processes=1": 924941.0,
            "threads=1": 831268.0,
            "processes=2": 1222245.0,
            "threads=2": 2604880.0,
        }

    def test_others_read_the_same_numbers(self, values: Values, sample_text: Text) -> None:
        expected = dict(
            line.split(": ") for line in sample_text("benchmarks/will-it-scale/1.yaml").splitlines()
        )
        assert expected["104.threads"] == "0"  # which says that threads were not run
        assert values(sample_text("benchmarks/will-it-scale/1")) == {
            "processes=104": float(expected["104.processes"])
        }

    def test_a_program_that_dies_has_no_result(self, sample_text: Text) -> None:
        text = sample_text("benchmarks/will-it-scale/2")
        assert "Assertion" in text
        assert not all_parsers()["will-it-scale"].claims(text)


class TestTexts:
    def test_each_program_has_its_own_name(self, values: Values) -> None:
        text = f"{PROGRAM}average:7\n{PROGRAM.replace('sched_yield', 'getppid')}average:8\n"
        assert values(text) == {"sched_yield": 7.0, "getppid": 8.0}

    def test_each_of_several_results_is_a_measurement(self, parse_text: ParseText) -> None:
        found = parse_text("will-it-scale", f"{PROGRAM}average:7\n{PROGRAM}average:9\n")
        assert [item.value for item in found if isinstance(item, Measurement)] == [7.0, 9.0]

    def test_a_program_that_was_stopped_has_no_result(self, values: Values) -> None:
        assert values(f"{PROGRAM}min:1 max:2 total:3\n") == {}

    def test_nothing_counts_as_zero_without_having_run(self, values: Values) -> None:
        assert values(f"{TABLE}104,0,0.00,17,0.04,0\n") == {"threads=104": 17.0}

    def test_another_command_may_follow_the_table(self, values: Values) -> None:
        assert values(f"{TABLE}1,5,0.0,6,0.0,6\n2020-01-31 08:12:43 sleep 1, or 2\n") == {
            "processes=1": 5.0,
            "threads=1": 6.0,
        }

    @pytest.mark.parametrize(
        ("row", "problem"),
        [
            ("2,-1,0.0,-1,0.0,0", "will-it-scale processes=2 is -1, because the test failed"),
            ("2,1e999,0.0,6,0.0,0", "will-it-scale processes=2: invalid number '1e999'"),
            ("2,,0.0,6,0.0,0", "will-it-scale processes=2: invalid number ''"),
            ("2,12003", "invalid row (expected tasks,processes,"),
            ("2,1,0.0,6,0.0,0,9", "invalid row (expected tasks,processes,"),
            ("-2,1,0.0,6,0.0,0", "invalid row (expected tasks,processes,"),
            (f"{'9' * 5000},1,0.0,6,0.0,0", "invalid row (expected tasks,processes,"),
        ],
    )
    def test_a_damaged_row_says_where(self, row: str, problem: str, parse_text: ParseText) -> None:
        bad, *_ = parse_text("will-it-scale", f"{TABLE}{row}\n")
        assert isinstance(bad, BadLine)
        assert bad.problem.startswith(f"stdout:3: {problem}")

    @pytest.mark.parametrize("name", ["", " ", "x" * 101, "\x1b[31mred", "naïve"])
    def test_a_name_that_no_test_has_is_refused(self, name: str, parse_text: ParseText) -> None:
        text = f"{PROGRAM.replace('sched_yield', name)}average:7\n"
        assert parse_text("will-it-scale", text) == [
            BadLine(
                problem="stdout:1: invalid test name (expected at most 100 printable characters)"
            )
        ]

    def test_an_average_that_is_no_number_says_where(self, parse_text: ParseText) -> None:
        assert parse_text("will-it-scale", f"{PROGRAM}average:inf\n") == [
            BadLine(problem="stdout:5: will-it-scale sched_yield: invalid number 'inf'")
        ]
