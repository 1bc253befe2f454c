# SPDX-License-Identifier: GPL-2.0-or-later
"""Energy of one run: wraps, resets, and whatever a damaged capture may hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from schedperf.evidence.energy.capture import (
    MOST_WATTS,
    Domain,
    EnergyCounts,
    Used,
    Value,
    count_joules,
    parse_energy,
    parse_perf,
)
from schedperf.model.errors import InputError
from schedperf_collectors.energy import MOST_WATTS as MOST_WATTS_OF_COLLECTOR
from schedperf_collectors.energy import capture_energy
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import Capture
from schedperf_generators.energy import (
    RAPL_RANGE_UJ,
    EnergyTree,
    Zone,
    amd_energy,
    arm_scmi,
    intel_rapl,
    rapl_domain,
    write_capture,
)
from schedperf_generators.energy import Domain as Generated

PACKAGE = Domain("package-0", "package")
S = 1_000_000_000


def parse(text: str) -> EnergyCounts:
    return parse_energy(text.encode(), "run")


def changed(**fields: Any) -> str:
    facts = json.loads(write_capture([rapl_domain("0", "package-0", 90.0)], seconds=2.0))
    return json.dumps({**facts, **fields})


def readings(*texts: str | None, step_ns: int = S) -> list[dict[str, Any]]:
    return [{"ns": step_ns * at, "energy_uj": [text]} for at, text in enumerate(texts)]


def reason(text: str) -> str:
    counts = parse(text)
    assert not counts.used
    return counts.missing["package-0"]


def test_energy_is_the_difference_of_the_last_and_the_first_reading() -> None:
    domains = [rapl_domain("0", "package-0", 90.0), rapl_domain("0:2", "dram", 7.5)]
    assert parse(write_capture(domains, seconds=2.0, readings=5)) == EnergyCounts(
        used={PACKAGE: Used(90.0, 2.0), Domain("package-0 dram", "dram"): Used(7.5, 2.0)},
        missing={},
    )


def record(tree: EnergyTree, folder: Path, joules: dict[str, float]) -> EnergyCounts:
    """Record with the collector while the counters of a tree advance."""
    folder.mkdir()
    running = capture_energy(System(tree.root), Capture(folder, 1, {}))
    next(running)
    next(running)
    tree.use(joules)
    assert list(running) == []
    return parse_energy((folder / "energy.json").read_bytes(), "run")


def test_what_the_collector_writes_is_read(tmp_path: Path) -> None:
    zones = [*intel_rapl(packages=2, psys=True), Zone(folder="intel-rapl-mmio:0", name="package-0")]
    tree = EnergyTree(
        tmp_path / "root",
        zones=[*zones, *arm_scmi("soc", "big")],
        sensors=amd_energy(sockets=1, cores=1),
    )
    used = {"intel-rapl:0": 90.0, "intel-rapl:2": 130.0, "arm-scmi:0:0": 0.25, "Esocket0": 88.0}
    counts = record(tree, tmp_path / "capture", used)
    assert counts.missing == {}
    assert {domain: used.joules for domain, used in counts.used.items() if used.joules} == {
        PACKAGE: 90.0,
        Domain("psys", "psys"): 130.0,
        Domain("arm-scmi soc big", "other"): 0.25,
        Domain("amd_energy Esocket0", "package"): 88.0,
    }
    kinds = {domain.name: domain.kind for domain in counts.used}
    assert len(kinds) == 14
    assert kinds["package-1 dram"] == "dram"
    assert kinds["intel-rapl-mmio package-0"] == "package"
    assert kinds["amd_energy Ecore000"] == "core"


def test_a_package_that_cannot_be_read_still_names_its_parts(tmp_path: Path) -> None:
    tree = EnergyTree(tmp_path / "root", zones=intel_rapl(packages=1))
    tree.deny("intel-rapl:0")
    counts = record(tree, tmp_path / "capture", {"intel-rapl:0:0": 60.0})
    assert counts.used[Domain("intel-rapl:0 core", "core")].joules == 60.0
    assert counts.missing == {
        "/sys/class/powercap/intel-rapl:0/energy_uj": "too many levels of symbolic links"
    }


def test_both_sides_of_the_capture_agree_on_the_most_power() -> None:
    assert MOST_WATTS == MOST_WATTS_OF_COLLECTOR


@pytest.mark.parametrize("wraps", [1, 3])
def test_a_counter_may_start_from_0_again_as_often_as_it_is_read(wraps: int) -> None:
    # A range of 1 kJ at 100 W, read every 4 s: each reading may wrap, and none does unseen.
    used_j = 1000.0 * wraps - 200.0
    domain = Generated(
        path="/sys/class/powercap/intel-rapl:0/energy_uj",
        name="package-0",
        joules=used_j,
        range_uj=1_000_000_000,
        start_uj=900_000_000,
    )
    steps = wraps * 40
    text = write_capture([domain], seconds=steps * 0.25, readings=steps + 1)
    assert parse(text).used[PACKAGE].joules == pytest.approx(used_j)


@pytest.mark.parametrize(
    ("values", "range_uj", "problem"),
    [
        ([(0, 5)], 100, "fewer than two readings"),
        ([], None, "fewer than two readings"),
        ([(0, 900), (1, 100)], None, "reset during the run"),
        # More than half of the range.
        ([(0, 500), (1, 100)], 1000, "reset during the run"),
        # The value before was beyond the range.
        ([(0, 5000), (1, 100)], 1000, "reset during the run"),
    ],
)
def test_energy_that_is_not_known_has_a_reason(
    values: list[tuple[int, int]], range_uj: int | None, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        count_joules([Value(ns, uj) for ns, uj in values], range_uj, "x")


def test_readings_between_which_a_whole_range_fits_are_not_trusted() -> None:
    # 65 kJ at 2 kW: 33 s.
    values = [Value(0, 5), Value(60 * S, 7)]
    with pytest.raises(InputError, match=r"60.0 s apart, so the counter may have wrapped unseen"):
        count_joules(values, 65_532_610_987, "x")
    assert count_joules(values, RAPL_RANGE_UJ, "x") == pytest.approx(2e-6)
    assert count_joules(values, None, "x") == pytest.approx(2e-6)


@pytest.mark.parametrize("text", ["0", "-1", "many", "²", "9" * 30, "", None])
def test_an_invalid_range_is_unknown(text: str | None) -> None:
    counter = {
        "path": "/sys/class/powercap/intel-rapl:0/energy_uj",
        "name": "package-0",
        "chip": None,
        "max_energy_range_uj": text,
    }
    counts = parse(changed(counters=[counter], readings=readings("5", "2000005")))
    assert counts.used[PACKAGE].joules == 2.0
    wrapped = changed(counters=[counter], readings=readings("5", "4"))
    assert reason(wrapped) == "the counter was reset during the run"


@pytest.mark.parametrize(
    "text", ["", "x", "-5", "1e9", "5\r\n6", "²", "\u202e5", "\x005", "1" * 21, "1" * 4096]
)
def test_a_counter_with_nonsense_is_left_out(text: str) -> None:
    problem = reason(changed(readings=readings("5", text)))
    assert problem.startswith("invalid count '")
    assert "(expected an unsigned 64-bit integer)" in problem
    assert problem.isprintable()
    assert len(problem) < 120


def test_a_counter_that_vanished_is_left_out() -> None:
    problem = "the counter could not be read before or after the run"
    assert reason(changed(readings=readings("5", None))) == problem
    assert reason(changed(readings=readings(None, "5"))) == problem
    assert parse(changed(readings=readings("5", None, "6"))).used[PACKAGE].joules == 1e-6


def test_a_large_counter_is_exact_enough() -> None:
    most = 2**64 - 1
    texts = (str(most - 5_000_000), str(most))
    assert parse(changed(readings=readings(*texts))).used[PACKAGE].joules == 5.0
    problem = reason(changed(readings=readings("5", str(2**64))))
    assert problem.startswith("invalid count '18446744073709551616'")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"readings": [{"ns": 1, "energy_uj": []}]}, r"readings\[0\] has 0 values \(expected 1"),
        ({"readings": readings("1", "2", step_ns=0)}, "not in the order of time"),
        ({"readings": [{"ns": -1, "energy_uj": ["1"]}]}, "ns"),
        ({"readings": {}}, "readings"),
        ({"counters": None}, "counters"),
        ({"counters": [{"path": 7}]}, "path"),
        ({"refused": ["x"]}, "refused"),
        ({"readings": [{"ns": 2**70, "energy_uj": ["1"]}]}, "number too large"),
    ],
)
def test_a_damaged_capture_is_refused_in_one_line(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        parse(changed(**fields))
    assert str(caught.value).startswith("run: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "\x00", '{"counters": [' * 50])
def test_what_is_no_capture_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="^run: "):
        parse(text)


def test_every_truncation_of_a_capture_is_refused() -> None:
    text = changed()
    for end in range(0, len(text), 7):
        with pytest.raises(InputError):
            parse(text[:end])


def test_counters_that_are_called_alike_have_longer_names() -> None:
    def sensor(number: int, device: str | None) -> Generated:
        return Generated(
            path=f"/sys/class/hwmon/hwmon{number}/energy1_input", name=None, chip="ina238",
            joules=1.0, device=device,
        )  # fmt: skip

    parts = [
        Generated(path=f"/sys/class/powercap/arm-scmi:0:{zone}/energy_uj", name=name, joules=1.0)
        for zone, name in (("0", "cluster"), ("0:0", "core"), ("1", "cluster"), ("1:0", "core"))
    ]
    used = parse(
        write_capture([sensor(0, "1-0040"), sensor(1, "1-0041"), sensor(2, None)], seconds=2.0)
    ).used
    assert [domain.name for domain in used] == [
        "ina238 1-0040 energy1", "ina238 1-0041 energy1", "ina238 hwmon2 energy1",
    ]  # fmt: skip
    names = [domain.name for domain in parse(write_capture(parts, seconds=2.0)).used]
    assert names[1::2] == ["arm-scmi:0:0:0 core", "arm-scmi:0:1:0 core"]


def test_two_counters_of_one_name_are_refused() -> None:
    domain = rapl_domain("0", "package-0", 90.0)
    with pytest.raises(InputError, match="two counters are called intel-rapl:0 package-0; re"):
        parse(write_capture([domain, domain], seconds=2.0))


def test_names_of_counters_are_cleaned_and_short() -> None:
    hostile = Generated(path="/x/energy1_input", name="a\u202e\x1b[31m\tb" + "w" * 999, joules=1.0)
    [domain] = parse(write_capture([hostile], seconds=2.0)).used
    assert domain.name.isprintable()
    assert domain.name.startswith("a[31m b")
    assert len(domain.name) == 60


PERF_TEXT = """# started on Fri Nov 27 18:00:00 2026

