# SPDX-License-Identifier: GPL-2.0-or-later
"""The interaction of kernels and settings: its size, its error rates, and when there is none."""

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.compare.interaction import Boots, Design, judge_interactions
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.base_new import BaseNew
from schedperf.model.comparison import Comparison
from schedperf.model.frame import Frame
from schedperf.model.row_groups import TwoByTwo
from tests import golden_inputs

Json = dict[str, Any]

DESIGN = Design(
    kernels=("tip", "patched"),
    settings=BaseNew(base="off", new="on"),
    names=(BaseNew(base="base", new="new"), BaseNew(base="new2", new="new3")),
)
CELLS = {"base": (0, 0), "new": (0, 1), "new2": (1, 0), "new3": (1, 1)}
BOOTS = 4
POINTS = 300


def simulate(seed: int, interaction: float, *, boot_sd: float = 0.03) -> tuple[Frame, Boots]:
    """Return runs of many points, of which each boot is slower or faster as a whole.

    :param interaction: change of the setting's effect on the second kernel, a fraction
    """
    random = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for point in range(POINTS):
        levels = random.normal(0.0, boot_sd, (2, BOOTS))
        effects = random.normal(0.02, 0.004, (2, BOOTS))
        for side, (kernel, setting) in CELLS.items():
            for boot in range(BOOTS):
                log = levels[kernel, boot] + setting * effects[kernel, boot]
                log += kernel * 0.01 + kernel * setting * np.log1p(interaction)
                rows += [
                    {"side": side, "workload": "w", "point": f"p={point}", "metric": "time",
                     "unit": "s", "better": "lower", "family": "primary", "status": "ok",
                     "value": float(np.exp(log + random.normal(0.0, 0.005))), "boot": boot,
                     "run": run, "round": None}
                    for run in range(3)
                ]  # fmt: skip
    boots = {(side, boot): f"{CELLS[side][0]}-{boot}" for side in CELLS for boot in range(BOOTS)}
    return Frame.of_rows(rows, list(rows[0])), boots


def test_error_rates_are_as_stated() -> None:
    runs, boots = simulate(7, 0.0)
    judged = judge_interactions(DESIGN, boots, runs, 0.03)
    assert isinstance(judged, tuple)
    replication, results = judged
    rows = [result.row for result in results]
    assert (replication, len(rows)) == ("boots", POINTS)
    covered = sum(
        row.ci_low <= 1.0 <= row.ci_high
        for row in rows
        if row.ci_low is not None and row.ci_high is not None
    )
    # Of 300 intervals 285 +- 3.8 hold the truth: four standard deviations.
    assert 270 <= covered <= POINTS
    false = sum(row.p is not None and row.p < 0.05 for row in rows)
    assert false <= 30
    # Corrected for multiple testing, and boots vary by 3%, which is no part of the interaction.
    assert sum(row.verdict in ("regression", "improvement") for row in rows) <= 3
    assert sum(row.verdict == "no-change" for row in rows) > 0.9 * POINTS


def test_an_interaction_is_estimated_without_the_variance_between_boots() -> None:
    runs, boots = simulate(11, 0.05)
    judged = judge_interactions(DESIGN, boots, runs, 0.03)
    assert isinstance(judged, tuple)
    rows = [result.row for result in judged[1]]
    assert sum(row.verdict == "regression" for row in rows) > 0.98 * POINTS
    assert fmean(row.ratio or 0.0 for row in rows) == pytest.approx(1.05, abs=0.002)
    effects = [result.effects for result in judged[1]]
    for kernel, truth in (("base", 1.02), ("new", 1.02 * 1.05)):
        ratios = [effect.of(kernel).ratio or 0.0 for effect in effects]
        assert fmean(ratios) == pytest.approx(truth, abs=0.002)


def test_with_one_boot_the_rounds_are_the_units() -> None:
    runs, _ = simulate(3, 0.0)
    rounds = runs.take(runs["boot"] == 0).assign(round=runs.take(runs["boot"] == 0)["run"])
    judged = judge_interactions(DESIGN, {(side, 0): CELLS_OF[side] for side in CELLS}, rounds, 0.03)
    assert isinstance(judged, tuple)
    replication, results = judged
    assert replication == "rounds"
    row = results[0].row
    assert (row.n_base, row.n_new) == (3, 3)
    assert "one-boot" in {each.code for each in row.caveats}


CELLS_OF = {side: str(kernel) for side, (kernel, _) in CELLS.items()}

Write = Callable[[Path], None]


def compare(folder: Path, write: Write, names: str) -> Comparison:
    write(folder)
    return compare_bundles([open_bundle(folder / f"{name}.tar") for name in names.split()])


ALL = "tip-off tip-on patched-off patched-on"


def crossed(comparison: Comparison) -> TwoByTwo:
    assert comparison.two_by_two is not None
    return comparison.two_by_two


def test_the_first_bundle_decides_what_is_base(tmp_path: Path) -> None:
    forth = crossed(compare(tmp_path, golden_inputs.two_by_two, ALL))
    assert (*forth.kernels, *forth.settings) == (
        "6.12.0-tip", "6.12.0-patched", "NO_PLACE_LAG", "PLACE_LAG",
    )  # fmt: skip
    (result,) = forth.results
    assert result.ratio == pytest.approx(1.06 / 1.01 / 1.002, rel=0.002)
    assert (result.verdict, result.effects.base.verdict) == ("regression", "no-change")
    back = crossed(
        compare(tmp_path, golden_inputs.two_by_two, "patched-on tip-on tip-off patched-off")
    )
    assert (*back.kernels, *back.settings) == (
        "6.12.0-patched", "6.12.0-tip", "PLACE_LAG", "NO_PLACE_LAG",
    )  # fmt: skip
    # Both factors are swapped, so the interaction is the same.
    assert back.results[0].ratio == pytest.approx(result.ratio)


