# SPDX-License-Identifier: GPL-2.0-or-later
"""rt-app: logs of the real program, recorded logs, and damage."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Values = Callable[[str], dict[str, float]]
Text = Callable[[str], str]
Run = Callable[..., str]

HEADER = (
    "#idx     perf      run   period           start             end          rel_st      slack"
    " c_duration   c_period     wu_lat\n"
)
ROW = "   3     2500       90     4927     100     200     742   {slack}   500   5000   {wakeup}\n"


@pytest.fixture
def measured(parse_values: Callable[[str, str], dict[str, float]]) -> Values:
    return partial(parse_values, "rt-app")


@pytest.mark.system
def test_logs_of_the_real_program(run_program: Run, measured: Values, tmp_path: Path) -> None:
    timer = {"loop": 20, "run": 200, "timer": {"ref": "unique", "period": 3000}}
    settings = {"calibration": 100, "duration": 1, "logdir": str(tmp_path), "lock_pages": False}
    workload = {"tasks": {"ticker": timer}, "global": settings}
    (tmp_path / "workload.json").write_text(json.dumps(workload))
    run_program("rt-app", "workload.json")
    found = measured(run_program("sh", "-c", "find . -name '*.log' -print -exec cat {} ';'"))
    thread = "rt-app-ticker-0"
    assert found[f"{thread} period average"] == pytest.approx(3e-3, rel=0.9)
    assert found[f"{thread} wakeup latency p50"] <= found[f"{thread} wakeup latency max"]
    assert f"{thread} slack average" in found
    assert found[f"{thread} run average"] > 0.0


def test_threads_without_a_timer_have_no_wakeup_latency(
    measured: Values, recorded_text: Text
) -> None:
    found = measured(recorded_text("rt-app.txt"))
    assert [name for name in found if "sleeper" in name] == [
        "rt-app-sleeper-1 run average",
        "rt-app-sleeper-1 period average",
    ]
    assert found["rt-app-timer-0 wakeup latency max"] == pytest.approx(2138e-6)


def test_only_the_largest_latency_is_a_maximum(parse_text: ParseText, recorded_text: Text) -> None:
    found = parse_text("rt-app", recorded_text("rt-app.txt"))
    metrics = [item.metric for item in found if isinstance(item, Measurement)]
    names = {metric.name for metric in metrics if metric.is_maximum}
    assert names == {"rt-app rt-app-timer-0 wakeup latency max"}


def test_a_thread_without_the_name_of_its_file_has_a_number(measured: Values) -> None:
    text = HEADER + ROW.format(slack=-100, wakeup=7) + ROW.format(slack=300, wakeup=9)
    assert measured(text) == {
        "thread 3 wakeup latency average": pytest.approx(8e-6),
        "thread 3 wakeup latency p50": pytest.approx(7e-6),
        "thread 3 wakeup latency max": pytest.approx(9e-6),
        "thread 3 slack average": pytest.approx(100e-6),
        "thread 3 run average": pytest.approx(90e-6),
        "thread 3 period average": pytest.approx(4927e-6),
    }


@pytest.mark.parametrize("row", ["   3   2500\n", ROW.format(slack="x", wakeup=1)])
def test_a_damaged_log_has_no_measurement(row: str, parse_text: ParseText) -> None:
    whole = ROW.format(slack=1, wakeup=1)
    found = parse_text("rt-app", HEADER + whole + row + row)
    assert found == [
        BadLine(
            problem="stdout:3: rt-app: invalid line of a log (expected 11 integers); record again"
        )
    ]


def test_a_damaged_log_does_not_cost_the_next(parse_text: ParseText) -> None:
    whole = ROW.format(slack=1, wakeup=1)
    found = parse_text("rt-app", f"{HEADER}   3\n./b.log\n{HEADER}{whole}")
    assert [type(item) for item in found] == [BadLine] + [Measurement] * 5
