# SPDX-License-Identifier: GPL-2.0-or-later
"""What is concluded of a setting on two kernels: no more than the numbers support."""

import pytest

from schedperf.model.base_new import BaseNew
from schedperf.model.row_groups import Interaction, SettingEffect, TwoByTwo
from schedperf.model.rows import Verdict
from schedperf_reports.blocks import Items, Table
from schedperf_reports.results.two_by_two import conclude, draw_two_by_two, summarise


def effect(ratio: float, verdict: Verdict) -> SettingEffect:
    return SettingEffect(ratio=ratio, ci_low=ratio - 0.01, ci_high=ratio + 0.01, verdict=verdict)


def interaction(
    base: SettingEffect,
    new: SettingEffect,
    verdict: Verdict,
    point: str = "",
    kernel: str = "patched",
) -> Interaction:
    return Interaction(
        kernel=kernel,
        workload="hackbench",
        point=point,
        metric="hackbench time",
        unit="s",
        better="lower",
        family="primary",
        n=BaseNew(base=4, new=5),
        effects=BaseNew(base=base, new=new),
        ratio=1.04,
        ci_low=1.03,
        ci_high=1.05,
        p=0.001,
        q=0.001,
        verdict=verdict,
        reason="REASON",
        method="Welch t on logs",
        caveats=(),
    )


def record(*results: Interaction) -> TwoByTwo:
    return TwoByTwo(
        kernels=("tip", *dict.fromkeys(result.kernel for result in results)),
        settings=BaseNew(base="off", new="on"),
        replication="boots",
        results=results,
    )


SAME = effect(1.0, "no-change")
WORSE = effect(1.04, "regression")
BETTER = effect(0.95, "improvement")
UNKNOWN = effect(1.01, "inconclusive")
DIFFERENT = "on has different effects on the kernels: {} on tip, +4.0% [+3.0%, +5.0%] on patched"


@pytest.mark.parametrize(
    ("base", "new", "verdict", "said"),
    [
        (SAME, WORSE, "regression", "on costs 4.0% on patched only"),
        (WORSE, SAME, "improvement", "on costs 4.0% on tip only"),
        (SAME, BETTER, "improvement", "on gains 5.0% on patched only"),
        (
            BETTER, WORSE, "regression",
            DIFFERENT.format("-5.0% [-6.0%, -4.0%]"),
        ),
        (
            UNKNOWN, WORSE, "regression",
            DIFFERENT.format("+1.0% [+0.0%, +2.0%]"),
        ),
        (WORSE, WORSE, "no-change", "on has the same effect on both kernels; interaction REASON"),
        (
            SAME, WORSE, "inconclusive",
            "unknown whether on has the same effect on both kernels: REASON",
        ),
        (SAME, WORSE, "invalid", "unknown whether on has the same effect on both kernels: REASON"),
    ],
)  # fmt: skip
def test_what_is_concluded(
    base: SettingEffect, new: SettingEffect, verdict: Verdict, said: str
) -> None:
    result = interaction(base, new, verdict)
    assert conclude(record(result), result) == said


def test_each_result_has_both_effects_and_the_interaction() -> None:
    results = [interaction(SAME, WORSE, "regression", f"groups={groups}") for groups in (1, 4)]
    table, items = draw_two_by_two(record(*results))
    assert isinstance(table, Table)
    assert isinstance(items, Items)
    texts = [[cell.text for cell in row] for row in table.rows]
    assert texts[:4] == [
        ["hackbench time at groups=1", "", "", ""],
        ["  on tip", "+0.0%", "[-1.0%, +1.0%]", "4"],
        ["  on patched", "+4.0%", "[+3.0%, +5.0%]", "5"],
        ["  interaction", "+4.0%", "[+3.0%, +5.0%]", "4+5"],
    ]
    assert [row[0] for row in texts[4:]] == [
        "hackbench time at groups=4", "  on tip", "  on patched", "  interaction",
    ]  # fmt: skip
    assert "n: boots with runs of both settings" in table.caption
    assert len(items.items) == 2


def test_each_further_kernel_is_compared_with_base() -> None:
    crossed = record(
        interaction(SAME, WORSE, "regression"),
        interaction(SAME, SAME, "no-change", kernel="repaired"),
    )
    table, items = draw_two_by_two(crossed)
    assert isinstance(table, Table)
    assert isinstance(items, Items)
    assert [row[0].text for row in table.rows] == [
        "hackbench time", "  on tip", "  on patched", "  interaction", "  on repaired",
        "  interaction",
    ]  # fmt: skip
    assert "interaction: the effect on the kernel / that on base" in table.caption
    assert [item.text for item in items.items] == [
        "hackbench time, patched: on costs 4.0% on patched only",
        "hackbench time, repaired: on has the same effect on tip and repaired; interaction REASON",
    ]
    assert summarise(crossed) == (
        "interaction: the effect of on differs between kernels in 1 of 2 comparisons"
    )


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (
            "regression",
            "interaction: on costs 4.0% on patched only (+4.0% [+3.0%, +5.0%], n = 4+5 boots)",
        ),
        (
            "inconclusive",
            "interaction: unknown whether on has the same effect on both kernels: REASON",
        ),
    ],
)
def test_the_first_screen_has_the_conclusion(verdict: Verdict, said: str) -> None:
    assert summarise(record(interaction(SAME, WORSE, verdict))) == said


def test_without_such_a_design_nothing_is_drawn() -> None:
    assert list(draw_two_by_two(None)) == []
    assert summarise(None) == ""
