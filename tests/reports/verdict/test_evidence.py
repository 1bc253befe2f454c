# SPDX-License-Identifier: GPL-2.0-or-later
"""How sure it is: what is independent, in which order it ran, what was tested."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.model.caveats import caveat
from schedperf.model.comparison import Comparison
from schedperf.model.row_groups import FamilySummary
from schedperf.model.rows import Row
from schedperf.model.sides import SideSummary
from schedperf_reports.blocks import Item

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]
MakeSide = Callable[..., SideSummary]
ItemsOf = Callable[[Comparison], list[Item]]
ItemOf = Callable[[Comparison, str], Item]


def test_how_sure_it_is_counts_values_order_boots_builds_and_tests(
    make_comparison: Make, items: ItemsOf, item: ItemOf
) -> None:
    comparison = make_comparison()
    assert item(comparison, "5 runs per side").evidence == ("benchmarks",)
    assert item(comparison, "the sides were recorded one after the other").tone == "warning"
    assert item(comparison, "one boot per side").tone == "warning"
    assert "one build per kernel" not in " ".join(one.text for one in items(comparison))
    assert item(comparison, "4 results tested by Welch t on logs").text.endswith(
        "; at most 0.1 false positives expected (FDR 5%)"
    )


def test_a_drift_is_met_by_turns_of_settings_or_of_booted_kernels(
    make_comparison: Make, make_side: MakeSide, item: ItemOf
) -> None:
    begin = "the sides were recorded one after the other, so a change may be drift; "
    boots = "`schedperf vm --boots 2` interleaves the sides"
    assert item(make_comparison(), begin).text == f"{begin}{boots}"
    settings = make_comparison(sides=(make_side(), make_side("new")))
    assert item(settings, begin).text == f"{begin}`schedperf ab` interleaves the sides"
    rebuilt = make_side("new", host={"kernel": {"release": "6.12.0-base", "build_id": "ffff00"}})
    kernels = make_comparison(sides=(make_side(), rebuilt))
    assert item(kernels, begin).text == f"{begin}{boots}"


def test_two_tests_of_one_result_have_both_p_values(
    make_comparison: Make, make_row: MakeRow, items: ItemsOf, item: ItemOf
) -> None:
    rows = tuple(
        make_row(
            method="Welch t on logs, and ranks", p_t=0.002, p=0.0079, p_rank_min=0.0079,
            point=f"groups={groups}",
        )
        for groups in range(5)
    )  # fmt: skip
    comparison = make_comparison(rows=rows)
    assert item(comparison, "hackbench time at groups=0: ").text == (
        "hackbench time at groups=0: t test p = 0.002, rank test p = 0.0079 (smallest possible "
        "with 5+5 runs: 0.0079); the larger p is used"
    )
    assert sum("the larger p is used" in one.text for one in items(comparison)) == 3
    assert item(comparison, "2 more results").text == (
        "2 more results with two p values, see the details"
    )


def test_of_a_build_id_that_is_not_text_nothing_is_said(
    make_comparison: Make, make_side: MakeSide, items: ItemsOf
) -> None:
    strange = make_side(host={"kernel": {"build_id": ["3f1c5a", {}]}})
    found = items(make_comparison(sides=(strange, make_side("new"))))
    assert not any("build" in one.text for one in found)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"replication": "rounds", "n_base": 6, "n_new": 6},
            "6 interleaved pairs: each pair has one run per side",
        ),
        (
            {"replication": "boots", "n_base": 2, "n_new": 4},
            "2 to 4 boots per side: too few to estimate",
        ),
        (
            {"replication": "runs", "n_base": 1, "n_new": 1},
            "1 run per side: runs are treated as independent",
        ),
        ({"replication": "runs", "n_base": None, "n_new": None}, "number of runs not recorded"),
    ],
)
def test_values_are_counted_in_their_unit(
    make_comparison: Make, make_row: MakeRow, changes: dict[str, Any], text: str, item: ItemOf
) -> None:
    assert item(make_comparison(rows=(make_row(**changes),)), text).text


def test_an_unknown_order_is_a_warning(
    make_comparison: Make, make_row: MakeRow, item: ItemOf
) -> None:
    unknown = make_comparison(rows=(make_row(values_base=(), values_new=()),), caveats=())
    assert item(unknown, "order of the runs not recorded").tone == "warning"


def test_numbers_of_boots_are_said_or_not_known(
    make_comparison: Make, make_side: MakeSide, item: ItemOf
) -> None:
    sides = (make_side(boots=3), make_side("new", boots=4))
    assert item(
        make_comparison(sides=sides), "3+4 boots: the CI includes boot-to-boot variance"
    ).text
    unknown = make_comparison(sides=(make_side(boots=None), make_side("new", boots=None)))
    assert item(unknown, "number of boots not recorded").tone == "warning"


def test_nothing_tested_promises_nothing(make_comparison: Make, items: ItemsOf) -> None:
    family = FamilySummary(
        family="primary",
        side="new",
        rows=4,
        tested=0,
        corrected_for=0,
        expected_false=0.0,
        verdicts={},
    )
    texts = [one.text for one in items(make_comparison(families=(family,)))]
    assert not any("tested" in text or "false positives" in text for text in texts)


def test_weaknesses_beyond_the_first_are_counted(
    make_comparison: Make, items: ItemsOf, item: ItemOf
) -> None:
    caveats = [caveat("failed-runs", failed=n, total=9, side="new") for n in range(1, 6)]
    comparison = make_comparison(caveats=tuple(caveats))
    texts = [one.text for one in items(comparison)]
    assert "3 of 9 runs of new failed; failed runs are excluded" in texts
    assert "4 of 9 runs of new failed; failed runs are excluded" not in texts
    assert item(comparison, "2 more caveats").evidence == ("caveats",)


def test_a_drift_that_both_sides_share_is_a_warning_in_spite_of_turns(
    make_comparison: Make, make_row: MakeRow, item: ItemOf
) -> None:
    make = partial(make_row, replication="rounds")
    row = make()
    base, new = (
        tuple(
            replace(one, order=2 * place + side, value=1.0 + 0.2 * place)
            for place, one in enumerate(values)
        )
        for side, values in enumerate((row.values_base, row.values_new))
    )
    both = make(values_base=base, values_new=new)
    rose = "hackbench time of both sides rose while recording: base +54.9%"
    found = item(make_comparison(rows=(both,), caveats=()), rose)
    assert found.tone == "warning"
    assert found.text == (
        f"{rose} (last 2 of 5 runs vs first 2), new +54.9% (last 2 of 5 runs vs first 2); "
        "pairs cancel slow drift"
    )
    assert found.short is not None
    assert found.short.text == f"{rose}, new +54.9%; pairs cancel slow drift"
    booted = replace(both, replication="boots")
    turns = item(make_comparison(rows=(booted,), caveats=()), rose)
    assert turns.tone == "plain"
    assert turns.text.endswith("; the sides alternated, so most of it cancels")
    falls = tuple(replace(one, value=1.0 / one.value) for one in base)
    opposed = make(values_base=falls, values_new=new)
    assert item(make_comparison(rows=(opposed,), caveats=()), "interleaved").tone == "plain"
    fallen = make(values_base=falls, values_new=falls)
    item(make_comparison(rows=(fallen,), caveats=()), "hackbench time of both sides fell while")
    one_side = make(values_base=base)
    assert item(make_comparison(rows=(one_side,), caveats=()), "interleaved").tone == "plain"
    for without in (make(values_base=(), values_new=new), make(values_base=(), values_new=())):
        assert item(make_comparison(rows=(without,), caveats=()), "interleaved").tone == "plain"


def test_methods_are_named_once_with_what_confirmed_some_results(
    make_comparison: Make, make_row: MakeRow, item: ItemOf
) -> None:
    methods = ("Welch t on logs", "Welch t on logs, and ranks", "paired t on logs, and permutation")
    rows = tuple(make_row(method=method) for method in methods)
    assert item(make_comparison(rows=rows), "3 results tested by").text.startswith(
        "3 results tested by Welch t on logs (some confirmed by ranks), "
        "paired t on logs (confirmed by permutation); "
    )


@pytest.mark.parametrize(
    ("boots", "workloads", "whole"),
    [
        ((4, 4), 2, " of each workload (4 boots per side in all)"),
        ((4, 3), 1, " of this workload (4+3 boots in all)"),
        ((2, 2), 2, ""),
        ((4, None), 2, ""),
    ],
)
def test_boots_of_a_workload_are_told_from_all_boots_of_a_side(
    make_comparison: Make,
    make_row: MakeRow,
    make_side: MakeSide,
    item: ItemOf,
    *,
    boots: tuple[int, int | None],
    workloads: int,
    whole: str,
) -> None:
    rows = tuple(
        make_row(replication="boots", n_base=2, n_new=2, workload=f"hackbench -g {place}")
        for place in range(workloads)
    )
    sides = tuple(
        make_side(name, boots=number) for name, number in zip(("base", "new"), boots, strict=True)
    )
    found = item(make_comparison(rows=rows, sides=sides), "2 boots per side")
    assert found.text.startswith(f"2 boots per side{whole}: ")


@pytest.mark.parametrize(("number", "tone"), [(2, "warning"), (3, "plain")])
def test_few_boots_are_a_warning(
    make_comparison: Make, make_row: MakeRow, number: int, tone: str, item: ItemOf
) -> None:
    row = make_row(replication="boots", n_base=number, n_new=number)
    assert item(make_comparison(rows=(row,)), f"{number} boots per side").tone == tone
