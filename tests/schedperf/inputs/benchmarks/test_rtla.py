# SPDX-License-Identifier: GPL-2.0-or-later
"""rtla: histograms of both tracers, the real program where the kernel has them, and damage."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Values = Callable[[str], dict[str, float]]
Run = Callable[..., str]

TRACERS = Path("/sys/kernel/tracing/available_tracers")
TIMERLAT = (
    "# RTLA timerlat histogram\n# Time unit is nanoseconds (ns)\n# Duration:   0 00:00:01\n"
    "Index   IRQ-000   Thr-000   Usr-000   IRQ-001   Thr-001   Usr-001\n"
    "100          90        10         5         0         0         0 \n"
    "200          10        90        95         0         0         0 \n"
    "over:         0         0         0         0         0         0 \n"
    "count:      100       100       100         0         0         0 \n"
    "min:        101       110       120         -         -         - \n"
    "avg:        110       190       195         -         -         - \n"
    "max:        250       280       299         -         -         - \n"
    "ALL:        IRQ       Thr       Usr\ncount:      100       100       100 \n"
    "min:        101       110       120 \navg:        110       190       195 \n"
    "max:        250       280       299 \n"
)
OSNOISE = (
    "# RTLA osnoise histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:01\n"
    "Index   CPU-000   CPU-001\n1            30        10 \n7             0        10 \n"
    "over:         0         1 \ncount:       30        21 \nmin:          1         1 \n"
    "avg:       1.00      8.50 \nmax:          1       400 \n"
)


@pytest.fixture
def measured(parse_values: Callable[[str, str], dict[str, float]]) -> Values:
    return partial(parse_values, "rtla")


@pytest.mark.system
@pytest.mark.parametrize(
    ("tracer", "name"), [("timerlat", "thread latency max"), ("osnoise", "noise max")]
)
def test_the_real_program(tracer: str, name: str, run_program: Run, parse_text: ParseText) -> None:
    # Without a mounted tracefs the file does not exist.
    known = TRACERS.read_text() if TRACERS.exists() else ""
    if os.geteuid() != 0 or tracer not in known:
        pytest.skip(f"rtla needs root and a kernel with CONFIG_{tracer.upper()}_TRACER=y")
    found = parse_text("rtla", run_program("rtla", tracer, "hist", "-d", "1s", "-E", "5000"))
    # On a busy machine percentiles may be above the bins.
    [largest] = [
        item.value
        for item in found
        if isinstance(item, Measurement) and item.metric.name == f"rtla {tracer} {name}"
    ]
    assert largest > 0.0


def test_timerlat_in_nanoseconds(measured: Values) -> None:
    found = measured(TIMERLAT)
    assert {name: round(value * 1e9) for name, value in found.items()} == {
        "timerlat IRQ latency p50": 100,
        "timerlat IRQ latency p90": 100,
        "timerlat IRQ latency p99": 200,
        "timerlat IRQ latency max": 250,
        "timerlat thread latency p50": 200,
        "timerlat thread latency p90": 200,
        "timerlat thread latency p99": 200,
        "timerlat thread latency max": 280,
        "timerlat user latency p50": 200,
        "timerlat user latency p90": 200,
        "timerlat user latency p99": 200,
        "timerlat user latency max": 299,
    }


def test_osnoise_in_microseconds(parse_text: ParseText) -> None:
    found = [item for item in parse_text("rtla", OSNOISE) if isinstance(item, Measurement)]
    assert [(item.metric.name, round(item.value * 1e6, 3)) for item in found] == [
        ("rtla osnoise noise p50", 1.0),
        ("rtla osnoise noise p90", 7.0),
        ("rtla osnoise noise max", 400.0),
    ]
    assert [item.metric.name for item in found if item.metric.family == "primary"] == [
        "rtla osnoise noise max"
    ]


@pytest.mark.parametrize(
    ("printed", "damaged", "problem"),
    [
        ("count:       30", "count:       31", "the counts of the histogram add up to 51, but its"),
        ("7             0        10 \n", "", "the counts of the histogram add up to 41, but its"),
        ("max:          1       400 \n", "", "the histogram ends early; record the whole output"),
        (
            "over:         0         1 \n",
            "",
            "the summary of the histogram is damaged; record again",
        ),
        ("over:         0         1", "over:         0", "a line of the histogram is damaged; "),
        ("Index   CPU-000   CPU-001\n", "", "no samples; record for longer"),
    ],
)
def test_a_damaged_histogram_has_no_measurement(
    printed: str, damaged: str, problem: str, parse_text: ParseText
) -> None:
    [found] = parse_text("rtla", OSNOISE.replace(printed, damaged))
    assert isinstance(found, BadLine)
    assert found.problem.startswith(f"stdout:1: rtla: {problem}")


def test_a_damaged_maximum_costs_only_itself(parse_text: ParseText) -> None:
    *found, last = parse_text("rtla", OSNOISE.replace("       400", "       4.0.0"))
    assert [type(item) for item in found] == [Measurement] * 2
    assert last == BadLine(problem="stdout:11: rtla osnoise noise max: invalid number '4.0.0'")
