# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs whose system counters are known, and rows of what their section says."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from schedperf.evidence.system.section import system_counters

Analyse = Callable[..., Any]
Run = dict[str, Any]

CPUS = range(4)
SECONDS = 2.0
IDLE_COLUMNS = ("cpu", "state", "name", "usage", "time_us", "above", "below", "rejected")
POWER_COLUMNS = ("zone", "name", "energy_uj", "max_energy_range_uj", "power_uw")


def _table(columns: Sequence[str], *rows: Sequence[object]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in (columns, *rows))


def _interrupts(lines: Mapping[str, Sequence[int]]) -> str:
    text = " ".join(f"CPU{cpu}" for cpu in CPUS)
    return f"{text}\n" + "".join(
        f"{name}: {' '.join(map(str, counts))} of a test\n" for name, counts in lines.items()
    )


def _look(
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
        "cpuidle": _table(
            IDLE_COLUMNS,
            *((cpu, 1, "C6", start + entries, start + idle_us, start, 0, "-") for cpu in CPUS),
        ),
        "power": _table(POWER_COLUMNS, ("/rapl:0", "package-0", start + energy_uj, 1 << 40, "-")),
        "cgroups": f"=== {group}\n{text}--- 25000 100000 0\n+++ 77 5 old\n",
        "interrupts": _interrupts(lines or {"RES": [0] * len(CPUS)}),
        "stat": "".join(f"cpu{cpu} 9 0 9 9 0 0 0 {start + stolen} 0 0\n" for cpu in CPUS)
        + f"ctxt {start + switches}\nprocesses {start}\n",
    }


def _run_of(missing: Mapping[str, str] | None = None, **after: Any) -> Run:
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
    looks = {"before": _look(**begin), "after": _look(**after)}
    files = {
        f"system_counters/{moment}/{name}": text
        for moment, found in looks.items()
        for name, text in found.items()
    }
    return {"files": {**files, "system_counters/facts.json": json.dumps(facts)}}


def _runs_of(**series: Sequence[int]) -> list[Run]:
    """Return runs, one for each place of the given series."""
    return [
        _run_of(**dict(zip(series, values, strict=True)))
        for values in zip(*series.values(), strict=True)
    ]


def _row_of(data: Any, name: str, basis: str = "share", node: int | None = None) -> Any:
    [found] = [
        row
        for row in data.rows
        if f"{row.group} {row.subject} {row.field}" == name
        and (row.basis, row.node) == (basis, node)
    ]
    return found


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(system_counters)


@pytest.fixture(scope="session")
def run_of() -> Callable[..., Run]:
    """Make a run, 2 s long, whose counters grew by so much: ``run_of(entries=5)``."""
    return _run_of


@pytest.fixture(scope="session")
def runs_of() -> Callable[..., list[Run]]:
    """Make runs: ``runs_of(throttled=(41, 40, 42))``."""
    return _runs_of


@pytest.fixture(scope="session")
def row_of() -> Callable[..., Any]:
    """Return the row of a name: ``row_of(data, "idle C6 usage", "time")``."""
    return _row_of


@pytest.fixture(scope="session")
def make_power() -> Callable[..., str]:
    """Write the energy counters of zones, as a look has them."""
    return lambda *zones: _table(POWER_COLUMNS, *zones)