S0,1,90.50,Joules,power/energy-pkg/,2000000000,100.00,,
S0,1,7.50,Joules,power/energy-ram/,2000000000,100.00,,
S0,1,<not supported>,Joules,power/energy-gpu/,0,100.00,,
S0,1,120.25,Joules,power/energy-psys/,2000000000,100.00,,
S1-D1,2,80.00,Joules,power/energy-pkg/,4000000000,100.00,,
"""


def test_perf_counts_each_socket() -> None:
    counts = parse_perf(PERF_TEXT, "perf.csv")
    assert counts.used == {
        PACKAGE: Used(90.5, 2.0),
        Domain("package-0 dram", "dram"): Used(7.5, 2.0),
        Domain("psys", "psys"): Used(120.25, 2.0),
        Domain("package-1-die-1", "package"): Used(80.0, 2.0),
    }
    assert counts.missing == {
        "package-0 uncore": "perf counted '<not supported>' (expected a number of Joules)"
    }


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        "S0,1,90.50,Joules,cycles,2000000000,100.00,,",
        "S0,1,90.50",
        "S99999,1,90.50,Joules,power/energy-pkg/,2,100.00,,",
        "S0,1,90.50,Joules,power/energy-pkg/," + "9" * 40,
        "S²,1,90.50,Joules,power/energy-pkg/,2,100.00,,",
        "\u202e\x00" * 5000,
    ],
)
def test_a_line_that_is_not_perfs_is_refused(line: str) -> None:
    with pytest.raises(InputError, match=r"^perf.csv:1: invalid line '") as caught:
        parse_perf(line, "perf.csv")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("value", "unit", "ns"),
    [
        ("-1", "Joules", 2),
        ("inf", "Joules", 2),
        ("9" * 40, "Joules", 2),
        ("5", "", 2),
        ("5", "Joules", 0),
    ],
)
def test_a_value_that_is_no_energy_is_left_out(value: str, unit: str, ns: int) -> None:
    counts = parse_perf(f"S0,1,{value},{unit},power/energy-pkg/,{ns},100.00,,\r\n", "perf.csv")
    assert counts.used == {}
    assert [*counts.missing] == ["package-0"]


def test_a_socket_that_is_there_twice_is_refused() -> None:
    line = "S0,1,90.50,Joules,power/energy-pkg/,2000000000,100.00,,\n"
    with pytest.raises(InputError, match="perf.csv:2: package-0 is there twice; record again"):
        parse_perf(line * 2, "perf.csv")
