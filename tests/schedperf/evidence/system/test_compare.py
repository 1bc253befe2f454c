# SPDX-License-Identifier: GPL-2.0-or-later
"""What the system counted: values, units and changes of counters, CPUs and a cgroup."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.evidence.system.compare import (
    LARGEST_BY_NODE,
    LONGEST_VALUE,
    MOST_SETTINGS,
    compare_settings,
)
from schedperf.evidence.system.record import SettingRow, SystemMissing
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides

Analyse = Callable[..., Any]
Run = dict[str, Any]
RunOf = Callable[..., Run]
RunsOf = Callable[..., list[Run]]
RowOf = Callable[..., Any]
MakePower = Callable[..., str]


# Four groups of 20 senders and 20 receivers each, 100 messages: what the generated run prints.
MESSAGES = 160_000


def test_a_cgroup_is_throttled_in_a_share_of_its_periods(
    analyse: Analyse, runs_of: RunsOf, row_of: RowOf
) -> None:
    data = analyse(runs_of(throttled=(41, 40, 42, 41)), runs_of(throttled=(84, 83, 85, 84)))
    row = row_of(data, "cgroup /2cg/a throttled_share")
    assert (row.base, row.new) == pytest.approx((0.41, 0.84), rel=1e-3)
    assert (row.changed, row.unit, row.total_base) == (True, "", None)
    assert row.function == "sched_cfs_period_timer()"
    rate = row_of(data, "cgroup /2cg/a nr_throttled", "time")
    assert (rate.base, rate.unit, rate.total_base) == (
        pytest.approx(20.5, rel=1e-3),
        "1/s",
        41.0,
    )


def test_energy_is_watts_and_joules_a_message(
    analyse: Analyse, runs_of: RunsOf, row_of: RowOf
) -> None:
    base, new = runs_of(energy_uj=(180_000_000,) * 2), runs_of(energy_uj=(208_000_000,) * 2)
    data = analyse(base, new)
    power = row_of(data, "power package-0 energy", "time")
    assert (power.base, power.new) == pytest.approx((90.0, 104.0))
    assert power.unit == "W"
    energy = row_of(data, "power package-0 energy", "operation")
    assert (energy.base, energy.unit) == (pytest.approx(180 / MESSAGES), "J/message")


def test_stalls_are_a_share_of_time_and_idle_one_of_the_time_of_all_cpus(
    analyse: Analyse,
    runs_of: RunsOf,
    row_of: RowOf,
) -> None:
    runs = runs_of(stalled_us=(500_000,) * 2, idle_us=(400_000,) * 2, entries=(30,) * 2)
    data = analyse(runs, runs)
    assert row_of(data, "pressure cpu some share").base == pytest.approx(0.25)
    # 0.4 s of each of four CPUs in 2 s.
    assert row_of(data, "idle C6 share").base == pytest.approx(0.2)
    assert row_of(data, "idle C6 usage", "time").base == pytest.approx(60.0)
    assert row_of(data, "idle C6 usage", "operation").base == pytest.approx(120 / MESSAGES)
    assert row_of(data, "idle C6 time", "operation").unit == "s/message"
    assert not [row for row in data.rows if (row.field, row.basis) == ("time", "time")]


def test_stolen_time_is_a_share_and_context_switches_are_rates(
    analyse: Analyse, runs_of: RunsOf, row_of: RowOf
) -> None:
    base = runs_of(stolen=(2, 3, 2, 3), switches=(1000, 1010, 990, 1000))
    new = runs_of(stolen=(40, 41, 42, 40), switches=(2000, 2010, 1990, 2000))
    data = analyse(base, new)
    stolen = row_of(data, "cpu steal share")
    # 40 ticks of 10 ms on each of four CPUs in 2 s.
    assert (stolen.new, stolen.unit) == (pytest.approx(0.204, rel=0.01), "")
    assert stolen.changed is True
    assert row_of(data, "cpu steal share", node=1).new == pytest.approx(0.204, rel=0.01)
    switches = row_of(data, "cpu ctxt count", "operation")
    assert (switches.base, switches.unit) == (
        pytest.approx(1000 / MESSAGES, rel=1e-3),
        "1/message",
    )
    assert switches.meaning == "context switches"
    assert "cpu processes" in data.zeros


def test_only_the_largest_have_rows_by_node(analyse: Analyse, run_of: RunOf, row_of: RowOf) -> None:
    lines = {f"L{number}": [number, 0, 0, 2 * number] for number in range(1, 10)}
    runs = [run_of(lines=lines)] * 2
    data = analyse(runs, runs)
    by_node = [row for row in data.rows if row.node is not None]
    of_interrupts = {row.subject for row in by_node if row.group == "interrupts"}
    assert of_interrupts == {"L5", "L6", "L7", "L8", "L9"}
    assert len(of_interrupts) == LARGEST_BY_NODE
    nodes = [row_of(data, "interrupts L9 count", "time", node).base for node in (0, 1)]
    assert nodes == pytest.approx([4.5, 9.0])
    assert row_of(data, "interrupts L9 count", "time").base == pytest.approx(13.5)


def test_hundreds_of_interrupts_do_not_hide_a_cgroup(
    analyse: Analyse, run_of: RunOf, runs_of: RunsOf, row_of: RowOf
) -> None:
    throttled = ((50, 47, 53), (58, 56, 61))
    alone = analyse(*(runs_of(throttled=one) for one in throttled))
    lines = {f"irq{number}": [number, 3, 5, 7] for number in range(300)}
    sides = [[run_of(throttled=count, lines=lines) for count in one] for one in throttled]
    with_many = analyse(*sides)
    name = "cgroup /2cg/a throttled_share"
    assert row_of(with_many, name).q == row_of(alone, name).q
    assert len(with_many.rows) > 600


def test_groups_other_than_interrupts_are_corrected_together(
    analyse: Analyse, runs_of: RunsOf, row_of: RowOf, make_power: MakePower
) -> None:
    entries = ((50, 47, 53, 49), (58, 56, 61, 57))
    alone = analyse(*(runs_of(entries=one) for one in entries))
    sides = [runs_of(entries=one) for one in entries]
    for number, run in enumerate((*sides[0], *sides[1])):
        # What no run changes would be no question.
        for moment, energy_uj in (("before", 0), ("after", 9_000_000 + 1000 * (number % 3))):
            zones = ((f"/rapl:{one}", f"zone {one}", energy_uj, 1 << 40, "-") for one in range(20))
            run["files"][f"system_counters/{moment}/power"] = make_power(*zones)
    rows = [row_of(one, "idle C6 usage", "time") for one in (alone, analyse(*sides))]
    assert rows[0].p == rows[1].p
    assert rows[1].q > 3 * rows[0].q


@pytest.mark.parametrize(
    ("name", "basis", "small", "large"),
    [
        # 40 and 60 ms of 2 s are 2 and 3%; a tenth of it explains nothing.
        (
            "pressure cpu some share",
            "share",
            {"stalled_us": ((4000, 4010, 3990, 4000), (6000, 6010, 5990, 6000))},
            {"stalled_us": ((40000, 40100, 39900, 40000), (60000, 60100, 59900, 60000))},
        ),
        # Of each of four CPUs.
        (
            "idle C6 usage",
            "time",
            {"entries": ((10, 11, 10, 11), (24, 23, 24, 23))},
            {"entries": ((100, 101, 100, 101), (240, 241, 240, 241))},
        ),
    ],
)
def test_a_change_of_next_to_nothing_is_not_marked(
    analyse: Analyse,
    *,
    name: str,
    basis: str,
    small: Mapping[str, Any],
    large: Mapping[str, Any],
    runs_of: RunsOf,
    row_of: RowOf,
) -> None:
    for series, marked in ((small, False), (large, True)):
        [(counter, sides)] = series.items()
        row = row_of(analyse(*(runs_of(**{counter: one}) for one in sides)), name, basis)
        assert row.q < 0.05
        assert row.changed is marked


def test_what_one_run_a_side_cannot_say_stays_unsaid_however_small(
    analyse: Analyse, run_of: RunOf, row_of: RowOf
) -> None:
    data = analyse([run_of(stalled_us=4000)], [run_of(stalled_us=6000)])
    assert row_of(data, "pressure cpu some share").changed is None


def test_each_cpu_has_its_busy_time_idle_states_and_interrupts(
    analyse: Analyse, run_of: RunOf
) -> None:
    sides = [
        [run_of(stolen=20, idle_us=400_000 + more, lines={"RES": lines}) for more in (0, 10)]
        for lines in ([100, 0, 0, 0], [100, 0, 0, 50])
    ]
    data = analyse(*sides)
    # All that /proc/stat grew by is stolen time: 0.2 s of the 2 s of each CPU.
    assert [one.accounted for one in data.sides] == pytest.approx([0.1, 0.1])
    found = {one.measure: one for one in data.cpus}
    # 20 ticks of 10 ms, in 2 s.
    assert found["cpu busy"].base == pytest.approx([0.1] * 4)
    assert found["cpu steal"].new == pytest.approx([0.1] * 4)
    assert found["idle C6"].base == pytest.approx([0.2] * 4, rel=1e-4)
    assert found["idle C6"].unit == ""
    interrupts_of = found["interrupts"]
    assert (interrupts_of.base, interrupts_of.unit) == ((50.0, 0.0, 0.0, 0.0), "1/s")
    assert interrupts_of.new == (50.0, 0.0, 0.0, 25.0)
    # No two runs differ, so a difference has nothing to be measured by.
    assert interrupts_of.changed == (False, False, False, None)
    assert "cpu idle" not in found


NAME = "boots/0/sched_debug/sched_debug.json"
Compared = tuple[list[SettingRow], list[SystemMissing]]
Compare = Callable[..., Compared]


def debug(settings: Mapping[str, str], domains: Mapping[str, str] | None = None) -> Any:
    """Write sched_debug.json; domains: the imbalance_pct of lists of CPUs."""
    record = {
        "source": "/sys/kernel/debug/sched",
        "settings": settings,
        "per_cpu": {
            "domains": [
                {"cpus": cpus, "settings": {"domain0/imbalance_pct": value}}
                for cpus, value in (domains or {}).items()
            ]
        },
        "missing": {},
    }
    return {"files": {NAME: json.dumps(record)}}


@pytest.fixture
def compare(tmp_path: Path, make_bundle: Callable[..., Path]) -> Compare:
    """Compare bundles, each given by what it holds beside its runs."""

    def run(*bundles: Mapping[str, Any]) -> Compared:
        paths = [
            make_bundle(tmp_path / f"{number}.tar", **chosen)
            for number, chosen in enumerate(bundles)
        ]
        return compare_settings(name_sides([open_bundle(path) for path in paths]))

    return run


def test_what_differs_has_both_values_and_what_is_equal_is_not_told(compare: Compare) -> None:
    base = debug({"nr_migrate": "32", "verbose": "N", "old": "1"}, {"0-3": "117"})
    new = debug({"nr_migrate": "8", "verbose": "N"}, {"0-1": "117", "2-3": "110"})
    rows, missing = compare(base, new, base)
    assert rows == [
        SettingRow(
            side="new",
            name="domains/domain0/imbalance_pct",
            base="117",
            new="117 (0-1), 110 (2-3)",
        ),
        SettingRow(side="new", name="nr_migrate", base="32", new="8"),
        SettingRow(side="new", name="old", base="1", new=None),
    ]
    assert missing == []


def test_why_settings_are_not_known_is_said_where_they_were_asked_for(compare: Compare) -> None:
    skipped = {
        "collector": "sched_debug",
        "path": "boots/0/sched_debug",
        "status": "skipped",
        "reason": "/sys/kernel/debug/sched is not there",
    }
    damaged = {"files": {NAME: "{"}}
    rows, missing = compare(damaged, {"captures": [skipped]}, {}, debug({"nr_migrate": "32"}))
    assert rows == []
    assert [(one.side, one.what) for one in missing] == [
        ("base", "sched_debug"),
        ("new", "sched_debug"),
    ]
    assert NAME in missing[0].reason
    assert missing[1].reason == "/sys/kernel/debug/sched is not there"


def test_hostile_settings_are_few_and_short(compare: Compare) -> None:
    many = {f"setting{number:04}": "x" * 4096 for number in range(MOST_SETTINGS + 5)}
    rows, _ = compare(debug({}), debug(many))
    assert len(rows) == MOST_SETTINGS
    assert {len(row.new or "") for row in rows} == {LONGEST_VALUE}
