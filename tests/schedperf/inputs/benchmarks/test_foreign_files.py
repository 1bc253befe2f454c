# SPDX-License-Identifier: GPL-2.0-or-later
"""The right values of files that others collected, and of forms made from recorded ones."""

from collections.abc import Callable

import pytest

from schedperf.inputs.benchmarks import Execution, Measurement, all_parsers
from tests.shared_data import shared

NANOSECONDS = "cyclictest -l 300 -i 1000 -N -q -h 200000"


def values(name: str, text: str, command: str = "") -> dict[str, float]:
    """Return each metric, which must be printed once, and nothing if the work was not done."""
    parser = all_parsers()[name]
    execution = Execution(command=tuple(command.split()))
    assert parser.claims(text)
    if parser.find_failure is not None and parser.find_failure(text, execution):
        return {}
    found: dict[str, float] = {}
    for item in parser.read(text.splitlines(), "stdout", execution):
        assert isinstance(item, Measurement), item
        assert item.metric.name not in found
        found[item.metric.name.removeprefix(f"{name} ")] = item.value
    return found


@pytest.mark.parametrize(
    ("file", "parser", "command", "right"),
    [
        ("fio_status_interval.txt", "fio", "", {"rw read IOPS": 13_500.0}),
        ("fio_status_interval.json", "fio", "", {"rw read IOPS": 12_189.603466}),
        (
            "wrk2_uncorrected.txt",
            "wrk",
            "",
            {"latency p50": 1.09e-3, "latency p99": 2.11e-3, "requests": 999.31},
        ),
        (
            "cyclictest_nanoseconds_histogram.txt",
            "cyclictest",
            NANOSECONDS,
            {"latency max": 162_630e-9, "latency p50": 74_069e-9},
        ),
        ("cyclictest_ns_ok.json", "cyclictest", "", {"latency max": 3_479_631e-9}),
        ("cyclictest_summary_only.txt", "cyclictest", "", {"latency max": 85e-6}),
        (
            "schbench_no_min_max.txt",
            "schbench",
            "",
            {
                "wakeup latency p90": 22e-6,
                "wakeup latency p99": 71e-6,
                "request latency p50": 150e-6,
                "requests": 1_468_747.75,
            },
        ),
        (
            "sysbench04-cpu.txt",
            "sysbench",
            "",
            {"cpu events": 295.76524, "cpu latency max": 9.74e-3},
        ),
        ("stressng_log_brief.txt", "stress-ng", "", {"switch bogo ops per real time": 79_295.56}),
    ],
)
def test_the_value_is_right(file: str, parser: str, command: str, right: dict[str, float]) -> None:
    found = values(parser, shared(f"data/foreign/{file}").read_text(), command)
    assert {name: found.get(name) for name in right} == pytest.approx(right)


@pytest.mark.parametrize(
    ("file", "parser"),
    [("hackbench_interrupted.stdout.txt", "hackbench"), ("iperf3_interrupted.txt", "iperf3")],
)
def test_work_that_was_not_done_has_no_value(file: str, parser: str) -> None:
    assert values(parser, shared(f"data/foreign/{file}").read_text()) == {}


def test_the_last_of_the_status_reports_counts(recorded_text: Callable[[str], str]) -> None:
    # Two clones of "reader", and four reports.
    text = values("fio", recorded_text("fio-status-interval.txt"))
    assert text["reader read IOPS"] == 3_631.0 + 3_506.0
    assert text["writer write IOPS"] == 78_300.0
    json = values("fio", recorded_text("fio-json-status-interval.txt"))
    assert json["reader read IOPS"] == pytest.approx(6_928.81448)


def test_fio_3_prints_decimal_units_if_it_is_told_to() -> None:
    line = "  read: IOPS=4129, BW=16.9MB/s (16.1MiB/s)(4194kB/248msec)\n"
    text = f"job: (groupid=0, jobs=1): err= 0: pid=9: Sat Nov 28 10:00:00 2026\n{line}"
    assert values("fio", text)["job read bandwidth"] == pytest.approx(16.9e6)


