# SPDX-License-Identifier: GPL-2.0-or-later
"""Texts of perf sched and rtla are read as the tools print them; damaged ones are one error."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.wakeup_latency.capture import WakeupCapture
from schedperf.evidence.wakeup_latency.measure import pool, statistics
from schedperf.evidence.wakeup_latency.section import analyse_sides
from schedperf.evidence.wakeup_latency.texts import (
    parse_latency,
    parse_rtla,
    parse_timehist,
    recognise,
)
from schedperf.model.errors import InputError
from tests.schedperf.evidence.wakeup_latency.conftest import WAKEUPS, side_of

# As perf 6.1 prints them; the second with the options -V, --state and -n.
TIMEHIST = b"""Samples do not have callchains.
           time    cpu  task name                       wait time  sch delay   run time
                        [tid/pid]                          (msec)     (msec)     (msec)
--------------- ------  ------------------------------  ---------  ---------  ---------
   13231.084187 [0000]  perf[5423]                          0.000      0.000      0.000
   13231.084200 [0000]  migration/0[18]                     0.000      0.004      0.013
   13231.084298 [0001]  Web Content[24552/24547]            0.000     12.345      0.085
   13231.084394 [0001]  Web Content[24552/24547]            0.000      0.002      0.095
   13231.084494 [0001]  <idle>                              0.000      0.000      0.095
"""
WIDE = b"""\
           time    cpu  012345678  task name            wait time  sch delay   run time  state
--------------- ------  ---------  -------------------  ---------  ---------  ---------  -----
   13231.084200 [0000]  s          migration/0[18]          0.000      0.004      0.013      S  \
     next: qemu-system-x86[24552/24547]
"""
LATENCY = b"""
 -----------------------------------------------------------------------------------------
  Task                  |   Runtime ms  | Switches | Avg delay ms    | Max delay ms    |
 -----------------------------------------------------------------------------------------
  kworker/u8:3-kv:25798 |      0.000 ms |        2 | avg:  24.646 ms | max:  48.530 ms | max \
start: 13231.309494 s | max end: 13231.358024 s
  kworker/0:2-vir:21072 |      0.000 ms |        3 | avg:  20.685 ms | max:  56.585 ms | max \
start: 13231.485519 s | max end: 13231.542104 s
  hackbench:(81)        |     12.000 ms |     3685 | avg:   3.857 ms | max: 160.876 ms | max \
at: 13231.211726 s
 -----------------------------------------------------------------------------------------
  TOTAL:                |      0.000 ms |     8549 |
 ---------------------------------------------------
  INFO: 0.028% lost events (2 out of 7163, in 1 chunks)
