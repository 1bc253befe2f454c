# SPDX-License-Identifier: GPL-2.0-or-later
"""Durations bin by bin, and calls CPU by CPU, of generated bundles."""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf.evidence.pelt.record import Pelt

Make = Callable[..., Any]
Analyse = Callable[..., Pelt]


def test_durations_are_shares_of_bins_in_seconds(analyse: Analyse, traced_runs: Make) -> None:
    data = analyse(traced_runs([90, 93, 91]), traced_runs([90, 93, 91], ns=(420,)))
    [found] = data.bins
    assert (found.side, found.function) == ("new", "update_cfs_group")
    assert found.low[0] == pytest.approx(200e-9)
    assert (found.base[0], found.new[-1]) == (1.0, 1.0)
    assert found.events_base == 90 + 45 + 93 + 46 + 91 + 45


def test_durations_that_no_two_runs_differ_in_are_not_called_changed(
    analyse: Analyse, traced_runs: Make
) -> None:
    [found] = analyse(traced_runs([90, 93]), traced_runs([90, 93], ns=(420,))).bins
    assert None in found.changed
    assert True not in found.changed


def test_long_calls_are_in_bins_of_powers_of_two(analyse: Analyse, traced_runs: Make) -> None:
    long = traced_runs([90, 93], ns=(5000,))
    [found] = analyse(long, long).bins
    assert found.low == pytest.approx((4096e-9,))


def test_functions_that_are_not_timed_have_no_bins(
    analyse: Analyse, function: Make, traced: Make
) -> None:
    runs = [traced({"update_cfs_group": function({0: count}, None)}) for count in (50, 52)]
    data = analyse(runs, runs)
    assert data.bins == ()
    assert [one.measure for one in data.cpus] == ["update_cfs_group calls"]


def test_each_cpu_has_its_calls_and_the_share_of_its_time(
    analyse: Analyse, traced_runs: Make
) -> None:
    data = analyse(traced_runs([90, 92, 91, 89]), traced_runs([180, 182, 181, 179]))
    found = {one.measure: one for one in data.cpus}
    calls = found["update_cfs_group calls"]
    assert (calls.cpus, calls.unit) == ((0, 2), "1/s")
    # In 2 s.
    assert calls.base[0] == pytest.approx(45.25)
    assert calls.changed == (True, True)
    time = found["update_cfs_group time"]
    assert time.new[0] == pytest.approx(180.5 * 200e-9 / 2.0)
