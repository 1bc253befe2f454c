# SPDX-License-Identifier: GPL-2.0-or-later
"""perf stat's CSV is read per node or whole, and a bad line is a value."""

import pytest

from schedperf.evidence.perf_stat.capture import Counter, counting_seconds, parse_perf_stat
from schedperf.model.errors import BadLine

WHOLE = """\
# started on Sat Nov 21 02:14:13 2026

28,,context-switches,203050885,100.00,137.897,/sec
<not supported>,,cycles,0,100.00,,
203.05,msec,cpu-clock,203050134,100.00,2.000,CPUs utilized
1204,,cache-misses,101525067,49.99,,
"""


def test_each_line_is_one_count_in_base_units() -> None:
    found = list(parse_perf_stat(WHOLE.splitlines(), "x"))
    assert found == [
        Counter(event="context-switches", node=None, unit="count", value=28.0, scaled=False),
        Counter(
            event="cycles",
            node=None,
            unit="count",
            value=None,
            scaled=False,
            missing="<not supported>",
        ),
        Counter(event="cpu-clock", node=None, unit="s", value=203.05 * 1e-3, scaled=False),
        Counter(event="cache-misses", node=None, unit="count", value=1204.0, scaled=True),
    ]


def test_types_of_cores_are_different_events() -> None:
    # As perf prints them on a hybrid machine; a raw event contains the separator.
    lines = [
        "N0,8,3204,,cpu_core/cycles/,1000,100.00,,",
        "N0,4,801,,cpu_atom/cycles/,1000,100.00,,",
        "N0,4,<not supported>,,cpu_atom/branch-misses/,0,100.00,,",
        "17,,cpu_core/event=0x3c,umask=0x1/u,1000,100.00,1.2,K/sec",
    ]
    found = [each for each in parse_perf_stat(lines, "x") if isinstance(each, Counter)]
    assert [(each.event, each.value) for each in found] == [
        ("cpu_core/cycles/", 3204.0),
        ("cpu_atom/cycles/", 801.0),
        ("cpu_atom/branch-misses/", None),
        ("cpu_core/event=0x3c,umask=0x1/u", 17.0),
    ]
    assert found[2].missing == "<not supported>"


def test_nodes_are_told_apart() -> None:
    lines = ["N0,2,26,,sched:sched_switch,9,100.00,,", "N13,64,<not counted>,,cycles,0,0.00,,\n"]
    first, second = parse_perf_stat(lines, "x")
    assert isinstance(first, Counter)
    assert isinstance(second, Counter)
    assert (first.node, first.event, first.value) == (0, "sched:sched_switch", 26.0)
    assert (second.node, second.event, second.value) == (13, "cycles", None)


def test_the_time_of_counting_is_that_of_one_cpu() -> None:
    lines = [
        "N0,2,29168,,context-switches,2373257089,100.00,,",
        "N1,4,29168,,context-switches,4746514178,100.00,,",
        # Multiplexed, not counted, and of an unknown number of CPUs.
        "N0,2,1204,,cache-misses,1015,49.99,,",
        "N0,2,<not counted>,,cycles,0,0.00,,",
        "28,,context-switches,203050885,100.00,,",
    ]
    assert counting_seconds(parse_perf_stat(lines, "x")) == pytest.approx(1.1866285445)
    assert counting_seconds(parse_perf_stat(WHOLE.splitlines(), "x")) is None


@pytest.mark.parametrize(
    "line",
    [
        "x",
        ",,,,,",
        "28,,context-switches",
        "N0,2,28,,context-switches,1",
        "28,,cpu_core/event=0x3c,umask=0x1,1000,100.00",
        "28,,/,/,/",
        "nan,,cycles,1,100.00",
        "inf,,cycles,1,100.00",
        "-1,,cycles,1,100.00",
        "1e300,,cycles,1,100.00",
        "28,,,1,100.00",
        "28,,cycles,1,x",
        "\x1b[31m,,cycles,1,100.00",
        "1" * 100_000 + ",,cycles,1,100.00",
    ],
)
def test_a_bad_line_is_a_value_that_says_where(line: str) -> None:
    [found] = parse_perf_stat([line], "run 0")
    assert isinstance(found, BadLine)
    assert found.problem.startswith("run 0:1: ")
    assert len(found.problem) < 200
    assert "\n" not in found.problem


@pytest.mark.parametrize("text", ["", "\n\n", "# started on Sat Nov 21 02:14:13 2026\n"])
def test_an_empty_file_holds_no_counts(text: str) -> None:
    assert list(parse_perf_stat(text.splitlines(), "x")) == []