@pytest.mark.parametrize(
    ("file", "parser", "change"),
    [
        ("wrk.txt", "wrk", lambda text: "".join(f"    {line}\n" for line in text.splitlines())),
        (
            "stress-ng-brief.txt",
            "stress-ng",
            lambda text: "".join(
                f"Nov 28 15:28:11 host stress-ng[79]: stress-ng: metrc: [79] {line}\n"
                for line in text.splitlines()
            ),
        ),
        ("unixbench.txt", "unixbench", lambda text: text[text.index("2 CPUs in system") :]),
    ],
)
def test_a_pasted_text_has_the_same_values(
    file: str,
    parser: str,
    change: Callable[[str], str],
    recorded_text: Callable[[str], str],
) -> None:
    text = recorded_text(file)
    read = all_parsers()[parser]
    items, others = (
        [
            (item.metric, item.value)
            for item in read.read(lines.splitlines(), "")
            if isinstance(item, Measurement)
        ]
        for lines in (text, change(text))
    )
    assert read.claims(change(text))
    assert items
    assert items == others


def test_the_yaml_of_stress_ng_has_its_rates(recorded_text: Callable[[str], str]) -> None:
    found = values("stress-ng", recorded_text("stress-ng-yaml.txt"))
    assert found["switch bogo ops per real time"] == pytest.approx(83770.937814)
    assert found["pipe bogo ops per CPU time"] == pytest.approx(316106.853120)
    assert found["pipe real time"] == pytest.approx(1.000554)


def test_the_time_of_fish_has_a_unit_per_line(recorded_text: Callable[[str], str]) -> None:
    text = (
        "\n________\nExecuted in   15.50 mins     fish           external\n"
        "   usr time    1.43 millis  148.00 micros    1.28 millis\n"
        "   sys time    0.50 secs     74.00 micros    0.50 secs\n"
    )
    assert values("time", text) == pytest.approx({"elapsed": 930.0, "user": 1.43e-3, "system": 0.5})
    assert values("time", recorded_text("time-fish.txt"))["elapsed"] == pytest.approx(0.10452)


def test_datagrams_of_iperf3_3_1_have_one_sum() -> None:
    text = (
        '{\n\t"start":\t{\n\t\t"version":\t"iperf 3.1.3",\n'
        '\t\t"test_start":\t{\n\t\t\t"protocol":\t"UDP"\n\t\t}\n\t},\n'
        '\t"end":\t{\n\t\t"sum":\t{\n\t\t\t"bytes":\t1000000,\n\t\t\t"bits_per_second":\t8000000,\n'
        '\t\t\t"jitter_ms":\t0.02,\n\t\t\t"lost_packets":\t5,\n\t\t\t"packets":\t100,\n'
        '\t\t\t"lost_percent":\t5\n\t\t}\n\t}\n}\n'
    )
    assert values("iperf3", text) == pytest.approx(
        {"UDP receive throughput": 950_000.0, "UDP jitter": 2e-5, "UDP lost datagrams": 5.0}
    )


@pytest.mark.parametrize(
    ("command", "wall_s", "problem"),
    [
        ("cyclictest -q -l 20000 -i 1000", None, "ended after 840 of 20000 cycles (-l)"),
        ("cyclictest -qD1m -i 1000", 1.0, "ended after 1 of 60 s (-D)"),
        ("cyclictest -q --duration=2h", 1.0, "ended after 1 of 7200 s (-D)"),
        ("cyclictest -q -D 1", 1.1, None),
        ("cyclictest -q -l 840", None, None),
        ("cyclictest -q 2>/dev/null -l 841", None, "ended after 840 of 841 cycles (-l)"),
        ("./script", 1.0, None),
    ],
)
def test_cyclictest_that_ended_early(
    command: str, wall_s: float | None, problem: str | None, recorded_text: Callable[[str], str]
) -> None:
    find = all_parsers()["cyclictest"].find_failure
    assert find is not None
    text = recorded_text("failed/cyclictest-sigint.txt")
    failure = find(text, Execution(command=("sh", "-c", f"{command} | tee log"), wall_s=wall_s))
    assert (failure is None) == (problem is None)
    if failure is not None and problem is not None:
        assert problem in failure.problem
