# SPDX-License-Identifier: GPL-2.0-or-later
"""The rules of other tools, against what those tools printed and publish themselves."""

import re
from collections.abc import Iterator
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bench.verdicts.rivals import (
    MMTESTS_Z,
    RIVALS,
    Rule,
    Samples,
    benchstat,
    lkp,
    lkp_gap,
    lkp_summary,
    mann_whitney_p,
    mmtests,
    mmtests_summary,
    mmtests_without_r,
    pyperf,
    welch,
)
from tests.shared_data import shared

BENCHSTAT = "data/benchstat/cmd/benchstat/testdata"
LKP = "data/benchmarks/stats_changed_stats"
MMTESTS = "data/benchmarks/mmtests/Tutorial.md"


def samples(base: object, new: object, *, higher: bool = False) -> Samples:
    arrays = [np.atleast_2d(np.asarray(side, dtype=np.float64)) for side in (base, new)]
    return Samples(base=arrays[0], new=arrays[1], is_higher_better=np.full(len(arrays[0]), higher))


# benchstat


def read_benchmarks(path: Path) -> dict[tuple[str, str], list[float]]:
    """Read Go's benchmark format: values in seconds (or the unit itself), by name and unit."""
    found: dict[tuple[str, str], list[float]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words and words[0].startswith("Benchmark"):
            for value, unit in zip(words[2::2], words[3::2], strict=True):
                key = (words[0].removeprefix("Benchmark"), unit)
                found.setdefault(key, []).append(float(value))
    return found


def crc_samples(unit: str) -> tuple[list[str], Samples]:
    old, new = (read_benchmarks(shared(f"{BENCHSTAT}/crc-{side}.txt")) for side in ("old", "new"))
    names = [name for name, found in old if found == unit]
    sides = [[side[name, unit] for name in names] for side in (old, new)]
    return names, samples(*sides)


ROW = re.compile(
    r"^(?P<name>\S+)\s+\S+ ± +(?P<old>\d+)%\s+\S+ ± +(?P<new>\d+)%\s+"
    r"(?P<change>~|[-+][\d.]+%) \(p=(?P<p>[\d.]+) n=(?P<n>\d+)\)"
)


def printed_rows(table: int) -> list[re.Match[str]]:
    text = shared(f"{BENCHSTAT}/crcIgnore.stdout").read_text(encoding="utf-8")
    part = text.split("geomean")[table]
    return [match for match in map(ROW.match, part.splitlines()) if match]


@pytest.mark.parametrize(("table", "unit"), [(0, "ns/op"), (1, "MB/s")])
def test_benchstat_p_is_the_one_that_benchstat_prints(table: int, unit: str) -> None:
    names, runs = crc_samples(unit)
    printed = printed_rows(table)
    assert [row["name"] for row in printed] == names
    assert len(names) == 36
    p = mann_whitney_p(runs.base, runs.new)
    assert [f"{value:.3f}" for value in p] == [row["p"] for row in printed]


@pytest.mark.parametrize(("table", "unit"), [(0, "ns/op"), (1, "MB/s")])
def test_benchstat_marks_the_rows_that_benchstat_marks(table: int, unit: str) -> None:
    _, runs = crc_samples(unit)
    signs = {"~": 0, "-": -1, "+": 1}
    expected = [signs[row["change"][0]] for row in printed_rows(table)]
    assert benchstat(runs).tolist() == expected
    assert set(expected) == {-1, 0, 1}


def test_benchstat_agrees_with_its_table_of_old_and_new() -> None:
    old, new = (read_benchmarks(shared(f"{BENCHSTAT}/{side}.txt")) for side in ("old", "new"))
    text = shared(f"{BENCHSTAT}/csvOldNew.stdout").read_text(encoding="utf-8")
    for (name, unit), values in old.items():
        line = next(line for line in text.splitlines() if line.startswith(name))
        *_, change, printed = line.split(",")
        runs = samples(values, new[name, unit])
        assert f"p={mann_whitney_p(runs.base, runs.new)[0]:.3f} n=10" == printed
        assert (benchstat(runs)[0] == 0) == (change == "~")


def test_benchstat_finds_a_change_among_five_runs_with_ties() -> None:
    runs = samples([115, 114, 115, 115, 115], [78.8] * 5)
    assert f"{mann_whitney_p(runs.base, runs.new)[0]:.3f}" == "0.008"
    assert benchstat(runs)[0] == -1


def test_benchstat_calls_equal_runs_equal() -> None:
    runs = samples([100] * 6, [100] * 6)
    assert mann_whitney_p(runs.base, runs.new)[0] == 1
    assert benchstat(runs)[0] == 0


@pytest.mark.parametrize(("n", "smallest"), [(3, 0.1), (4, 2 / 70), (5, 2 / 252)])
def test_benchstat_cannot_decide_below_four_runs(n: int, smallest: float) -> None:
    runs = samples(np.arange(n), 100 + np.arange(n))
    assert mann_whitney_p(runs.base, runs.new)[0] == pytest.approx(smallest)
    assert (benchstat(runs)[0] != 0) == (n >= 4)


def test_the_exact_p_with_ties_is_that_of_all_permutations() -> None:
    base, new = np.array([1.0, 2, 2, 3]), np.array([2.0, 3, 3, 4, 4])
    every = stats.PermutationMethod(n_resamples=10**6)
    expected = stats.mannwhitneyu(base, new, method=every, use_continuity=False).pvalue
    assert mann_whitney_p(base[None], new[None])[0] == pytest.approx(expected)


def test_many_runs_with_ties_use_the_normal_distribution() -> None:
    base, new = np.repeat(np.arange(10.0), 3), np.repeat(np.arange(10.0), 3) + 4
    expected = stats.mannwhitneyu(base, new, method="asymptotic").pvalue
    assert mann_whitney_p(base[None], new[None])[0] == pytest.approx(expected)


# lkp-tests


def lkp_stats(path: Path) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Read what both matrices of a fixture have: numbers by section, in blocks of two spaces."""
    found: dict[str, dict[str, list[float]]] = {}
    section = name = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            section = line.split(":")[0]
        elif section.startswith("matrix"):
            title = re.match(r'  (?! )"?([^"]+?)"?:(?: |$)', line)
            name = title[1] if title else name
            rest = line[title.end() :] if title else line
            numbers = [float(word) for word in re.findall(r"-?\d+\.?\d*", rest)]
            found.setdefault(name, {}).setdefault(section, []).extend(numbers)
    yield from found.items()


def expected_of(path: Path, key: str) -> list[float]:
    text = path.read_text(encoding="utf-8").split("expected:")[1]
    return [float(value) for value in re.findall(rf"^    {key}: (-?[\d.]+)", text, re.MULTILINE)]


@pytest.mark.parametrize(
    ("name", "rule", "is_changed"),
    [
        ("cpu_usage", lkp_gap, True),
        ("significant_change", lkp, True),
        ("fxmark_big_improvement", lkp, True),
        ("fxmark_big_regression", lkp, True),
        ("fxmark_small_diff", lkp, False),
        ("fxmark_small_diff", lkp_gap, False),
    ],
)
def test_lkp_marks_what_its_fixtures_expect(name: str, rule: Rule, *, is_changed: bool) -> None:
    path = shared(f"{LKP}/{name}.yaml")
    [(_, matrices)] = lkp_stats(path)
    # Its matrix_a is the head commit, matrix_b the base.
    runs = samples(matrices["matrix_b"], matrices["matrix_a"])
    assert runs.base.shape[1] == runs.new.shape[1] >= 3
    call = rule(runs)[0]
    assert (call != 0) == is_changed
    assert bool(expected_of(path, "ratio")) == is_changed
    if is_changed:
        middle_a, middle_b = expected_of(path, "mean_a")[0], expected_of(path, "mean_b")[0]
        assert call == np.sign(middle_a - middle_b)


@pytest.mark.parametrize("name", ["fxmark_big_improvement", "fxmark_big_regression", "cpu_usage"])
def test_lkp_summaries_are_those_of_its_fixtures(name: str) -> None:
    path = shared(f"{LKP}/{name}.yaml")
    [(_, matrices)] = lkp_stats(path)
    for side in "ab":
        found = lkp_summary(np.array([matrices[f"matrix_{side}"]]))
        for attribute, key in (("least", "min"), ("middle", "mean"), ("largest", "max")):
            assert getattr(found, attribute)[0] == expected_of(path, f"{key}_{side}")[0]


@pytest.mark.parametrize(
    ("n_base", "n_new", "share"),
    [(3, 3, 4 / 20), (3, 4, 0.143), (3, 5, 0.107), (4, 4, 0.086), (5, 5, 0.048), (8, 8, 0.005)],
)
def test_lkp_calls_that_share_of_all_orders_of_equal_runs_changed(
    n_base: int, n_new: int, share: float
) -> None:
    total = n_base + n_new
    # Far apart, so that only the order decides.
    values = 2.0 ** np.arange(total)
    chosen = np.array(list(combinations(range(total), n_base)))
    rest = np.array([np.setdiff1d(np.arange(total), taken) for taken in chosen])
    assert len(chosen) == comb(total, n_base)
    calls = lkp(samples(values[chosen], values[rest]))
    assert np.mean(calls != 0) == pytest.approx(share, abs=5e-4)


def test_lkp_ignores_a_change_of_one_percent_and_less() -> None:
    assert lkp(samples([100.0, 100.1, 100.2], [101.0, 101.05, 101.08]))[0] == 0
    assert lkp(samples([100.0, 100.1, 100.2], [101.3, 101.4, 101.5]))[0] == 1


def test_lkp_trims_from_32_runs_on() -> None:
    assert lkp_summary(np.arange(31.0)[None]).least[0] == 0
    assert lkp_summary(np.arange(32.0)[None]).least[0] == 1
    assert lkp_summary(np.arange(500.0)[None]).least[0] == 3


# mmtests


# Share of rows with a true +5 % at a spread of 2 % that get a star: from a simulation that shares
# no code with this one, whose rule was checked against mmtests' own program.
MMTESTS_POWER = {3: 0.256, 5: 0.134, 10: 0.036, 20: 0.003}


@pytest.mark.parametrize(("n", "power"), MMTESTS_POWER.items())
def test_mmtests_stars_fewer_rows_the_more_runs_there_are(n: int, power: float) -> None:
    rng = np.random.default_rng(20261121)
    trials = 20_000
    base, new = (level + 2 * rng.standard_normal((trials, n)) for level in (100, 105))
    found = np.mean(mmtests(samples(base, new)) == 1)
    assert found == pytest.approx(power, abs=4 * np.sqrt(power * (1 - power) / trials) + 0.005)


def test_mmtests_means_and_spreads_follow_the_direction() -> None:
    runs = np.array([[90.0, 100, 120], [90, 100, 120]])
    mean, spread = mmtests_summary(runs, np.array([True, False]))
    assert mean[0] == pytest.approx(stats.hmean(runs[0]))
    assert mean[1] == pytest.approx(runs[1].mean())
    inverse = 1 / runs[0] - 1 / mean[0]
    assert spread[0] == pytest.approx(np.sqrt(np.sum(inverse**2) * mean[0] ** 4 / 3))
    assert spread[1] == pytest.approx(np.std(runs[1], ddof=1))


def test_mmtests_without_r_compares_the_means_with_one_unit() -> None:
    base = [[100.0, 100, 100], [0.1, 0.1, 0.1], [100, 100.1, 99.9]]
    new = [[101.1, 101.1, 101.1], [0.9, 0.9, 0.9], [98, 98.1, 97.9]]
    assert mmtests_without_r(samples(base, new)).tolist() == [1, 0, -1]


TUTORIAL_ROW = re.compile(
    r"^(Hmean|Stddev) +(\S+) +([\d.]+) \( *0\.00%\) +([\d.]+) ([(*]) *-?[\d.]+%[)*]$", re.MULTILINE
)


def test_what_mmtests_would_star_now_its_tutorial_stars() -> None:
    """The tutorial was printed with Welch's test, which stars more than today's rule."""
    text = shared(MMTESTS).read_text(encoding="utf-8")
    found: dict[str, dict[str, tuple[float, float, bool]]] = {}
    for kind, name, base, new, mark in TUTORIAL_ROW.findall(text):
        found.setdefault(name, {})[kind] = (float(base), float(new), mark == "*")
    rows = [row for row in found.values() if len(row) == 2]
    starred = [
        row["Hmean"][2]
        for row in rows
        if abs(row["Hmean"][1] - row["Hmean"][0]) > MMTESTS_Z * sum(row["Stddev"][:2])
    ]
    assert len(rows) > 50
    assert 10 < len(starred) < sum(row["Hmean"][2] for row in rows)
    assert all(starred)


# textbook tests, and what holds for all


def test_welch_and_pyperf_are_scipys_tests_at_five_percent() -> None:
    rng = np.random.default_rng(1)
    base, new = rng.lognormal(0, 0.02, (500, 6)), rng.lognormal(0.02, 0.02, (500, 6))
    runs = samples(base, new)
    for row in range(0, 500, 25):
        p = stats.ttest_ind(np.log(new[row]), np.log(base[row]), equal_var=False).pvalue
        assert (welch(runs)[row] != 0) == (p < 0.05)
        p = stats.ttest_ind(new[row], base[row]).pvalue
        assert (pyperf(runs)[row] != 0) == (p < 0.05)


@pytest.mark.parametrize("name", RIVALS)
def test_swapped_sides_turn_every_call_round(name: str) -> None:
    rng = np.random.default_rng(2)
    base, new = 100 * rng.lognormal(0, 0.02, (200, 8)), 100 * rng.lognormal(0.04, 0.02, (200, 8))
    there, back = RIVALS[name](samples(base, new)), RIVALS[name](samples(new, base))
    assert there.tolist() == (-back).tolist()
    assert (there == 1).any()


@pytest.mark.parametrize("name", RIVALS)
def test_a_large_change_is_marked_by_every_tool(name: str) -> None:
    runs = samples([100.0, 101, 99, 100.5, 99.5], [150.0, 151, 149, 150.5, 149.5])
    assert RIVALS[name](runs).tolist() == [1]
