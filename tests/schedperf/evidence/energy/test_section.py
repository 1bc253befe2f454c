# SPDX-License-Identifier: GPL-2.0-or-later
"""Energy per operation and per run and mean power are compared; energy is never made of power."""

import json
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.energy.findings import MOST_FINDINGS, energy_changes
from schedperf.evidence.energy.record import EnergySide, MissingCounter, leading_rows
from schedperf_generators.energy import RAPL_RANGE_UJ, Domain, rapl_domain, write_capture
from tests.schedperf.evidence.energy.conftest import SECONDS, package_runs, row_of, run_of

Analyse = Callable[..., Any]

# hackbench of the bundles of tests: 4 groups of 20 senders and 20 receivers, 100 messages each.
MESSAGES = 4 * 20 * 20 * 100
BASE = (90.0, 90.5, 89.5, 90.2)
NEW = (101.5, 102.0, 101.0, 101.7)


def test_energy_is_divided_by_operations_by_runs_and_by_time(analyse: Analyse) -> None:
    data = analyse(package_runs(BASE), package_runs(NEW))
    mean = geometric_mean(BASE)
    per_message = row_of(data, "package-0")
    assert (per_message.unit, per_message.kind) == ("J/message", "package")
    assert per_message.base == pytest.approx(mean / MESSAGES)
    assert per_message.ratio == pytest.approx(geometric_mean(NEW) / mean)
    assert per_message.changed is True
    assert per_message.ci_low < per_message.ratio < per_message.ci_high
    per_run = row_of(data, "package-0", "share")
    assert (per_run.unit, per_run.base) == ("J/run", pytest.approx(mean))
    power = row_of(data, "package-0", "time")
    assert (power.unit, power.base) == ("W", pytest.approx(mean / SECONDS))
    assert row_of(data, "package-0 dram", "share").base == pytest.approx(mean / 10)
    assert data.sides == (
        EnergySide(side="base", runs=4, kind="clean"),
        EnergySide(side="new", runs=4, kind="clean"),
    )
    assert (data.zeros, data.missing, data.notes) == ((), (), ())


def test_energy_does_not_follow_from_the_time_of_the_run(analyse: Analyse) -> None:
    # The same joules in half of the time: energy is unchanged, power is doubled.
    domains = [[rapl_domain("0", "package-0", each)] for each in BASE]
    slow = [run_of(each, seconds=2.0, time_s=1.9) for each in domains]
    fast = [run_of(each, seconds=1.0, time_s=0.9) for each in domains]
    data = analyse(slow, fast)
    assert row_of(data, "package-0").ratio == pytest.approx(1.0)
    assert row_of(data, "package-0", "share").ratio == pytest.approx(1.0)
    assert row_of(data, "package-0", "time").ratio == pytest.approx(2.0)


def test_counters_are_never_added(analyse: Analyse) -> None:
    runs = [
        run_of([
            rapl_domain("0", "package-0", each),
            rapl_domain("0:0", "core", each / 2),
            rapl_domain("1", "package-1", each / 3),
            rapl_domain("2", "psys", 2 * each),
        ])
        for each in BASE
    ]  # fmt: skip
    data = analyse(runs, runs)
    per_run = {row.domain: row.base for row in data.rows if row.basis == "share"}
    mean = geometric_mean(BASE)
    assert per_run == {
        "package-0": pytest.approx(mean),
        "package-0 core": pytest.approx(mean / 2),
        "package-1": pytest.approx(mean / 3),
        "psys": pytest.approx(2 * mean),
    }


def test_boots_are_the_unit_of_replication_where_there_are_several(analyse: Analyse) -> None:
    def boots(*joules: float) -> list[Any]:
        return [
            run
            for boot, each in enumerate(joules)
            for run in package_runs((each, each + 0.1), boot=boot)
        ]

    row = row_of(analyse(boots(90.0, 93.0, 87.0), boots(91.0, 88.0, 94.0)), "package-0")
    assert (row.replication, row.n_base, row.n_new) == ("boots", 3, 3)
    assert row.changed is False


def test_a_run_that_counted_nothing_is_no_row(analyse: Analyse) -> None:
    def runs() -> list[Any]:
        return [
            run_of([rapl_domain("0", "package-0", each), rapl_domain("0:1", "uncore", 0.0)])
            for each in BASE
        ]

    data = analyse(runs(), runs())
    assert data.zeros == ("package-0 uncore",)
    assert {row.domain for row in data.rows} == {"package-0"}


def test_a_counter_that_one_side_lacks_is_named(analyse: Analyse) -> None:
    only_package = [run_of([rapl_domain("0", "package-0", each)]) for each in NEW]
    data = analyse(package_runs(BASE), only_package)
    assert data.missing == (
        MissingCounter(side="new", counter="package-0 dram", reason="no such counter"),
    )
    assert {row.domain for row in data.rows} == {"package-0"}


def test_a_counter_that_was_reset_in_one_run_is_named_with_the_number_of_runs(
    analyse: Analyse,
) -> None:
    new = package_runs(NEW)
    facts = json.loads(new[0]["files"]["energy/energy.json"])
    facts["readings"][-1]["energy_uj"][0] = "5"
    new[0]["files"]["energy/energy.json"] = json.dumps(facts)
    data = analyse(package_runs(BASE), new)
    assert data.missing == (
        MissingCounter(
            side="new",
            counter="package-0",
            reason="the counter was reset during the run (1 of 4 runs)",
        ),
    )
    assert row_of(data, "package-0").n_new == 3
    assert row_of(data, "package-0 dram").n_new == 4


