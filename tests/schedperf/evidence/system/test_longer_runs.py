# SPDX-License-Identifier: GPL-2.0-or-later
"""A run that takes longer: what comes with time is no reason for it, from whichever side."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.sections import Finding

Run = dict[str, Any]
RunOf = Callable[..., Run]
Sides = dict[str, Path]

TICKS_PER_SECOND = 100
CPUS = 4


def write_stat(user: float, system: float, idle: float) -> str:
    ticks = [round(TICKS_PER_SECOND * one) for one in (user, system, idle)]
    line = "{} 0 {} {} 0 0 0 0 0 0".format(*ticks)
    return "".join(f"cpu{cpu} {line}\n" for cpu in range(CPUS)) + "ctxt 0\nprocesses 0\n"


@pytest.fixture
def sides(tmp_path: Path, make_bundle: Callable[..., Path], run_of: RunOf) -> Sides:
    """Bundles of a kernel and of one that needs half a second more for the same messages.

    On each CPU a program works for a second, and the CPU is idle for a quarter of the time; the
    timers' interrupts come 250 times a second, those that wake CPUs three times as often in new.
    """

    def runs(kernel: float, wakeups: int) -> Iterator[Run]:
        for noise in (0.0, 0.03, -0.02, 0.01, -0.01):
            busy = 1.0 + kernel + noise
            seconds = busy / 0.75
            timers = round(250 * seconds)
            lines = {"LOC": [timers] * CPUS, "RES": [wakeups + round(100 * noise)] * CPUS}
            run = run_of(lines=lines)
            files = run["files"]
            facts = json.loads(files["system_counters/facts.json"])
            files["system_counters/facts.json"] = json.dumps({**facts, "seconds": seconds})
            files["system_counters/before/stat"] = write_stat(0.0, 0.0, 0.0)
            files["system_counters/after/stat"] = write_stat(1.0, kernel + noise, seconds - busy)
            yield run

    return {
        "base": make_bundle(tmp_path / "base.tar", runs=list(runs(1.0, 1000))),
        "new": make_bundle(tmp_path / "new.tar", runs=list(runs(1.5, 3000))),
    }


def find(*paths: Path) -> list[Finding]:
    compared = compare_bundles([open_bundle(path) for path in paths])
    return [one for one in compared.findings if one.id.startswith("system_changes#")]


def test_the_kernels_time_and_wakeups_are_reasons_and_ticks_and_shares_are_not(
    sides: Sides,
) -> None:
    found = find(sides["base"], sides["new"])
    assert {one.metric for one in found} == {"cpu system time", "interrupts RES count"}
    [cost] = [one for one in found if one.metric == "cpu system time"]
    assert cost.value == pytest.approx(50.0, abs=1.0)
    assert "% of the increase in busy time per message" in cost.claim


def test_the_reasons_are_the_same_in_the_same_order_from_the_other_side(sides: Sides) -> None:
    there, back = find(sides["base"], sides["new"]), find(sides["new"], sides["base"])
    assert [one.metric for one in there] == [one.metric for one in back]
    for one, other in zip(there, back, strict=True):
        assert one.value is not None
        assert other.value is not None
        assert (1.0 + one.value / 100.0) * (1.0 + other.value / 100.0) == pytest.approx(1.0)


def test_dozens_of_idle_states_do_not_hide_the_time_of_the_cpus(
    sides: Sides, tmp_path: Path, make_bundle: Callable[..., Path]
) -> None:
    def cost(*paths: Path) -> Any:
        data: Any = (
            compare_bundles([open_bundle(path) for path in paths]).sections["system_counters"].data
        )
        [row] = [
            row
            for row in data.rows
            if (row.subject, row.basis, row.node) == ("system", "operation", None)
        ]
        return row

    def with_states(side: str) -> Path:
        bundle = open_bundle(sides[side])
        found = []
        for number, run in enumerate(bundle.runs):
            prefix = f"{run.folder}/"
            names = bundle.names(f"{run.folder}/system_counters/")
            files = {name.removeprefix(prefix): bundle.read_text(name, 1 << 20) for name in names}
            for moment, count in (("before", 0), ("after", 500 + 7 * (number % 3))):
                key = f"system_counters/{moment}/cpuidle"
                head, *_ = files[key].splitlines()
                states = [f"0\t{one}\tS{one}\t{count}\t{count}\t0\t0\t-" for one in range(30)]
                files[key] = "\n".join((head, *states)) + "\n"
            found.append({"files": files})
        return make_bundle(tmp_path / f"{side}-states.tar", runs=found)

    alone = cost(sides["base"], sides["new"])
    assert cost(with_states("base"), with_states("new")).q == alone.q
