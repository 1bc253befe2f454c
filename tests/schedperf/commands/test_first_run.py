# SPDX-License-Identifier: GPL-2.0-or-later
"""What ``record`` and ``ab`` say after the first run: too short, or without a result."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from schedperf.cli import main
from schedperf.commands._judge import Judge

pytestmark = pytest.mark.system

ONCE = ("-n", "1", "--with", "none", "--instrumented", "0")
NO_RESULT = (
    ", so the elapsed time is the only number; for a result, record time -p CMD, or use "
    "--metric 'name[unit,higher]=REGEX'"
)
RULE = ("--metric", "rate[1/s,higher]=rate: ([0-9]+)")


Err = Callable[[], str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Err:
    """Work in an empty directory; return what was written to stderr since the last call."""
    monkeypatch.chdir(tmp_path)
    return lambda: capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "script", "said"),
    [
        ((), "echo fine", f"no parser reads the output of this workload{NO_RESULT}"),
        ((), ":", f"the workload prints nothing{NO_RESULT}"),
        ((), "time -p true", None),
        (RULE, "echo rate: 7", None),
    ],
)
@pytest.mark.parametrize("command", [("record", "-o", "b.tar"), ("ab", "-o", "b")])
def test_a_workload_without_a_result_is_said_once_after_the_first_run(
    here: Err, command: Sequence[str], options: Sequence[str], script: str, said: str | None
) -> None:
    assert main([*command, *ONCE, *options, "--", "bash", "-c", script]) == 0
    lines = here().splitlines()
    found = [line for line in lines if "elapsed time is the only number" in line]
    assert found == ([] if said is None else [said])
    if said is not None:
        assert lines.index(said) < next(i for i, line in enumerate(lines) if "run 2/" in line)


def test_the_newest_of_the_runs_is_judged(make_bundle: Callable[..., Path], tmp_path: Path) -> None:
    for stdout, said in (("fine", "no parser reads the output of this workload"), ("", "the work")):
        path = make_bundle(tmp_path / "b.tar", runs=[{"time_s": 0.6}, {"stdout": stdout}])
        answer = Judge().answer({"ask": "first", "partial": str(path)})
        assert str(answer["text"]).startswith(said)


@pytest.mark.parametrize("command", [("record", "-o", "b.tar"), ("ab", "-o", "b")])
def test_a_first_run_whose_work_was_not_done_is_said_once(
    here: Err, command: Sequence[str]
) -> None:
    # hackbench that is stopped early exits with 0, and prints a time.
    lines = ["Running in process mode with 1 groups using 40 file descriptors each (== 40 tasks)"]
    lines += ["signaling 40 worker threads to terminate", "Time: 0.100"]
    assert main([*command, *ONCE, "--", "printf", "%s\\n", *lines]) == 0
    [said] = [line for line in here().splitlines() if "no result of the first run" in line]
    problem = "hackbench was stopped before all messages were passed; record again"
    assert said == f"no result of the first run: boots/0/runs/000/stdout:2: {problem}"


def test_a_short_run_is_said_once(here: Err) -> None:
    said = "s: runs shorter than 0.5 s vary much"
    for name, seconds, count in (("a.tar", "0", 1), ("b.tar", "0.5", 0)):
        assert main(["record", "-o", name, *ONCE, "--", "sleep", seconds]) == 0
        assert here().count(said) == count
    assert main(["record", "-o", "c.tar", "-q", *ONCE, "--", "true"]) == 0
    assert here() == ""
