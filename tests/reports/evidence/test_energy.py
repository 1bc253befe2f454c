# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of energy: packages first, which direction is better, and what is missing."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.energy.record import Energy, EnergyRow, EnergySide, MissingCounter
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.evidence.energy import DIRECTION, OVERLAP, energy
from tests.energy_records import energy_row

Describe = Callable[..., list[Block]]

DATA = Energy(
    sides=tuple(EnergySide(side=side, runs=5, kind="clean") for side in ("base", "new")),
    rows=(), zeros=(), missing=(), notes=(),
)  # fmt: skip


@pytest.fixture
def describe(make_comparison: Callable[..., Comparison]) -> Describe:
    """Return the blocks for a section's data."""

    def run(*rows: EnergyRow, **changes: Any) -> list[Block]:
        data = replace(DATA, rows=rows, **changes)
        return list(energy(make_comparison(sections={"energy": Section.of(data)})))

    return run


def texts(blocks: list[Block]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


def test_packages_and_energy_per_operation_come_first(describe: Describe) -> None:
    [table] = [
        block
        for block in describe(
            energy_row(domain="package-0 dram", kind="dram", row="new-3"),
            energy_row(basis="time", unit="W", row="new-2"),
            energy_row(basis="share", unit="J/run", row="new-1"),
            energy_row(),
        )
        if isinstance(block, Table)
    ]
    assert [row[0].text for row in table.rows] == [
        "package-0 energy", "package-0 energy per run", "package-0 mean power",
        "package-0 dram energy",
    ]  # fmt: skip
    assert [cell.text for cell in table.rows[0]][1:6] == [
        "message", "2.25 mJ", "2.54 mJ", "* +12.8%", "[+12.0%, +13.6%]",
    ]  # fmt: skip
    [change] = [column for column in table.columns if column.title == "change"]
    assert "energy: lower is better" in change.explains


def test_it_says_which_direction_is_better_and_that_counters_overlap(describe: Describe) -> None:
    said = texts(describe(energy_row()))
    assert any(text.startswith(DIRECTION) for text in said)
    assert OVERLAP in said
    assert "base: 5 clean runs; new: 5 clean runs" in said


def test_what_is_missing_is_named_with_its_reason(describe: Describe) -> None:
    missing = [
        MissingCounter(side=side, counter="psys", reason="permission denied")
        for side in ("base", "new")
    ]
    said = texts(
        describe(zeros=("package-0 uncore",), missing=tuple(missing), notes=("new: damaged",))
    )
    assert "no energy in base and new (permission denied): psys" in said
    assert "counters that counted nothing in all runs: package-0 uncore" in said
    assert "new: damaged" in said


def test_without_energy_the_reason_is_said(make_comparison: Callable[..., Comparison]) -> None:
    section = Section.without(Energy, "absent", "no run of base was recorded with energy")
    [block] = energy(make_comparison(sections={"energy": section}))
    assert isinstance(block, Text)
    assert block.text == "no run of base was recorded with energy"
