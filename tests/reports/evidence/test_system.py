# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's system counters: what changed first, with units, and what could not be seen."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.system.record import (
    SettingRow,
    SystemMissing,
    SystemRefusal,
    SystemRow,
)
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from schedperf_reports.blocks import Block, Items, Table, Text
from schedperf_reports.evidence.system import system_counters
from tests.schedperf.evidence.system.records import (
    system_counters_of,
    system_row,
    system_side,
)

Describe = Callable[..., list[Block]]

ROW = system_row(point="groups=4", meaning="share of periods", ratio=2.0488)
CHANGED = "1 of 1 row changed significantly: cgroup /2cg/a throttled_share +104.9%"


@pytest.fixture
def describe(make_comparison: Callable[..., Comparison]) -> Describe:
    """Return the blocks for a section's data."""

    def run(*rows: SystemRow, **changes: Any) -> list[Block]:
        data = system_counters_of(*rows, **changes)
        section = Section.of(data)
        return list(system_counters(make_comparison(sections={data.section: section})))

    return run


def test_the_mark_of_a_change_has_its_rule_and_what_misses_it_says_why(describe: Describe) -> None:
    few: dict[str, Any] = {
        "unit": "1/s",
        "basis": "time",
        "total_base": 79.6,
        "total_new": 85.0,
        "ratio": 1.068,
    }
    tlb = replace(ROW, **few, row="new-1", group="interrupts", subject="TLB", changed=False)
    blocks = describe(ROW, tlb)
    assert (
        "*: significant, q < 0.05 and a change of 1% or more; base or new has at least 100 events "
        "per run (counts) or 1% (shares of time, of quota periods or of idle-state entries)"
    ) in texts(blocks)
    _, chance, why, *_ = table_of(blocks).details[1]
    assert isinstance(chance, Text)
    assert "all rows of interrupts and softirqs with rates over time" in chance.text
    assert isinstance(why, Text)
    assert why.text == "not marked as significant: fewer than 100 events per run on both sides"
    assert not any(text.startswith("* ") for text in texts(describe(tlb)))


def table_of(blocks: list[Block]) -> Table:
    [table] = [block for block in blocks if isinstance(block, Table)]
    return table


