# SPDX-License-Identifier: GPL-2.0-or-later
"""The sentence of each side, and the best supported reason below it."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.model.caveats import caveat
from schedperf.model.comparison import Comparison, Overall
from schedperf.model.rows import Row
from schedperf.model.sections import Finding
from schedperf.model.sides import Comparability, Difference, SideSummary
from schedperf.model.verdict import undecided
from schedperf_reports.blocks import Block, Headline, Item, Items, Text
from schedperf_reports.verdict.findings import findings
from schedperf_reports.words.sentences import describe_informational, judge_sides
from tests.reports.comparison_records import overall_of

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]
MakeSide = Callable[..., SideSummary]
HeadlineOf = Callable[[Comparison], Headline]
BlocksOf = Callable[[Comparison], list[Block]]
ItemsOf = Callable[[Comparison], list[Item]]


N = "(n = 5+5 runs, lower is better)"
REGRESSION = f"hackbench time at groups=4 +37.2% [+35.0%, +39.5%] {N}"


def overall(word: Any, reason: str = "because") -> Overall:
    return overall_of(word, reason, 0)


def make_finding(**changes: Any) -> Finding:
    values: dict[str, Any] = {
        "id": "x", "side": "new", "clause": "PELT takes 9% more",
        "metric": "", "value": 1.0, "ci": (0.5, 1.5), "unit": "pp", "better": "lower", "n": (5, 5),
        "evidence": (), "replication": "5+5 runs", "attribution": "correlated",
    }  # fmt: skip
    return Finding(**values | changes)


def test_some_worse_and_some_better_is_mixed_with_both_numbers(
    make_comparison: Make, headline: HeadlineOf
) -> None:
    found = headline(make_comparison())
    assert found.tone == "bad"
    assert found.word == "regression (mixed, this boot only)"
    assert found.text == (
        f"1 of 4 results regressed: {REGRESSION}; 1 of 4 results improved: "
        f"sched/pipe time per operation -3.8% [-4.9%, -2.7%] {N}; 1 unchanged, 1 inconclusive"
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
    assert "detectable" not in shown.text
    every = tuple(replace(row, mde=0.024) for row in rows)
    shown = headline(make_comparison(rows=every, overall=overall("no-change")))
    assert shown.text == (
        "none of 2 results changed, all within +-3%; changes of 2.4% or more detectable (80% power)"
    )


@pytest.mark.parametrize("word", ["invalid", "inconclusive"])
def test_without_a_row_that_says_it_the_reason_of_the_record_does(
    make_comparison: Make, word: Any, headline: HeadlineOf
) -> None:
    comparison = make_comparison(
        rows=(), overall=overall(word, "cpu.microcode differs"), caveats=()
    )
    assert headline(comparison).text == "cpu.microcode differs"
    assert headline(comparison).word == word


def test_what_decides_nothing_is_told_as_such(
    make_comparison: Make, make_row: MakeRow, headline: HeadlineOf, described: BlocksOf
) -> None:
    why = "measured under emulation (TCG)"
    reason = undecided(why)
    without = replace(overall("inconclusive", reason.sentence), reason_short=why)
    wide = make_row(family="informational", q=0.5, ci_low=0.5, ci_high=3.0, point="wide")
    row = make_row(family="informational", q=0.1, ratio=1.1, ci_low=1.0, ci_high=1.2)
    # The narrowest, but it repeats a measurement.
    repeated = replace(row, metric="rate", same_as=row.metric, ci_low=1.09, ci_high=1.11)
    rows = (wide, row, repeated)
    comparison = make_comparison(rows=rows, overall=without, caveats=())
    assert headline(comparison).text == ("measured under emulation (TCG), so no verdict is given")
    told = (
        "2 results, not used for the verdict: none changed significantly; narrowest CI: hackbench "
        f"time at groups=4 +10.0% [+0.0%, +20.0%] {N}"
    )
    assert told in [block.text for block in described(comparison) if isinstance(block, Text)]
    slower = replace(wide, ratio=2.0, ci_low=1.5, q=0.01)
    changed = describe_informational(replace(comparison, rows=(slower, row)))
    assert changed is not None
    assert changed.startswith(
        "2 results, not used for the verdict: 1 changed significantly, most: hackbench time at "
        "wide +100.0%"
    )
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
    assert headline(comparison).text.startswith("new2: hackbench time at groups=4 +20.0% [")
    texts = [one.text for one in items(comparison)]
    assert texts[0].startswith("new: improvement: hackbench time at groups=4 -10.0% [")
    assert texts[1] == "new3: inconclusive: no primary result recorded for new3"
    assert [one.verdict for one in judge_sides(comparison)] == [
        "improvement", "regression", "inconclusive",
    ]  # fmt: skip
    assert all(one.headline == f"{one.side}: {one.text}" for one in judge_sides(comparison))


def test_an_only_side_has_no_name_before_its_sentence(make_comparison: Make) -> None:
    [side] = judge_sides(make_comparison())
    assert (side.label, side.headline) == ("", side.text)
    assert side.is_mixed


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
    assert verdicts["new2"][1].startswith("cpu.microcode differs: base 1, new2 2; slow")


def test_the_reasons_are_left_to_the_section_below(
    make_comparison: Make, described: BlocksOf
) -> None:
    blocks = described(make_comparison(findings=(make_finding(),)))
    assert not any("PELT" in block.text for block in blocks if isinstance(block, Text | Headline))
    [items, *_] = findings(make_comparison(findings=(make_finding(),)))
    assert isinstance(items, Items)
    assert items.items[0].text.startswith("PELT takes 9% more")


def test_that_nothing_could_be_seen_is_no_reason(
    make_comparison: Make, described: BlocksOf
) -> None:
    found = make_comparison(findings=(make_finding(bearing="unseen"),))
    texts = [block.text for block in described(found) if isinstance(block, Text)]
    assert "cause unknown; PELT takes 9% more" in texts


def test_rows_of_one_name_are_told_apart_by_their_command(
    make_comparison: Make, make_row: MakeRow, headline: HeadlineOf
) -> None:
    rows = (make_row(workload="hackbench -p", ratio=1.5), make_row(workload="hackbench -T"))
    text = headline(make_comparison(rows=rows)).text
    assert "hackbench time at groups=4 (hackbench -p) +50.0%" in text
