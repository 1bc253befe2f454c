# SPDX-License-Identifier: GPL-2.0-or-later
"""kernbench and UnixBench, which Debian does not package: texts of all their forms, and damage."""

from collections.abc import Callable

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement

ParseText = Callable[[str, str], list[Measurement | BadLine]]
ParseValues = Callable[[str, str], dict[str, float]]
Text = Callable[[str], str]

HALF = "Average Half load -j 2 Run (std deviation):\nElapsed Time 40.5 (0.1)\n"
ONE_RUN = (
    "Average Optimal load -j 144 Run (std deviation):\nElapsed Time 7.770000\n"
    "User Time 205.550000\nSystem Time 32.020000\nPercent CPU 3054.000000\n"
)
COPIES = (
    "   BYTE UNIX Benchmarks (Version 5.1.3)\n36 CPUs in system; running 1 parallel copy of tests\n"
)


def test_each_load_of_kernbench_is_a_metric(parse_values: ParseValues) -> None:
    assert parse_values("kernbench", HALF + ONE_RUN) == {
        "Half load elapsed time": 40.5,
        "Optimal load elapsed time": 7.77,
        "Optimal load user time": 205.55,
        "Optimal load system time": 32.02,
    }


def test_a_damaged_time_costs_only_itself(parse_text: ParseText) -> None:
    found = parse_text("kernbench", ONE_RUN.replace("7.770000", "?"))
    assert found[0] == BadLine(
        problem="stdout:2: kernbench Optimal load elapsed time: invalid number '?'"
    )
    assert [type(item) for item in found[1:]] == [Measurement, Measurement]


def test_a_recorded_text_of_unixbench(parse_values: ParseValues, recorded_text: Text) -> None:
    assert parse_values("unixbench", recorded_text("unixbench.txt")) == {
        "File Copy 1024 bufsize 2000 maxblocks (2 copies)": 162678.0 * 1024,
        "Pipe Throughput (2 copies)": 515895.7,
        "Pipe-based Context Switching (2 copies)": 41941.5,
        "System Call Overhead (2 copies)": 372811.8,
        "System index score (2 copies)": 258.1,
    }


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (
            "Shell Scripts (1 concurrent)                  600.0 lpm   (60.0 s, 2 samples)",
            "Shell Scripts (1 concurrent) (1 copy)",
            10.0,
        ),
        (
            "Double-Precision Whetstone                   4389.5 MWIPS (9.9 s, 7 samples)",
            "Double-Precision Whetstone (1 copy)",
            4389.5e6,
        ),
        (
            "3D Graphics Benchmarks Index Score                                    960.2",
            "3D Graphics index score (1 copy)",
            960.2,
        ),
    ],
)
def test_units_of_unixbench(line: str, name: str, value: float, parse_values: ParseValues) -> None:
    assert parse_values("unixbench", f"{COPIES}{line}\n") == {name: pytest.approx(value)}


def test_a_damaged_result_of_unixbench(parse_text: ParseText) -> None:
    text = COPIES + "Pipe Throughput     1,2 lps   (10.0 s, 1 samples)\n"
    [found] = parse_text("unixbench", text)
    assert found == BadLine(
        problem="stdout:3: unixbench Pipe Throughput (1 copy): invalid number '1,2'"
    )


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("COUNT|52880|1|lps", {"loops per run": 52880}),
        ("COUNT|619|60|lpm\r", {"loops per run": 619}),
        ("COUNT|740|1|fps\nTIME|20.0", {"frames per run": 740}),
        ("COUNT|4794.543|0|MWIPS\nTIME|10.712", {"Whetstone instructions": 4794.543e6}),
        # fstime writes and reads before it copies.
        ("COUNT|9|0|KBps\nTIME|2.0\nCOUNT|4|0|KBps\nTIME|1.0", {"file throughput": 4096}),
        # Only the first of these lines is a result.
        (
            "COUNT|9|1|lps\n  COUNT|1|1|lps\nCOUNT|2|1|ops\nCOUNT|3|-1|lps\nCOUNT|4|1|lpsx",
            {"loops per run": 9},
        ),
    ],
)
def test_a_single_program_of_unixbench(
    text: str, values: dict[str, float], parse_values: ParseValues
) -> None:
    assert parse_values("unixbench", text) == pytest.approx(values)


def test_recorded_texts_of_single_programs(parse_text: ParseText, recorded_text: Text) -> None:
    found = parse_text("unixbench", recorded_text("unixbench-programs.txt"))
    assert [
        (item.metric.name, item.metric.unit, item.metric.better, item.value)
        for item in found
        if isinstance(item, Measurement)
    ] == [
        *(
            ("unixbench loops per run", "count", "higher", loops)
            for loops in (193613, 193614, 6823659, 1221)
        ),
        ("unixbench Whetstone instructions", "1/s", "higher", pytest.approx(7976.383e6)),
        ("unixbench file throughput", "B/s", "higher", 444142 * 1024),
    ]


@pytest.mark.parametrize("number", ["", "nan", "1,2", "\u0661", "\x00", "\u202e7", "1e999"])
def test_a_damaged_count_of_unixbench(number: str, parse_text: ParseText) -> None:
    [found] = parse_text("unixbench", f"COUNT|{number}|1|lps\n")
    assert isinstance(found, BadLine)
    assert found.problem.startswith("stdout:1: unixbench loops per run: invalid number ")
