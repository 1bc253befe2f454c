# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.compare.side_by_side: the results of three or more sides in one row each."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from schedperf.compare.tables import compare_tables
from schedperf.inputs.tables.read import open_table
from schedperf.model.comparison import Comparison
from schedperf.model.row_groups import SideBySide
from schedperf.model.rows import Better

# Half a per cent apart, so that a shift of a fifth is beyond doubt.
NOISE = (1.0, 1.005, 0.995, 1.002, 0.998)


def compare(
    folder: Path, sides: Sequence[tuple[str, float]], *, better: Better = "lower"
) -> Comparison:
    """Compare sides of five runs around a value; one without a value has no runs."""
    lines = ["side,workload,metric,unit,better,value"]
    for name, value in sides:
        # A metric that all sides have lets each of them be a side.
        lines += [f"{name},w,other,s,{better},{factor}" for factor in NOISE]
        lines += [f"{name},w,time,s,{better},{value * factor!r}" for factor in NOISE if value]
    path = folder / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return compare_tables([open_table(path, "table")])


def only(comparison: Comparison) -> SideBySide:
    [result] = [result for result in comparison.side_by_side if result.metric == "time"]
    return result


def test_two_sides_have_rows_alone(tmp_path: Path) -> None:
    assert not compare(tmp_path, [("tip", 1.0), ("new", 1.2)]).side_by_side


def test_each_side_has_the_numbers_of_its_row(tmp_path: Path) -> None:
    comparison = compare(tmp_path, [("tip", 1.0), ("a", 1.2), ("b", 0.8)])
    result = only(comparison)
    assert [cell.side for cell in result.cells] == ["base", "new", "new2"]
    assert result.cells[0].verdict is None
    assert result.cells[0].value == pytest.approx(1.0, abs=1e-4)
    rows = {row.side: row for row in comparison.rows if row.metric == "time"}
    for cell in result.cells[1:]:
        row = rows[cell.side]
        assert (cell.value, cell.n, cell.ratio, cell.ci_low, cell.ci_high, cell.verdict) == (
            row.new, row.n_new, row.ratio, row.ci_low, row.ci_high, row.verdict,
        )  # fmt: skip


def test_a_step_is_the_change_from_the_side_before(tmp_path: Path) -> None:
    first, second = only(compare(tmp_path, [("tip", 1.0), ("a", 1.2), ("b", 0.9)])).cells[1:]
    assert first.step is not None
    assert (first.step.ratio, first.step.ci_low) == (first.ratio, first.ci_low)
    assert second.step is not None
    assert second.step.ratio == pytest.approx(0.75)
    # It is that of a comparison of the two alone.
    alone = compare(tmp_path, [("a", 1.2), ("b", 0.9)])
    [row] = [row for row in alone.rows if row.metric == "time"]
    assert (second.step.ci_low, second.step.ci_high) == (row.ci_low, row.ci_high)


@pytest.mark.parametrize(
    ("values", "better", "best", "worst"),
    [
        ((1.0, 1.2, 0.8), "lower", "new2", "new"),
        ((1.0, 1.2, 0.8), "higher", "new", "new2"),
        ((1.0, 1.2, 1.4), "lower", "base", "new2"),
        ((1.0, 0.8, 0.6), "lower", "new2", "base"),
        # Nothing is best among sides that do not differ.
        ((1.0, 1.001, 0.999), "lower", None, None),
    ],
)
def test_the_best_and_the_worst_differ_significantly(
    tmp_path: Path,
    values: Sequence[float],
    better: Better,
    best: str | None,
    worst: str | None,
) -> None:
    sides = list(zip(("tip", "a", "b"), values, strict=True))
    result = only(compare(tmp_path, sides, better=better))
    assert (result.best, result.worst) == (best, worst)


