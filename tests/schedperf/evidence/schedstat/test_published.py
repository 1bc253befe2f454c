# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of eleven kernels of one machine, compared across versions of /proc/schedstat.

The deltas of two kernels are golden: they were summed from the text of the reports by their
sentences, with awk. All other kernels are held out: what is expected of them is summed by the
tests, likewise by sentences, so that no table of fields or positions is shared with the reader.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.evidence.schedstat.fields import FIELDS

Sum = Callable[[Path], dict[str, float]]
Compare = Callable[..., Any]

OLDEST, GOLDEN = "6.5.13", "6.15.rc4"
MODES = ("default", "batch")
# Sums over 16 CPUs in 150000 ticks: of Linux 6.5.13 (version 15), of 6.15-rc4 (version 17).
DELTAS = {
    "default": {
        "busy lb_count": (331, 39),
        "idle lb_count": (200487, 246036),
        "newidle lb_count": (21997783, 22785400),
        "newidle lb_failed": (10208130, 12651549),
        "newidle lb_gained": (13441269, 11093192),
        "sched_goidle": (16331027, 18622416),
        "ttwu_local": (26350217, 20394834),
        "ttwu_move_affine": (19444524, 15486530),
        "ttwu_wake_remote": (36467886, 35115919),
    },
    "batch": {
        "busy lb_count": (47, 8),
        "idle lb_count": (244075, 280073),
        "newidle lb_count": (19267087, 20794032),
        "newidle lb_failed": (6763725, 9962788),
        "newidle lb_gained": (15355645, 12929353),
        "sched_goidle": (15272167, 18137958),
        "ttwu_local": (20445885, 16856005),
        "ttwu_move_affine": (15995787, 13309299),
        "ttwu_wake_remote": (31921781, 32767816),
    },
}
# Version by kernel. Between neighbours of 16 and 17 the four sums of imbalances are the change.
HELD_OUT = {
    "6.6.91": 15, "6.8.12": 15, "6.12.29": 16, "6.13.12": 16, "6.14.7": 17, "6.15.rc3": 17,
    "6.15.rc5": 17, "6.15.rc6": 17, "6.15.rc7": 17,
}  # fmt: skip
SPLIT = [
    ("base", "lb_imbalance"),
    ("new", "lb_imbalance_load, lb_imbalance_misfit, lb_imbalance_task, lb_imbalance_util"),
]


@pytest.fixture
def compare(samples: Path, capsys: pytest.CaptureFixture[str]) -> Compare:
    """Compare two kernels, the first one's report with the second one's recording."""

    def run(base: str, new: str, mode: str) -> Any:
        sources = (samples / f"perf-k{base}-{mode}.report", samples / f"perf-k{new}-{mode}.data")
        assert main(["schedstat", *map(str, sources), "--hz", "250", "--json", "-"]) == 0
        return json.loads(capsys.readouterr().out)["data"]

    return run


def totals_of(data: Any) -> dict[str, tuple[float, float]]:
    return {
        f"{row['idle']} {row['field']}".strip(): (row["total_base"], row["total_new"])
        for row in data["rows"]
        if row["basis"] == "time"
    }


@pytest.mark.parametrize("mode", MODES)
def test_deltas_of_two_kernels_are_those_of_their_sentences(mode: str, compare: Compare) -> None:
    data = compare(OLDEST, GOLDEN, mode)
    totals = totals_of(data)
    assert {name: totals[name] for name in DELTAS[mode]} == DELTAS[mode]
    assert [side["versions"] for side in data["sides"]] == [[15], [17]]


def test_idle_balancing_rose_where_a_join_by_position_says_that_it_ceased(
    compare: Compare,
) -> None:
    rows = {
        (row["field"], row["idle"]): row
        for row in compare(OLDEST, GOLDEN, "default")["rows"]
        if row["basis"] == "time"
    }
    ratios = {idle: rows["lb_count", idle]["ratio"] for idle in ("idle", "busy", "newidle")}
    # The first block of version 15 is idle and that of version 17 is busy: 39 / 200487.
    assert ratios["idle"] == pytest.approx(1.2272, abs=1e-4)
    assert ratios["busy"] == pytest.approx(0.1178, abs=1e-4)
    assert ratios["newidle"] == pytest.approx(1.0358, abs=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_what_versions_15_and_17_cannot_compare_is_said(mode: str, compare: Compare) -> None:
    data = compare(OLDEST, GOLDEN, mode)
    assert [(one["side"], one["what"]) for one in data["not_compared"]] == SPLIT
    assert all("one counter sums" in one["reason"] for one in data["not_compared"])
    # The numbered domain of version 15 has the CPUs of the named one, and gets its name.
    assert {row["level"] for row in data["rows"]} == {"", "MC"}
    assert not {row["field"] for row in data["rows"] if "imbalance" in row["field"]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kernel", HELD_OUT)
def test_kernels_that_were_held_out_are_summed_by_their_sentences(
    kernel: str, mode: str, compare: Compare, samples: Path, sum_sentences: Sum
) -> None:
    data = compare(OLDEST, kernel, mode)
    base, new = (
        sum_sentences(samples / f"perf-k{name}-{mode}.report") for name in (OLDEST, kernel)
    )
    totals = totals_of(data)
    shared = {name for name in base.keys() & new.keys() if FIELDS[name.split()[-1]].is_used}
    expected = {name: (base[name], new[name]) for name in shared if base[name] or new[name]}
    assert len(expected) > 25
    assert totals == expected
    is_split = HELD_OUT[kernel] == 17
    assert [(one["side"], one["what"]) for one in data["not_compared"]] == SPLIT * is_split


@pytest.mark.parametrize("mode", MODES)
def test_versions_16_and_17_share_their_order_and_not_their_imbalances(
    mode: str, compare: Compare, samples: Path, sum_sentences: Sum
) -> None:
    data = compare("6.13.12", "6.14.7", mode)
    assert [(one["side"], one["what"]) for one in data["not_compared"]] == SPLIT
    old = sum_sentences(samples / f"perf-k6.13.12-{mode}.report")
    new = sum_sentences(samples / f"perf-k6.14.7-{mode}.report")
    found = totals_of(data)["newidle lb_gained"]
    assert found == (old["newidle lb_gained"], new["newidle lb_gained"])