def texts(blocks: list[Block]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


def test_lost_ticks_are_a_warning_before_the_shares(describe: Describe) -> None:
    lost = (system_side(accounted=0.397), system_side(side="new", accounted=0.95))
    told = [text for text in texts(describe(ROW, sides=lost)) if "lose ticks" in text]
    assert len(told) == 1
    assert told[0].startswith(
        "base: /proc/stat accounts for 39.7% of the wall time of 4 CPUs (expected 100%; emulated"
    )
    assert not [text for text in texts(describe(ROW)) if "lose ticks" in text]


def test_a_row_has_values_change_interval_and_its_function(describe: Describe) -> None:
    blocks = describe(ROW)
    table = table_of(blocks)
    assert table.caption == CHANGED
    assert [cell.text for cell in table.rows[0]] == [
        "cgroup /2cg/a throttled_share", "share", "41.0%", "84.0%", "* +104.9%",
        "[+90.0%, +120.0%]", "5+4 runs", "share of periods: sched_cfs_period_timer()",
    ]  # fmt: skip
    assert table.anchors == ("new-0",)
    assert texts(blocks)[1] == "base: 5 clean runs; new: 1 clean run, per-task data of 2 runs"


def test_captions_name_what_was_run_where_there_is_something_to_tell_apart(
    describe: Describe,
) -> None:
    others: list[dict[str, Any]] = [
        {"workload": "schbench", "point": ""},
        {"point": "groups=8"},
        {"side": "new2"},
    ]
    blocks = describe(
        ROW, *(replace(ROW, row=f"new-{n}", **one) for n, one in enumerate(others, 1))
    )
    captions = [block.caption for block in blocks if isinstance(block, Table)]
    assert captions == [
        f"hackbench at groups=4, new vs base: {CHANGED}",
        f"schbench, new vs base: {CHANGED}",
        f"hackbench at groups=8, new vs base: {CHANGED}",
        f"hackbench at groups=4, new2 vs base: {CHANGED}",
    ]


def test_watts_joules_and_hertz_are_scaled(describe: Describe) -> None:
    power = replace(ROW, group="power", subject="package-0", field="energy", function="")
    rows = [
        replace(power, basis="time", unit="W", base=90.0, new=104.0),
        replace(power, basis="operation", unit="J/message", base=0.0021, new=0.0005),
        replace(
            ROW, group="frequency", subject="cpu", field="cur", unit="Hz", base=2.1e9, new=3.4e9
        ),
        replace(
            ROW,
            group="interrupts",
            subject="RES",
            field="count",
            basis="time",
            unit="1/s",
            base=12.5,
            new=0.0,
            node=1,
        ),
    ]
    found = [[cell.text for cell in row][:4] for row in table_of(describe(*rows)).rows]
    assert found == [
        ["power package-0 energy", "", "90 W", "104 W"],
        ["power package-0 energy", "message", "2.1 mJ", "0.5 mJ"],
        ["frequency cpu cur", "mean", "2.1 GHz", "3.4 GHz"],
        ["interrupts RES (node 1)", "second", "12.5", "0"],
    ]


def test_what_changed_comes_first_and_nodes_behind_all_nodes(describe: Describe) -> None:
    rows = [
        replace(ROW, subject=name, changed=changed, node=node)
        for name, changed, node in (
            ("a", False, None),
            ("b", True, 0),
            ("c", None, 1),
            ("d", True, None),
            ("e", False, None),
        )
    ]
    table = table_of(describe(*rows))
    assert [row[0].text.split()[1] for row in table.rows] == ["d", "b", "a", "e", "c"]
    # Both that changed, and those of the whole machine that did not.
    assert table.limit == 4


def test_a_changed_setting_and_one_row_a_subject_come_before_the_rest(describe: Describe) -> None:
    rows = [
        replace(ROW, row=f"new-{number}", subject=subject, field=field, changed=None)
        for number, (subject, field) in enumerate(
            (("/a", "throttled"), ("/a", "usage"), ("/b", "throttled"), ("/b", "usage"))
        )
    ]
    first = rows[0]
    quota = replace(first, row="new-4", field="quota", ratio=0.2, p=None)
    twin = replace(first, row="new-5", field="usage", basis="time", unit="s/s")
    rows[1] = replace(rows[1], basis="operation", unit="s/message")
    exact = replace(quota, ci_low=0.2, ci_high=0.2)
    single = replace(exact, row="new-6", subject="/c", ci_low=None, ci_high=None)
    table = table_of(describe(twin, *rows, exact, single))
    assert [row[0].text for row in table.rows] == [
        "cgroup /a quota",
        "cgroup /a throttled",
        "cgroup /b throttled",
        "cgroup /c quota",
        "cgroup /a usage",
        "cgroup /b usage",
    ]
    assert table.limit == 6


def test_what_is_missing_is_one_line_a_reason(describe: Describe) -> None:
    missing = [
        SystemMissing(side=side, what=what, reason=reason)
        for side in ("base", "new")
        for what, reason in (("power", "no powercap"), ("cpuidle", "no states"))
    ]
    missing.append(SystemMissing(side="new", what="pressure_irq", reason="not in this kernel"))
    refused = SystemRefusal(side="base", group="cgroup", what="/a usage", reason="not in new")
    blocks = describe(ROW, missing=missing, not_compared=[refused], zeros=["softirqs HI count"])
    [items] = [block for block in blocks if isinstance(block, Items)]
    assert [item.text for item in items.items] == [
        "not measured in base and new: power: no powercap",
        "not measured in base and new: cpuidle: no states",
        "not measured in new: pressure_irq: not in this kernel",
        "not compared: cgroup of base: /a usage: not in new",
    ]
    assert items.limit == 2
    zeros = [block for block in blocks if isinstance(block, Table)][-1]
    assert (zeros.limit, zeros.rows[0][0].text) == (0, "softirqs HI count")


def test_settings_that_differ_stand_before_the_counts(describe: Describe) -> None:
    settings = [
        SettingRow(side="new", name="nr_migrate", base="32", new="8"),
        SettingRow(side="new", name="domains/domain0/flags", base="SD_SHARE_LLC\nA", new=None),
        SettingRow(side="new", name="llc_balancing/enabled", base=None, new=""),
    ]
    first, second = [
        block for block in describe(ROW, settings=settings) if isinstance(block, Table)
    ]
    assert first.caption == "scheduler settings that differ between base and new"
    assert [[cell.text for cell in row] for row in first.rows] == [
        ["nr_migrate", "32", "8"],
        ["domains/domain0/flags", "SD_SHARE_LLC A", "not present"],
        ["llc_balancing/enabled", "not present", "empty"],
    ]
    assert second.caption == CHANGED


def test_notes_of_both_sides_are_one_and_few(describe: Describe) -> None:
    notes = [f"{side}: note {number}" for number in range(7) for side in ("base", "new")]
    assert texts(describe(ROW, notes=notes))[-1] == "2 more notes"
