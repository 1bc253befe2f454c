"""The sentence of each side, and the best supported reason below it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from schedperf.model.caveats import caveat
from schedperf.model.comparison import (
    Comparability,
    Comparison,
    Difference,
    Finding,
    Overall,
    Row,
    SideSummary,
)
from schedperf_reports.blocks import Block, Headline, Item, Text
from schedperf_reports.words.sentences import describe_informational, judge_sides
from tests.reports.comparison_records import overall_of

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]
MakeSide = Callable[..., SideSummary]
HeadlineOf = Callable[[Comparison], Headline]
BlocksOf = Callable[[Comparison], list[Block]]
ItemsOf = Callable[[Comparison], list[Item]]


REGRESSION = (
    "hackbench time at groups=4 is 37.2 % longer (95 % interval 35.0 % to 39.5 %, 5+5 runs)"
)


def overall(word: Any, reason: str = "because") -> Overall:
    return overall_of(word, reason, 0)


def make_finding(**changes: Any) -> Finding:
    values: dict[str, Any] = {
        "id": "x", "side": "new", "claim": "PELT (a +1, b +2 pp) takes 9 % more; by node 1",
        "metric": "", "value": 1.0, "ci": (0.5, 1.5), "unit": "pp", "better": "lower", "n": (5, 5),
        "evidence": (), "replication": "5+5 runs", "attribution": "co-occurs",
    }  # fmt: skip
    return Finding(**values | changes)


def test_some_worse_and_some_better_is_mixed_with_both_numbers(
    make_comparison: Make, headline: HeadlineOf
) -> None:
    found = headline(make_comparison())
    assert found.tone == "bad"
    assert found.word == "regression (mixed, this boot only)"
    assert found.text == (
        f"B new is mixed against A base: 1 of 4 results is worse: {REGRESSION}; 1 of 4 results is "
        f"better: "
        "sched/pipe time per operation is 3.8 % shorter (95 % interval 2.7 % to 4.9 %, 5+5 runs); "
        "1 unchanged, 1 inconclusive"
    )


def test_a_smallest_change_of_some_results_is_not_one_of_each(
    make_comparison: Make, make_row: MakeRow, headline: HeadlineOf
) -> None:
    rows = tuple(
        make_row(verdict="no-change", ratio=1.004, point=point, mde=mde)
        for point, mde in (("x", 0.024), ("y", None))
    )
    shown = headline(make_comparison(rows=rows, overall=overall("no-change")))
    assert "none of 2 results changed" in shown.text
    assert "would have been seen" not in shown.text


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("invalid", "B new is not comparable with A base: cpu.microcode differs"),
        ("inconclusive", "B new is undecided against A base: cpu.microcode differs"),
    ],
)
def test_without_a_row_that_says_it_the_reason_of_the_record_does(
    make_comparison: Make, word: Any, text: str, headline: HeadlineOf
) -> None:
    comparison = make_comparison(
        rows=(), overall=overall(word, "cpu.microcode differs"), caveats=()
    )
    assert headline(comparison).text == text
    assert headline(comparison).word == word


def test_what_decides_nothing_is_told_as_such(
    make_comparison: Make, make_row: MakeRow, headline: HeadlineOf, described: BlocksOf
) -> None:
    why = "measured under emulation (TCG)"
    undecided = replace(overall("inconclusive", f"no result can decide: {why}"), reason_short=why)
    wide = make_row(family="informational", ci_low=0.5, ci_high=3.0, point="wide")
    rows = (wide, make_row(family="informational", ratio=1.1, ci_low=1.0, ci_high=1.2))
    comparison = make_comparison(rows=rows, overall=undecided, caveats=())
    assert headline(comparison).text == (
        "B new is undecided against A base: measured under emulation (TCG), so no result can decide"
    )
    told = (
        "measured, but deciding nothing, narrowest interval of 2 results: hackbench time at "
        "groups=4 looks 10.0 % longer (95 % interval +0.0 % to +20.0 %, 5+5 runs)"
    )
    assert told in [block.text for block in described(comparison) if isinstance(block, Text)]
    assert describe_informational(make_comparison()) is None


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("regression", "regression (this boot only)"),
        ("no-change", "no-change (this boot only)"),
        ("inconclusive", "inconclusive"),
        ("invalid", "invalid"),
    ],
)
def test_what_one_boot_decides_is_decided_for_this_boot_only(
    make_comparison: Make, make_row: MakeRow, word: Any, shown: str, headline: HeadlineOf
) -> None:
    caveats = (caveat("blocks"), caveat("one-boot", side="new"))
    made = {"rows": (make_row(),), "overall": overall(word)}
    assert headline(make_comparison(**made, caveats=caveats)).word == shown
    assert headline(make_comparison(**made, caveats=caveats[:1])).word == word


def test_each_new_side_has_its_sentence(
    make_comparison: Make,
    make_row: MakeRow,
    make_side: MakeSide,
    headline: HeadlineOf,
    items: ItemsOf,
) -> None:
    comparison = make_comparison(
        sides=tuple(make_side(name, digest=name) for name in ("base", "new", "new2", "new3")),
        rows=(
            make_row(side="new", ratio=0.9, verdict="improvement"),
            make_row(side="new2", ratio=1.2),
        ),
        comparability=Comparability(comparable=True, compared=1, differences=()),
        findings=(),
    )
    assert headline(comparison).text.startswith(
        "C new2 is worse than A base: hackbench time at groups=4 is 20.0"
    )
    texts = [one.text for one in items(comparison)]
    assert texts[0].startswith(
        "B new is better than A base: hackbench time at groups=4 is 10.0 % shorter"
    )
    assert texts[1] == "D new3 is undecided against A base: no result of it can decide"
    assert [one.verdict for one in judge_sides(comparison)] == [
        "improvement", "regression", "inconclusive",
    ]  # fmt: skip


def test_a_side_that_may_not_be_compared_costs_the_others_nothing(
    make_comparison: Make, make_row: MakeRow, make_side: MakeSide
) -> None:
    blocking = Difference(
        path="cpu.microcode", side="new2", base="1", new="2", severity="blocking", reason="slow"
    )
    comparison = make_comparison(
        sides=tuple(make_side(name, digest=name) for name in ("base", "new", "new2")),
        rows=(make_row(side="new"), make_row(side="new2", verdict="invalid")),
        comparability=Comparability(comparable=False, compared=1, differences=(blocking,)),
    )
    verdicts = {one.side: (one.verdict, one.text) for one in judge_sides(comparison)}
    assert verdicts["new"][0] == "regression"
    assert verdicts["new2"][0] == "invalid"
    assert "not comparable with A base: cpu.microcode differs" in verdicts["new2"][1]


def test_the_best_supported_reason_is_said_as_what_it_is(
    make_comparison: Make, described: BlocksOf
) -> None:
    texts = [block.text for block in described(make_comparison(findings=(make_finding(),)))
             if isinstance(block, Text)]  # fmt: skip
    begin = "best supported reason (goes with the change, not shown to cause it)"
    assert f"{begin}: PELT takes 9 % more" in texts


def test_that_nothing_could_be_seen_is_no_reason(
    make_comparison: Make, described: BlocksOf
) -> None:
    found = make_comparison(findings=(make_finding(bearing="unseen"),))
    texts = [block.text for block in described(found) if isinstance(block, Text)]
    assert "why: not known; PELT (a +1, b +2 pp) takes 9 % more" in texts
    assert not any("best supported" in text for text in texts)


def test_rows_of_one_name_are_told_apart_by_their_command(
    make_comparison: Make, make_row: MakeRow, headline: HeadlineOf
) -> None:
    rows = (make_row(workload="hackbench -p", ratio=1.5), make_row(workload="hackbench -T"))
    assert (
        "hackbench time at groups=4 (hackbench -p) is" in headline(make_comparison(rows=rows)).text
    )
