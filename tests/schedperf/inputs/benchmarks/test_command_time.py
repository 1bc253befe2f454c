# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of commands: the real programs that print them, and when they are read."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from schedperf.inputs.benchmarks import all_parsers
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import Side
from schedperf.runs.printed import printed_by

Values = Callable[[str], dict[str, float]]
Text = Callable[[str], str]
Run = Callable[..., str]
MakeBundle = Callable[..., Path]

BASH = "real\t0m1.500s\nuser\t0m0.750s\nsys\t0m0.250s\n"
HACKBENCH = (
    "Running in process mode with 1 groups using 40 file descriptors each (== 40 tasks)\n"
    "Each sender will pass 100 messages of 100 bytes\nTime: 0.056\n"
)


@pytest.fixture
def measured(parse_values: Callable[[str, str], dict[str, float]]) -> Values:
    return partial(parse_values, "time")


@pytest.mark.system
@pytest.mark.parametrize(
    "command",
    [
        ("bash", "-c", "time sleep 0.02"),
        ("bash", "-c", "time -p sleep 0.02"),
        ("bash", "-c", "TIMEFORMAT='%2Uuser %2Ssystem %Relapsed %P%%CPU'; time sleep 0.02"),
        ("time", "sleep", "0.02"),
        ("time", "-v", "sleep", "0.02"),
        ("zsh", "-c", "time sleep 0.02"),
        ("perf", "stat", "sleep", "0.02"),
    ],
)
def test_the_real_programs(command: tuple[str, ...], run_program: Run, measured: Values) -> None:
    found = measured(run_program(*command))
    assert found.keys() == {"elapsed", "user", "system"}
    assert found["elapsed"] >= 0.019


@pytest.mark.parametrize(
    ("text", "elapsed"),
    [
        (BASH, 1.5),
        ("real    61m1,500s\nuser    0m0,750s\nsys     0m0,250s\n", 3661.5),
        (
            "1.00user 0.50system 1:02:03.25elapsed 93%CPU (0avgtext+0avgdata 1080maxresident)k\n",
            3723.25,
        ),
        ("           0.11193 +- 0.00548 seconds time elapsed  ( +-  4.90% )\n", 0.11193),
        ("\tElapsed (wall clock) time (h:mm:ss or m:ss): 2:00.50\n", 120.5),
        ("make  0.01s user 0.02s system 77% cpu 1:00.10 total\n", 60.1),
    ],
)
def test_forms_of_a_time(text: str, elapsed: float, measured: Values) -> None:
    assert measured(text)["elapsed"] == pytest.approx(elapsed)


def test_four_programs_in_one_text(recorded_text: Text) -> None:
    text = recorded_text("time.txt")
    found = all_parsers()["time"].read(text.splitlines(), "stdout")
    assert [type(item).__name__ for item in found] == ["Measurement"] * 10


@pytest.mark.parametrize(
    "text", ["real\t0m1.500s\n", "real time\n", "user 1\nsys 2\n", "elapsed\n"]
)
def test_other_texts_are_not_claimed(text: str) -> None:
    assert not all_parsers()["time"].claims(text)


class TestWhenItIsRead:
    @pytest.fixture
    def metrics(self, make_bundle: MakeBundle, tmp_path: Path) -> Callable[..., list[str]]:
        """Return the names of the metrics of a run."""

        def read(*rules: dict[str, str], **run: str) -> list[str]:
            path = make_bundle(tmp_path / "base.tar", runs=[run], metric=list(rules))
            side = Side(name="base", bundle=open_bundle(path))
            [parsed] = side.bundle.runs
            return [metric.name for metric in printed_by(side, parsed).numbers]

        return read

    def test_a_command_without_results_of_its_own(self, metrics: Callable[..., list[str]]) -> None:
        names = metrics(stdout="hello\n", stderr=BASH)
        assert names == ["time elapsed", "time user", "time system"]

    @pytest.mark.parametrize(("stdout", "stderr"), [(HACKBENCH, BASH), (BASH, HACKBENCH)])
    def test_a_benchmark_that_is_timed(
        self, stdout: str, stderr: str, metrics: Callable[..., list[str]]
    ) -> None:
        assert metrics(stdout=stdout, stderr=stderr) == ["hackbench time"]

    def test_a_run_with_a_rule_of_the_user(self, metrics: Callable[..., list[str]]) -> None:
        rule = {"name": "score", "unit": "1/s", "better": "higher", "regex": r"score (\d+)"}
        assert metrics(rule, stdout="score 7\n", stderr=BASH) == ["score"]
