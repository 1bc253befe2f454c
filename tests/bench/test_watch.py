# SPDX-License-Identifier: GPL-2.0-or-later
"""How often the watch is right, in small samples with fixed seeds; and the bench itself."""

import math
from functools import cache
from statistics import stdev

import numpy as np
import pytest
from msgspec.structs import replace

from bench.watch import rules
from bench.watch.__main__ import SEED, main
from bench.watch.environment import is_installed
from bench.watch.gates import check_real, check_simulated
from bench.watch.histories import KINDS, read_histories, values_of
from bench.watch.measure import (
    OURS,
    Cell,
    Detection,
    Quiet,
    RealScore,
    count_false_alarms,
    measure_detection,
    measure_histories,
    of_kind,
)
from bench.watch.nightly import Found, run_nightly
from bench.watch.offline import detections, evident_steps, is_stray, look_back
from bench.watch.worlds import BOOT_SDS, CLEAN_NIGHTS, NOISES, Noise, add_step, simulate
from tests.nightly import noise, unpaired, with_step
from tests.shared_data import shared

PERFHERDER, RUSTC = "Perfherder's rule", "rustc's fence"


@pytest.mark.slow
@pytest.mark.parametrize("noise_name", NOISES)
def test_false_alarms_are_rare_in_every_noise(noise_name: Noise) -> None:
    quiet = count_false_alarms(OURS, noise_name, 0.012, 200, SEED)
    # 20 per 1,000 series-years would be 4; 9 or more have a probability of 2%.
    assert quiet.alarms <= 8
    fence = count_false_alarms(RUSTC, noise_name, 0.012, 8, SEED)
    assert quiet.rate < fence.rate / 10


@pytest.mark.slow
@pytest.mark.parametrize(("sd", "least"), [(0.012, 0.98), (0.02, 0.92)])
def test_five_percent_are_found_within_fourteen_nights(sd: float, least: float) -> None:
    found = measure_detection(OURS, Cell(noise="normal", sd=sd, change=0.05), 300, SEED)
    assert found.soon >= least
    assert found.near is not None
    assert found.near >= 0.85


@cache
def real_scores(tool: str) -> dict[str, RealScore]:
    return dict(measure_histories(tool, list(read_histories(shared("data/histories")))))


@pytest.mark.slow
def test_real_machines_have_few_stray_alarms() -> None:
    checks = list(check_real(real_scores(OURS)))
    assert len(checks) == 2
    assert all(check.is_kept for check in checks)


@pytest.mark.slow
def test_real_steps_are_found_more_often_than_by_rules_with_as_few_stray_alarms() -> None:
    ours, others = (of_kind(real_scores(tool), "paired") for tool in (OURS, PERFHERDER))
    assert ours.evident == others.evident > 10
    assert ours.found >= 0.75 * ours.evident
    fence = of_kind(real_scores(RUSTC), "paired", "dedicated")
    assert fence.stray_rate > 4 * of_kind(real_scores(OURS), "paired", "dedicated").stray_rate


@pytest.mark.slow
def test_all_histories_are_read() -> None:
    histories = list(read_histories(shared("data/histories")))
    assert {source for source, _ in histories} == set(KINDS)
    assert {series.scale.is_paired for source, series in histories if source == "zig"} == {True}
    assert all(min(values_of(series)) > 0.0 for _, series in histories)


# hindsight


def test_a_lasting_step_is_evident_at_its_place_and_an_alarm_about_it_is_not_stray() -> None:
    levels = with_step(noise(120), 60, 0.05)
    hindsight = look_back(levels, is_log=True)
    assert list(evident_steps(levels, hindsight)) == [(60, True)]
    assert is_stray(Found(66, 63, rises=True), hindsight) is False
    assert is_stray(Found(66, 63, rises=False), hindsight) is True
    assert is_stray(Found(46, 40, rises=True), hindsight) is True


def test_an_alarm_eleven_nights_from_a_step_is_stray() -> None:
    hindsight = look_back(with_step(noise(120, sd=0.001), 60, 0.05), is_log=True)
    strays = [is_stray(Found(80, place, rises=True), hindsight) for place in range(30, 90)]
    assert [place for place, each in enumerate(strays, 30) if not each] == list(range(50, 71))


