"""What the system counted, compared on bundles whose counters are known."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.bundle import open_bundle
from schedperf.compare import compare
from schedperf.sections import Absent
from schedperf.sections._system_rows import LARGEST_BY_NODE, MOST_NAMED
from schedperf.sections.system_counters import SCHEMA, system_counters

Analyse = Callable[..., Any]
Run = dict[str, Any]

CPUS = range(4)
SECONDS = 2.0
IDLE_COLUMNS = ("cpu", "state", "name", "usage", "time_us", "above", "below", "rejected")
POWER_COLUMNS = ("zone", "name", "energy_uj", "max_energy_range_uj", "power_uw")
# Four groups of 20 senders and 20 receivers each, 100 messages: what the generated run prints.
MESSAGES = 160_000


def table(columns: Sequence[str], *rows: Sequence[object]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in (columns, *rows))


def interrupts(lines: Mapping[str, Sequence[int]]) -> str:
    text = " ".join(f"CPU{cpu}" for cpu in CPUS)
    return f"{text}\n" + "".join(
        f"{name}: {' '.join(map(str, counts))} of a test\n" for name, counts in lines.items()
    )


def look(
    *,
    stalled_us: int = 0,
    entries: int = 0,
    idle_us: int = 0,
    energy_uj: int = 0,
    throttled: int = 0,
    group: str = "/2cg/a",
    lines: Mapping[str, Sequence[int]] | None = None,
    stolen: int = 0,
    switches: int = 0,
) -> dict[str, str]:
    """Write the files of one look; counts of idle states and stolen ticks are of each CPU."""
    start = 1000
    counts = {"nr_periods": start + (100 if throttled else 0), "nr_throttled": start + throttled}
    text = "".join(f"{name} {count}\n" for name, count in counts.items())
    return {
        "pressure_cpu": f"some avg10=1.00 total={start + stalled_us}\n",
        "cpuidle": table(
            IDLE_COLUMNS,
            *((cpu, 1, "C6", start + entries, start + idle_us, start, 0, "-") for cpu in CPUS),
        ),
        "power": table(POWER_COLUMNS, ("/rapl:0", "package-0", start + energy_uj, 1 << 40, "-")),
        "cgroups": f"=== {group}\n{text}--- 25000 100000 0\n+++ 77 5 old\n",
        "interrupts": interrupts(lines or {"RES": [0] * len(CPUS)}),
        "stat": "".join(f"cpu{cpu} 9 0 9 9 0 0 0 {start + stolen} 0 0\n" for cpu in CPUS)
        + f"ctxt {start + switches}\nprocesses {start}\n",
    }


def run_of(missing: Mapping[str, str] | None = None, **after: Any) -> Run:
    """Return a run whose counters grew by so much, 2 s long."""
    facts = {
        "missing": missing or {},
        "notes": [],
        "seconds": SECONDS,
        "clock_stepped_ns": 0,
        "cpus_before": "0-3",
        "cpus_after": "0-3",
        "ticks_per_second": 100,
    }
    begin = {
        "group": after.get("group", "/2cg/a"),
        "lines": {name: [0] * len(CPUS) for name in after.get("lines", {})},
    }
    looks = {"before": look(**begin), "after": look(**after)}
    files = {
        f"system_counters/{moment}/{name}": text
        for moment, found in looks.items()
        for name, text in found.items()
    }
    return {"files": {**files, "system_counters/facts.json": json.dumps(facts)}}


def runs_of(**series: Sequence[int]) -> list[Run]:
    """Return runs, one for each place of the given series."""
    return [
        run_of(**dict(zip(series, values, strict=True)))
        for values in zip(*series.values(), strict=True)
    ]


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(system_counters, SCHEMA)


def row_of(data: Any, name: str, basis: str = "share", node: int | None = None) -> Any:
    [found] = [
        row
        for row in data["rows"]
        if " ".join((row["group"], row["subject"], row["field"])) == name
        and (row["basis"], row["node"]) == (basis, node)
    ]
    return found


def test_a_cgroup_is_throttled_in_a_share_of_its_periods(analyse: Analyse) -> None:
    data = analyse(runs_of(throttled=(41, 40, 42, 41)), runs_of(throttled=(84, 83, 85, 84)))
    row = row_of(data, "cgroup /2cg/a throttled_share")
    assert (row["base"], row["new"]) == pytest.approx((0.41, 0.84), rel=1e-3)
    assert (row["changed"], row["unit"], row["total_base"]) == (True, "", None)
    assert row["function"] == "sched_cfs_period_timer()"
    rate = row_of(data, "cgroup /2cg/a nr_throttled", "time")
    assert (rate["base"], rate["unit"], rate["total_base"]) == (
        pytest.approx(20.5, rel=1e-3),
        "1/s",
        41.0,
    )


def test_energy_is_watts_and_joules_a_message(analyse: Analyse) -> None:
    base, new = runs_of(energy_uj=(180_000_000,) * 2), runs_of(energy_uj=(208_000_000,) * 2)
    data = analyse(base, new)
    power = row_of(data, "power package-0 energy", "time")
    assert (power["base"], power["new"]) == pytest.approx((90.0, 104.0))
    assert power["unit"] == "W"
    energy = row_of(data, "power package-0 energy", "operation")
    assert (energy["base"], energy["unit"]) == (pytest.approx(180 / MESSAGES), "J/message")


def test_stalls_are_a_share_of_time_and_idle_one_of_the_time_of_all_cpus(
    analyse: Analyse,
) -> None:
    runs = runs_of(stalled_us=(500_000,) * 2, idle_us=(400_000,) * 2, entries=(30,) * 2)
    data = analyse(runs, runs)
    assert row_of(data, "pressure cpu some share")["base"] == pytest.approx(0.25)
    # 0.4 s of each of four CPUs in 2 s.
    assert row_of(data, "idle C6 share")["base"] == pytest.approx(0.2)
    assert row_of(data, "idle C6 usage", "time")["base"] == pytest.approx(60.0)
    assert row_of(data, "idle C6 usage", "operation")["base"] == pytest.approx(120 / MESSAGES)
    assert row_of(data, "idle C6 time", "operation")["unit"] == "s/message"
    assert not [row for row in data["rows"] if (row["field"], row["basis"]) == ("time", "time")]


def test_stolen_time_is_a_share_and_context_switches_are_rates(analyse: Analyse) -> None:
    base = runs_of(stolen=(2, 3, 2, 3), switches=(1000, 1010, 990, 1000))
    new = runs_of(stolen=(40, 41, 42, 40), switches=(2000, 2010, 1990, 2000))
    data = analyse(base, new)
    stolen = row_of(data, "cpu steal share")
    # 40 ticks of 10 ms on each of four CPUs in 2 s.
    assert (stolen["new"], stolen["unit"]) == (pytest.approx(0.204, rel=0.01), "")
    assert stolen["changed"] is True
    assert row_of(data, "cpu steal share", node=1)["new"] == pytest.approx(0.204, rel=0.01)
    switches = row_of(data, "cpu ctxt count", "operation")
    assert (switches["base"], switches["unit"]) == (
        pytest.approx(1000 / MESSAGES, rel=1e-3),
        "1/message",
    )
    assert switches["meaning"] == "switches from one task to another"
    assert "cpu processes" in data["zeros"]


def test_only_the_largest_have_rows_by_node(analyse: Analyse) -> None:
    lines = {f"L{number}": [number, 0, 0, 2 * number] for number in range(1, 10)}
    runs = [run_of(lines=lines)] * 2
    data = analyse(runs, runs)
    by_node = [row for row in data["rows"] if row["node"] is not None]
    of_interrupts = {row["subject"] for row in by_node if row["group"] == "interrupts"}
    assert of_interrupts == {"L5", "L6", "L7", "L8", "L9"}
    assert len(of_interrupts) == LARGEST_BY_NODE
    nodes = [row_of(data, "interrupts L9 count", "time", node)["base"] for node in (0, 1)]
    assert nodes == pytest.approx([4.5, 9.0])
    assert row_of(data, "interrupts L9 count", "time")["base"] == pytest.approx(13.5)


def test_hundreds_of_interrupts_do_not_hide_a_cgroup(analyse: Analyse) -> None:
    throttled = ((50, 47, 53), (58, 56, 61))
    alone = analyse(*(runs_of(throttled=one) for one in throttled))
    lines = {f"irq{number}": [number, 3, 5, 7] for number in range(300)}
    sides = [[run_of(throttled=count, lines=lines) for count in one] for one in throttled]
    with_many = analyse(*sides)
    name = "cgroup /2cg/a throttled_share"
    assert row_of(with_many, name)["q"] == row_of(alone, name)["q"]
    assert len(with_many["rows"]) > 600


def test_groups_other_than_interrupts_are_corrected_together(analyse: Analyse) -> None:
    entries = ((50, 47, 53, 49), (58, 56, 61, 57))
    alone = analyse(*(runs_of(entries=one) for one in entries))
    sides = [runs_of(entries=one) for one in entries]
    for number, run in enumerate((*sides[0], *sides[1])):
        # What no run changes would be no question.
        for moment, energy_uj in (("before", 0), ("after", 9_000_000 + 1000 * (number % 3))):
            zones = ((f"/rapl:{one}", f"zone {one}", energy_uj, 1 << 40, "-") for one in range(20))
            run["files"][f"system_counters/{moment}/power"] = table(POWER_COLUMNS, *zones)
    rows = [row_of(one, "idle C6 usage", "time") for one in (alone, analyse(*sides))]
    assert rows[0]["p"] == rows[1]["p"]
    assert rows[1]["q"] > 3 * rows[0]["q"]


@pytest.mark.parametrize(
    ("name", "basis", "small", "large"),
    [
        # 40 and 60 ms of 2 s are 2 and 3 %; a tenth of it explains nothing.
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
    name: str,
    basis: str,
    small: Mapping[str, Any],
    large: Mapping[str, Any],
) -> None:
    for series, marked in ((small, False), (large, True)):
        [(counter, sides)] = series.items()
        row = row_of(analyse(*(runs_of(**{counter: one}) for one in sides)), name, basis)
        assert row["q"] < 0.05
        assert row["changed"] is marked


def test_what_one_run_a_side_cannot_say_stays_unsaid_however_small(analyse: Analyse) -> None:
    data = analyse([run_of(stalled_us=4000)], [run_of(stalled_us=6000)])
    assert row_of(data, "pressure cpu some share")["changed"] is None


def instrumented(run: Run) -> Run:
    return {**run, "kind": "instrumented"}


def test_clean_runs_of_one_side_never_meet_instrumented_ones_of_the_other(
    analyse: Analyse,
) -> None:
    base = [run_of(entries=5), run_of(entries=5), instrumented(run_of(entries=50))]
    data = analyse(base, [instrumented(run_of(entries=60))])
    assert [one["kind"] for one in data["sides"]] == ["instrumented"] * 2
    assert row_of(data, "idle C6 usage", "time")["n_base"] == 1
    assert row_of(data, "idle C6 usage", "time")["base"] == pytest.approx(100.0)


def test_sides_without_a_kind_of_run_in_common_are_not_compared(analyse: Analyse) -> None:
    kinds = [[run_of(entries=5)], [instrumented(run_of(entries=60))]]
    said = "new: system_counters was recorded in instrumented runs alone, and clean runs are"
    with pytest.raises(Absent, match=said):
        analyse(*kinds)
    with pytest.raises(Absent, match="new: .* clean runs alone, and instrumented runs are"):
        analyse(*reversed(kinds))


def test_what_only_one_side_counted_is_said(analyse: Analyse) -> None:
    lines = {f"IRQ {number}": [1] * 4 for number in range(MOST_NAMED + 2)}
    data = analyse([run_of(throttled=3)], [run_of(throttled=3, group="/b", lines=lines)])
    told = {(one["side"], one["group"]): one["what"] for one in data["not_compared"]}
    assert told["base", "cgroup"].startswith("/2cg/a nr_periods, /2cg/a nr_throttled")
    assert told["new", "cgroup"].startswith("/b nr_periods")
    assert told["new", "interrupts"].endswith(" and 2 more")
    assert {one["reason"] for one in data["not_compared"]} == {
        "not counted in base",
        "not counted in new",
    }


def test_zeros_and_missing_files_have_no_rows(analyse: Analyse) -> None:
    data = analyse([run_of(entries=5)] * 2, [run_of({"cpufreq": "no policies"}, entries=5)] * 2)
    assert "pressure cpu some" in data["zeros"]
    assert "idle C6 above" in data["zeros"]
    assert "idle C6 usage" not in data["zeros"]
    assert all(row["base"] or row["new"] for row in data["rows"])
    assert data["missing"] == [{"side": "new", "what": "cpufreq", "reason": "no policies"}]


def tasks(switches: int, migrations: int) -> Run:
    sched = (
        "worker (7, #threads: 1)\n"
        f"nr_switches : {switches}\nse.nr_migrations : {migrations}\n"
        "se.statistics.wait_sum : 30.000000\nse.statistics.wait_count : 10\n"
    )
    record = {
        "schema": "schedperf/task_sched/1",
        "looks": 3,
        "left_out": 0,
        "clock_ns": 9,
        "tasks": [{"pid": 7, "tid": 7, "seen_ns": 5, "sched": sched}],
    }
    run = run_of(entries=50)
    files = {**run["files"], "task_sched/tasks.json": json.dumps(record)}
    return {"files": files, "kind": "instrumented"}


def test_tasks_are_of_instrumented_runs_and_all_else_of_clean_ones(analyse: Analyse) -> None:
    sides = [
        [run_of(entries=5), run_of(entries=5), tasks(400, migrations)] for migrations in (8, 9)
    ]
    data = analyse(*sides)
    assert data["sides"][0] == {
        "side": "base",
        "runs": 2,
        "kind": "clean",
        "seconds": 2 * SECONDS,
        "task_runs": 1,
        "cpus": 4,
        "accounted": 0.0,
    }
    assert row_of(data, "idle C6 usage", "time")["base"] == pytest.approx(10.0)
    wait = row_of(data, "tasks all tasks wait_mean")
    assert (wait["base"], wait["unit"], wait["n_base"]) == (pytest.approx(0.003), "s", 1)
    moved = row_of(data, "tasks all tasks migrations_mean")
    assert (moved["base"], moved["new"]) == pytest.approx((0.02, 0.0225))
    assert moved["unit"] == "1/switch"


def test_tasks_are_read_of_runs_without_the_other_counters(analyse: Analyse) -> None:
    looked_at = tasks(400, 8)
    looked_at["files"] = {"task_sched/tasks.json": looked_at["files"]["task_sched/tasks.json"]}
    runs = [run_of(entries=5), looked_at]
    data = analyse(runs, runs)
    assert (data["sides"][0]["task_runs"], data["notes"]) == (1, [])
    assert row_of(data, "tasks all tasks wait_mean")["base"] == pytest.approx(0.003)


def test_where_all_runs_are_instrumented_nothing_is_counted_twice(analyse: Analyse) -> None:
    runs = [tasks(400, 8), tasks(400, 9)]
    data = analyse(runs, runs)
    assert data["sides"][0]["kind"] == "instrumented"
    assert row_of(data, "idle C6 usage", "time")["n_base"] == 2
    assert row_of(data, "tasks all tasks wait_mean")["n_base"] == 2
    assert not [row for row in data["rows"] if row["field"] == "wait_sum"]


def test_a_run_that_cannot_be_read_is_left_out_and_said(analyse: Analyse) -> None:
    damaged = run_of(entries=5)
    damaged["files"]["system_counters/facts.json"] = "{"
    half = run_of(entries=5)
    half["files"]["system_counters/after/cpuidle"] = "cpu\tstate\n"
    data = analyse([run_of(entries=5), damaged, half], [run_of(entries=5)] * 2)
    assert data["sides"][0]["runs"] == 2
    assert row_of(data, "idle C6 usage", "time")["n_base"] == 1
    assert data["notes"][0].startswith("base: boots/0/runs/001/system_counters/facts.json")
    assert any("cpuidle" in note for note in data["notes"])


def test_without_a_topology_times_of_cpus_stay_rates(analyse: Analyse) -> None:
    runs = [run_of(idle_us=400_000)] * 2
    cpus: Any
    for cpus in ([], {"0": 1}, None, 7):
        data = analyse(runs, runs, host={"topology": {"cpus": cpus}})
        assert row_of(data, "idle C6 time", "time")["base"] == pytest.approx(0.8)


def test_bundles_without_counters_say_why(analyse: Analyse) -> None:
    with pytest.raises(Absent, match="no run of base was recorded with system_counters"):
        analyse([{}], [{}])
    one = {"files": {"system_counters/facts.json": "[]"}}
    with pytest.raises(Absent, match=r"base: .*facts\.json"):
        analyse([one], [one])
    other = {**run_of(entries=1), "point": {"groups": "9"}}
    with pytest.raises(Absent, match="nothing that was counted is on both sides"):
        analyse([{**run_of(entries=1), "point": {"groups": "1"}}], [other])


def test_a_throttled_cgroup_becomes_a_finding_with_its_row(
    tmp_path: Path, make_bundle: Callable[..., Path]
) -> None:
    series = ((41, 40, 42, 41), (84, 83, 85, 84))
    paths = [
        make_bundle(tmp_path / f"{number}.tar", runs=runs_of(throttled=one))
        for number, one in enumerate(series)
    ]
    compared = compare([open_bundle(path) for path in paths])
    found = [one for one in compared.findings if one.id.startswith("system_changes#")]
    assert found[0].claim.startswith(
        "cgroup /2cg/a: throttled in 84.0 % of its periods instead of 41.0 %"
    )
    data: Any = compared.sections["system_counters"].data
    [row] = [row for row in data["rows"] if f"system_counters#{row['row']}" in found[0].evidence]
    assert row["field"] == "throttled_share"
    same = compare([open_bundle(path) for path in (paths[0], paths[0])])
    assert not [one for one in same.findings if one.id.startswith("system_changes#")]


def test_each_cpu_has_its_busy_time_idle_states_and_interrupts(analyse: Analyse) -> None:
    sides = [
        [run_of(stolen=20, idle_us=400_000 + more, lines={"RES": lines}) for more in (0, 10)]
        for lines in ([100, 0, 0, 0], [100, 0, 0, 50])
    ]
    data = analyse(*sides)
    # All that /proc/stat grew by is stolen time: 0.2 s of the 2 s of each CPU.
    assert [one["accounted"] for one in data["sides"]] == pytest.approx([0.1, 0.1])
    found = {one["measure"]: one for one in data["cpus"]}
    # 20 ticks of 10 ms, in 2 s.
    assert found["cpu busy"]["base"] == pytest.approx([0.1] * 4)
    assert found["cpu steal"]["new"] == pytest.approx([0.1] * 4)
    assert found["idle C6"]["base"] == pytest.approx([0.2] * 4, rel=1e-4)
    assert found["idle C6"]["unit"] == ""
    interrupts_of = found["interrupts"]
    assert (interrupts_of["base"], interrupts_of["unit"]) == ([50.0, 0.0, 0.0, 0.0], "1/s")
    assert interrupts_of["new"] == [50.0, 0.0, 0.0, 25.0]
    # No two runs differ, so a difference has nothing to be measured by.
    assert interrupts_of["changed"] == [False, False, False, None]
    assert "cpu idle" not in found
