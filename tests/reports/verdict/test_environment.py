# SPDX-License-Identifier: GPL-2.0-or-later
from collections.abc import Callable

from msgspec.structs import replace

from schedperf.model.caveats import caveat
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.sides import Difference, Severity, SideSummary
from schedperf_reports.blocks import Items, Table, Text
from schedperf_reports.verdict.caveats import caveats
from schedperf_reports.verdict.environment import environment

Make = Callable[..., Comparison]


def rows_of(comparison: Comparison) -> dict[str, list[str]]:
    (table,) = environment(comparison)
    assert isinstance(table, Table)
    assert table.limit == 0
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def test_every_field_of_both_sides_is_there_with_its_mark(make_comparison: Make) -> None:
    rows = rows_of(make_comparison())
    assert rows["kernel.release"] == ["6.12.0-base", "6.12.0-new", "treatment"]
    assert rows["system.hostname"] == ["bench01", "bench02", "noted"]
    assert rows["sched.autogroup"] == ["0", "0", ""]
    assert rows["topology.distances"] == ["[[10, 20], [20, 10]]", "[[10, 20], [20, 10]]", ""]
    assert not any(path.startswith("missing") for path in rows)


def test_a_missing_value_says_why(make_comparison: Make) -> None:
    reason = "no cpufreq on this machine"
    assert rows_of(make_comparison())["cpufreq.driver"] == [reason, reason, ""]


def test_a_field_that_one_side_lacks_is_a_dash_there(
    make_comparison: Make, make_side: Callable[..., SideSummary]
) -> None:
    sides = (make_side(host={"a": {"b.c": 1}}), make_side("new", host={"a": {"d": {}}}))
    rows = rows_of(make_comparison(sides=sides))
    assert rows == {"a.b.c": ["1", "-", ""], "a.d": ["-", "{}", ""]}


def test_policies_are_listed_by_their_cpus(make_comparison: Make, make_side: Make) -> None:
    policies = [
        {"cpus": "0-7", "governor": "powersave", "epp": None, "max_khz": 5_200_000},
        {"cpus": "8-11", "governor": "schedutil", "epp": None, "max_khz": 3_900_000},
    ]
    sides = tuple(
        make_side(name, host={"cpufreq": {"policies": policies, "states": [["C1", 2]]}})
        for name in ("base", "new")
    )
    rows = rows_of(make_comparison(sides=sides))
    assert rows["cpufreq.policies"][0] == (
        "0-7: governor powersave, max_khz 5200000; 8-11: governor schedutil, max_khz 3900000"
    )
    assert rows["cpufreq.states"][0] == '[["C1", 2]]'


def test_a_difference_in_a_part_of_a_field_marks_the_field(
    make_comparison: Make, make_side: Make
) -> None:
    def difference(path: str, severity: Severity) -> Difference:
        return Difference(
            path=path, side="new", base="a", new="b", severity=severity, reason="", origin=None
        )

    host = {
        "cpufreq": {"governor": "a + b"}, "kernel": {"cmdline": "quiet"}, "sched": {"hz": 250},
    }  # fmt: skip
    comparison = make_comparison(sides=(make_side(host=host), make_side("new", host=host)))
    differences = (
        difference("kernel.cmdline.quiet", "noted"),
        difference("kernel.cmdline.rcutree.kthread_prio", "blocking"),
        difference("cpufreq.governor.cpu_atom", "treatment"),
        difference("setup", "treatment"),
    )
    found = replace(comparison.comparability, differences=differences)
    (table,) = environment(replace(comparison, comparability=found))
    assert isinstance(table, Table)
    assert {row[0].text: row[-1].text for row in table.rows} == {
        "cpufreq.governor": "treatment", "kernel.cmdline": "blocking", "sched.hz": "",
    }  # fmt: skip
    assert table.caption.endswith("2 differences")


def test_caveats_of_single_rows_stand_beside_the_rows(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    general, special = (
        caveat("one-boot", side="base"),
        caveat("coarse", step=1, unit="s", percent=2),
    )
    pointer = Text(text="caveats of individual results: see Benchmarks")
    rows = (make_row(caveats=(general, special)),)
    items, *others = caveats(make_comparison(rows=rows, caveats=(general,)))
    assert isinstance(items, Items)
    assert [item.text for item in items.items] == [general.text]
    assert others[0] == pointer
    assert next(iter(caveats(make_comparison(rows=rows, caveats=())))) == pointer
    repeated = (make_row(caveats=(general,)),)
    assert pointer not in list(caveats(make_comparison(rows=repeated, caveats=(general,))))


def test_methods_name_every_unit_and_every_test_once(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    rows = (
        make_row(replication="boots"),
        make_row(replication="rounds", method="paired t on logs"),
        make_row(replication="boots", method="none"),
    )
    *_, values, tests = caveats(make_comparison(rows=rows, caveats=()))
    assert isinstance(values, Text)
    assert isinstance(tests, Text)
    assert values.text == (
        "the unit of replication is the boot (mean of its runs) and interleaved pair of runs "
        "(10 clean runs in all); "
        "no-change means that the 90% CI lies within the equivalence margin of +-3%, "
        "without a significant change of 1% or more"
    )
    assert tests.text == "tests: Welch t on logs; paired t on logs"
