# SPDX-License-Identifier: GPL-2.0-or-later
"""What all readers of counters have in common: damage is one clear line, never a traceback."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.system._counters import growth, read_table
from schedperf.evidence.system.cgroup_cpu import parse_cgroup_cpu
from schedperf.evidence.system.proc_files import parse_cpu_times, parse_interrupts, parse_pressure
from schedperf.evidence.system.sys_tables import (
    FREQUENCY_COLUMNS,
    IDLE_COLUMNS,
    POWER_COLUMNS,
    parse_cpufreq,
    parse_cpuidle,
    parse_power,
)
from schedperf.evidence.system.task_sched import parse_sched
from schedperf.model.errors import InputError

Parse = Callable[[list[str], str], Any]

SAMPLES: dict[str, tuple[Parse, str]] = {
    "pressure": (parse_pressure, "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull total=3"),
    "interrupts": (parse_interrupts, "  CPU0 CPU1\n 4: 1 2 IO-APIC 4-edge  ttyS0\nERR: 7"),
    "cpuidle": (parse_cpuidle, "\t".join(IDLE_COLUMNS) + "\n0\t0\tPOLL\t1\t2\t3\t4\t-"),
    "cpufreq": (parse_cpufreq, "\t".join(FREQUENCY_COLUMNS) + "\n0\t1\t1\t2\t3\t1:2,2:3\t0,1"),
    "power": (
        parse_power,
        "\t".join(POWER_COLUMNS) + "\n/a:0\tpackage-0\t1\t9\t-\n/a:0:0\tcore\t1\t-\t-",
    ),
    "cgroups": (parse_cgroup_cpu, "=== /a\nnr_periods 1\n--- max 100000 0\n+++ 3 4 new"),
    "stat": (parse_cpu_times, "cpu 1 2\ncpu0 1 2 3\nctxt 5\nprocesses 6"),
    "sched": (lambda lines, label: parse_sched("\n".join(lines), label), "nr_switches : 3\na : 4"),
}


@pytest.mark.parametrize("name", SAMPLES)
@given(data=st.data())
def test_any_damage_is_read_or_refused_in_one_line(name: str, data: st.DataObject) -> None:
    """Law: whatever the bytes are, there are records or one InputError that names the file."""
    parse, sample = SAMPLES[name]
    assert parse(sample.split("\n"), "whole")
    start = data.draw(st.integers(0, len(sample)))
    end = data.draw(st.integers(start, len(sample)))
    inserted = data.draw(st.text(max_size=12) | st.sampled_from(["9" * 25, "\n", "\t", "-1", "٣"]))
    damaged = sample[:start] + inserted + sample[end:]
    message = ""
    try:
        parse(damaged.split("\n"), "a/file")
    except InputError as error:
        message = str(error)
    assert not message or message.startswith("a/file")
    assert "\n" not in message


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "cgroups"])
def test_an_empty_file_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="^a/file"):
        SAMPLES[name][0]([], "a/file")


def test_a_text_without_groups_is_fine() -> None:
    assert parse_cgroup_cpu([], "cgroups") == ()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("pressure", "some total=1\nsome total=2", "cgroups:2: invalid stall time"),
        (
            "pressure",
            "some avg10=0.00 tot",
            "1: invalid stall time 'some avg10=0.00 tot' (expected",
        ),
        ("interrupts", "LOC: 1 2", "1: invalid header"),
        ("interrupts", "CPU0 CPU0", "1: invalid header"),
        ("interrupts", "CPU9999", "cpu9999 is out of range"),
        ("interrupts", "CPU0 CPU1 CPU2\nLOC: 1 2", "2: line of 2 counts (expected 3)"),
        ("interrupts", "CPU0\nLOC: 1\nLOC: 2", "3: duplicate line 'LOC'"),
        ("interrupts", "CPU0 CPU1", "no interrupt lines"),
        ("cpuidle", "cpu\tstate", "1: missing column 'above'"),
        (
            "cpuidle",
            "\t".join(IDLE_COLUMNS) + "\n0\t0",
            "2: line of 2 values (expected 8, as in the header)",
        ),
        (
            "cpuidle",
            "\t".join(IDLE_COLUMNS) + 2 * "\n0\t0\tP\t-\t-\t-\t-\t-",
            "duplicate idle state 0 of cpu0",
        ),
        ("cpuidle", "\t".join(IDLE_COLUMNS) + "\n0\t0\tP\t-1\t-\t-\t-\t-", "2: invalid count '-1'"),
        ("cpuidle", "\t".join(IDLE_COLUMNS) + f"\n0\t0\tP\t{2**64}\t-\t-\t-\t-", "invalid count"),
        ("cpufreq", "\t".join(FREQUENCY_COLUMNS) + "\n0\t-\t-\t-\t-\t1;2\t0", "invalid count"),
        ("cpufreq", "\t".join(FREQUENCY_COLUMNS) + "\n0\t-\t-\t-\t-\t-\t0,x", "invalid count 'x'"),
        ("power", "\t".join(POWER_COLUMNS) + "\n-\ta\t1\t-\t-", "invalid power zone"),
        ("cgroups", "nr_periods 1", "1: invalid line 'nr_periods 1' before the first cgroup"),
        ("cgroups", "=== /a\nnr_periods 1", "/a: truncated cgroup section"),
        ("cgroups", "=== /a", "/a: truncated cgroup section"),
        ("cgroups", 2 * "=== /a\n--- - -\n+++ 3 4 old\n", "duplicate cgroup"),
        ("cgroups", "=== /a\nnr_periods x\n--- - -\n+++ 3 4 old", "invalid line 'nr_periods x'"),
        ("stat", "cpu0 1 2\ncpu0 1 2", "2: invalid `cpu0` line"),
        ("stat", "cpu0 1 b", "1: invalid count 'b'"),
        ("stat", "ctxt 5", "no `cpuN` lines"),
        ("sched", "nothing here", "no fields of /proc/PID/sched"),
    ],
)
def test_the_smallest_bad_inputs(name: str, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        SAMPLES[name][0](text.split("\n"), "cgroups")
    assert message in str(caught.value)


def test_enormous_tables_are_refused_early() -> None:
    def endless() -> Any:
        yield "cpu"
        while True:
            yield "1"

    with pytest.raises(InputError, match="table is too large"):
        list(read_table(endless(), ["cpu"], "table"))
    with pytest.raises(InputError, match="table is too large"):
        list(read_table(["x" * (1 << 20)], ["cpu"], "table"))


@pytest.mark.parametrize(
    ("before", "after", "modulus", "grown"),
    [
        (5, 9, 2**32, (4, False)),
        (2**32 - 3, 4, 2**32, (7, True)),
        (1000, 4, 2**32, (None, False)),
        (2**40, 2**33, 2**32, (None, False)),
        (9, 5, None, (None, False)),
        (7, 7, None, (0, False)),
    ],
)
def test_a_counter_that_fell_wrapped_or_started_again(
    before: int, after: int, modulus: int | None, grown: tuple[int | None, bool]
) -> None:
    assert growth(before, after, modulus) == grown


def test_interrupts_are_called_by_their_device_or_label() -> None:
    lines = [
        "           CPU0       CPU3       ",
        "  0:         94          0   IO-APIC   2-edge      timer",
        " 26:          0         14   PCI-MSIX-0000:00:01.0   0-edge      virtio0-config, snd",
        "LOC:       1664       1505   Local timer interrupts",
        "IPI0:         3          4   Rescheduling interrupts",
        "ERR:          2",
        "FIQ:              usb_fiq",
        " 99:          1          1",
    ]
    table = parse_interrupts(lines, "interrupts")
    assert table.cpus == (0, 3)
    assert {line.name: line.counts.tolist() for line in table.lines} == {
        "timer": [94, 0],
        "virtio0-config, snd": [0, 14],
        "LOC": [1664, 1505],
        "Rescheduling interrupts": [3, 4],
        "ERR": [2],
        "99": [1, 1],
    }


def test_meters_of_one_name_are_told_apart() -> None:
    rows = [
        "\t".join(POWER_COLUMNS),
        "/sys/class/powercap/intel-rapl-mmio:0\tpackage-0\t1\t9\t-",
        "/sys/class/powercap/intel-rapl:0\tpackage-0\t1\t9\t-",
        "/sys/class/powercap/intel-rapl:0:1\tdram\t1\t9\t-",
        "/sys/class/powercap/intel-rapl:1\tpackage-1\t1\t9\t-",
        "/sys/class/powercap/intel-rapl:1:1\tdram\t1\t9\t-",
    ]
    assert [meter.name for meter in parse_power(rows, "power")] == [
        "package-0",
        "package-0 (/sys/class/powercap/intel-rapl:0)",
        "package-0 dram",
        "package-1",
        "package-1 dram",
    ]


def test_both_versions_of_cgroups_have_the_same_counts() -> None:
    first = "nr_periods 4\nthrottled_time 1500000000\nburst_time 5"
    second = "nr_periods 4\nthrottled_usec 1500000\nburst_usec 0"
    for text in (first, second):
        lines = f"=== /a\n{text}\n--- 25000 100000 0\n+++ 3 4 new".split("\n")
        [group] = parse_cgroup_cpu(lines, "cgroups")
        assert group.counts.keys() == {"nr_periods", "throttled", "burst"}
        throttled = group.counts["throttled"]
        assert throttled.value * throttled.scale == pytest.approx(1.5)
        assert throttled.unit == "s"
        assert (group.quota_s, group.period_s, group.is_new) == (0.025, 0.1, True)


def test_older_and_newer_names_of_task_statistics_are_one() -> None:
    older = parse_sched("se.statistics.wait_sum : 0.216732\nse.nr_migrations : 3", "older")
    newer = parse_sched("wait_sum : 0.216732\nse.nr_migrations : 3", "newer")
    assert older == newer
    assert newer["wait_sum"].value == pytest.approx(216.732e-6)
    assert newer["wait_sum"].unit == "s"
    assert (newer["nr_migrations"].value, newer["nr_migrations"].unit) == (3, "1")
