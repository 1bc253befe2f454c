# SPDX-License-Identifier: GPL-2.0-or-later
"""perf bench futex, epoll and syscall, and forms of sched pipe: the real program, and damage."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement, all_parsers
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import Side
from schedperf.runs.printed import printed_by

Text = Callable[[str], str]
Run = Callable[..., str]
MakeBundle = Callable[..., Path]

SUMMARY = (
    "# Running 'epoll/ctl' benchmark:\n"
    "Run summary [PID 9]: 2 threads doing epoll_ctl ops 64 file-descriptors for 4 secs.\n"
)
ADD = "epoll/ctl ADD operations per thread"


def parse(text: str) -> list[Measurement | BadLine]:
    lines = text.splitlines()
    parsers = [parser for parser in all_parsers().values() if parser.claims(text)]
    return [item for parser in parsers for item in parser.read(lines, "stdout")]


def values(text: str) -> dict[str, float]:
    found = parse(text)
    assert not [item for item in found if isinstance(item, BadLine)]
    return {item.metric.name: item.value for item in found if isinstance(item, Measurement)}


@pytest.mark.system
class TestRealProgram:
    @pytest.mark.parametrize(
        ("arguments", "names"),
        [
            ("futex wake -t 2", ["futex/wake time"]),
            ("futex wake-parallel -t 2 -s", ["futex/wake-parallel latency"]),
            ("futex requeue -t 2", ["futex/requeue time"]),
            (
                "syscall basic -l 1000",
                ["syscall/basic time per operation", "syscall/basic operations"],
            ),
            ("sched pipe -T -l 100", ["sched/pipe time per operation", "sched/pipe operations"]),
        ],
    )
    def test_fixed_work(self, arguments: str, names: list[str], run_program: Run) -> None:
        found = values(run_program("perf", "bench", *arguments.split()))
        assert list(found) == names
        assert all(value >= 0.0 for value in found.values())

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("arguments", "name"),
        [
            ("futex hash", "futex/hash operations per thread"),
            ("futex lock-pi -s", "futex/lock-pi operations per thread"),
            ("epoll wait", "epoll/wait operations per thread"),
            ("epoll ctl", ADD),
        ],
    )
    def test_a_fixed_time(self, arguments: str, name: str, run_program: Run) -> None:
        found = values(run_program("perf", "bench", *arguments.split(), "-t", "1", "-r", "1"))
        assert next(iter(found)) == name
        assert found[name] > 0.0


class TestTexts:
    def test_nine_benchmarks_in_one_text(self, recorded_text: Text) -> None:
        found = values(recorded_text("perf-bench.txt"))
        assert len(found) == 13
        assert found["futex/lock-pi operations per thread"] == 988.0
        assert found["futex/requeue time"] == pytest.approx(5.2e-6)

    def test_operations_of_a_run_become_a_rate(self) -> None:
        text = SUMMARY + "Averaged 1000 ADD operations (+- 1.00%)\n"
        assert values(text) == {ADD: 250.0}

    def test_operations_without_a_run_time_are_a_bad_line(self) -> None:
        text = "# Running 'epoll/ctl' benchmark:\nAveraged 1000 ADD operations (+- 1.00%)\n"
        [found] = parse(text)
        assert isinstance(found, BadLine)
        assert found.problem.startswith("stdout:2: no run time for epoll/ctl operations (expected ")

    def test_all_benchmarks_of_a_collection(self) -> None:
        text = (
            "# Running futex/hash benchmark...\nAveraged 10 operations/sec (+- 1.84%), total "
            "secs = 10\n\n# Running futex/wake benchmark...\nWokeup 2 of 2 threads in 0.0370 ms "
            "(+-49.33%)\n"
        )
        assert values(text) == {
            "futex/hash operations per thread": 10.0,
            "futex/wake time": pytest.approx(37e-6),
        }

    @pytest.mark.parametrize(
        "printed",
        ["4,158,004", "4.158.004", "4\N{NARROW NO-BREAK SPACE}158\N{NARROW NO-BREAK SPACE}004"],
    )
    def test_digits_are_grouped_in_some_locales(self, printed: str) -> None:
        text = f"# Running 'syscall/basic' benchmark:\n   {printed} ops/sec\n"
        assert values(text) == {"syscall/basic operations": 4158004.0}

    def test_a_damaged_number_is_a_bad_line(self) -> None:
        text = "# Running 'futex/wake' benchmark:\nWokeup 2 of 2 threads in x ms (+-1%)\n"
        assert parse(text) == [BadLine(problem="stdout:2: futex/wake time: invalid number 'x'")]


class TestSimpleFormat:
    """``--format=simple`` prints one number, so the command tells what it is."""

    @pytest.fixture
    def measured(self, make_bundle: MakeBundle, tmp_path: Path) -> Callable[..., dict[str, float]]:
        """Return the metrics of a run with a command."""

        def read(command: str, stdout: str) -> dict[str, float]:
            run = {"stdout": stdout, "workload": command, "command": command.split()}
            side = Side(
                name="base", bundle=open_bundle(make_bundle(tmp_path / "a.tar", runs=[run]))
            )
            numbers = printed_by(side, side.bundle.runs[0]).numbers
            return {metric.name: value.value for metric, value in numbers.items()}

        return read

    @pytest.mark.system
    @pytest.mark.parametrize(
        ("command", "name"),
        [
            ("perf bench -f simple sched pipe -l 100", "sched/pipe total time"),
            ("perf bench --format=simple sched messaging -g 1 -l 1", "sched/messaging time"),
        ],
    )
    def test_the_real_program(
        self,
        command: str,
        name: str,
        measured: Callable[..., dict[str, float]],
        run_program: Run,
    ) -> None:
        assert measured(command, run_program(*command.split())).keys() == {name}

    @pytest.mark.parametrize(
        ("command", "stdout"),
        [
            ("perf bench sched pipe", "0.033\n"),
            ("perf bench -f simple mem memcpy", "0.033\n"),
            ("perf bench -f simple sched pipe", "0.033\n0.034\n"),
            ("perf bench -f simple sched pipe", "0.0x3\n"),
            ("sh -c perf bench -f simple sched pipe; perf bench -f simple sched pipe", "0.033\n"),
        ],
    )
    def test_other_commands_and_texts_have_no_metric(
        self, command: str, stdout: str, measured: Callable[..., dict[str, float]]
    ) -> None:
        assert measured(command, stdout) == {}