def test_a_change_that_does_not_last_is_not_evident() -> None:
    levels = with_step(with_step(noise(120), 60, 0.05), 67, -0.05)
    hindsight = look_back(levels, is_log=True)
    assert list(evident_steps(levels, hindsight)) == []
    assert is_stray(Found(66, 60, rises=True), hindsight) is True


def test_two_steps_of_opposite_direction_are_two() -> None:
    levels = with_step(with_step(noise(200), 60, 0.05), 120, -0.05)
    steps = list(evident_steps(levels, look_back(levels, is_log=True)))
    assert steps == [(60, True), (120, False)]


def test_half_an_evident_change_is_neither_evident_nor_stray() -> None:
    levels = with_step(noise(120, sd=0.001), 60, 0.015)
    hindsight = look_back(levels, is_log=True)
    assert list(evident_steps(levels, hindsight)) == []
    assert is_stray(Found(66, 60, rises=True), hindsight) is False


def test_series_of_differences_have_no_smallest_share() -> None:
    levels = with_step(noise(120, sd=1e-5), 60, 1e-4)
    assert list(evident_steps(levels, look_back(levels, is_log=True))) == []
    assert list(evident_steps(levels, look_back(levels, is_log=False))) == [(60, True)]


def test_equal_values_show_nothing_and_a_step_between_them_everything() -> None:
    assert list(evident_steps([1.0] * 60, look_back([1.0] * 60, is_log=False))) == []
    levels = with_step([1.0] * 60, 30, 1e-9)
    assert list(evident_steps(levels, look_back(levels, is_log=False))) == [(30, True)]


@pytest.mark.parametrize("nights", [0, 1, 9, 10, 19, 20, 21])
def test_short_series_have_a_hindsight_as_long_as_they_are(nights: int) -> None:
    hindsight = look_back([1.0] * nights, is_log=True)
    assert len(hindsight) == nights
    assert sum(size is not None for size in hindsight) == max(0, nights - 19)


def test_alarms_at_the_ends_of_a_series_are_not_judged() -> None:
    hindsight = look_back(noise(60), is_log=True)
    assert is_stray(Found(59, 58, rises=True), hindsight) is None
    assert is_stray(Found(8, 3, rises=True), hindsight) is None


def test_a_step_is_found_by_the_first_alarm_in_its_direction_within_thirty_nights() -> None:
    steps = [(60, True), (150, False)]
    alarms = [
        Found(50, 45, rises=True), Found(66, 61, rises=False), Found(70, 61, rises=True),
        Found(80, 75, rises=True), Found(181, 150, rises=False),
    ]  # fmt: skip
    assert list(detections(steps, alarms)) == [alarms[2], None]


# the other tools


def test_a_rule_is_run_every_night_and_begins_anew_at_what_it_found() -> None:
    def jump(values: object) -> int | None:
        assert isinstance(values, list)
        assert 10 <= len(values) <= 90
        return next((i for i in range(1, len(values)) if abs(values[i] - values[0]) > 1.0), None)

    values = [0.0] * 120 + [5.0] * 30 + [0.0] * 30
    assert list(run_nightly(jump, values)) == [
        Found(120, 120, rises=True),
        Found(150, 150, rises=False),
    ]


def test_perfherder_waits_twelve_nights_and_names_the_right_one() -> None:
    values = list(map(math.exp, with_step(noise(100, sd=0.005), 60, 0.08)))
    assert list(rules.perfherder(values)) == [Found(72, 60, rises=True)]


def test_perfherder_needs_two_percent() -> None:
    values = list(map(math.exp, with_step(noise(100, sd=0.001), 60, 0.015)))
    assert list(rules.perfherder(values)) == []


def test_the_fence_finds_jumps_and_spikes() -> None:
    logs = with_step(noise(100, sd=0.005), 60, 0.2)
    logs[80] += 0.2
    found = list(rules.rustc_fence(list(map(math.exp, logs))))
    assert {(each.place, each.rises) for each in found} >= {(60, True), (80, True), (81, False)}