"""
RTLA = b"""# RTLA timerlat histogram
# Time unit is microseconds (us)
# Duration:   0 00:00:01
Index   IRQ-000   Thr-000   IRQ-001   Thr-001
0           990         0       600         0
1             9       500       399       700
9             1       499         1       300
over:         0         1         0         0
count:     1000      1000      1000      1000
min:          0         1         0         1
avg:          0         5         0         3
max:          9       300         9         9
"""

Parse = Callable[[bytes, str], WakeupCapture]
PARSERS: dict[str, tuple[Parse, bytes]] = {
    "timehist": (parse_timehist, TIMEHIST),
    "latency": (parse_latency, LATENCY),
    "rtla": (parse_rtla, RTLA),
}


def test_timehist_has_the_delay_of_each_time_that_a_task_ran() -> None:
    found = parse_timehist(TIMEHIST, "timehist.txt")
    assert found.source == "perf sched timehist"
    assert [(each.command, each.cpu, each.count, each.max_ns) for each in found.waits] == [
        ("migration", 0, 1, 4_000),
        ("Web Content", 1, 2, 12_345_000),
    ]
    assert found.resolution_ns == 1000
    assert found.zeros == 1


def test_delays_that_are_not_counted_are_summed_over_the_runs() -> None:
    side = side_of("base", [WAKEUPS, WAKEUPS])
    data = analyse_sides([side.having(lambda _: parse_timehist(TIMEHIST, "timehist.txt"))])
    assert data.notes[0].startswith("base: delays of 0.000 ms that are not counted: 2 (")


def test_more_columns_of_timehist_do_no_harm() -> None:
    [found] = parse_timehist(WIDE, "timehist.txt").waits
    assert (found.command, found.cpu, found.max_ns) == ("migration", 0, 4_000)


@pytest.mark.parametrize(("printed", "ns"), [("1232.087", 1232087000), ("99999.789", 99999789000)])
def test_numbers_of_a_second_and_more_fill_their_columns(printed: str, ns: int) -> None:
    row = f"hackbench:(81) |123456789.000 ms |1234567890 | avg:1003.857 ms | max:{printed} ms | max"
    [waits] = parse_latency(row.encode(), "latency.txt").waits
    assert (waits.command, waits.count, waits.max_ns) == ("hackbench", 1234567890, ns)


def test_latency_has_the_maximum_of_each_command() -> None:
    found = parse_latency(LATENCY, "latency.txt")
    assert [(each.event, each.command, each.max_ns, each.count) for each in found.waits] == [
        ("runnable", "kworker", 56_585_000, 5),
        ("runnable", "hackbench", 160_876_000, 3685),
    ]
    assert found.lost == {"perf events": 2}
    [pooled] = [each for subject, each in pool(found).items() if subject.command == "hackbench"]
    assert dict(statistics(pooled)) == {"max": pytest.approx(0.160876)}


def test_rtla_has_a_histogram_per_cpu_of_each_context() -> None:
    found = parse_rtla(RTLA, "rtla.txt")
    assert found.source == "rtla timerlat"
    assert [(each.event, each.cpu, each.count, each.above) for each in found.waits] == [
        ("timer IRQ", 0, 1000, 0), ("timer IRQ", 1, 1000, 0),
        ("timer thread", 0, 1000, 1), ("timer thread", 1, 1000, 0),
    ]  # fmt: skip
    [thread] = [each for subject, each in pool(found).items() if subject.event == "timer thread"]
    values = dict(statistics(thread))
    assert values["p50"] == pytest.approx(1e-6, abs=1e-7)
    assert values["p99"] == pytest.approx(9e-6, rel=1 / 16)
    assert values["max"] == pytest.approx(300e-6)


@pytest.mark.parametrize("kind", PARSERS)
def test_each_text_is_recognised(kind: str) -> None:
    _, text = PARSERS[kind]
    assert recognise(text) == kind
    assert recognise(text.replace(b"\n", b"\r\n")) == kind


@pytest.mark.parametrize("kind", PARSERS)
def test_line_ends_of_another_system_change_nothing(kind: str) -> None:
    parse, text = PARSERS[kind]
    assert parse(text.replace(b"\n", b"\r\n"), "x").waits == parse(text, "x").waits


@pytest.mark.parametrize("kind", PARSERS)
@pytest.mark.parametrize("content", [b"", b"\0" * 1000, b"hello\n", "\u202e\u2066".encode() * 9])
def test_other_texts_are_refused_in_one_line(kind: str, content: bytes) -> None:
    parse, _ = PARSERS[kind]
    assert recognise(content) is None
    with pytest.raises(InputError, match=r"^file.txt: .* \(expected ") as error:
        parse(content, "file.txt")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "broken",
    [
        RTLA[:200],
        RTLA.replace(b"499", b"4"),
        RTLA + RTLA,
        RTLA.replace(b"Thr-001", b""),
        RTLA.replace(b"count:     1000", b"count:     9999999999999999999999999"),
    ],
)
def test_a_damaged_histogram_is_refused(broken: bytes) -> None:
    with pytest.raises(InputError):
        parse_rtla(broken, "rtla.txt")


@pytest.mark.property
@pytest.mark.parametrize("kind", PARSERS)
@given(data=st.data())
def test_any_damage_is_an_input_error_or_a_capture(kind: str, data: st.DataObject) -> None:
    parse, text = PARSERS[kind]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    junk = data.draw(st.binary(max_size=20))
    try:
        found = parse(text[:start] + junk + text[end:], "file.txt")
    except InputError:
        return
    for pooled in pool(found).values():
        assert all(value >= 0.0 for _, value in statistics(pooled))