def test_a_damaged_capture_is_a_note(analyse: Analyse) -> None:
    new = package_runs(NEW)
    new[0]["files"]["energy/energy.json"] = "{"
    data = analyse(package_runs(BASE), new)
    [note] = data.notes
    assert note.startswith("new: ")
    assert "energy.json: invalid JSON" in note


def test_without_energy_the_section_is_absent_with_the_reason(analyse: Analyse) -> None:
    with pytest.raises(Absent, match="no run of base was recorded with energy"):
        analyse([{"time_s": 0.6}], package_runs(NEW))
    refused = {"counters": [], "readings": [], "refused": {"/sys/x": "permission denied"}}
    run = {"files": {"energy/energy.json": json.dumps(refused)}}
    with pytest.raises(Absent, match="/sys/x: permission denied"):
        analyse(package_runs(BASE), [run])
    with pytest.raises(Absent, match="no energy counter of the same workload and point"):
        analyse(package_runs(BASE), package_runs(NEW, point={"groups": "64"}))


def test_perf_is_compared_with_powercap_because_both_read_the_same_register(
    analyse: Analyse,
) -> None:
    empty = json.dumps({"counters": [], "readings": [], "refused": {}})
    new = [
        {
            "files": {
                "energy/energy.json": empty,
                "energy/perf.csv": f"S0,1,{each},Joules,power/energy-pkg/,2000000000,100.00,,\n",
            }
        }
        for each in NEW
    ]
    row = row_of(analyse(package_runs(BASE), new), "package-0", "time")
    assert (row.base, row.new) == (
        pytest.approx(geometric_mean(BASE) / 2),
        pytest.approx(geometric_mean(NEW) / 2),
    )


def test_a_wrap_during_a_run_changes_nothing(analyse: Analyse) -> None:
    def runs(start_uj: int) -> list[Any]:
        path = "/sys/class/powercap/intel-rapl:0/energy_uj"
        return [
            run_of([Domain(path=path, name="package-0", joules=each, start_uj=start_uj)])
            for each in BASE
        ]

    row = row_of(analyse(runs(1000), runs(RAPL_RANGE_UJ - 5_000_000)), "package-0")
    assert row.ratio == pytest.approx(1.0)


def test_packages_stand_for_the_machine(analyse: Analyse) -> None:
    def runs(*domains: Domain) -> list[Any]:
        files = {"energy/energy.json": write_capture(domains, seconds=SECONDS)}
        return [{"files": files}] * 2

    def leading(*domains: Domain) -> set[str]:
        data = analyse(runs(*domains), runs(*domains))
        return {row.domain for row in leading_rows(data.rows)}

    packages = [rapl_domain("0", "package-0", 9.0), rapl_domain("1", "package-1", 8.0)]
    psys, dram = rapl_domain("2", "psys", 20.0), rapl_domain("0:2", "dram", 1.0)
    again = Domain(path="/hwmon3/energy1_input", name="Esocket0", chip="amd_energy", joules=9.0)
    sensor = Domain(path="/hwmon4/energy1_input", name=None, chip="ina226", joules=9.0)
    assert leading(psys, dram, *packages, again, sensor) == {"package-0", "package-1"}
    # Of two drivers that count a package, the one that counts all of them.
    mmio = Domain(
        path="/sys/class/powercap/intel-rapl-mmio:0/energy_uj", name="package-0", joules=9.0
    )
    assert leading(mmio, *packages) == {"package-0", "package-1"}
    assert leading(mmio, dram) == {"intel-rapl-mmio package-0"}
    assert leading(dram, again) == {"amd_energy Esocket0"}
    assert leading(psys, dram, sensor) == {"psys"}
    assert leading(sensor, dram) == {"ina226 energy1"}
    assert leading_rows([]) == []


def test_a_change_of_energy_is_a_finding_that_explains_nothing(analyse: Analyse) -> None:
    energy, power = energy_changes(analyse(package_runs(BASE), package_runs(NEW)))
    assert energy.clause == "energy per message of package-0 562.8 uJ -> 634.7 uJ"
    assert energy.change.startswith(", +12.8% (95% CI [+12%, +14%], mean power +12.8%")
    assert (energy.better, energy.bearing, energy.unit) == ("lower", "effect", "%")
    assert energy.value == pytest.approx(12.8, abs=0.05)
    assert energy.evidence == ("energy#new-0",)
    assert power.clause == "mean power of package-0 45.02 W -> 50.77 W"
    assert (power.better, power.bearing) == (None, "effect")


def test_what_did_not_change_is_no_finding(analyse: Analyse) -> None:
    assert list(energy_changes(analyse(package_runs(BASE), package_runs(BASE[::-1])))) == []


def test_a_sweep_has_one_finding_per_counter_at_its_largest_change(analyse: Analyse) -> None:
    def sweep(factors: tuple[float, float]) -> list[Any]:
        return [
            run
            for groups, factor in zip(("1", "2"), factors, strict=True)
            for run in package_runs([factor * each for each in BASE], point={"groups": groups})
        ]

    energy, power = energy_changes(analyse(sweep((1.0, 1.0)), sweep((1.05, 1.2))))
    assert energy.clause.startswith("groups=2: energy per message of package-0 ")
    assert power.clause.startswith("groups=2: mean power of package-0 ")


def test_many_packages_have_a_few_findings(analyse: Analyse) -> None:
    def runs(factor: float) -> list[Any]:
        return [
            run_of([rapl_domain(str(at), f"package-{at}", factor * each) for at in range(8)])
            for each in BASE
        ]

    assert len(list(energy_changes(analyse(runs(1.0), runs(1.2))))) == MOST_FINDINGS