def test_the_watch_counts_nights_with_a_level() -> None:
    levels = with_step(noise(80), 60, 0.05)
    values = [None, *map(math.exp, levels)]
    [found] = rules.watch(rules.series_of("s", unpaired(values)))
    assert found.place == 60


@pytest.mark.slow
@pytest.mark.skipif(not is_installed(), reason="needs the environment of `make bench-watch`")
@pytest.mark.parametrize("tool", ["Otava 0.8", "PELT, 3 log n", "PELT, 6 log n", "jumpavg"])
def test_installed_tools_find_a_large_step(tool: str) -> None:
    found = measure_detection(tool, Cell(noise="normal", sd=0.012, change=0.10), 5, SEED)
    assert found.soon >= 0.4


# worlds


@pytest.mark.parametrize("noise_name", NOISES)
def test_a_night_has_the_deviation_that_its_boots_say(noise_name: Noise) -> None:
    levels = simulate(noise_name, 100, 200, 0.02, np.random.default_rng(3))
    # Two kernels with two boots each: 2 * 0.02^2 / 2, and what the noise adds.
    added = {
        "outliers": 0.03 * 0.97 * math.log(1.15) ** 2,
        "bimodal": 0.3 * 0.7 * math.log(1.08) ** 2,
    }.get(noise_name, 0.0)
    assert stdev(levels.ravel()) == pytest.approx(math.sqrt(0.02**2 + added), rel=0.1)
    following = np.corrcoef(levels[:, :-1].ravel(), levels[:, 1:].ravel())[0, 1]
    assert following == pytest.approx(0.0, abs=0.05)


def test_a_step_begins_after_the_clean_nights() -> None:
    levels = simulate("normal", 5, 100, 0.02, np.random.default_rng(3))
    added = add_step(levels, 0.05) - levels
    assert added[:, CLEAN_NIGHTS - 1] == pytest.approx(0.0)
    assert added[:, CLEAN_NIGHTS] == pytest.approx(math.log(1.05))


def test_a_seed_determines_the_outcome() -> None:
    cell = Cell(noise="normal", sd=BOOT_SDS[0], change=0.05)
    assert measure_detection(OURS, cell, 3, 5) == measure_detection(OURS, cell, 3, 5)


# limits and tables


def quiet_of(alarms: int) -> Quiet:
    return Quiet(tool=OURS, noise="normal", sd=0.012, alarms=alarms, years=1000)


def detection_of(soon: float, sd: float) -> Detection:
    cell = Cell(noise="normal", sd=sd, change=0.05)
    return Detection(tool=OURS, cell=cell, soon=soon, delay=6.0, near=1.0, alarms=1000)


def test_limits_that_are_not_met_fail() -> None:
    kept = check_simulated([quiet_of(20)], [detection_of(0.98, 0.012), detection_of(0.95, 0.02)])
    assert [check.is_kept for check in kept] == [True] * 3
    failed = check_simulated([quiet_of(21)], [detection_of(0.97, 0.012), detection_of(0.94, 0.02)])
    assert [check.is_kept for check in failed] == [False] * 3
    other = check_simulated([replace(quiet_of(21), tool="jumpavg")], [])
    assert list(other) == []


def test_stray_alarms_are_limited_per_points_of_real_series() -> None:
    score = RealScore(
        points=1000, alarms=2, stray=1, unjudged=0, evident=1, found=1, delays=(7,), near=1
    )
    many = replace(score, stray=2)
    kept = check_real({"zig": score, "mongo": score, "hyper": many})
    assert [check.is_kept for check in kept] == [True, True]
    failed = check_real({"zig": many, "mongo": score})
    assert [check.is_kept for check in failed] == [False, False]


def test_all_tables_of_simulations_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--years", "4", "--jobs", "1", "--own", "--only", "simulated"])
    text = capsys.readouterr().out
    assert text.count("schedperf, sd") == 2
    assert "Perfherder's rule, normal, sd 2.0%" in text
    assert "+5% found within 14 nights, sd 2.0%" in text


@pytest.mark.slow
def test_the_table_of_real_series_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    shared("data/histories")
    assert main(["--only", "real", "--jobs", "1", "--own"]) == 0
    text = capsys.readouterr().out
    assert "all dedicated machines" in text
    assert "series-years" not in text