@pytest.mark.parametrize(
    "names", ["tip-off tip-on patched-off", "tip-off tip-on", "tip-off tip-on tip-off tip-on"]
)
def test_other_designs_have_no_interaction(tmp_path: Path, names: str) -> None:
    comparison = compare(tmp_path, golden_inputs.two_by_two, names)
    assert comparison.two_by_two is None
    assert "no-interaction" not in {each.code for each in comparison.caveats}


def test_each_further_kernel_is_compared_with_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = crossed(compare(tmp_path, golden_inputs.two_by_two, ALL)).results
    (tmp_path / "third").mkdir()
    write = golden_inputs.write_bundle

    def write_third(path: Path, *, host: Mapping[str, Any], **chosen: Any) -> None:
        third = {"kernel": {"release": "6.13.0", "build_id": "00000f"}}
        write(path, host={**host, **third}, **chosen)

    monkeypatch.setattr(golden_inputs, "write_bundle", write_third)
    golden_inputs.two_by_two(tmp_path / "third")
    names = f"{ALL} third/tip-off third/tip-on"
    three = crossed(
        compare_bundles([open_bundle(tmp_path / f"{name}.tar") for name in names.split()])
    )
    assert three.kernels == ("6.12.0-tip", "6.12.0-patched", "6.13.0")
    first, second = three.results
    assert (first.kernel, second.kernel) == three.kernels[1:]
    assert (first.ratio, first.effects) == (two[0].ratio, two[0].effects)
    # It has the runs of base.
    assert second.ratio == pytest.approx(1.0)
    assert second.effects.base == first.effects.base
    assert (first.verdict, second.verdict) == ("regression", "no-change")


def test_kernels_of_one_release_have_different_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = golden_inputs.write_bundle

    def write_same(path: Path, *, host: Mapping[str, Any], **chosen: Any) -> None:
        kernel = {"release": "6.12.0", "build_id": "0" * 20 + host["kernel"]["build_id"]}
        write(path, host={**host, "kernel": kernel}, **chosen)

    monkeypatch.setattr(golden_inputs, "write_bundle", write_same)
    found = crossed(compare(tmp_path, golden_inputs.two_by_two, ALL))
    assert found.kernels == ("6.12.0 (000000000000)", "6.12.0 (000000000000) #2")
    assert found.results[0].verdict == "regression"


def test_a_kernel_with_one_setting_is_no_such_design(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = golden_inputs.write_bundle

    def write_changed(path: Path, *, host: Mapping[str, Any], **chosen: Any) -> None:
        third = {"kernel": {"release": "6.13.0"}} if path.stem == "patched-on" else {}
        write(path, host={**host, **third}, **chosen)

    monkeypatch.setattr(golden_inputs, "write_bundle", write_changed)
    assert compare(tmp_path, golden_inputs.two_by_two, ALL).two_by_two is None


@pytest.mark.parametrize(
    ("host", "verdict", "family"),
    [
        ({"virtualisation": {"emulated": True, "kind": "qemu"}}, "inconclusive", "informational"),
        ({"cpu": {"microcode": "0x1"}}, "invalid", "primary"),
    ],
    ids=["emulated", "not comparable"],
)
def test_what_overrules_rows_overrules_the_interaction_and_its_effects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Json, verdict: str, family: str
) -> None:
    write = golden_inputs.write_bundle

    def write_changed(path: Path, **chosen: Any) -> None:
        # All four sides are emulated; the last one has another microcode.
        is_changed = "virtualisation" in host or path.name == "patched-on.tar"
        write(path, **{**chosen, "host": {**chosen["host"], **(host if is_changed else {})}})

    monkeypatch.setattr(golden_inputs, "write_bundle", write_changed)
    (result,) = crossed(compare(tmp_path, golden_inputs.two_by_two, ALL)).results
    assert (result.verdict, result.family) == (verdict, family)
    assert {effect.verdict for effect in result.effects} == {verdict}
    assert result.ratio == pytest.approx(1.06 / 1.01 / 1.002, rel=0.002)


def test_settings_that_share_no_boot_have_a_caveat(tmp_path: Path) -> None:
    comparison = compare(tmp_path, golden_inputs.settings_apart, ALL)
    assert comparison.two_by_two is None
    assert "no-interaction" in {each.code for each in comparison.caveats}


@pytest.mark.parametrize("change", [{"side": None}, {"boot_id": None, "round": None}])
def test_bundles_that_lack_a_factor_are_compared_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Mapping[str, object]
) -> None:
    write = golden_inputs.write_bundle

    def write_changed(path: Path, *, runs: list[dict[str, Any]], **chosen: Any) -> None:
        write(path, runs=[{**run, **change} for run in runs], **chosen)

    monkeypatch.setattr(golden_inputs, "write_bundle", write_changed)
    assert compare(tmp_path, golden_inputs.two_by_two, ALL).two_by_two is None


def test_a_value_that_is_not_positive_is_left_out() -> None:
    runs, boots = simulate(5, 0.0)
    values = runs["value"].copy()
    values[(runs["point"] == "p=0") & (runs["boot"] == 0)] = 0.0
    judged = judge_interactions(DESIGN, boots, runs.assign(value=values), 0.03)
    assert isinstance(judged, tuple)
    first = next(result.row for result in judged[1] if result.row.point == "p=0")
    assert (first.n_base, first.n_new) == (3, 3)