def test_published_means_are_ranked_by_the_means(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    means = {"tip": 3264.0, "a": 3087.0, "b": 1729.0}
    lines = [f"{name},w,throughput,MB/s,higher,{mean}" for name, mean in means.items()]
    path.write_text("side,workload,metric,unit,better,mean\n" + "\n".join(lines) + "\n")
    [result] = compare_tables([open_table(path, "table")]).side_by_side
    assert (result.best, result.worst) == ("base", "new2")
    assert all(cell.ci_low is None for cell in result.cells)


def test_a_side_without_the_result_has_no_step_and_no_rank(tmp_path: Path) -> None:
    result = only(compare(tmp_path, [("tip", 1.0), ("a", 0.0), ("b", 1.3)]))
    _, missing, last = result.cells
    assert (missing.value, missing.verdict, missing.step) == (None, "invalid", None)
    assert last.step is None
    assert (result.best, result.worst) == ("base", "new2")


def test_equal_tables_have_a_step_of_nothing(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("tip.csv", "a.csv", "b.csv")]
    for path, shift in zip(paths, (1.0, 1.2, 1.2), strict=True):
        values = "\n".join(f"w,time,s,lower,{shift * factor!r}" for factor in NOISE)
        path.write_text(f"workload,metric,unit,better,value\n{values}\n")
    [result] = compare_tables([open_table(path, "t") for path in paths]).side_by_side
    step = result.cells[2].step
    assert step is not None
    assert (step.ratio, step.ci_low, step.ci_high) == (1.0, 1.0, 1.0)


def test_one_family_counts_the_rows_of_all_sides(tmp_path: Path) -> None:
    comparison = compare(tmp_path, [("tip", 1.0), ("a", 1.2), ("b", 0.8)])
    assert [family.tested for family in comparison.families] == [2, 2]
    assert [family.corrected_for for family in comparison.families] == [4, 4]


def test_the_worst_verdict_decides_the_exit_status(tmp_path: Path) -> None:
    better_and_worse = compare(tmp_path, [("tip", 1.0), ("a", 0.8), ("b", 1.2)])
    assert better_and_worse.overall.exit_status == 1
    better_alone = compare(tmp_path, [("tip", 1.0), ("a", 0.8), ("b", 0.7)])
    assert better_alone.overall.exit_status == 0


def test_the_step_at_which_a_result_changes_is_named(tmp_path: Path) -> None:
    series = [("tip", 1.0), ("tidy", 1.0), ("slow", 1.4), ("doc", 1.4)]
    comparison = compare(tmp_path, series)
    [mover] = comparison.movers
    assert (mover.side, mover.before, mover.metric) == ("new2", "new", "time")
    assert mover.ratio == pytest.approx(1.4)
    assert mover.p_corrected is not None
    assert mover.p_corrected < 0.05
    steps = [cell.step for cell in only(comparison).cells[1:]]
    assert [step is not None and step.significant for step in steps] == [False, True, False]


def test_the_largest_step_is_named_first(tmp_path: Path) -> None:
    comparison = compare(tmp_path, [("tip", 1.0), ("a", 1.1), ("b", 0.5)])
    assert [mover.side for mover in comparison.movers] == ["new2", "new"]


def test_a_series_without_a_change_names_no_side(tmp_path: Path) -> None:
    assert not compare(tmp_path, [("tip", 1.0), ("a", 1.001), ("b", 0.999)]).movers


def test_steps_are_corrected_for_the_steps_of_all_results(tmp_path: Path) -> None:
    comparison = compare(tmp_path, [("tip", 1.0), ("a", 1.2), ("b", 1.5)])
    steps = [cell.step for result in comparison.side_by_side for cell in result.cells[1:]]
    tested = sorted(step.p for step in steps if step is not None and step.p is not None)
    assert len(tested) > 2
    [smallest] = [step for step in steps if step is not None and step.p == tested[0]]
    assert smallest.p_corrected == pytest.approx(len(tested) * tested[0], rel=1e-9)
